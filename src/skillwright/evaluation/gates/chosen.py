"""Tests of a gain on the same draws on which the candidate was selected.

With a deterministic agent, fresh draws repeat the draws that decided. Then a test of the whole gain
must account for the selection.

Source: W. Fithian, D. Sun and J. Taylor, Optimal Inference After Model Selection (2014), for tests
conditional on a selection; J. Besag and P. Clifford, Biometrika 76 (1989) 633-642, for exact tests
by Markov chains that start at the observed data; J. Neyman and E. S. Pearson, Philosophical
Transactions of the Royal Society A 231 (1933) 289-337, for the ratio of likelihoods.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING

from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.paired import cluster_means, paired_p_value
from skillwright.evaluation.verdict import Verdict

if TYPE_CHECKING:  # numpy is loaded by the first test, because scores do not need it
    from numpy import float64, int8
    from numpy.random import Generator
    from numpy.typing import NDArray

ASSIGNMENTS = 10_000
"""Number of random sign assignments; its inverse is the smallest p-value."""

_CHAINS = 2_000
_SWEEPS = 6
_ROUNDING = 1e-9
_USEFUL = 0.2  # share of candidates that are expected to be better ...
_PURITY = (0.6, 0.7, 0.8, 0.9, 0.97)  # ... and of the tasks that such a one turns, to the better


@dataclass(frozen=True, slots=True)
class Choice(JsonRecord):
    """The data of a judged candidate that matter for the selection.

    Attributes:
        differing: Number of tasks whose results differ under the candidate.
        accepted: Whether training continued from the candidate.
        moved: The mean gain of the differing tasks, by task id. Empty if its gate does not report
            them.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    differing: int
    accepted: bool = False
    moved: dict[str, float] = field(default_factory=dict)


def choices(verdicts: Iterable[Verdict]) -> tuple[Choice, ...]:
    """Return the choices in the verdicts of a run, for `Terms.judged`.

    If a verdict lacks the number of differing tasks, the number of its pairs is an upper bound.
    """
    return tuple(
        Choice(
            one.pairs if one.better is None or one.worse is None else one.better + one.worse,
            one.accepted,
            one.moved,
        )
        for one in verdicts
    )


def chosen_p_value(
    gains: Mapping[str, float],
    judged: Sequence[Choice],
    seed: int,
    clusters: Mapping[str, str] | None = None,
) -> float:
    """Return the p-value of gains on the same draws on which the candidates were selected.

    It is the smallest of three: of two tests of the tasks that moved, where the gate reports them,
    and of `_paths` at half of alpha. Where it does not, `_paths` has all of alpha.
    In simulated runs of useless candidates, all together release at most 4% at an alpha of 5%
    (``docs/log.md``). The result is never below `paired_p_value`.

    Args:
        gains: Mean gain by task id of the run's result over its start.
        judged: The candidates in the order in which they were judged.
        seed: Seed of the random signs.
        clusters: Cluster by task id, of tasks that say nearly the same; they share a sign.
    """
    clusters = clusters or {}
    p_value = paired_p_value(list(cluster_means(gains, clusters).values()))
    if not judged:
        return p_value
    paths = min(1.0, _paths(judged) * p_value)
    if not all(one.moved or not one.differing for one in judged):
        return paths  # a gate did not report which tasks differ
    moved = [_sums(one.moved, clusters) for one in judged]
    accepted = [gains for gains, one in zip(moved, judged, strict=True) if one.accepted]
    priced = min(_as_found(moved, seed), _as_accepted(_sums(gains, clusters), accepted, seed))
    return max(p_value, min(priced, 2 * paths))


def _paths(judged: Sequence[Choice]) -> int:
    """Return the price of a p-value by a union bound over what the run could have kept.

    Held-out results enter a run only by its decisions, so the set of accepted candidates determines
    what is released. Alpha is divided evenly over the possible numbers of accepted candidates, and
    then over the sets of that size. Near copies, noise and the rule of the steps do not matter.
    """
    accepted = sum(one.accepted for one in judged)
    return len(judged) * comb(len(judged), max(accepted, 1))


