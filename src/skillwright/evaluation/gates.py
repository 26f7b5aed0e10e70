"""Who may replace whom: gates that judge a candidate by paired draws on held-out tasks.

A fault is not a score: a pair with a Failure is left out and counted, and where more than a tenth
of the pairs is lost, or too few tasks remain to prove anything, the verdict is `UNDECIDED`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skillwright.core import Duel, EpisodeResult, Pair
from skillwright.evaluation.gate import GateMetric, select_gate_score
from skillwright.evaluation.ledger import AlphaLedger
from skillwright.evaluation.paired import PairedEffect, by_family, measure_effect
from skillwright.evaluation.verdict import Decision, Verdict

MAX_LOST_SHARE = 0.1
MIN_PAIRED_TASKS = 8


class Gate(Protocol):
    """Judges whether a candidate replaces the incumbent."""

    async def judge(self, duel: Duel, ledger: AlphaLedger) -> Verdict:
        """Draw paired results from ``duel`` until the question is settled.

        Args:
            duel: Incumbent and candidate; its draws are the only evidence.
            ledger: What is left of the run's alpha. It is read, not changed: the caller spends
                the verdict (`AlphaLedger.spend`).
        """
        ...


@dataclass(frozen=True, slots=True)
class StrictGate:
    """Accepts any mean gain above a margin, on one draw per task. A tie is a reject.

    It ignores the ledger, because it knows nothing of noise: with one draw per task and margin 0
    it accepts about 44% of edits that change nothing (40 tasks, success rates Beta(0.6, 0.6)).

    Attributes:
        margin: What the mean gain must exceed.
        metric: ``hard`` compares pass rates, ``soft`` mean rewards, ``mixed`` a blend.
        mixed_weight: Weight of ``soft`` in ``mixed``.
        success_threshold: The reward from which an episode passes, for ``hard``.

    Source: SkillOpt (microsoft/SkillOpt); see `evaluate_gate` for its documented function.
    """

    margin: float = 0.0
    metric: GateMetric = "hard"
    mixed_weight: float = 0.5
    success_threshold: float = 1.0

    async def judge(self, duel: Duel, ledger: AlphaLedger) -> Verdict:
        """Compare mean scores once."""
        del ledger
        pairs = await duel.draw(duel.task_ids, n=1)
        effect = measure_effect([self._rescored(pair) for pair in pairs])
        measured = replace(_measured(effect), p_value=None)
        nothing = "" if effect.tasks else "there was no task to draw. Add validation tasks."
        problem = _too_many_lost(effect) or nothing
        if problem or effect.gain is None:
            return replace(measured, reason=f"Undecided: {problem}")
        decision = Decision.ACCEPT if effect.gain > self.margin else Decision.REJECT
        opening, relation = (
            ("Accepted", "above") if decision is Decision.ACCEPT else ("Rejected", "not above")
        )
        reason = f"{opening}: {_change(effect)}; that is {relation} the margin of {self.margin:g}."
        return replace(measured, decision=decision, reason=reason)

    def _rescored(self, pair: Pair) -> Pair:
        return Pair(self._score(pair.incumbent), self._score(pair.candidate))

    def _score(self, result: EpisodeResult) -> EpisodeResult:
        if result.reward is None:
            return result
        hard = float(result.is_success(self.success_threshold))
        score = select_gate_score(hard, result.reward, self.metric, self.mixed_weight)
        return replace(result, reward=score)


@dataclass(frozen=True, slots=True)
class PairedGate:
    """Accepts a gain that luck does not explain: a one-sided paired test over tasks.

    The chance of accepting an edit that changes nothing is at most the ledger's share, and so at
    most the ledger's alpha over the whole run (see `paired_p_value`).

    Attributes:
        draws: Draws per task and side, at least 1. More draws sharpen each task's difference;
            tasks stay the unit of the test.
        family_veto: Reject a candidate that is worse than this in some task family, in mean
            reward and with 97.5% confidence; ``None`` looks at the whole only.
    """

    draws: int = 1
    family_veto: float | None = None

    async def judge(self, duel: Duel, ledger: AlphaLedger) -> Verdict:
        """Draw every task ``draws`` times and test the gain; nothing is drawn for a lost cause."""
        alpha = ledger.share
        if alpha == 0:
            return _undecided(
                f"all {ledger.planned} planned decisions are made, and nothing is left of "
                f"alpha = {ledger.total:g}. Plan more decisions in a new run."
            )
        problem = _too_few(len(duel.task_ids), alpha)
        if problem:
            return _undecided(problem)
        pairs = await duel.draw(duel.task_ids, n=self.draws)
        effect = measure_effect(pairs)
        measured = _measured(effect)
        problem = _too_many_lost(effect) or _too_few(effect.tasks, alpha)
        if problem:
            return replace(measured, reason=f"Undecided: {problem}", p_value=None)
        decision, reason = self._decide(effect, pairs, alpha)
        return replace(measured, decision=decision, reason=reason, alpha=alpha)

    def _decide(
        self, effect: PairedEffect, pairs: Sequence[Pair], alpha: float
    ) -> tuple[Decision, str]:
        facts = (
            f"{effect.better} of {effect.tasks} tasks went better and {effect.worse} worse; "
            f"{_change(effect)}"
        )
        if effect.p_value is None or effect.better == 0:
            return Decision.REJECT, f"Rejected: {facts}."
        if effect.p_value > alpha:
            return Decision.REJECT, (
                f"Rejected: {facts}; that may be luck, because p = {effect.p_value:.2g} is above "
                f"this decision's {alpha:.2g}."
            )
        harmed = self._harmed_family(pairs)
        if harmed:
            return Decision.REJECT, f"Rejected: {facts}; but {harmed}."
        return Decision.ACCEPT, (
            f"Accepted: {facts}; p = {effect.p_value:.2g} is within this decision's {alpha:.2g}."
        )

    def _harmed_family(self, pairs: Sequence[Pair]) -> str:
        """Describe the first family that is worse by more than the veto allows, or return ""."""
        if self.family_veto is None:
            return ""
        for family, members in by_family(pairs).items():
            effect = measure_effect(members)
            if effect.interval is not None and effect.interval.high < -self.family_veto:
                return (
                    f"family {family!r} got worse by more than {self.family_veto:g}: "
                    f"{_change(effect)}"
                )
        return ""


def tasks_needed(alpha: float) -> int:
    """Return how many held-out tasks a paired test at ``alpha`` needs to be able to accept.

    With n tasks the smallest p-value is 2^-n, when every task goes better.
    """
    return max(MIN_PAIRED_TASKS, math.ceil(-math.log2(alpha)))


def _too_few(tasks: int, alpha: float) -> str:
    needed = tasks_needed(alpha)
    if tasks >= needed:
        return ""
    return (
        f"{tasks} held-out tasks cannot prove a gain at alpha = {alpha:.2g}; at least {needed} "
        "are needed. Add validation tasks, or use the strict gate."
    )


def _too_many_lost(effect: PairedEffect) -> str:
    drawn = effect.pairs + effect.lost
    if effect.lost <= MAX_LOST_SHARE * drawn:
        return ""
    return (
        f"{effect.lost} of {drawn} pairs were lost to failures of a model or an environment, "
        f"more than {MAX_LOST_SHARE:.0%}. The run's store has them; mend their cause before the "
        "next run."
    )


def _undecided(problem: str) -> Verdict:
    return Verdict(Decision.UNDECIDED, f"Undecided: {problem}")


def _measured(effect: PairedEffect) -> Verdict:
    """Return a verdict that holds the measurements and is not yet decided."""
    return Verdict(
        Decision.UNDECIDED,
        reason="",
        effect=effect.gain,
        interval=effect.interval,
        p_value=effect.p_value,
        pairs=effect.pairs,
        lost=effect.lost,
        rollouts=2 * (effect.pairs + effect.lost),
        incumbent_score=effect.incumbent,
        candidate_score=effect.candidate,
    )


def _change(effect: PairedEffect) -> str:
    text = f"mean {effect.incumbent:.3f} -> {effect.candidate:.3f}, a change of {effect.gain:+.3f}"
    if effect.interval is None:
        return text
    return f"{text} (95% interval {effect.interval.low:+.3f} to {effect.interval.high:+.3f})"
