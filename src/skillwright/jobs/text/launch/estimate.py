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
from skillwright.config.rl import RlConfig
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, Task, Usage
from skillwright.core.jsonio import dumps
from skillwright.core.paths import AHEAD
from skillwright.datasets import Splits
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.run.bank_source import DocumentAndBank, bank_source, read_injected_bank
from skillwright.jobs.run.money import PricedModel, priced_model, priced_models
from skillwright.jobs.run.tasks import (
    environment_of,
    is_adapter,
    make_splits,
    refuse_unasked_data,
    refuse_untrainable,
    side_models,
    tasks_to_look_at,
)
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.launch.preflight import build_first
from skillwright.jobs.text.wiring import skills_confirmed, skills_tested, trained_on_in_an_epoch
from skillwright.models.http.wire import cost_usd
from skillwright.rollout import PromptStyle, render

# What nobody can know before a run, in round figures that its estimate rests on.


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody can know before a run; each is a round figure to be replaced by a better one.

    Attributes:
        turns: Turns of an episode; see `expected_turns`.
        action_tokens: An agent's answer.
        observation_tokens: What an environment answers to it.
        success_rate: Share of the episodes that succeed; analysts read the two kinds apart.
        accepted_share: Share of the candidates that are accepted; afterwards the gate plays the
            skill in force anew.
        instructions_tokens: What an optimizer's question says beside skill and evidence.
        proposal_tokens: An optimizer's answer.
        user_share: Share of the turns that speak to a simulated user, who opens besides.
        user_prompt_tokens: What such a user is given before the conversation.
        chars_per_token: Of English text.
    """

    turns: int
    action_tokens: int = 50
    observation_tokens: int = 100
    success_rate: float = 0.5
    accepted_share: float = 1 / 3
    instructions_tokens: int = 1_500
    proposal_tokens: int = 1_200
    user_share: float = 0.5
    user_prompt_tokens: int = 500
    chars_per_token: float = 4.0

    @property
    def turn_tokens(self) -> int:
        """What a turn adds to the next prompt."""
        return self.action_tokens + self.observation_tokens

    def lines(self, *, trains: bool = True) -> list[str]:
        """Say them for people; an evaluation rests on fewer than a training."""
        learning = [
            f"{self.success_rate:.0%} of the episodes succeed, {self.accepted_share:.0%} "
            "of the candidates are accepted, the skill keeps its length",
            f"an optimizer's question has {self.instructions_tokens:,} tokens beside skill and "
            f"evidence, its answer {self.proposal_tokens:,}",
            "every step proposes more edits than its budget, if it has one, so they are ranked",
        ]
        return [
            f"an episode takes {self.turns} turns; each adds {self.action_tokens} tokens of the "
            f"agent and {self.observation_tokens} of the environment to the next prompt",
            *(learning if trains else ()),
            "a simulated user's opening is made up, as nobody is asked; where a model plays it, it "
            f"opens and hears {self.user_share:.0%} of the turns, and its first prompt has "
            f"{self.user_prompt_tokens} tokens",
            f"{self.chars_per_token:g} characters are a token; nothing is cached and nothing fails",
        ]


SUCCESS_RATE = Assumptions(turns=1).success_rate
ACCEPTED_SHARE = Assumptions(turns=1).accepted_share
UNBOUNDED_TURNS = 10
"""Turns of an episode where ``env.max_turns`` sets no bound."""


def expected_turns(max_turns: int | None) -> int:
    """Return the turns of an episode: one that succeeds takes half of the bound, another all."""
    most = max_turns or UNBOUNDED_TURNS
    return max(1, round(most * (1.0 - SUCCESS_RATE / 2.0)))


MEASURED_TASKS = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage takes over the whole run.

    Attributes:
        name: What people call it.
        role: Whose model is asked.
        episodes: Episodes, 0 for an optimizer's stage.
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


def sum_of(stages: Sequence[Stage]) -> Stage:
    """Return stages together; the cost is unknown where one stage's is."""
    costs = [stage.cost_usd for stage in stages]
    known = [cost for cost in costs if cost is not None]
    return Stage(
        "total",
        "",
        sum(stage.episodes for stage in stages),
        sum(stage.calls for stage in stages),
        sum(stage.input_tokens for stage in stages),
        sum(stage.output_tokens for stage in stages),
        sum(known) if len(known) == len(costs) else None,
    )