def _sums(gains: Mapping[str, float], clusters: Mapping[str, str]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for task_id, gain in gains.items():
        sums[clusters.get(task_id, task_id)] += gain
    return dict(sums)


def _as_found(moved: Iterable[Mapping[str, float]], seed: int) -> float:
    """Return the chance that useless candidates look as good, as a whole, as the judged ones.

    Each task that a useless candidate turns is as likely to become worse as better, and one that
    harms looks worse still. The statistic is the likelihood ratio of a run in which a fifth of the
    candidates turn most of their tasks to the better. So a candidate that was clearly harmful
    counts no more than a small one.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    found, kept = 0.0, np.zeros(ASSIGNMENTS)
    for gains in moved:
        better = sum(gain > _ROUNDING for gain in gains.values())
        turned = sum(abs(gain) > _ROUNDING for gain in gains.values())
        wins, purity = np.arange(turned + 1)[:, None], np.array(_PURITY)
        ratios = (2 * purity) ** wins * (2 - 2 * purity) ** (turned - wins)
        logs = np.log1p(_USEFUL * (ratios.mean(1) - 1))
        found += logs[better]
        kept += logs[rng.binomial(turned, 0.5, ASSIGNMENTS)]
    return (int((kept >= found - _ROUNDING).sum()) + 1) / (ASSIGNMENTS + 1)


def _as_accepted(
    gains: Mapping[str, float], accepted: Sequence[Mapping[str, float]], seed: int
) -> float:
    """Return the chance of such a gain, given that each accepted candidate looked better.

    If no candidate changes anything, the results of a task under all accepted skills are as likely
    in the opposite direction: one sign per task turns all of its gains. The p-value is the share of
    those assignments with at least the observed gain among all under which each accepted candidate
    had gained. So a rejected candidate, however harmful, costs nothing. This test has more power
    for many candidates.
    """
    import numpy as np

    steps = np.array([[one.get(task_id, 0.0) for one in accepted] for task_id in gains])
    steps = steps.reshape(len(gains), len(accepted))
    total = np.array(list(gains.values()))
    # Changes without a verdict count as one more step, which may have been selected if it gained.
    rest = total - steps.sum(axis=1)
    if rest.sum() > _ROUNDING:
        steps = np.column_stack([steps, rest])
    is_moved = steps.any(axis=1) | (total != 0)
    steps, total = steps[is_moved], total[is_moved]
    if not len(total) or (steps.sum(axis=0) <= _ROUNDING).any():
        return 1.0
    rng = np.random.default_rng(seed)
    signs = np.ones((1, len(total)), np.int8)
    _shuffle(signs, steps, rng)  # backward from the observed signs, then forward: an exact test
    signs = np.repeat(signs, _CHAINS, axis=0)
    _shuffle(signs, steps, rng)
    as_large = int((signs @ total >= total.sum() - _ROUNDING).sum())
    return (as_large + 1) / (_CHAINS + 1)


def _shuffle(signs: "NDArray[int8]", steps: "NDArray[float64]", rng: "Generator") -> None:
    """Flip random signs, one or two at a time, if each step's sum stays above zero.

    Args:
        signs: Signs of the chains, shape ``[chains, tasks]``; changed in place.
        steps: Gain of each task in each step, shape ``[tasks, steps]``.
        rng: Chooses the tasks.
    """
    import numpy as np

    tasks, sums = len(steps), signs @ steps
    for _ in range(_SWEEPS):
        ones = rng.permutation(tasks)
        pairs = np.column_stack([np.arange(tasks), rng.integers(tasks, size=tasks)])
        for turned in [*ones[:, None], *pairs[pairs[:, 0] != pairs[:, 1]]]:
            after = sums - 2 * signs[:, turned] @ steps[turned]
            may = (after > _ROUNDING).all(axis=1) & (rng.random(len(signs)) < 0.5)
            signs[np.ix_(may, turned)] *= -1
            sums[may] = after[may]
