"""What the configuration of the recipe may say. Frozen; unknown keys are refused.

    base trajectories -> bank -> cold start -> [rollouts -> update] x iterations -> sealed test

A section that is ``null`` leaves its stage out: no ``distill``, no ``cold_start``, no ``evolve``.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.bank import BankSection, DistillSection, EvolveSection
from skillwright.config.env import EnvSection
from skillwright.config.run import (
    BudgetSection,
    ModelsSection,
    NamedRun,
    PlayedEpisodes,
    PricedModels,
    Reported,
)
from skillwright.config.yaml_files import Section, kind_unless_given, validated_section
from skillwright.evaluation import (
    AlphaLedger,
    Gate,
    NonInferiorityTest,
    ReleaseTest,
    non_inferiority_power,
    why_hopeless,
)
from skillwright.models import ModelConfig
from skillwright.models.validation import Share

# The policy and how its weights are trained, as a configuration says it.


class ScorerPolicyConfig(Section):
    """A small network that scores the commands on offer; it learns on a laptop."""

    kind: Literal["scorer"] = "scorer"
    start: str = ""
    """A run of the same shape, whose released weights it begins with; unset, it is built anew."""
    width: PositiveInt = 64
    """Size of every vector; a multiple of ``heads``."""
    layers: SkipJsonSchema[PositiveInt] = 2
    """Convolutions over what was read."""
    hidden: PositiveInt = 128
    """Size of the last hidden layer."""
    threads: SkipJsonSchema[PositiveInt] = 1
    """Processor threads. With one, a run's numbers hang on neither cores nor load, and so small a
    network is no slower."""

    @property
    def label(self) -> str:
        """What a run says of its policy."""
        return "a command scorer"


class LoraConfig(Section):
    """Train an adapter instead of all weights."""

    rank: PositiveInt = 16
    """Of the adapter's matrices."""
    alpha: PositiveInt = 32
    """Its output is scaled by ``alpha / rank``."""


ENGINE_SHARE: Final = 0.3
"""Of a GPU's memory, that vLLM or SGLang takes."""


class HfPolicyConfig(Section):
    """Any causal language model of the transformers library with a chat template."""

    kind: Literal["hf"] = "hf"
    model: Annotated[str, Field(min_length=1)]
    """A `save_pretrained` folder, a GGUF file, an installed package that ships one, or a name on
    the Hugging Face hub."""
    start: str = ""
    """Weights to begin with instead of the model's own: a `save_pretrained` folder (all weights,
    or a LoRA adapter), or a run of ours (what it released)."""
    download: bool = False
    """Fetch it where it is not on this machine."""
    lora: LoraConfig | None = None
    """Unset, all weights are trained."""
    precision: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """``auto`` is bfloat16 on a GPU and float32 elsewhere."""
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    """``adamw8bit`` keeps moments in 2 bytes per weight instead of 8."""
    device: SkipJsonSchema[str] = "auto"
    """``auto`` takes a GPU where there is one."""
    max_new_tokens: PositiveInt = 512
    """Bound on an answer, in tokens."""
    context_tokens: PositiveInt | None = None
    """Bound on prompt and answer together; unset, the model's."""
    sampler: Literal["own", "vllm", "sglang"] = "own"
    """Who draws free answers: our own decoding, or an installed engine, with 30% of the memory."""
    sample_rows: SkipJsonSchema[PositiveInt] = 128
    """Conversations that are sampled at once."""
    micro_tokens: PositiveInt = 16_384
    """Tokens of a forward and backward pass; a beginning that several rows share counts once."""
    restrict: SkipJsonSchema[bool] = True
    """Hold answers to the commands on offer, where the environment lists them."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    template: dict[str, Any] = Field(default_factory=dict)
    """Handed to the chat template by name (``enable_thinking: false``)."""

    @property
    def label(self) -> str:
        """What a run says of its policy."""
        return self.model


PolicyConfig = Annotated[
    ScorerPolicyConfig | HfPolicyConfig,
    Field(discriminator="kind"),
    kind_unless_given("scorer"),
]


class ScheduleSection(Section):
    """How a learning rate rises and falls."""

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    """How it falls after the rise."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the steps in which it rises."""
    floor: Share = 0.0
    """Share of the highest rate that the last step ends at."""


