"""The gain that is expected of a proven skill on further tasks of the same kind.

The gain in the draws of a release test is too large on average, because only large ones are proven,
and because steps keep what fits the val tasks. So it is estimated from all draws of the run, and
corrected for the tasks.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, pvariance
from typing import Final

import numpy as np

from skillwright.core import Pair
from skillwright.evaluation.gates.belief import (
    GRID,
    TO_BROKEN,
    TO_MENDED,
    Array,
    Belief,
    Drawn,
    likelihood,
)
from skillwright.evaluation.gates.current import CurrentSkill, drawn_of
from skillwright.evaluation.paired import cluster_means
from skillwright.evaluation.verdict import Expected, Seen

SELECTION: Final = 0.4
"""How much more the val tasks gain than others of their kind, because the steps' decisions were
made on them; in standard errors of the mean over tasks (simulated)."""

SELECTION_ALIKE: Final = 1.0
"""The same for an agent that answers alike: results that changed by chance stay changed."""

MODEL_TASKS: Final = 45
"""The belief about edits adds as much error as a sample of this number of tasks (simulated)."""

_GAIN: Final = GRID - GRID[:, None]  # by rate under the initial and under the current skill
_FLOOR: Final = 1e-12


def expected_gain(
    task_ids: Sequence[str],
    seen: Sequence[Seen],
    pairs: Sequence[Pair],
    clusters: Mapping[str, str],
) -> Expected:
    """Estimate the gain of the current skill over the initial one on further tasks.

    The belief of the steps is carried on as a joint distribution of each task's success rates
    under the two skills, so that a task that no edit touched gains nothing, whatever its draws.

    Args:
        task_ids: The val tasks.
        seen: What the run has seen on them, the initial skill's draws first.
        pairs: Draws of a release test, the initial skill as incumbent.
        clusters: Cluster by task id, of tasks that say nearly the same.

    Returns:
        The gain and its 95% interval, from 0 on, because the release test rules out a loss.
    """
    current = CurrentSkill.of(task_ids, seen[:1])
    joint = np.zeros((len(task_ids), len(GRID), len(GRID)))
    joint[:, range(len(GRID)), range(len(GRID))] = current.belief.rates
    for one in seen[1:]:
        ahead = current.with_train(one.train).with_own(one.incumbent)
        joint = joint * (ahead.belief.rates / current.belief.rates)[:, None]
        if one.candidate:
            drawn = drawn_of(task_ids, one.candidate)
            joint = _after(joint, ahead.belief, drawn, accepted=one.accepted)
        current = ahead.after(one.candidate, accepted=one.accepted)
    old, new = (drawn_of(task_ids, _rewards(pairs, side)) for side in ("incumbent", "candidate"))
    joint *= likelihood("same", old)[:, :, None] * likelihood("same", new)[:, None]
    joint = _normal(joint)
    gains = (joint * _GAIN).sum((1, 2))
    doubt = (joint * _GAIN**2).sum((1, 2)) - gains**2
    return _corrected(dict(zip(task_ids, gains.tolist(), strict=True)), clusters, doubt.mean())


def expected_alike(gains: Mapping[str, float], clusters: Mapping[str, str]) -> Expected:
    """Estimate the same for an agent that answers alike each time, by the gains of its val tasks.

    Its draws repeat those of the steps, so the gain of each task is known.
    """
    return _corrected(gains, clusters, 0.0, SELECTION_ALIKE)


def _corrected(
    gains: Mapping[str, float],
    clusters: Mapping[str, str],
    doubt: float,
    selection: float = SELECTION,
) -> Expected:
    means = list(cluster_means(gains, clusters).values())
    variance = max(pvariance(means) + doubt, 0.0)
    gain = fmean(means) - selection * sqrt(variance / len(means))
    half = 1.96 * sqrt(variance / len(means) + variance / MODEL_TASKS)
    low, high = max(gain - half, min(gain, 0.0)), min(gain + half, 1.0)
    return Expected(*(round(one, 6) for one in (gain, low, high)))


def _after(joint: Array, belief: Belief, drawn: Drawn, *, accepted: bool) -> Array:
    """Return the joint distribution after the decision on a candidate."""
    stay, mend, broke = (joint * (part / belief.rates)[:, None] for part in belief.parts(drawn))
    if not accepted:
        return _normal(stay + mend + broke)
    return _normal(stay + mend @ TO_MENDED + broke @ TO_BROKEN)


def _rewards(pairs: Sequence[Pair], side: str) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for pair in pairs:
        reward = getattr(pair, side).reward
        if reward is not None:
            total, count = found.get(pair.task_id, (0.0, 0))
            found[pair.task_id] = (total + reward, count + 1)
    return found


def _normal(joint: Array) -> Array:
    joint = np.maximum(joint, _FLOOR)
    return np.asarray(joint / joint.sum((1, 2), keepdims=True), np.float64)
