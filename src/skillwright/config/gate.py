"""What decides, and what is reported, as a configuration says it."""

from typing import Annotated

from pydantic import Field, NonNegativeInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.job import Reported
from skillwright.config.section import kind_unless_given
from skillwright.evaluation import AnyGate, ExploreGate

GateConfig = Annotated[AnyGate, Field(discriminator="kind"), kind_unless_given(ExploreGate().kind)]


class EvaluationSection(Reported):
    """What decides, and what is reported."""

    gate: GateConfig = ExploreGate()
    """Judges every candidate on the val split."""
    empty_baseline: bool = True
    """Also test the empty skill, where the initial one is not blank: two baselines."""
    inherit_scores: SkipJsonSchema[bool] = False
    """What enters the current skill unmeasured has the score of the text before, as in SkillOpt,
    until the end; else it is played. For gates without fresh draws."""
    placebo: bool = False
    """Also test a text of the same length that says nothing about the job."""
    confirm_tasks: NonNegativeInt = 0
    """So many val tasks, the last ones, are kept from the gate and confirm the best skill once."""
