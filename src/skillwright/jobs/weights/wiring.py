"""Make the policy, the engines and the other parts of a run of the recipe."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, assert_never

import torch

from skillwright.bank import BankStore, Embedder, Teacher
from skillwright.config.rl import (
    ENGINE_SHARE,
    HfPolicyConfig,
    RlConfig,
    ScorerPolicyConfig,
    SupervisedSection,
)
from skillwright.core import (
    Agent,
    ChatModel,
    ConfigError,
    EpisodeResult,
    EpisodeSpec,
    ModelRefused,
    PlainSkill,
    SkillSource,
    Task,
    TurnContext,
)
from skillwright.core.agent import action_in
from skillwright.core.seeds import derive_seed
from skillwright.core.waits import waiting
from skillwright.entry_points import entry_point
from skillwright.envs.drive import open_env
from skillwright.jobs.run.bank_source import EmbedderLedger, opened_embedder
from skillwright.jobs.run.bench import make_engine
from skillwright.jobs.run.memory import StoredCalls, StoredEpisodes
from skillwright.jobs.run.progress import StageStarted
from skillwright.jobs.run.resources import MakeModel, Resources, make_teacher, open_resources
from skillwright.jobs.weights.injected import Injector
from skillwright.jobs.weights.starting_weights import FolderWeights, RunWeights, starting_weights
from skillwright.jobs.weights.state import ColdStartStep, RlCallback
from skillwright.jobs.weights.tasks import RlTasks, find_rl_tasks
from skillwright.models import agent_of, make_model
from skillwright.policy import (
    AdvantageSettings,
    GroupSettings,
    GrpoObjective,
    GrpoSettings,
    LossReport,
    PolicyAgent,
    PolicyBackend,
    Row,
    StepAdvantage,
    StepReport,
    UpdateReport,
    contexts_of,
    train,
)
from skillwright.policy.scorer import Architecture, ScorerPolicy, ScorerSettings, Vocabulary
from skillwright.rollout import (
    Engine,
    EpisodeRecorder,
    LocalEngine,
    MakeEnv,
    PromptStyle,
    refuse_no_score,
)
from skillwright.rollout.player import Mode
from skillwright.rollout.prompt import render
from skillwright.runs import RunStore

Recipe = Mapping[str, Any]
"""The JSON values that a policy is built from; stored with the run to build it again."""


class PolicyMaker:
    """Builds the policy of a configuration; tests and notebooks may pass their own."""

    def __init__(self, config: RlConfig) -> None:
        self._config = config
        self._ready: PolicyBackend | None = None

    @property
    def _seed(self) -> int:
        return derive_seed("weights", self._config.run.seed)

    @cached_property
    def _start(self) -> RunWeights | FolderWeights | None:
        return starting_weights(self._config)

    @property
    def needs_turns(self) -> bool:
        """Whether the policy is built from turns: a new scorer takes its words from them."""
        return isinstance(self._config.policy, ScorerPolicyConfig) and self._start is None

    @property
    def chooses(self) -> bool:
        """Whether the policy answers with an action from the environment's list alone."""
        policy = self._config.policy
        return isinstance(policy, ScorerPolicyConfig) or policy.restrict

    def recipe(self, turns: Sequence[TurnContext]) -> Recipe:
        """Return what the policy is built from."""
        start = self._start
        begun = {} if start is None else {"start": dict(start.facts)}
        match self._config.policy:
            case ScorerPolicyConfig() if isinstance(start, RunWeights):
                return {"words": list((start.state.policy or {})["words"]), **begun}
            case ScorerPolicyConfig():
                known = ScorerPolicy.for_turns(turns, ScorerSettings()).vocabulary
                return {"words": list(known.words)}
            case HfPolicyConfig(model=model):
                return {"model": model, **begun}
            case never:
                assert_never(never)

    def check(self) -> None:
        """Build the policy before a run begins, to find faults; `make` uses the result."""
        grpo_settings(self._config)
        group_settings(self._config)
        match self._config.policy:
            case ScorerPolicyConfig():
                self.make({"words": []} if self._start is None else self.recipe([]))
            case HfPolicyConfig() as policy:
                self._ready = _language_model(policy, self._start, self._seed)

    def make(self, recipe: Recipe) -> PolicyBackend:
        """Build the policy, untrained.

        Raises:
            ConfigError: The weights at ``policy.start`` are not those that the run began with.
        """
        start = self._start
        if recipe.get("start") != (None if start is None else dict(start.facts)):
            raise ConfigError(
                f"the weights at policy.start {self._config.policy.start!r} are not those that the "
                "run began with; bring those back, then resume"
            )
        match self._config.policy:
            case ScorerPolicyConfig() as policy:
                scorer = _scorer(policy, recipe, self._seed)
                if isinstance(start, RunWeights):
                    start.put_into(scorer)
                return scorer
            case HfPolicyConfig() as policy:
                ready, self._ready = self._ready, None
                return ready or _language_model(policy, start, self._seed)
            case never:
                assert_never(never)


