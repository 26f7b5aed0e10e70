"""The schema of an RL configuration: frozen sections that refuse unknown keys.

    base trajectories -> bank -> cold start -> [rollouts -> update] x iterations -> sealed test

A section that is ``null`` skips its stage: no ``distill``, no ``cold_start``, no ``evolve``.
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
from skillwright.config.yaml_files import kind_unless_given, validated_section
from skillwright.core.policy_settings import (
    RECIPES,
    TIS_CAP,
    GrpoTerms,
    LanguageModelTerms,
    LossRecipe,
    RecipeName,
    Schedule,
    SftSettings,
)
from skillwright.core.settings import Settings
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


class ScorerPolicyConfig(Settings):
    """A small network that scores the commands on offer; it learns on a laptop."""

    kind: Literal["scorer"] = "scorer"
    recipe: RecipeName = "skillrl"
    """Published loss: sets averaging, clipping, KL, scaling and dynamic sampling."""
    start: str = ""
    """Run whose released weights are the initial ones; unset, new weights."""
    width: PositiveInt = 64
    """Vector size, a multiple of ``heads``; the last hidden layer has twice as many."""

    @property
    def label(self) -> str:
        """Name of the policy in output."""
        return "a command scorer"


ENGINE_SHARE: Final = 0.3
"""Share of a GPU's memory that vLLM or SGLang takes."""


class HfPolicyConfig(LanguageModelTerms):
    """Any causal language model of the transformers library with a chat template."""

    kind: Literal["hf"] = "hf"
    recipe: RecipeName = "skillrl"
    """Published loss: sets averaging, clipping, KL, scaling and dynamic sampling."""
    model: Annotated[str, Field(min_length=1)]
    """`save_pretrained` folder, GGUF file, package with one, or Hugging Face name."""
    start: str = ""
    """Start weights: `save_pretrained` folder, LoRA adapter, or run; unset, the model's."""
    sampler: Literal["own", "vllm", "sglang"] = "own"
    """Sampler: our own, or an installed engine with 30% of the memory."""

    @property
    def label(self) -> str:
        """Name of the policy in output."""
        return self.model


PolicyConfig = Annotated[
    ScorerPolicyConfig | HfPolicyConfig, Field(discriminator="kind"), kind_unless_given("scorer")
]


class SupervisedSection(SftSettings):
    """Supervised steps on episodes that were solved."""

    episodes: PositiveInt = 1
    """Episodes per task."""


class ColdStartSection(SupervisedSection):
    """Supervised training on the expert's verified successes."""

    demonstrations: str = ""
    """Demonstrations instead of expert episodes: a run, or a ``.jsonl`` file of chats (``hf``
    only)."""
    tasks: PositiveInt | None = None
    """Number of training tasks; unset, all."""
    without_skills: Share = 0.2
    """Share of tasks without skills."""
    expert_reads: Literal["same", "skills"] = "same"
    """``skills`` shows the bank to the expert regardless of ``bank.inject``."""


class InternalizeSection(SupervisedSection):
    """Distillation of skills into the weights."""

    skills: list[str] = Field(default=[])
    """Ids, categories or scopes; empty, all skills."""
    by: Literal["policy", "expert"] = "policy"
    """Source of successes with skills: the policy or the expert."""
    rest: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of other tasks, to prevent forgetting."""
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Loss of success rate that must be ruled out before skills are retired."""


