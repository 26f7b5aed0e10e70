"""What decides, and what is reported, as a configuration says it."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from skillwright.evaluation import GateMetric
from skillwright.jobs.config_section import Section, Share, kind_unless_given


class PairedGateConfig(Section):
    """Accept a gain that luck does not explain; alpha is spent over the whole run."""

    kind: Literal["paired"] = "paired"
    draws: PositiveInt = 1
    """Draws per task and side; more of them find smaller gains."""
    family_veto: Share | None = None
    """Reject what makes a task family worse by more than this, with confidence."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject what makes more tasks worse than this, in their mean over the draws; unset, never."""
    metric: GateMetric = "hard"
    """``hard`` compares successes, ``soft`` rewards, ``mixed`` a blend."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""


class SequentialGateConfig(Section):
    """As ``paired``, in up to three looks: a hopeless candidate costs a quarter of the rollouts."""

    kind: Literal["sequential"] = "sequential"
    metric: GateMetric = "hard"
    """``hard`` compares successes, ``soft`` rewards, ``mixed`` a blend."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""


class StrictGateConfig(Section):
    """Accept any gain in one measurement, noise or not, as SkillOpt does."""

    kind: Literal["strict"] = "strict"
    margin: NonNegativeFloat = 0.0
    """What the gain must exceed."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject what makes more tasks worse than this; unset, never."""
    metric: GateMetric = "hard"
    """``hard`` compares success rates, ``soft`` mean rewards, ``mixed`` a blend."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""
    fresh_draws: bool = True
    """After an accept both sides draw anew; else the first scores stand for the whole run, also
    that of a skill that nothing but an empty region was put into since."""


class OpenGateConfig(Section):
    """Let every candidate become the current skill; the best one still has to be beaten."""

    kind: Literal["open"] = "open"
    metric: GateMetric = "hard"
    """What the best skill is beaten at."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""
    fresh_draws: bool = True
    """After the best skill was beaten both sides draw anew; else first scores stand."""


GateConfig = Annotated[
    PairedGateConfig | SequentialGateConfig | StrictGateConfig | OpenGateConfig,
    Field(discriminator="kind"),
    kind_unless_given("paired"),
]


class EvaluationSection(Section):
    """What decides, and what is reported."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The chance that a run accepts even one useless edit, for gates that know of noise."""
    gate: GateConfig = PairedGateConfig()
    """Judges every candidate on the val split."""
    val_tasks: PositiveInt | None = None
    """Judge on the first so many val tasks only; unset, on all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Report on the first so many test tasks only; unset, on all."""
    empty_baseline: bool = True
    """Also test the empty skill, where the initial one is not blank: two baselines."""
    placebo: bool = False
    """Also test a text of the same length that says nothing about the job."""
    confirm_tasks: NonNegativeInt = 0
    """So many val tasks, the last ones, are kept from the gate and confirm the best skill once."""
