"""Gates that know nothing of noise, as SkillOpt's: any gain in one measurement counts."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import NonNegativeFloat, NonNegativeInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core import Duel
from skillwright.evaluation.gates.base import GateSettings
from skillwright.evaluation.gates.judging import (
    USUAL,
    Terms,
    change,
    measured,
    too_many_lost,
    too_many_worse,
)
from skillwright.evaluation.ledger import AlphaLedger
from skillwright.evaluation.paired import measure_effect
from skillwright.evaluation.verdict import Decision, Verdict


class MeasuredGate(GateSettings):
    """What gates share that compare one draw per task and know nothing of noise."""

    draws: ClassVar[int] = 1
    knows_noise: ClassVar[bool] = False

    fresh_draws: SkipJsonSchema[bool] = True

    @property
    def redraws(self) -> bool:
        """Whether both sides are drawn anew once something was accepted."""
        return self.fresh_draws

    def expected_rollouts(self, tasks: int) -> int:
        """Return how many rollouts of both sides a decision on so many tasks takes on average."""
        return 2 * tasks


class StrictGate(MeasuredGate):
    """Accepts any mean gain above a margin, on one draw per task. A tie is a reject.

    It ignores the ledger, because it knows nothing of noise: with one draw per task and margin 0
    it accepts about 44% of edits that change nothing (40 tasks, success rates Beta(0.6, 0.6)).

    Source: SkillOpt (microsoft/SkillOpt); see `evaluate_gate` for its documented function.
    """

    kind: Literal["strict"] = "strict"
    margin: SkipJsonSchema[NonNegativeFloat] = 0.0
    """What the gain must exceed."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject what makes more tasks worse than this; unset, never."""
    fresh_draws: SkipJsonSchema[bool] = True
    """After an accept both sides draw anew; else the first scores stand for the whole run, also
    that of a skill that nothing but an empty region was put into since."""

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Compare mean scores once."""
        del ledger
        pairs = self.scores(terms).of(await duel.draw(duel.task_ids, n=1))
        effect = measure_effect(pairs, tests=False)
        verdict = measured(effect)
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
