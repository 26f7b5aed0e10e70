"""What a run will take, before it begins: calls, tokens and money, stage by stage.

Nothing is asked and nothing is played. How often each stage asks follows from the configuration and
the number of tasks; prompts are measured on a few environments that are built, opened and closed;
the rest are assumptions, which are part of the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from statistics import fmean
from typing import Any

from skillwright.bank import LexicalEmbedder
from skillwright.config.env import EnvSection
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, Task, Usage
from skillwright.core.jsonio import dumps
from skillwright.datasets import Splits
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.launch.assumptions import ACCEPTED_SHARE, Assumptions, expected_turns
from skillwright.jobs.launch.preflight import build_first
from skillwright.jobs.parts.adapter_load import find_adapter
from skillwright.jobs.parts.bank_source import DocumentAndBank, bank_source, read_told_bank
from skillwright.jobs.parts.money import PricedMind, priced_mind, priced_minds
from skillwright.jobs.parts.tasks import make_splits
from skillwright.jobs.parts.tau_report import TAU_BENCH, refuse_small_store
from skillwright.jobs.parts.tau_user import user_mind
from skillwright.jobs.train.evaluate import EvalPlan
from skillwright.jobs.train.expected import (
    practised_in_an_epoch,
    skills_confirmed,
    skills_tested,
)
from skillwright.models.http.wire import cost_usd
from skillwright.rollout import PromptStyle, render

MEASURED_TASKS = 3
_OWN_USERS = ("scripted", "rule_based")
_OPENING = "Hello, I have a question about an order of mine. Could you please help me with it?"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage takes over the whole run.

    Attributes:
        name: What people call it.
        role: Whose mind is asked.
        episodes: Episodes, 0 for an optimiser's stage.
        calls: Calls.
        input_tokens: Of all prompts together.
        output_tokens: Of all answers together.
        cost_usd: ``None`` where a price is unknown.
    """

    name: str
    role: str
    episodes: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to take.

    Attributes:
        stages: In the order of the run; those that ask nothing are left out.
        opening_tokens: The measured length of an agent's first prompt, with the initial skill.
        measured: The tasks that it was measured on.
        minds: Who is asked, with prices and their age.
        assumptions: What the figures rest on.
        power: Which gain the gate of a training finds; "" for an evaluation.
    """

    stages: tuple[Stage, ...]
    opening_tokens: int
    measured: tuple[str, ...]
    minds: tuple[PricedMind, ...]
    assumptions: Assumptions
    power: str = ""

    @property
    def total(self) -> Stage:
        """All stages together; its cost is unknown where one stage's is."""
        costs = [stage.cost_usd for stage in self.stages]
        known = [cost for cost in costs if cost is not None]
        return Stage(
            "total",
            "",
            sum(stage.episodes for stage in self.stages),
            sum(stage.calls for stage in self.stages),
            sum(stage.input_tokens for stage in self.stages),
            sum(stage.output_tokens for stage in self.stages),
            sum(known) if len(known) == len(costs) else None,
        )

    @property
    def known_cost_usd(self) -> float:
        """What the stages cost together whose price is known."""
        return sum(stage.cost_usd for stage in self.stages if stage.cost_usd is not None)

    def over_budget(self, config: RunConfig) -> str:
        """Say which bound of the budget the run is expected to reach, or ``""``."""
        total, budget = self.total, config.budget
        tokens = total.input_tokens + total.output_tokens
        if budget.usd is not None and total.cost_usd is not None and total.cost_usd > budget.usd:
            return f"over budget.usd = {budget.usd:g}: it will stop there, and can be resumed"
        if budget.tokens is not None and tokens > budget.tokens:
            return f"over budget.tokens = {budget.tokens:,}: it will stop there, and can be resumed"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        return {
            "stages": [asdict(stage) for stage in self.stages],
            "total": asdict(self.total),
            "known_cost_usd": self.known_cost_usd,
            "opening_tokens": self.opening_tokens,
            "measured": list(self.measured),
            "power": self.power,
            "prices": [mind.line() for mind in self.minds],
            "assumptions": asdict(self.assumptions),
        }


async def estimate(config: RunConfig, skill: str, turns: int | None = None) -> Estimate:
    """Estimate a training run. A few environments are built and opened, and nobody is asked.

    Args:
        config: The run.
        skill: The text that it begins with.
        turns: Turns of an episode, where a person knows better.

    Raises:
        ConfigError: ``env.name`` is an adapter, which asks its models by itself.
        UsageError: A task or the environment is missing or wrong.
    """
    splits, minds = _splits(config), priced_minds(config)
    episodes = await _measured(config, skill, splits.train.tasks, minds[0], turns)
    steps = config.train.epochs * config.train.steps_per_epoch(len(splits.train.tasks))
    assumed = episodes.assumed
    length = round(len(skill) / assumed.chars_per_token)
    questions = _Questions(config, minds[1], assumed, episodes.transcript_tokens, length)
    played = [episodes.stage(*about) for about in _played(config, splits, bool(skill.strip()))]
    asked = [questions.stage(*about) for about in questions.asked(steps)]
    power = config.power(len(splits.train.tasks), len(splits.val.tasks))
    return replace(episodes.estimate(played, asked, minds), power=power)


