"""A gate that lets every candidate become the current skill."""

from typing import ClassVar, Literal

from pydantic.json_schema import SkipJsonSchema

from skillwright.core import Duel
from skillwright.evaluation.gates.judging import USUAL, Terms
from skillwright.evaluation.gates.strict import MeasuredGate, StrictGate
from skillwright.evaluation.ledger import AlphaLedger
from skillwright.evaluation.verdict import Verdict


class OpenGate(MeasuredGate):
    """Lets every candidate become the current skill; the best one still has to be beaten."""

    kind: Literal["open"] = "open"
    fresh_draws: SkipJsonSchema[bool] = True
    """After the best skill was beaten both sides draw anew; else first scores stand."""

    admits_all: ClassVar[bool] = True

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Judge a candidate against the best skill by any gain, as the strict gate does."""
        strict = StrictGate(metric=self.metric, mixed_weight=self.mixed_weight)
        return await strict.judge(duel, ledger, terms)
