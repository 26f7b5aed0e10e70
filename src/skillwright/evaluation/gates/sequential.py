"""A paired gate that looks early: hopeless candidates and clear wins are settled on fewer tasks.

Source: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659-663, for spending an alpha over
looks; here each look is Fisher's exact randomization test, so that nothing is asymptotic.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Literal

from skillwright.core import Duel, Pair
from skillwright.core.seeds import derive_seed
from skillwright.evaluation.gates.base import GateSettings
from skillwright.evaluation.gates.judging import (
    MAX_LOST_SHARE,
    MIN_PAIRED_TASKS,
    USUAL,
    Terms,
    measured,
    nothing_left,
    stricter,
    too_few,
    too_many_lost,
    undecided,
    went,
)
from skillwright.evaluation.intervals import normal_quantile
from skillwright.evaluation.paired import PairedEffect, SignSums, measure_effect
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict

EARLY_LOOKS = (0.25, 0.5)  # shares of the tasks; the last look is at all of them
SPENDING_POWER = 2.0  # of the alpha, a share t of the tasks may have spent t to this power
HOPELESS = 0.02  # a chance of acceptance below this is not worth the remaining rollouts

# Gains are counted in fractions with this denominator: halves, thirds, ... come out whole. On many
# tasks it is smaller, which bounds the sums that are counted.
_FINEST_GRID = 120
_COARSEST_GRID = 12
_MAX_SUM = 24_000


class SequentialGate(GateSettings):
    """Accepts a gain that chance does not explain, after a quarter, a half or all of the tasks.

    The tasks are put into a fixed random order and drawn once each, part by part. After each part
    an exact paired test may accept the candidate, on a small share of this decision's alpha at
    first and on what is left of it at the end: the chance of accepting an edit that changes nothing
    is at most the ledger's share, as with `PairedGate` (see `stagewise_p_value`). A candidate whose
    trend leaves it a chance of about 2% or less is rejected early; that only ever takes chances
    away.

    Against `PairedGate` on 100 tasks at alpha = 0.05, with success rates Beta(0.6, 0.6), an edit
    that changes nothing costs 44% fewer rollouts and one that does harm (10 points) 65% fewer, for
    at most 4 points of power; at alpha = 0.0025 it is 62% and 73%, for at most 6 points.

    A verdict that came early measures its effect on fewer tasks, and for having stopped at a high
    point, too favorably on average: its interval is that of a test without early looks.
    """

    kind: Literal["sequential"] = "sequential"

    draws: ClassVar[int] = 1

    def expected_rollouts(self, tasks: int) -> int:
        """Return how many rollouts of both sides a decision on so many tasks takes on average."""
        return 2 * tasks

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw tasks once each, in up to three parts, until the question is settled."""
        alpha, planned = ledger.share, len(duel.task_ids)
        problem = nothing_left(ledger) or too_few(planned, alpha)
        if problem:
            return undecided(problem)
        metric = self.scores(terms)
        # One order for all decisions of a run, so that what the incumbent already played is what
        # the next candidate is compared on.
        order = _shuffled(duel.task_ids, terms.seed)
        looks = _Looks(alpha, planned)
        pairs: list[Pair] = []
        for first, size in _parts(planned):
            new = metric.of(await duel.draw(order[first:size], n=1))
            pairs += new
            verdict = looks.judge(new, measure_effect(pairs), size)
            if verdict is not None:
                return verdict
        raise AssertionError("the last look decides")  # pragma: no cover