class Stages:
    """What the stages of a job take together."""

    __slots__ = ()

    stages: tuple[Stage, ...]

    @property
    def total(self) -> Stage:
        """All stages together; its cost is unknown where one stage's is."""
        return sum_of(self.stages)

    @property
    def known_cost_usd(self) -> float:
        """What the stages cost together whose price is known."""
        return sum(stage.cost_usd for stage in self.stages if stage.cost_usd is not None)

    def over_budget(self, config: RunConfig | RlConfig) -> str:
        """Say which bound of the budget the run is expected to reach, or ``""``."""
        total, budget = self.total, config.budget
        tokens = total.input_tokens + total.output_tokens
        if budget.usd is not None and total.cost_usd is not None and total.cost_usd > budget.usd:
            return f"over budget.usd = {budget.usd:g}: it will stop there, and can be resumed"
        if budget.tokens is not None and tokens > budget.tokens:
            return f"over budget.tokens = {budget.tokens:,}: it will stop there, and can be resumed"
        return ""


@dataclass(frozen=True, slots=True)
class Estimate(Stages):
    """What a run is expected to take.

    Attributes:
        stages: In the order of the run; those that ask nothing are left out.
        opening_tokens: The measured length of an agent's first prompt, with the initial skill.
        measured: The tasks that it was measured on.
        llms: Who is asked, with prices and their age.
        assumptions: What the figures rest on.
        power: Which gain the gate of a training finds; "" for an evaluation.
    """

    stages: tuple[Stage, ...]
    opening_tokens: int
    measured: tuple[str, ...]
    llms: tuple[PricedModel, ...]
    assumptions: Assumptions
    power: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        return {
            "stages": [asdict(stage) for stage in self.stages],
            "total": asdict(self.total),
            "known_cost_usd": self.known_cost_usd,
            "opening_tokens": self.opening_tokens,
            "measured": list(self.measured),
            "power": self.power,
            "prices": [llm.line() for llm in self.llms],
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
    splits, llms = _splits(config), priced_models(config)
    refuse_untrainable(len(splits.train.tasks), len(splits.val.tasks))
    episodes = await _measured(config, skill, splits.train.tasks, llms[0], turns)
    steps = config.train.epochs * config.train.steps_per_epoch(len(splits.train.tasks))
    assumed = episodes.assumed
    length = round(len(skill) / assumed.chars_per_token)
    questions = _Questions(config, llms[1], assumed, episodes.transcript_tokens, length)
    played = [episodes.stage(*about) for about in _played(config, splits, bool(skill.strip()))]
    asked = [questions.stage(*about) for about in questions.asked(steps)]
    power = config.power(len(splits.train.tasks), len(splits.val.tasks))
    return replace(episodes.estimate(played, asked, llms), power=power)


async def estimate_evaluation(
    config: RunConfig, skill: str, plan: EvalPlan, turns: int | None = None
) -> Estimate:
    """Estimate an evaluation: every task of a split, as often as planned.

    The tasks of the test split stay sealed: its first prompts are taken to be as long as those of
    train tasks, where there are any.
    """
    splits, llms = _splits(config), priced_models(config, trains=False)
    tasks: Sequence[Task] = splits.val.tasks if plan.split == "val" else splits.train.tasks
    count = len(splits.test) if plan.split == "test" else len(tasks)
    tasks = tasks or tasks_to_look_at(config.env, splits)
    episodes = await _measured(config, skill, tasks, llms[0], turns)
    return episodes.estimate([episodes.stage("evaluate", count * plan.trials)], [], llms)


def _splits(config: RunConfig) -> Splits:
    if is_adapter(config.env):
        raise ConfigError(
            f"env.name {config.env.name!r} is an adapter: it asks its models by itself, so nothing "
            "is known of its calls before it played. Train with evaluation.val_tasks and "
            "test_tasks lowered, and read what that took off `skillwright runs show RUN`"
        )
    refuse_unasked_data(config.env)
    return make_splits(config)


async def _measured(
    config: RunConfig, skill: str, tasks: Sequence[Task], llm: PricedModel, turns: int | None
) -> "_Episodes":
    """Measure the first prompts of a few tasks, and assume the rest."""
    assumed = Assumptions(turns=turns or expected_turns(config.env.max_turns))
    first = tasks[:MEASURED_TASKS]
    injected = _injected(config, skill, first)
    opening = await measured_opening(config.env, config.run.seed, first, injected, assumed)
    return _Episodes(config, llm, assumed, opening, tuple(task.id for task in first))


def _injected(config: RunConfig, skill: str, tasks: Sequence[Task]) -> list[str]:
    """Return what agents are given of the document and the bank, for each task."""
    if not config.skill.bank:
        return [skill] * len(tasks)
    # Whoever says what is similar, about as much is injected; so no model and no endpoint is asked.
    bank = bank_source(read_injected_bank(config.skill.bank), config.bank, LexicalEmbedder())
    return [one.text for one in DocumentAndBank(skill, bank).contexts(tasks)]


async def measured_opening(
    env: EnvSection, seed: int, tasks: Sequence[Task], skills: Sequence[str], assumed: Assumptions
) -> int:
    """Return the tokens of the first prompts of tasks, on average, native tools included."""
    sizes = [
        await _opening(env, replace(task, extras={"seed": seed, **task.extras}), skill)
        for task, skill in zip(tasks, skills, strict=True)
    ]
    return round(fmean(sizes) / assumed.chars_per_token)


async def _opening(section: EnvSection, task: Task, skill: str) -> int:
    """Return the characters of the first prompt of a task, and of the tools beside it."""
    env = build_first(_asks_nobody(section), task)
    try:
        reply = await open_env(env)
        tools = sum(len(dumps(tool)) for tool in native_tools(env))
    finally:
        env.close()
    messages = render(PromptStyle(), reply.messages, [], skill)
    return tools + sum(len(said["content"]) for said in messages)


def _asks_nobody(env: EnvSection) -> EnvSection:
    """Let a script open in place of a simulated user, who is a model or a person."""
    return env.model_copy(update={"config": environment_of(env).quiet_config(env.config)})


def users_stage(llm: PricedModel, assumed: Assumptions, episodes: int, turns: int) -> Stage:
    """Return what simulated users take: each prompt holds all that was said to them before."""
    heard = range(1 + round(turns * assumed.user_share))
    said, answer = assumed.turn_tokens, assumed.observation_tokens
    prompts = [assumed.user_prompt_tokens + count * said for count in heard]
    return make_stage("simulated user", llm, episodes, prompts, answer)


def judge_stage(
    env: EnvSection, llm: PricedModel, assumed: Assumptions, episodes: int, opening: int
) -> Stage:
    """Return what a judge takes: it reads the task, a reply and its rubric, and votes."""
    rubric = len(dumps(env.config)) / assumed.chars_per_token
    prompt = round(opening + assumed.action_tokens + rubric)
    judging = environment_of(env).judging(env.config)
    votes = judging.votes if judging else 1
    times = episodes * assumed.turns * votes
    return make_stage("judge", llm, times, [prompt], assumed.observation_tokens)


def make_stage(
    name: str, llm: PricedModel, times: int, prompts: Sequence[int], answer: int, *, plays: int = 0
) -> Stage:
    """Return what it takes to send prompts of so many tokens, one after the other, so many times.

    Args:
        name: What people call it.
        llm: Who is asked.
        times: How often all of the prompts are sent.
        prompts: Tokens of each.
        answer: Tokens of each answer.
        plays: Episodes that are played meanwhile.
    """
    costs = [_cost(llm, prompt, answer) for prompt in prompts]
    known = [cost for cost in costs if cost is not None]
    return Stage(
        name,
        llm.role,
        plays,
        times * len(prompts),
        times * sum(prompts),
        times * len(prompts) * answer,
        times * sum(known) if len(known) == len(costs) else None,
    )


def episode_prompts(
    opening: int, turns: int, history: int | None, assumed: Assumptions
) -> list[int]:
    """Return the tokens of an episode's prompts: each holds the turns before it, or the latest."""
    kept = [turn if history is None else min(turn, history) for turn in range(turns)]
    return [opening + turn * assumed.turn_tokens for turn in kept]


def _played(config: RunConfig, splits: Splits, has_skill: bool) -> Iterator[tuple[str, int]]:
    """Count the episodes of each stage."""
    optimizer, evaluation = config.optimizer, config.evaluation
    train, val, test = len(splits.train.tasks), len(splits.val.tasks), len(splits.test)
    looks = config.train.epochs - 1 if optimizer.updates_epoch else 0
    gate = evaluation.gate
    # The incumbent's draws are played once for all candidates until one is accepted.
    new = (1.0 + ACCEPTED_SHARE) / 2
    starts_blank = not has_skill
    yield "baseline", val
    yield "practice", config.train.epochs * trained_on_in_an_epoch(config, train)  # stored name
    if config.train.speculate:
        # Of each lost bet all is played, at most.
        lost = config.train.epochs * trained_on_in_an_epoch(config, train) * ACCEPTED_SHARE
        yield AHEAD, round(lost)
    yield "gate", round(config.decisions(train) * gate.expected_rollouts(val) * new)
    if gate.release is not None:
        yield "release test", gate.release.expected_rollouts(val)
    yield "epoch update", 2 * min(optimizer.slow_update_samples, train) * looks
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    yield "confirmation", confirmed * evaluation.confirm_tasks
    tested = skills_tested(config, starts_blank=starts_blank)
    yield "test", test * tested if evaluation.test else 0


@dataclass(frozen=True, slots=True)
class _Episodes:
    """What episodes take."""

    config: RunConfig
    llm: PricedModel
    assumed: Assumptions
    opening_tokens: int
    measured: tuple[str, ...]

    def estimate(
        self, played: Sequence[Stage], asked: Sequence[Stage], llms: Sequence[PricedModel]
    ) -> Estimate:
        """Return stages that play and stages that ask as one estimate, simulated users included."""
        llms, stages = tuple(llms), list(played)
        episodes = sum(one.episodes for one in played)
        for role, model in side_models(self.config.env).items():
            llm = priced_model(role, model)
            llms = (*llms, llm)
            stages.append(
                users_stage(llm, self.assumed, episodes, self.assumed.turns)
                if role == "user"
                else judge_stage(self.config.env, llm, self.assumed, episodes, self.opening_tokens)
            )
        stages = [stage for stage in (*stages, *asked) if stage.calls]
        return Estimate(tuple(stages), self.opening_tokens, self.measured, llms, self.assumed)

    @property
    def transcript_tokens(self) -> int:
        """The length of a finished episode."""
        return self.opening_tokens + self.assumed.turns * self.assumed.turn_tokens

    def stage(self, name: str, count: int) -> Stage:
        """Return what ``count`` episodes take."""
        history, assumed = self.config.rollout.history_turns, self.assumed
        prompts = episode_prompts(self.opening_tokens, assumed.turns, history, assumed)
        return make_stage(name, self.llm, count, prompts, assumed.action_tokens, plays=count)


@dataclass(frozen=True, slots=True)
class _Questions:
    """What the optimizer is asked."""

    config: RunConfig
    llm: PricedModel
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
        return make_stage(name, self.llm, count, [prompt], self.assumed.proposal_tokens)

    def _groups(self) -> Sequence[int]:
        """Return the analysts of a step that read failures, and those that read successes."""
        gradient, train = self.config.gradient, self.config.train
        solved = round(train.batch_size * self.assumed.success_rate)
        lost = train.batch_size - solved
        read = (lost, 0 if gradient.failure_only else solved)
        return [train.accumulation * ceil(count / gradient.minibatch_size) for count in read]


def _merges(proposals: int, size: int) -> int:
    """Return the calls that make one of so many proposals, ``size`` at a time, level by level."""
    calls = 0
    while proposals > 1:
        proposals = ceil(proposals / size)
        calls += proposals
    return calls


def _cost(llm: PricedModel, prompt: int, answer: int) -> float | None:
    if llm.is_free:
        return 0.0
    return cost_usd(Usage(calls=1, input_tokens=prompt, output_tokens=answer), llm.prices)
