"""What decides, and what is reported, as a configuration says it."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from skillwright.config.section import Section, kind_unless_given
from skillwright.evaluation import AnyGate, ExploreGate

GateConfig = Annotated[AnyGate, Field(discriminator="kind"), kind_unless_given(ExploreGate().kind)]


class EvaluationSection(Section):
    """What decides, and what is reported."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The chance that a run whose edits do nothing releases one, for gates that know of noise."""
    gate: GateConfig = ExploreGate()
    """Judges every candidate on the val split."""
    val_tasks: PositiveInt | None = None
    """Judge on the first so many val tasks only; unset, on all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Report on the first so many test tasks only; unset, on all."""
    empty_baseline: bool = True
    """Also test the empty skill, where the initial one is not blank: two baselines."""
    inherit_scores: bool = False
    """What enters the current skill unmeasured has the score of the text before, as in SkillOpt,
    until the end; else it is played. For gates without fresh draws."""
    placebo: bool = False
    """Also test a text of the same length that says nothing about the job."""
    confirm_tasks: NonNegativeInt = 0
    """So many val tasks, the last ones, are kept from the gate and confirm the best skill once."""