class _Looks:
    """The evidence of one decision, look by look."""

    def __init__(self, alpha: float, planned: int) -> None:
        self._alpha = alpha
        self._planned = planned
        self._gains: list[list[float]] = []
        self._limits: list[float] = []
        self._waiting: list[float] = []

    def judge(self, new: Sequence[Pair], effect: PairedEffect, size: int) -> Verdict | None:
        """Look at new pairs; ``None`` asks for more."""
        self._waiting += [pair.gain for pair in new if pair.gain is not None]
        is_last = size == self._planned
        problem = self._problem(effect, is_last=is_last)
        if problem:
            reason = f"Undecided: {problem}"
            return replace(measured(effect), reason=reason, p_value=None)
        if not is_last and too_many_lost(effect):
            return None  # no look is taken, and the next one has these gains as its own
        self._gains.append(self._waiting)
        self._limits.append(self._alpha * (size / self._planned) ** SPENDING_POWER)
        self._waiting = []
        p_value = stagewise_p_value(self._gains, self._limits[:-1], _grid(self._planned))
        verdict = replace(measured(effect), p_value=p_value, alpha=self._alpha)
        early = "" if is_last else f" after {size} of {self._planned} tasks"
        return self._decide(verdict, effect, early)

    def _problem(self, effect: PairedEffect, *, is_last: bool) -> str:
        """Say why nothing can be decided any more, or return ""."""
        if is_last:
            return too_many_lost(effect) or too_few(effect.tasks, self._alpha)
        lost_for_good = effect.lost > MAX_LOST_SHARE * self._planned
        return too_many_lost(effect) if lost_for_good else ""

    def _decide(self, verdict: Verdict, effect: PairedEffect, early: str) -> Verdict | None:
        facts, limit = went(effect), self._limits[-1]
        share = "look" if early else "decision"
        p_value, gain = verdict.p_value or 0.0, verdict.effect or 0.0
        # Gains below the grid's step are not in the test, but they are in the mean.
        if p_value <= limit and gain > 0:
            reason = (
                f"Accepted{early}: {facts}; p = {p_value:.2g} is within this {share}'s {limit:.2g}."
            )
            return replace(verdict, decision=Decision.ACCEPT, reason=reason)
        if not early and (effect.better == 0 or gain <= 0):
            return replace(verdict, decision=Decision.REJECT, reason=f"Rejected: {facts}.")
        if not early:
            reason = (
                f"Rejected: {facts}; that may be chance, because p = {p_value:.2g} is above this "
                f"decision's {limit:.2g}{stricter(effect, limit)}."
            )
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        gains = [gain for look in self._gains for gain in look]
        if not _is_hopeless(gains, len(gains) / self._planned, self._alpha):
            return None
        reason = f"Rejected{early}: {facts}; the tasks left would hardly prove a gain."
        return replace(verdict, decision=Decision.REJECT, reason=reason)


def stagewise_p_value(
    looks: Sequence[Sequence[float]], limits: Sequence[float], grid: int = _FINEST_GRID
) -> float:
    """Test, one-sided, whether gains that were looked at several times are more than chance.

    If the candidate changes nothing, each task's gain is as likely to have the opposite sign. Of
    all sign assignments, each look but the last rejects those with the largest sums of
    gains so far, as many as its limit allows together with the looks before. The p-value is the
    share of all assignments that an earlier look rejects, or whose sum at the last look is at
    least the observed one. So chance alone has p <= limit at any of the looks with a chance of at
    most the largest limit, exactly, whatever the sizes of the gains; and stopping early for any
    other reason only lowers that chance. With one look it is `paired_p_value`, up to rounding.

    Args:
        looks: New gains of each look in [-1, 1], shape ``[looks][tasks]``; tasks are independent.
        limits: What the looks may have spent, each with all before it; not falling. One per look
            but the last.
        grid: Gains are rounded to a multiple of ``1 / grid`` first.

    Returns:
        A probability in (0, 1].

    Source: A. A. Tsiatis, G. L. Rosner and C. R. Mehta, Biometrics 40 (1984) 797-803, for the
    order by stages.
    """
    shares = [[round(gain * grid) for gain in look] for look in looks]
    # What all have in common is divided out: gains of 0 and 1 are counted in ones.
    unit = math.gcd(*(share for look in shares for share in look)) or 1
    sums = SignSums(tasks=sum(map(len, looks)))
    spent = Fraction(0)
    for look, limit in zip(shares[:-1], limits, strict=True):
        sums.add(share // unit for share in look)
        spent += sums.cut(Fraction(limit) - spent)
    sums.add(share // unit for share in shares[-1])
    return float(spent + sums.as_large())


def _is_hopeless(gains: Sequence[float], done: float, alpha: float) -> bool:
    """Tell whether a trend, if it continues, has next to no chance of being accepted in the end.

    It plans with a normal approximation; an error here costs power or rollouts, never alpha.
    """
    spread = math.hypot(*gains)
    z = math.fsum(gains) / spread if spread else 0.0
    expected = z / math.sqrt(done)
    missing = -normal_quantile(alpha) - expected
    return missing > normal_quantile(1 - HOPELESS) * math.sqrt(1 - done)


def _shuffled(task_ids: Sequence[str], seed: int) -> list[str]:
    return random.Random(derive_seed("looks", seed)).sample(list(task_ids), len(task_ids))


def _parts(tasks: int) -> list[tuple[int, int]]:
    """Return where each part of the tasks begins and ends; one too small to say much is not one."""
    sizes = [math.ceil(tasks * share) for share in EARLY_LOOKS]
    ends = [*(size for size in sizes if size >= MIN_PAIRED_TASKS), tasks]
    return list(zip([0, *ends], ends, strict=False))


def _grid(tasks: int) -> int:
    """Return the grid on which so many gains have sums that can be counted."""
    fitting = _MAX_SUM // tasks // _COARSEST_GRID * _COARSEST_GRID
    return min(_FINEST_GRID, max(_COARSEST_GRID, fitting))