async def estimate_evaluation(
    config: RunConfig, skill: str, plan: EvalPlan, turns: int | None = None
) -> Estimate:
    """Estimate an evaluation: every task of a split, as often as planned.

    The tasks of the test split stay sealed: its first prompts are taken to be as long as those of
    train tasks.

    Args:
        config: The run.
        skill: The text that is evaluated.
        plan: What an evaluation evaluates.
        turns: Turns of an episode, where a person knows better.

    Raises:
        ConfigError: ``env.name`` is an adapter, which asks its models by itself.
        UsageError: A task or the environment is missing or wrong.
    """
    splits, minds = _splits(config), priced_minds(config, trains=False)
    tasks = splits.val.tasks if plan.split == "val" else splits.train.tasks
    count = len(splits.test) if plan.split == "test" else len(tasks)
    episodes = await _measured(config, skill, tasks, minds[0], turns)
    return episodes.estimate([episodes.stage("evaluate", count * plan.trials)], [], minds)


def _splits(config: RunConfig) -> Splits:
    if find_adapter(config.env) is not None:
        raise ConfigError(
            f"env.name {config.env.name!r} is an adapter: it asks its models by itself, so nothing "
            "is known of its calls before it played. Train with evaluation.val_tasks and "
            "test_tasks lowered, and read what that took off `skillwright runs show RUN`"
        )
    refuse_small_store(config.env)
    return make_splits(config)


async def _measured(
    config: RunConfig, skill: str, tasks: Sequence[Task], mind: PricedMind, turns: int | None
) -> "_Episodes":
    """Measure the first prompts of a few tasks, and assume the rest."""
    assumed = Assumptions(turns=turns or expected_turns(config.env.max_turns))
    first = tasks[:MEASURED_TASKS]
    told = zip(first, _told(config, skill, first), strict=True)
    opening = round(fmean([await _opening(config, task, text) for task, text in told]))
    measured = tuple(task.id for task in first)
    return _Episodes(config, mind, assumed, round(opening / assumed.chars_per_token), measured)


def _told(config: RunConfig, skill: str, tasks: Sequence[Task]) -> list[str]:
    """Return what agents are told of the document and the bank, for each task."""
    if not config.skill.bank:
        return [skill] * len(tasks)
    # Whoever says what is similar, about as much is told; so no model and no endpoint is asked.
    bank = bank_source(read_told_bank(config.skill.bank), config.bank, LexicalEmbedder())
    return [one.text for one in DocumentAndBank(skill, bank).contexts(tasks)]


async def _opening(config: RunConfig, task: Task, skill: str) -> int:
    """Return the characters of the first prompt of a task, with the tools that stand beside it."""
    seeded = replace(task, extras={"seed": config.run.seed, **task.extras})
    env = build_first(_asks_nobody(config.env), seeded)
    try:
        reply = await open_env(env)
        tools = sum(len(dumps(tool)) for tool in native_tools(env))
    finally:
        env.close()
    return tools + sum(
        len(said["content"]) for said in render(PromptStyle(), reply.messages, [], skill)
    )


def _asks_nobody(env: EnvSection) -> EnvSection:
    """Let a script open in place of a simulated user, who is a model or a person."""
    if env.name != TAU_BENCH or env.config.get("user_strategy") in _OWN_USERS:
        return env
    script = {"user_strategy": "scripted", "user_replies": [_OPENING]}
    return env.model_copy(update={"config": {**env.config, **script}})


def _users(mind: PricedMind, assumed: Assumptions, episodes: int) -> Stage:
    """Return what simulated users take: each prompt holds all that was said to them before."""
    calls = 1 + round(assumed.turns * assumed.user_share)
    said, answer = assumed.action_tokens + assumed.observation_tokens, assumed.observation_tokens
    prompts = [assumed.user_prompt_tokens + heard * said for heard in range(calls)]
    costs = [_cost(mind, prompt, answer) for prompt in prompts]
    known = [cost for cost in costs if cost is not None]
    cost = episodes * sum(known) if len(known) == len(costs) else None
    total_in, total_out = episodes * sum(prompts), episodes * calls * answer
    return Stage("simulated user", "user", 0, episodes * calls, total_in, total_out, cost)


def _played(config: RunConfig, splits: Splits, has_skill: bool) -> Iterator[tuple[str, int]]:
    """Count the episodes of each stage."""
    optimizer, evaluation = config.optimizer, config.evaluation
    train, val, test = len(splits.train.tasks), len(splits.val.tasks), len(splits.test)
    looks = config.train.epochs - 1 if optimizer.looks_back else 0
    gate = evaluation.gate
    # The incumbent's draws are played once for all candidates until one is accepted.
    new = (1.0 + ACCEPTED_SHARE) / 2
    starts_blank = not has_skill
    yield "baseline", val
    yield "practice", config.train.epochs * practised_in_an_epoch(config, train)
    yield "gate", round(config.decisions(train) * gate.expected_rollouts(val) * new)
    if gate.release is not None:
        yield "release test", gate.release.expected_rollouts(val)
    yield "look back", 2 * min(optimizer.slow_update_samples, train) * looks
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    yield "confirmation", confirmed * evaluation.confirm_tasks
    tested = skills_tested(config, starts_blank=starts_blank)
    yield "test", test * tested if evaluation.test else 0


