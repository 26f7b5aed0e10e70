"""Who may replace whom: gates that judge a candidate by paired draws on held-out tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skillwright.core import Duel, Pair
from skillwright.evaluation.gate import GateMetric
from skillwright.evaluation.judging import (
    Metric,
    change,
    measured,
    nothing_left,
    stricter,
    too_few,
    too_many_lost,
    too_many_worse,
    undecided,
    went,
)
from skillwright.evaluation.ledger import AlphaLedger
from skillwright.evaluation.paired import PairedEffect, by_family, measure_effect
from skillwright.evaluation.verdict import Decision, Verdict


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
        max_worse_tasks: Reject a candidate that does worse on more tasks than this, at least 0;
            ``None`` looks at the whole only.

    Source: SkillOpt (microsoft/SkillOpt); see `evaluate_gate` for its documented function.
    """

    margin: float = 0.0
    metric: GateMetric = "hard"
    mixed_weight: float = 0.5
    success_threshold: float = 1.0
    max_worse_tasks: int | None = None

    async def judge(self, duel: Duel, ledger: AlphaLedger) -> Verdict:
        """Compare mean scores once."""
        del ledger
        metric = Metric(self.metric, self.mixed_weight, self.success_threshold)
        pairs = metric.of(await duel.draw(duel.task_ids, n=1))
        effect = measure_effect(pairs)
        verdict = replace(measured(effect), p_value=None)
        nothing = "" if effect.tasks else "there was no task to draw. Add validation tasks."
        problem = too_many_lost(effect) or nothing
        if problem or effect.gain is None:
            return replace(verdict, reason=f"Undecided: {problem}")
        facts = change(effect)
        if effect.gain <= self.margin:
            reason = f"Rejected: {facts}; that is not above the margin of {self.margin:g}."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        harmed = too_many_worse(pairs, self.max_worse_tasks)
        if harmed:
            return replace(
                verdict, decision=Decision.REJECT, reason=f"Rejected: {facts}; but {harmed}."
            )
        reason = f"Accepted: {facts}; that is above the margin of {self.margin:g}."
        return replace(verdict, decision=Decision.ACCEPT, reason=reason)


@dataclass(frozen=True, slots=True)
class PairedGate:
    """Accepts a gain that luck does not explain: a one-sided paired test over tasks.

    The chance of accepting an edit that changes nothing is at most the ledger's share, and so at
    most the ledger's alpha over the whole run (see `paired_p_value`).

    Attributes:
        draws: Draws per task and side, at least 1. More draws sharpen each task's difference;
            tasks stay the unit of the test.
        family_veto: Reject a candidate that is worse than this in some task family, in mean
            score and with 97.5% confidence; ``None`` looks at the whole only.
        metric: ``hard`` compares pass rates, ``soft`` mean rewards, ``mixed`` a blend.
        mixed_weight: Weight of ``soft`` in ``mixed``.
        success_threshold: The reward from which an episode passes, for ``hard``.
        max_worse_tasks: Reject a candidate that does worse on more tasks than this, in their mean
            over the draws; at least 0. ``None`` looks at the whole only.
    """

    draws: int = 1
    family_veto: float | None = None
    metric: GateMetric = "hard"
    mixed_weight: float = 0.5
    success_threshold: float = 1.0
    max_worse_tasks: int | None = None

    async def judge(self, duel: Duel, ledger: AlphaLedger) -> Verdict:
        """Draw every task ``draws`` times and test the gain; nothing is drawn for a lost cause."""
        alpha = ledger.share
        problem = nothing_left(ledger) or too_few(len(duel.task_ids), alpha)
        if problem:
            return undecided(problem)
        metric = Metric(self.metric, self.mixed_weight, self.success_threshold)
        pairs = metric.of(await duel.draw(duel.task_ids, n=self.draws))
        effect = measure_effect(pairs)
        verdict = measured(effect)
        problem = too_many_lost(effect) or too_few(effect.tasks, alpha)
        if problem:
            return replace(verdict, reason=f"Undecided: {problem}", p_value=None)
        decision, reason = self._decide(effect, pairs, alpha)
        return replace(verdict, decision=decision, reason=reason, alpha=alpha)

    def _decide(
        self, effect: PairedEffect, pairs: Sequence[Pair], alpha: float
    ) -> tuple[Decision, str]:
        facts = went(effect)
        if effect.p_value is None or effect.better == 0:
            return Decision.REJECT, f"Rejected: {facts}."
        if effect.p_value > alpha:
            return Decision.REJECT, (
                f"Rejected: {facts}; that may be luck, because p = {effect.p_value:.2g} is above "
                f"this decision's {alpha:.2g}{stricter(effect, alpha)}."
            )
        harmed = self._harmed_family(pairs) or too_many_worse(pairs, self.max_worse_tasks)
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
                    f"{change(effect)}"
                )
        return ""