class SupervisedSection(Section):
    """Supervised steps on episodes that were solved."""

    episodes: PositiveInt = 1
    """Episodes per task."""
    steps: PositiveInt = 300
    """Optimizer steps."""
    batch_rows: PositiveInt = 128
    """Turns per step, about."""
    whole_episodes: bool = False
    """Deal turns out by episodes: a scorer reads the skill once for all turns of one."""
    learning_rate: PositiveFloat = 2e-5
    """The highest of the schedule; 4e-3 suits a scorer."""
    schedule: ScheduleSection = ScheduleSection()
    """How the rate rises and falls over the steps."""
    join_turns: bool = False
    """One row per episode where prompts continue where the last ended (``hf`` only)."""


class ColdStartSection(SupervisedSection):
    """Supervised steps on what the expert solved in the real environment, given skills."""

    demonstrations: str = ""
    """What is learned from in the place of an expert's episodes: a run, of which it is what it
    solved of the tasks to train on, or a ``.jsonl`` file of chats (``hf`` only)."""
    tasks: PositiveInt | None = None
    """How many tasks to train on, the first ones; unset, all."""
    without_skills: Share = 0.2
    """Share of the tasks without skills, so that the policy learns to do without as well."""
    expert_reads: Literal["same", "skills"] = "same"
    """``skills`` gives the expert the bank's skills, whatever ``bank.inject`` gives the policy."""


class InternalizeSection(SupervisedSection):
    """Skills that are distilled into the weights, and retired if nothing is lost without them."""

    skills: list[str] = Field(default=[])
    """Ids, categories or places of what is distilled; empty, all skills of the bank."""
    by: Literal["policy", "expert"] = "policy"
    """Whose successes with the skills are learned from without them: the policy's own, or
    ``models.expert``'s."""
    rest: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the tasks that are not about these skills, so that nothing else is forgotten; where
    there are fewer, all."""
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """They are retired if a loss of so much success is ruled out."""


class StepAdvantageSection(Section):
    """GiGPO's second advantage: a turn among those that saw the same."""

    weight: PositiveFloat = 1.0
    """What it is multiplied by before it is added."""
    discount: SkipJsonSchema[Annotated[float, Field(gt=0, le=1)]] = 0.95
    """Of later reward, per turn."""


class GrpoSection(Section):
    """Reinforcement: groups of episodes of the same task, compared with each other."""

    iterations: NonNegativeInt = 100
    """Rollouts and updates, in turn; 0 leaves the policy as the cold start ends."""
    gate_every: PositiveInt | None = None
    """Iterations of a policy step: the gate judges its weights on val, and those that lose are
    taken back; unset, all are kept."""
    tasks_per_iteration: PositiveInt = 16
    """Tasks of an iteration; without ``harder`` and ``again``, none comes twice in a pass."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Episodes per task, given the same skills."""
    harder: bool = False
    """Draw task types that are lost more often more often, instead of all tasks in turn."""
    again: Share = 0.0
    """Share of an iteration's tasks that were solved in part when last played."""
    temperature: PositiveFloat = 1.0
    """What is sampled at."""
    skill_dropout: SkipJsonSchema[Share] = 0.0
    """Share of the groups that are given only a part of their skills."""
    learning_rate: PositiveFloat = 1e-6
    """The highest of the schedule; 5e-4 suits a scorer."""
    schedule: ScheduleSection = ScheduleSection(shape="constant", warmup=0.0)
    """How the rate rises and falls over the iterations."""
    clip_high: SkipJsonSchema[NonNegativeFloat] = 0.2
    """And up to 1 and this."""
    kl_weight: NonNegativeFloat = 0.01
    """Weight of the divergence from the policy that the cold start ended with."""
    entropy_weight: SkipJsonSchema[NonNegativeFloat] = 0.0
    """Weight of the entropy, which is a bonus."""
    rows: Literal["steps", "trajectories"] = "steps"
    """One row per turn, or per episode where prompts continue (``hf`` only)."""
    epochs: PositiveInt = 1
    """Passes over the rows of an iteration."""
    minibatch_rows: PositiveInt | None = 128
    """Rows per optimizer step, about; unset, all."""
    statistics: Literal["trajectories", "rows"] = "trajectories"
    """What the mean of a group runs over; ``rows`` is what SkillRL's code does."""
    scale_by_std: SkipJsonSchema[bool] = True
    """Divide advantages by the deviation of their group."""
    step_advantage: StepAdvantageSection | None = None
    """GiGPO's second advantage; unset, none."""
    penalty: NonNegativeFloat = 0.01
    """Taken off the advantage of a turn whose action was none of those on offer."""
    checkpoint_every: PositiveInt = 10
    """Iterations between checkpoints; validation, evolution and the end make their own."""
    keep_rollouts: bool = False
    """Keep the episodes of training in the run's store too."""