class GrpoSection(GrpoTerms):
    """GRPO: groups of episodes of the same task, compared with each other."""

    iterations: NonNegativeInt = 100
    """Rollout and update iterations; 0 keeps the cold start."""
    gate_every: PositiveInt | None = None
    """Iterations per gated policy step; a losing step is reverted; unset, none is gated."""
    tasks_per_iteration: PositiveInt = 16
    """Tasks per iteration."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Episodes per task, with equal skills."""
    harder: bool = False
    """Sample task types in proportion to their failures."""
    again: Share = 0.0
    """Share of tasks whose latest group had both successes and failures."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature."""
    schedule: Schedule = Schedule(shape="constant", warmup=0.0)
    """Learning rate schedule over the iterations."""
    kl_weight: NonNegativeFloat | None = None
    """Weight of the KL divergence from the cold start; unset, the recipe's (0.01)."""
    clip_low: Annotated[float | None, Field(ge=0, lt=1)] = None
    """Ratios are clipped at 1 - this; unset, the recipe's (0.2)."""
    clip_high: Annotated[float | None, Field(ge=0, lt=2)] = None
    """Ratios are clipped at 1 + this; unset, the recipe's (0.2)."""
    dynamic_sampling: NonNegativeInt | None = None
    """Maximum extra rounds of rollouts per iteration; in these, other tasks replace groups with
    equal rewards; unset, the recipe's (0; ``dapo`` 9)."""
    tis_cap: NonNegativeFloat | None = None
    """Cap of truncated importance sampling against the engine's log-probabilities; 0, off; unset, 2
    with ``policy.sampler`` ``vllm`` or ``sglang``."""
    penalty: NonNegativeFloat = 0.01
    """Penalty on the advantage of a turn whose action was not admissible."""
    checkpoint_every: PositiveInt = 10
    """Iterations between checkpoints; validation, evolution and the end also save one."""
    keep_rollouts: bool = False
    """Store training episodes."""


_ACTORS = ("searcher", "buyer", "finder", "household", "retail", "reader", "shopper", "seeker")


class RlModelsSection(PricedModels):
    """Models other than the policy."""

    base: ModelConfig | None = None
    """Model that plays base trajectories; unset, the initial policy."""
    teacher: ModelConfig | None = None
    """Model that writes and updates skills, for ``distill`` and ``evolve``."""
    expert: ModelConfig | None = None
    """Model that demonstrates tasks with the policy's skills, for ``cold_start``."""

    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "base": _ACTORS,
        "teacher": ModelsSection.scripted["teacher"],
        "expert": _ACTORS,
    }


class RlBankSection(BankSection):
    """Retrieval from the bank for the policy."""

    start: str = "empty"
    """Initial bank: ``empty``, ``seed``, ``seed:NAME``, a bank file or JSON, or a run folder."""
    leave_out: list[str] = Field(default=[])
    """Categories left out of the first bank."""
    inject: Literal["skills", "principles", "facts", "trajectories", "none"] = "skills"
    """Injected text: all skills, general skills, facts about the place, raw trajectories, or
    nothing."""
    hierarchy: bool = True
    """Inject general skills and others separately; if false, the most similar of any kind."""


class RlDistillSection(DistillSection):
    """First bank, written by the teacher from base trajectories."""

    max_turns: PositiveInt | None = None
    """Maximum actions per base episode; unset, as elsewhere."""


class RlEvolveSection(EvolveSection):
    """Updates of the bank from failures on the evolution split."""

    every: PositiveInt = 5
    """Iterations between updates."""


class RlEvaluationSection(Reported):
    """The gate, validation and the test."""

    val_every: PositiveInt = 10
    """Iterations between validations."""
    temperature: NonNegativeFloat = 0.0
    """Evaluation temperature; 0 is greedy."""
    baseline: Literal["cold_start", "start"] = "cold_start"
    """Baseline of the release test and the final test: weights after the cold start, or the
    initial ones."""
    select: Literal["best", "last"] = "best"
    """Weights to test: best on val, or last."""

    @field_validator("gate")
    @classmethod
    def _check_gate(cls, gate: Gate) -> Gate:
        if gate.accepts_all:
            raise ValueError(f"a gate of kind {gate.kind!r} refuses nothing; use 'explore' here")
        return gate


class RlRolloutSection(PlayedEpisodes):
    """How episodes are played."""

    max_concurrent: PositiveInt = 128
    """Maximum concurrent episodes."""


