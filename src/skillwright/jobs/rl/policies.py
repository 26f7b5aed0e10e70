"""The policy that a configuration names, as a backend that samples and learns."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import torch

from skillwright.config.rl import RlConfig
from skillwright.config.rl_policy import (
    ColdStartSection,
    GrpoSection,
    HfPolicyConfig,
    ScorerPolicyConfig,
)
from skillwright.core import (
    EpisodeResult,
    PlainSkill,
    SkillSource,
    Task,
    TurnContext,
)
from skillwright.core.seeds import derive_seed
from skillwright.envs.drive import open_env
from skillwright.policy import (
    AdvantageSettings,
    GroupSettings,
    GrpoObjective,
    GrpoSettings,
    PolicyBackend,
    Schedule,
    SftSettings,
    StepAdvantage,
    contexts_of,
)
from skillwright.policy.scorer import Architecture, ScorerPolicy, ScorerSettings, Vocabulary
from skillwright.rollout import MakeEnv, PromptStyle
from skillwright.rollout.prompt import render

Recipe = Mapping[str, Any]
"""What a policy is built of, as JSON values: kept with the run, and enough to build it again."""


class PolicyMaker:
    """Builds the policy of a configuration; a caller may hand in one with a policy of its own."""

    def __init__(self, config: RlConfig) -> None:
        self._config = config
        self._ready: PolicyBackend | None = None

    @property
    def needs_turns(self) -> bool:
        """Whether it has to see turns before it can be built: a scorer needs their words."""
        return isinstance(self._config.policy, ScorerPolicyConfig)

    @property
    def chooses(self) -> bool:
        """Whether it takes actions off the environment's list, and nothing around them."""
        policy = self._config.policy
        return isinstance(policy, ScorerPolicyConfig) or policy.restrict

    def recipe(self, turns: Sequence[TurnContext]) -> Recipe:
        """Say what the policy is built of."""
        match self._config.policy:
            case ScorerPolicyConfig():
                known = ScorerPolicy.for_turns(turns, ScorerSettings()).vocabulary
                return {"words": list(known.words)}
            case HfPolicyConfig(model=model):
                return {"model": model}
            case never:
                assert_never(never)

    def check(self) -> None:
        """Find out before a run begins whether the policy can be built; what was, is used then."""
        sft_settings(self._config)
        grpo_settings(self._config.grpo)
        group_settings(self._config.grpo)
        match self._config.policy:
            case ScorerPolicyConfig():
                self.make({"words": []})
            case HfPolicyConfig() as policy:
                self._ready = _language_model(policy)

    def make(self, recipe: Recipe) -> PolicyBackend:
        """Build the policy, before it has learnt anything."""
        match self._config.policy:
            case ScorerPolicyConfig() as policy:
                return _scorer(policy, recipe, derive_seed("weights", self._config.run.seed))
            case HfPolicyConfig() as policy:
                ready, self._ready = self._ready, None
                return ready or _language_model(policy)
            case never:
                assert_never(never)


def _scorer(policy: ScorerPolicyConfig, recipe: Recipe, seed: int) -> PolicyBackend:
    # Sums that threads share are rounded in another order, as many threads as there are.
    torch.set_num_threads(policy.threads)
    settings = ScorerSettings(
        architecture=Architecture(
            width=policy.width,
            layers=policy.layers,
            hidden=policy.hidden,
        ),
        seed=seed,
    )
    return ScorerPolicy(Vocabulary(tuple(recipe["words"])), settings)


def _language_model(policy: HfPolicyConfig) -> PolicyBackend:
    # Transformers takes a second to load, which no scorer should wait for.
    from skillwright.policy.hf import HfPolicy, HfSettings, LoraSettings

    lora = None
    if policy.lora is not None:
        lora = LoraSettings(policy.lora.rank, policy.lora.alpha)
    settings = HfSettings(
        lora=lora,
        precision=policy.precision,
        device=policy.device,
        max_new_tokens=policy.max_new_tokens,
        context_tokens=policy.context_tokens,
        sample_rows=policy.sample_rows,
        micro_tokens=policy.micro_tokens,
        restrict=policy.restrict,
        gradient_checkpointing=policy.gradient_checkpointing,
        template=policy.template,
    )
    return HfPolicy.load_pretrained(policy.model, settings, download=policy.download)


async def openings(tasks: Sequence[Task], make_env: MakeEnv) -> list[TurnContext]:
    """Return the first turn of tasks without skills, for a policy that acts before it learns."""
    found = []
    for task in tasks:
        env = make_env(task)
        try:
            opening = await open_env(env)
        finally:
            env.close()
        messages = render(PromptStyle(), opening.messages, (), "")
        found.append(TurnContext(messages, 0, opening.metadata))
    return found


def turns_of(results: Sequence[EpisodeResult], skills: SkillSource | None) -> list[TurnContext]:
    """Return every turn of episodes, with what the agent was told."""
    told = skills or PlainSkill("")
    return [
        context
        for result in results
        if result.reward is not None
        for context in contexts_of(result, told.context(result.spec.task).text)
    ]


def sft_settings(config: RlConfig) -> SftSettings:
    """Return how the cold start learns; where there is none, as one would by default."""
    section = config.cold_start or ColdStartSection()
    return SftSettings(
        steps=section.steps,
        batch_rows=section.batch_rows,
        learning_rate=section.learning_rate,
        schedule=Schedule(**section.schedule.model_dump()),
        join_turns=section.join_turns,
        whole_episodes=section.whole_episodes,
    )


def grpo_settings(section: GrpoSection) -> GrpoSettings:
    """Return how an iteration's rows are learnt from."""
    objective = GrpoObjective(
        clip_high=section.clip_high,
        kl_weight=section.kl_weight,
        entropy_weight=section.entropy_weight,
    )
    return GrpoSettings(
        objective=objective,
        learning_rate=section.learning_rate,
        epochs=section.epochs,
        minibatch_rows=section.minibatch_rows,
        rows=section.rows,
    )


def group_settings(section: GrpoSection) -> GroupSettings:
    """Return how the episodes of a task are compared."""
    step = section.step_advantage
    return GroupSettings(
        size=section.group_size,
        advantage=AdvantageSettings(
            statistics=section.statistics,
            scale_by_std=section.scale_by_std,
        ),
        step_advantage=None if step is None else StepAdvantage(**step.model_dump()),
        penalty=section.penalty,
    )