def _scorer(policy: ScorerPolicyConfig, recipe: Recipe, seed: int) -> PolicyBackend:
    # More threads would add up in another order, and round differently.
    torch.set_num_threads(1)
    architecture = Architecture(width=policy.width, hidden=2 * policy.width)
    settings = ScorerSettings(architecture=architecture, seed=seed)
    with waiting("building the command scorer"):  # torch loads more of itself
        return ScorerPolicy(Vocabulary(tuple(recipe["words"])), settings)


def _language_model(
    policy: HfPolicyConfig, start: RunWeights | FolderWeights | None, seed: int
) -> PolicyBackend:
    if isinstance(start, RunWeights):
        # An adapter only fits the weights that it was trained on, so build these first.
        learned = _language_model(policy, starting_weights(start.config), seed)
        start.put_into(learned)
        return learned
    with waiting("loading transformers", f"model {policy.model} is loaded"):
        # The import takes a second; a scorer does not need it.
        from skillwright.policy.hf import HfPolicy, HfSettings

    engine: Any = None
    if policy.sampler != "own":
        engine = entry_point("skillwright.samplers", policy.sampler, "sampler").load()
        engine.refuse_missing(policy.sampler)
    # A new adapter is initialized at random.
    with waiting(f"loading model {policy.model}"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = HfPolicy.load_pretrained(
            policy.model, HfSettings.of(policy), start=None if start is None else start.path
        )
    if engine is not None:
        made.engine = engine(policy.sampler, made, ENGINE_SHARE)
    return made


async def openings(tasks: Sequence[Task], make_env: MakeEnv) -> list[TurnContext]:
    """Return the first turns of tasks, without skills."""
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
    """Return all turns of scored episodes, with the skills that were injected."""
    source = skills or PlainSkill("")
    return [
        context
        for result in results
        if result.reward is not None
        for context in contexts_of(result, source.context(result.spec.task).text)
    ]


def as_commands(results: Sequence[EpisodeResult]) -> list[EpisodeResult]:
    """Reduce each answer to its command, where the environment lists it.

    A policy that chooses from a list cannot imitate the text around a command.
    """
    return [_as_commands(one) for one in results]


def _as_commands(result: EpisodeResult) -> EpisodeResult:
    played = result.trajectory
    offered = [played.metadata, *(turn.metadata for turn in played.turns)]
    turns = []
    for turn, before in zip(played.turns, offered, strict=False):
        command = action_in(turn.act.text)
        if command in (before.get("admissible_commands") or ()):
            turn = replace(turn, act=replace(turn.act, text=command))
        turns.append(turn)
    return replace(result, trajectory=replace(played, turns=tuple(turns)))


def grpo_settings(config: RlConfig) -> GrpoSettings:
    """Return the settings of an update."""
    recipe, policy = config.recipe, config.policy
    most = policy.max_new_tokens if isinstance(policy, HfPolicyConfig) else 1
    objective = GrpoObjective(
        clip_low=recipe.clip_low,
        clip_high=recipe.clip_high,
        dual_clip=recipe.dual_clip,
        kl_weight=recipe.kl_weight,
        average=recipe.average,
        ratio=recipe.ratio,
        most_tokens=most * (config.env.max_turns if config.grpo.rows == "trajectories" else 1),
        tis_cap=config.tis_cap,
    )
    return GrpoSettings.of(config.grpo, objective=objective)


def group_settings(config: RlConfig) -> GroupSettings:
    """Return the settings of groups and their advantages."""
    recipe, scaled = config.recipe, config.recipe.scale_by_std
    weight = recipe.step_weight
    return GroupSettings(
        size=config.grpo.group_size,
        advantage=AdvantageSettings(scale_by_std=scaled),
        step_advantage=StepAdvantage(weight, scale_by_std=scaled) if weight else None,
        penalty=config.grpo.penalty,
    )


class KeptOnly:
    """A recorder that stores episodes and never returns one: a policy trains on fresh ones."""

    def __init__(self, recorder: EpisodeRecorder) -> None:
        self._recorder = recorder

    def find(self, key: str) -> EpisodeResult | None:
        """Return ``None``."""
        return None

    def known_to_fail(self, key: str) -> bool:
        """Whether an episode failed before."""
        return self._recorder.known_to_fail(key)

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Store a result, and return it with its sampled tokens."""
        self._recorder.record(result)
        return result

    def abandon(self, result: EpisodeResult) -> None:
        """Store what a stopped episode consumed."""
        self._recorder.abandon(result)


@dataclass(frozen=True, slots=True)
class RlParts:
    """The objects that the stages of a recipe's run share, and the engines made from them."""

    config: RlConfig
    store: RunStore
    bank_store: BankStore
    tasks: RlTasks
    llms: Mapping[str, ChatModel]
    maker: PolicyMaker
    injector: Injector
    resources: Resources
    ledger: EmbedderLedger
    callback: RlCallback

    def model_engine(self, role: str, max_turns: int | None = None) -> Engine:
        """Return an engine in which a model acts."""
        agent = agent_of(self.llms[role])
        kept = StoredEpisodes(self.store, agent.identity)
        engine = self._engine(agent, kept, "free", max_turns)
        return self.resources.placement.place(engine, self.config.llms[role])

    def measuring_engine(
        self, backend: PolicyBackend, temperature: float, max_turns: int | None = None
    ) -> LocalEngine:
        """Return an engine in which the current weights act; stored episodes are reused."""
        backend.forget()
        agent = PolicyAgent(backend, temperature, remembers=False)
        kept = StoredEpisodes(self.store, agent.identity)
        return self._engine(agent, kept, "lockstep", max_turns)

    def training_engine(self, agent: PolicyAgent) -> LocalEngine:
        """Clear the sampling caches, and return an engine whose episodes are trained on."""
        agent.backend.forget()
        recorder = None
        if self.config.grpo.keep_rollouts:
            recorder = KeptOnly(StoredEpisodes(self.store, agent.identity))
        return self._engine(agent, recorder, "lockstep")

    async def play(
        self, phase: str, tasks: Sequence[Task], episodes: int, engine: Engine, skills: SkillSource
    ) -> list[EpisodeResult]:
        """Play tasks a number of times each, for a phase whose name also seeds the episodes.

        Raises:
            EngineDown: No episode has a reward.
        """
        seed = self.config.run.seed
        specs = [
            EpisodeSpec(task, derive_seed(phase, seed, task.id, draw), draw, phase)
            for task in tasks
            for draw in range(episodes)
        ]
        self.callback.on_event(StageStarted(phase, episodes=len(specs)))
        results = await engine.run(specs, skills)
        refuse_no_score(results)
        return results

    def teacher(self, stage: str) -> Teacher:
        """Return the teacher, seeded by the stage."""
        calls = self.resources.calls(self.llms["teacher"], self.permit)
        return make_teacher(calls, self.config.llms["teacher"], self.config.run.seed, stage)

    def source(self, version: int) -> SkillSource:
        """Return the skill source of a version of the bank."""
        return self.injector.source(self.bank_store.load(version))

    def learn(
        self,
        policy: PolicyBackend,
        rows: Sequence[Row],
        section: SupervisedSection | None,
        name: str,
    ) -> UpdateReport:
        """Train by supervised steps, and report each; ``name`` seeds the order of rows."""
        settings = section or SupervisedSection()

        def on_step(step: int, loss: LossReport, report: StepReport) -> None:
            done = ColdStartStep(step, settings.steps, loss.surprise, report.grad_norm)
            self.callback.on_event(done)

        seed = derive_seed(name, self.config.run.seed)
        return train(policy, rows, settings, seed=seed, on_step=on_step)

    @asynccontextmanager
    async def permit(self, kind: str = "episode") -> AsyncIterator[None]:
        """Ask the budget for a permit, after the cost of embedding is recorded."""
        self.ledger.settle()
        async with self.resources.budget.permit(kind):
            yield

    def _engine(
        self,
        agent: Agent,
        recorder: EpisodeRecorder | None,
        mode: Mode,
        max_turns: int | None = None,
    ) -> LocalEngine:
        seen = self.resources.seen
        return make_engine(
            self.config, agent, recorder, seen, self.permit, mode=mode, max_turns=max_turns
        )


def stop_if_refused(teacher: Teacher) -> None:
    """Stop the run if the teacher's endpoint refuses every request."""
    refusal = teacher.model.refusal if isinstance(teacher.model, StoredCalls) else None
    if refusal is not None:
        raise ModelRefused(f"the teacher was refused: {refusal}")


@asynccontextmanager
async def rl_parts(
    config: RlConfig,
    store: RunStore,
    callback: RlCallback,
    make: MakeModel = make_model,
    maker: PolicyMaker | None = None,
) -> AsyncIterator[RlParts]:
    """Make the parts of a run, and close them at the end."""
    async with open_resources(config, store, callback, make) as parts:
        held, llms = parts.held, {role: parts.model(llm) for role, llm in config.llms.items()}
        embedder = held.enter_context(opened_embedder(config.bank.embedder))
        ledger = EmbedderLedger(embedder, store)
        held.callback(ledger.settle)
        bank_store = held.enter_context(BankStore.open(store.folder / "bank" / "bank.sqlite"))
        yield RlParts(
            config=config,
            store=store,
            bank_store=bank_store,
            tasks=find_rl_tasks(config),
            llms=llms,
            maker=maker or PolicyMaker(config),
            injector=make_injector(config, embedder),
            resources=parts,
            ledger=ledger,
            callback=callback,
        )


def make_injector(config: RlConfig, embedder: Embedder) -> Injector:
    """Return the injector; base trajectories are added once they are played."""
    bank = config.bank
    return Injector(
        embedder=embedder,
        settings=bank,
        budget=bank.budget,
        hierarchy=bank.hierarchy,
        raw=PlainSkill("") if bank.inject == "none" else None,
        part=bank.inject if bank.inject in ("principles", "facts") else "skills",
    )