class RlConfig(Settings):
    """An RL run. Only the models that its stages need must be given."""

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
    def recipe(self) -> LossRecipe:
        """The loss of ``policy.recipe``, over which the keys of ``grpo`` that are set win."""
        return replace(RECIPES[self.policy.recipe], **self.own_terms)

    @property
    def own_terms(self) -> dict[str, Any]:
        """The settings of the recipe that ``grpo`` sets itself."""
        keys = ("clip_low", "clip_high", "kl_weight", "dynamic_sampling")
        given = {key: getattr(self.grpo, key) for key in keys}
        return {key: value for key, value in given.items() if value is not None}

    @property
    def tis_cap(self) -> float | None:
        """The cap of importance weights; ``None`` without such a correction."""
        given, has_engine = self.grpo.tis_cap, getattr(self.policy, "sampler", "own") != "own"
        return (TIS_CAP if given is None else given) or None if has_engine else None

    @property
    def has_bank(self) -> bool:
        """Whether skills of a bank are injected for the policy or the expert."""
        expert = self.cold_start is not None and self.cold_start.expert_reads == "skills"
        return expert or self.bank.inject not in ("trajectories", "none")

    @property
    def evolutions(self) -> int:
        """Number of bank updates."""
        if self.evolve is None:
            return 0
        return self.grpo.iterations // self.evolve.every

    @property
    def policy_steps(self) -> int:
        """Number of gate decisions about weights."""
        every = self.grpo.gate_every
        return 0 if every is None else math.ceil(self.grpo.iterations / every)

    @property
    def ledger(self) -> AlphaLedger:
        """The alpha ledger: over updates of bank and weights, and retirement."""
        retires = self.internalize is not None
        judged = self.evolutions + self.policy_steps + retires
        second = retires and self.grpo.iterations > 0
        return self.evaluation.gate.ledger(self.evaluation.alpha, judged, second_release=second)

    @property
    def retirement(self) -> NonInferiorityTest | None:
        """The test that decides about retiring internalized skills; ``None`` without any."""
        if self.internalize is None:
            return None
        gate = self.evaluation.gate
        like = gate.release or ReleaseTest(metric=gate.metric, mixed_weight=gate.mixed_weight)
        return NonInferiorityTest(self.internalize.margin, like)

    def retirement_power(self, val_tasks: int) -> float:
        """Estimate the power of the retirement test, in [0, 1], if the weights need no skill."""
        test, ledger = self.retirement, self.ledger
        if test is None:
            return 0.0
        alpha = replace(ledger, made=ledger.planned - 1).share
        return non_inferiority_power(val_tasks, test.like.draws, test.margin, alpha)

    @property
    def llms(self) -> dict[str, ModelConfig]:
        """The configured models by role."""
        named = {role: getattr(self.models, role) for role in self.models.scripted}
        return {role: llm for role, llm in named.items() if llm is not None}

    def why_hopeless(self, val_tasks: int) -> str:
        """Say why no change could pass the gate on ``val_tasks`` tasks, or return ""."""
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
    def _check_models_of_stages(self) -> "RlConfig":
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
                "distill and evolve need models.teacher, which writes the skills; name one, or set "
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
                "cold_start needs models.expert, which plays the demonstrations; name one, or "
                "cold_start.demonstrations, or set cold_start: null"
            )
        return self

    @model_validator(mode="after")
    def _check_policy(self) -> "RlConfig":
        learning = [
            one for one in (self.grpo, self.cold_start, self.internalize) if one is not None
        ]
        if any(one.rows == "trajectories" for one in learning) and self.policy.kind == "scorer":
            raise ValueError(
                "a scorer learns from single turns; use rows 'steps' in grpo, and 'steps' or "
                "'episodes' in cold_start and internalize"
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

    @model_validator(mode="after")
    def _check_recipe(self) -> "RlConfig":
        name, cap, recipe = self.policy.recipe, self.grpo.tis_cap, self.recipe
        if cap and getattr(self.policy, "sampler", "own") == "own":
            raise ValueError(
                f"grpo.tis_cap is {cap:g}, and the policy samples by itself: its own probabilities "
                "are those that the ratio starts from. Leave tis_cap out, or set policy.kind 'hf' "
                "with policy.sampler 'vllm' or 'sglang'"
            )
        if cap and cap < 1:
            raise ValueError(
                f"grpo.tis_cap is {cap:g} and would shrink tokens on which engine and policy "
                "agree; set at least 1 (2 is usual), or 0 for off"
            )
        if name in ("dapo", "gspo") and recipe.clip_high < recipe.clip_low:
            raise ValueError(
                f"policy.recipe {name!r} clips higher above 1 than below, and with grpo's own keys "
                f"clip_low is {recipe.clip_low:g} and clip_high {recipe.clip_high:g}. Set both or "
                "none, or use policy.recipe 'grpo'"
            )
        return self


def validated_rl(values: Mapping[str, Any], where: str) -> RlConfig:
    """Check plain values against the schema.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem.
    """
    return validated_section(RlConfig, values, where)