_ACTORS = ("searcher", "buyer", "finder", "household", "retail", "reader", "shopper", "seeker")

Control = Literal["no_skills", "other_scope"]


class RlModelsSection(PricedModels):
    """The models beside the policy."""

    base: ModelConfig | None = None
    """Plays the base trajectories; unset, the policy before it has learned anything."""
    teacher: ModelConfig | None = None
    """Writes skills from trajectories, and changes them; ``distill`` and ``evolve`` need one."""
    expert: ModelConfig | None = None
    """Shows how it is done, with the skills that the policy has; ``cold_start`` needs one."""

    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "base": _ACTORS,
        "teacher": ModelsSection.scripted["teacher"],
        "expert": _ACTORS,
    }


class RlBankSection(BankSection):
    """What is injected for the policy, in training and in evaluation alike."""

    start: str = "empty"
    """``empty``, ``seed`` for the environment's own, ``seed:NAME``, a bank's file or JSON, or the
    folder of a run (what it released)."""
    leave_out: list[str] = Field(default=[])
    """Categories whose skills are left out of the first bank."""
    inject: Literal["skills", "principles", "facts", "trajectories", "none"] = "skills"
    """``principles`` injects only the skills that hold everywhere, ``facts`` only those of the
    task's place, ``trajectories`` raw base trajectories of the same category and place instead."""
    hierarchy: bool = True
    """False injects the most similar skills of any kind, instead of the general ones and others."""


class RlDistillSection(DistillSection):
    """The first bank, written by the teacher from base trajectories."""

    max_turns: PositiveInt | None = None
    """Most actions in a base episode, so that more is seen; unset, as in all others."""
    temperature: SkipJsonSchema[NonNegativeFloat] = 1.0
    """What the untrained policy samples at; other models have settings of their own."""


class RlEvolveSection(EvolveSection):
    """How the bank keeps learning, from what still fails on tasks of its own."""

    every: PositiveInt = 5
    """Iterations between updates."""


class RlEvaluationSection(Reported):
    """What decides, and what is reported."""

    val_every: PositiveInt = 10
    """Iterations between validations; the cold start and the last are validated always."""
    temperature: NonNegativeFloat = 0.0
    """What the policy samples at when it is measured; 0 takes the likeliest action."""
    baseline: Literal["cold_start", "start"] = "cold_start"
    """What the release test compares with, and what the sealed test scores first: the weights as
    the cold start left them, or as the run began."""
    select: Literal["best", "last"] = "best"
    """Which weights are tested: the best on val, the later among equals, or the last."""
    controls: SkipJsonSchema[list[Control]] = Field(default=["no_skills", "other_scope"])
    """Test the selected weights also without skills, and with those of another place."""

    @field_validator("gate")
    @classmethod
    def _refuses(cls, gate: Gate) -> Gate:
        if gate.accepts_all:
            raise ValueError(f"a gate of kind {gate.kind!r} refuses nothing; use 'explore' here")
        return gate


class RlRolloutSection(PlayedEpisodes):
    """How episodes are played."""

    max_concurrent: PositiveInt = 128
    """Episodes in flight at once."""


