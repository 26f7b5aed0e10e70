"""A gate that accepts a gain only where luck does not explain it, on a fixed number of draws."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from skillwright.core import Duel, Pair
from skillwright.evaluation.gates.base import GateSettings
from skillwright.evaluation.gates.judging import (
    USUAL,
    Terms,
    harmed_family,
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
from skillwright.evaluation.paired import PairedEffect, measure_effect
from skillwright.evaluation.verdict import Decision, Verdict
from skillwright.models.frozen import Share


class PairedGate(GateSettings):
    """Accepts a gain that luck does not explain: a one-sided paired test over tasks.

    The chance of accepting an edit that changes nothing is at most the ledger's share, and so at
    most the ledger's alpha over the whole run (see `paired_p_value`). As every step asks for proof,
    it keeps little of what small steps gain together; `ExploreGate` asks for proof once.
    """

    kind: Literal["paired"] = "paired"
    draws: PositiveInt = 1
    """Draws per task and side; more of them find smaller gains."""
    family_veto: Share | None = None
    """Reject what makes a task family worse by more than this, with confidence."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject what makes more tasks worse than this, in their mean over the draws; unset, never."""

    def expected_rollouts(self, tasks: int) -> int:
        """Return how many rollouts of both sides a decision on so many tasks takes on average."""
        return 2 * tasks * self.draws

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw every task ``draws`` times and test the gain; nothing is drawn for a lost cause."""
        alpha = ledger.share
        problem = nothing_left(ledger) or too_few(len(duel.task_ids), alpha)
        if problem:
            return undecided(problem)
        pairs = self.scores(terms).of(await duel.draw(duel.task_ids, n=self.draws))
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
        harmed = harmed_family(pairs, self.family_veto) or too_many_worse(
            pairs, self.max_worse_tasks
        )
        if harmed:
            return Decision.REJECT, f"Rejected: {facts}; but {harmed}."
        return Decision.ACCEPT, (
            f"Accepted: {facts}; p = {effect.p_value:.2g} is within this decision's {alpha:.2g}."
        )
