"""What the configuration of the recipe may say. Frozen; unknown keys are refused.

    base trajectories -> bank -> cold start -> [rollouts -> update] x iterations -> sealed test

A section that is ``null`` leaves its stage out: no ``distil``, no ``cold_start``, no ``evolve``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.bank import BankSection, DistilSection, EvolveSection
from skillwright.config.budget import BudgetSection
from skillwright.config.env import EnvSection
from skillwright.config.job import NamedRun, PlayedEpisodes, PricedModels, Reported
from skillwright.config.rl_policy import (
    ColdStartSection,
    GrpoSection,
    PolicyConfig,
    ScorerPolicyConfig,
)
from skillwright.config.run import ModelsSection
from skillwright.config.section import Section, kind_unless_given, validated_section
from skillwright.evaluation import (
    AlphaLedger,
    ExploreGate,
    PairedGate,
    SequentialGate,
    StrictGate,
    why_hopeless,
)
from skillwright.models import ModelConfig

_ACTORS = ("searcher", "buyer", "household", "retail", "reader", "shopper")

Control = Literal["no_skills", "other_scope"]


class RlModelsSection(PricedModels):
    """The models beside the policy."""

    base: ModelConfig | None = None
    """Plays the base trajectories; unset, the policy before it has learnt anything."""
    teacher: ModelConfig | None = None
    """Writes skills from trajectories, and changes them; ``distil`` and ``evolve`` need one."""
    expert: ModelConfig | None = None
    """Shows how it is done, with the skills that the policy has; ``cold_start`` needs one."""

    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "base": _ACTORS,
        "teacher": ModelsSection.scripted["teacher"],
        "expert": _ACTORS,
    }


class RlBankSection(BankSection):
    """What the policy is told, in training and in evaluation alike."""

    start: str = "empty"
    """``empty``, ``seed`` for the environment's own, ``seed:NAME``, a bank's file or JSON."""
    leave_out: list[str] = Field(default=[])
    """Categories whose skills are left out of the first bank."""
    told: Literal["skills", "trajectories", "nothing"] = "skills"
    """``trajectories`` tells raw base trajectories of the same category and place instead."""
    hierarchy: bool = True
    """False tells the most similar skills of any kind, instead of the general ones and others."""


class RlDistilSection(DistilSection):
    """The first bank, written by the teacher from base trajectories."""

    max_turns: PositiveInt | None = None
    """Most actions in a base episode, so that more is seen; unset, as in all others."""
    temperature: SkipJsonSchema[NonNegativeFloat] = 1.0
    """What the untrained policy samples at; other models have settings of their own."""


class RlEvolveSection(EvolveSection):
    """How the bank goes on learning, from what is still lost on tasks of its own."""

    every: PositiveInt = 5
    """Iterations between updates."""


RlGateConfig = Annotated[
    ExploreGate | PairedGate | SequentialGate | StrictGate,
    Field(discriminator="kind"),
    kind_unless_given(ExploreGate().kind),
]


class RlEvaluationSection(Reported):
    """What decides, and what is reported."""

    gate: RlGateConfig = ExploreGate()
    """Judges every change of the bank on the val split, and what the run ends with."""
    val_every: PositiveInt = 10
    """Iterations between validations; the cold start and the last are validated always."""
    temperature: NonNegativeFloat = 0.0
    """What the policy samples at when it is measured; 0 takes the likeliest action."""
    select: Literal["best", "last"] = "best"
    """Which weights are tested: the best on val, the later among equals, or the last."""
    controls: list[Control] = Field(default=["no_skills", "other_scope"])
    """Test the selected weights also without skills, and with those of another place."""


class RlRolloutSection(PlayedEpisodes):
    """How episodes are played."""

    max_concurrent: PositiveInt = 128
    """Episodes in flight at once."""


class RlConfig(Section):
    """A run of the recipe; every key has a default but the minds that its stages need."""

    run: NamedRun = NamedRun()
    env: EnvSection = EnvSection()
    models: RlModelsSection = RlModelsSection()
    policy: PolicyConfig = ScorerPolicyConfig()
    bank: RlBankSection = RlBankSection()
    distil: RlDistilSection | None = RlDistilSection()
    cold_start: ColdStartSection | None = ColdStartSection()
    grpo: GrpoSection = GrpoSection()
    evolve: RlEvolveSection | None = RlEvolveSection()
    evaluation: RlEvaluationSection = RlEvaluationSection()
    rollout: RlRolloutSection = RlRolloutSection()
    budget: BudgetSection = BudgetSection()

    @property
    def evolutions(self) -> int:
        """How often the bank may change."""
        if self.evolve is None:
            return 0
        return self.grpo.iterations // self.evolve.every

    @property
    def ledger(self) -> AlphaLedger:
        """How alpha is shared."""
        return self.evaluation.gate.ledger(self.evaluation.alpha, self.evolutions)

    @property
    def minds(self) -> dict[str, ModelConfig]:
        """The minds that are asked, by role."""
        named = {role: getattr(self.models, role) for role in self.models.scripted}
        return {role: mind for role, mind in named.items() if mind is not None}

    def why_hopeless(self, val_tasks: int) -> str:
        """Say why no change of the bank could pass the gate on so few val tasks, or return ""."""
        if not self.evolutions:
            return ""
        problem = why_hopeless(self.evaluation.gate, self.ledger, val_tasks)
        hint = "Add val tasks, evolve less often, or use evaluation.gate.kind 'strict'"
        return f"{problem}. {hint}" if problem else ""

    @model_validator(mode="after")
    def _stages_have_their_minds(self) -> "RlConfig":
        told = self.bank.told
        if told == "trajectories" and self.distil is None:
            raise ValueError(
                "bank.told 'trajectories' tells base trajectories, and distil is null, which "
                "plays none; give it at least {}"
            )
        if told != "skills" and self.evolve is not None:
            raise ValueError(
                f"bank.told is {told!r}, so no change of the bank would be told; set evolve: null"
            )
        asks = (self.distil is not None and told == "skills") or self.evolve is not None
        if asks and self.models.teacher is None:
            raise ValueError(
                "distil and evolve need models.teacher, who writes the skills; name one, or set "
                "both to null"
            )
        if self.cold_start is not None and self.models.expert is None:
            raise ValueError(
                "cold_start needs models.expert, who shows how it is done; name one, or set "
                "cold_start: null"
            )
        return self

    @model_validator(mode="after")
    def _policy_can_do_it(self) -> "RlConfig":
        joins = self.grpo.rows == "trajectories" or (
            self.cold_start is not None and self.cold_start.join_turns
        )
        if joins and self.policy.kind == "scorer":
            raise ValueError(
                "a scorer learns from single turns; use grpo.rows 'steps' and "
                "cold_start.join_turns false"
            )
        if self.env.compat is not None or self.env.data.kind == "adapter":
            raise ValueError(
                f"an EnvAdapter plays by itself, and the policy cannot play in it; {self.env.name} "
                "must be a text environment"
            )
        return self


def validated_rl(values: Mapping[str, Any], where: str) -> RlConfig:
    """Check plain values against the schema.

    Args:
        values: Sections, as YAML gives them.
        where: What they come from, for messages.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem.
    """
    return validated_section(RlConfig, values, where)