@dataclass(frozen=True, slots=True)
class _Episodes:
    """What episodes take."""

    config: RunConfig
    mind: PricedMind
    assumed: Assumptions
    opening_tokens: int
    measured: tuple[str, ...]

    def estimate(
        self, played: Sequence[Stage], asked: Sequence[Stage], minds: Sequence[PricedMind]
    ) -> Estimate:
        """Return stages that play and stages that ask as one estimate, simulated users included."""
        minds, stages = tuple(minds), list(played)
        if (user := user_mind(self.config.env)) is not None:
            customer = priced_mind("user", user)
            minds = (*minds, customer)
            stages.append(_users(customer, self.assumed, sum(one.episodes for one in played)))
        stages = [stage for stage in (*stages, *asked) if stage.calls]
        return Estimate(tuple(stages), self.opening_tokens, self.measured, minds, self.assumed)

    @property
    def transcript_tokens(self) -> int:
        """The length of a finished episode."""
        return self.opening_tokens + self.assumed.turns * self._turn_tokens

    @property
    def _turn_tokens(self) -> int:
        return self.assumed.action_tokens + self.assumed.observation_tokens

    def stage(self, name: str, count: int) -> Stage:
        """Return what ``count`` episodes take: each prompt holds all turns before it."""
        turns, shown = self.assumed.turns, self.config.rollout.history_turns
        kept = [turn if shown is None else min(turn, shown) for turn in range(turns)]
        prompts = [self.opening_tokens + turn * self._turn_tokens for turn in kept]
        answer = self.assumed.action_tokens
        costs = [_cost(self.mind, prompt, answer) for prompt in prompts]
        known = [cost for cost in costs if cost is not None]
        return Stage(
            name,
            "target",
            count,
            count * turns,
            count * sum(prompts),
            count * turns * answer,
            count * sum(known) if len(known) == len(costs) else None,
        )


@dataclass(frozen=True, slots=True)
class _Questions:
    """What the optimiser is asked."""

    config: RunConfig
    mind: PricedMind
    assumed: Assumptions
    transcript_tokens: int
    skill_tokens: int

    def asked(self, steps: int) -> Iterator[tuple[str, int, int]]:
        """Count the questions of each stage; with each, the tokens of evidence in one."""
        gradient, optimizer, train = self.config.gradient, self.config.optimizer, self.config.train
        groups = self._groups()
        shown = min(gradient.minibatch_size, train.batch_size)
        yield "reflect", steps * sum(groups), shown * self.transcript_tokens
        merges = sum(_merges(group, gradient.merge_batch_size) for group in groups)
        merges += len([group for group in groups if group]) > 1
        pooled = min(gradient.merge_batch_size, max(2, *groups))
        yield "merge", steps * merges, pooled * self.assumed.proposal_tokens
        is_patch = optimizer.skill_update_mode == "patch"
        capped = is_patch and optimizer.lr_control_mode != "none"
        yield "rank", steps * capped, self.assumed.proposal_tokens
        asks = is_patch and optimizer.lr_control_mode == "autonomous"
        yield "edit budget", steps * asks, self.assumed.proposal_tokens
        rewrites = optimizer.skill_update_mode == "rewrite_from_suggestions"
        yield "rewrite", steps * rewrites, self.assumed.proposal_tokens
        looks = train.epochs - 1
        pairs = 2 * optimizer.slow_update_samples * self.transcript_tokens
        yield "slow update", looks * optimizer.use_slow_update, pairs
        yield "meta skill", looks * optimizer.use_meta_skill, pairs

    def stage(self, name: str, count: int, evidence: int) -> Stage:
        """Return what ``count`` questions take."""
        prompt = self.assumed.instructions_tokens + self.skill_tokens + evidence
        answer = self.assumed.proposal_tokens
        cost = _cost(self.mind, prompt, answer)
        total = None if cost is None else count * cost
        return Stage(name, "optimizer", 0, count, count * prompt, count * answer, total)

    def _groups(self) -> Sequence[int]:
        """Return the analysts of a step that read failures, and those that read successes."""
        gradient, train = self.config.gradient, self.config.train
        won = round(train.batch_size * self.assumed.success_rate)
        lost = train.batch_size - won
        read = (lost, 0 if gradient.failure_only else won)
        return [train.accumulation * ceil(count / gradient.minibatch_size) for count in read]


def _merges(proposals: int, size: int) -> int:
    """Return the calls that make one of so many proposals, ``size`` at a time, level by level."""
    calls = 0
    while proposals > 1:
        proposals = ceil(proposals / size)
        calls += proposals
    return calls


def _cost(mind: PricedMind, prompt: int, answer: int) -> float | None:
    if mind.is_free:
        return 0.0
    return cost_usd(Usage(calls=1, input_tokens=prompt, output_tokens=answer), mind.prices)