class RlConfig(Section):
    """A run of the recipe; every key has a default but the models that its stages need."""

    run: NamedRun = NamedRun()
    env: EnvSection = EnvSection()
    models: RlModelsSection = RlModelsSection()
    policy: PolicyConfig = ScorerPolicyConfig()
    bank: RlBankSection = RlBankSection()
    distill: RlDistillSection | None = RlDistillSection()
    cold_start: ColdStartSection | None = ColdStartSection()
    grpo: GrpoSection = GrpoSection()
    evolve: RlEvolveSection | None = RlEvolveSection()
    internalize: InternalizeSection | None = None
    evaluation: RlEvaluationSection = RlEvaluationSection()
    rollout: RlRolloutSection = RlRolloutSection()
    budget: BudgetSection = BudgetSection()

    @property
    def has_bank(self) -> bool:
        """Whether anybody is given skills of a bank: the policy, or the expert."""
        expert = self.cold_start is not None and self.cold_start.expert_reads == "skills"
        return expert or self.bank.inject not in ("trajectories", "none")

    @property
    def evolutions(self) -> int:
        """How often the bank may change."""
        if self.evolve is None:
            return 0
        return self.grpo.iterations // self.evolve.every

    @property
    def policy_steps(self) -> int:
        """How often the gate judges weights."""
        every = self.grpo.gate_every
        return 0 if every is None else math.ceil(self.grpo.iterations / every)

    @property
    def ledger(self) -> AlphaLedger:
        """How alpha is shared: over changes of bank and weights alike, and over what is tested."""
        retires = self.internalize is not None
        judged = self.evolutions + self.policy_steps + retires
        again = retires and self.grpo.iterations > 0
        return self.evaluation.gate.ledger(self.evaluation.alpha, judged, again=again)

    @property
    def retirement(self) -> NonInferiorityTest | None:
        """The test of whether internalized skills are retired; ``None`` where none are."""
        if self.internalize is None:
            return None
        gate = self.evaluation.gate
        like = gate.release or ReleaseTest(metric=gate.metric, mixed_weight=gate.mixed_weight)
        return NonInferiorityTest(self.internalize.margin, like)

    def retirement_power(self, val_tasks: int) -> float:
        """Return in which share of runs skills that the weights do not need are retired."""
        test, ledger = self.retirement, self.ledger
        if test is None:
            return 0.0
        alpha = replace(ledger, made=ledger.planned - 1).share
        return non_inferiority_power(val_tasks, test.like.draws, test.margin, alpha)

    @property
    def llms(self) -> dict[str, ModelConfig]:
        """The models that are asked, by role."""
        named = {role: getattr(self.models, role) for role in self.models.scripted}
        return {role: llm for role, llm in named.items() if llm is not None}

    def why_hopeless(self, val_tasks: int) -> str:
        """Say why no change could pass the gate on so few val tasks, or return ""."""
        if self.evolutions or self.policy_steps:
            problem = why_hopeless(self.evaluation.gate, self.ledger, val_tasks)
            hint = "Add val tasks, evolve less often, or use evaluation.gate.kind 'strict'"
            if problem:
                return f"{problem}. {hint}"
        return self._why_none_retired(val_tasks)

    def _why_none_retired(self, val_tasks: int) -> str:
        test, ledger = self.retirement, self.ledger
        if test is None:
            return ""
        alpha = replace(ledger, made=ledger.planned - 1).share
        problem = test.why_hopeless(val_tasks, alpha)
        hint = "Add val tasks, raise internalize.margin, or set internalize: null"
        return f"no skill could be retired: {problem}. {hint}" if problem else ""

    @model_validator(mode="after")
    def _stages_have_their_models(self) -> "RlConfig":
        inject = self.bank.inject
        if inject == "trajectories" and self.distill is None:
            raise ValueError(
                "bank.inject 'trajectories' injects base trajectories, and distill is null, which "
                "plays none; give it at least {}"
            )
        if inject != "skills" and self.evolve is not None:
            raise ValueError(
                f"bank.inject is {inject!r}, so not every change of the bank would be injected; "
                "set evolve: null"
            )
        asks = (self.distill is not None and self.has_bank) or self.evolve is not None
        if asks and self.models.teacher is None:
            raise ValueError(
                "distill and evolve need models.teacher, who writes the skills; name one, or set "
                "both to null"
            )
        internalize = self.internalize
        if internalize is not None and inject in ("trajectories", "none"):
            raise ValueError(
                f"bank.inject is {inject!r}, so there is no skill to distill into the weights; set "
                "internalize: null"
            )
        by_expert = internalize is not None and internalize.by == "expert"
        if by_expert and self.models.expert is None:
            raise ValueError(
                "internalize.by is 'expert', and models.expert is not named; name one, or learn "
                "from the policy's own successes (internalize.by 'policy')"
            )
        cold = self.cold_start
        if cold is not None and self.models.expert is None and not cold.demonstrations:
            raise ValueError(
                "cold_start needs models.expert, who shows how it is done; name one, or "
                "cold_start.demonstrations, or set cold_start: null"
            )
        return self

    @model_validator(mode="after")
    def _policy_can_do_it(self) -> "RlConfig":
        taught = [one for one in (self.cold_start, self.internalize) if one is not None]
        joins = self.grpo.rows == "trajectories" or any(one.join_turns for one in taught)
        if joins and self.policy.kind == "scorer":
            raise ValueError(
                "a scorer learns from single turns; use grpo.rows 'steps', and join_turns false in "
                "cold_start and internalize"
            )
        chats = self.cold_start is not None and self.cold_start.demonstrations.endswith(".jsonl")
        if chats and self.policy.kind == "scorer":
            raise ValueError(
                "a scorer chooses from lists of commands, and chats hold none; name a run in "
                "cold_start.demonstrations, or use policy.kind 'hf'"
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
