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

from skillwright.evaluation.gates.belief import (
    GRID,
    TO_BROKEN,
    TO_MENDED,
    Array,
    Belief,
    Drawn,
)
from skillwright.evaluation.gates.current import CurrentSkill, drawn_of
from skillwright.evaluation.gates.plan import MISFIT
from skillwright.evaluation.paired import PairedEffect, cluster_means
from skillwright.evaluation.verdict import Expected, Seen

SELECTION: Final = 0.5
"""How much more the val tasks gain than others of their kind, because the steps' decisions were
made on them; in standard errors of the mean over tasks (simulated)."""

SELECTION_ALIKE: Final = 1.0
"""The same for an agent that answers alike: results that changed by chance stay changed."""

Clusters = Mapping[str, str]

_GAIN: Final = GRID - GRID[:, None]  # by rate under the initial and under the current skill
_FLOOR: Final = 1e-12


def expected_gain(
    task_ids: Sequence[str], seen: Sequence[Seen], measured: PairedEffect, clusters: Clusters
) -> Expected:
    """Estimate the gain of the current skill over the initial one on further tasks.

    The belief of the steps is carried on as a joint distribution of each task's success rates
    under the two skills, so that a task that no edit touched gains nothing. Its mean and the
    measured gain are weighted by their variances. That of the mean has the doubt about how many
    tasks each edit mends, which all tasks share, and it may be wrong by `MISFIT` of the gain.

    Args:
        task_ids: The val tasks.
        seen: What the run has seen on them, the initial skill's draws first.
        measured: The effect in the draws of a release test, with the initial skill as incumbent.
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
    gains = (joint * _GAIN).sum((1, 2))
    doubt = float(((joint * _GAIN**2).sum((1, 2)) - gains**2).mean())
    means = cluster_means(dict(zip(task_ids, gains.tolist(), strict=True)), clusters).values()
    believed, between, count = fmean(means), pvariance(means) + doubt, len(means)
    unsure = doubt / count + current.belief.variance + (MISFIT * believed) ** 2
    unseen = max(1 / max(measured.clusters, 1) - 1 / count, 0.0)  # where not all tasks were drawn
    noise = current.belief.within / max(measured.pairs, 1) + between * unseen
    weight = unsure / (unsure + noise)
    gain = believed + weight * ((measured.gain or 0.0) - believed)
    return _corrected(gain, between / count, SELECTION, weight * noise)


def expected_alike(gains: Mapping[str, float], clusters: Clusters) -> Expected:
    """Estimate the same for an agent that answers alike each time, by the gains of its val tasks.

    Its draws repeat those of the steps, so the gain of each task is known.
    """
    means = cluster_means(gains, clusters).values()
    return _corrected(fmean(means), pvariance(means) / len(means), SELECTION_ALIKE)


def _corrected(gain: float, sampling: float, selection: float, variance: float = 0.0) -> Expected:
    """Correct a gain on the val tasks for their selection.

    Args:
        gain: Mean gain on them.
        sampling: Variance of the mean gain between samples of tasks.
        selection: The correction, in standard errors; it may be wrong by its own size.
        variance: Variance of the gain on these tasks.
    """
    mean = gain - selection * sqrt(sampling)
    half = 1.96 * sqrt(sampling * (1 + selection**2) + variance)
    low, high = max(mean - half, min(mean, 0.0)), min(mean + half, 1.0)
    return Expected(*(round(one, 6) for one in (mean, low, high)))


def _after(joint: Array, belief: Belief, drawn: Drawn, *, accepted: bool) -> Array:
    """Return the joint distribution after the decision on a candidate."""
    stay, mend, broke = (joint * (part / belief.rates)[:, None] for part in belief.parts(drawn))
    if not accepted:
        return _normal(stay + mend + broke)
    return _normal(stay + mend @ TO_MENDED + broke @ TO_BROKEN)


def _normal(joint: Array) -> Array:
    joint = np.maximum(joint, _FLOOR)
    return np.asarray(joint / joint.sum((1, 2), keepdims=True), np.float64)
