"""Estimate the calls and cost of a training or an evaluation, stage by stage.

How often each stage asks follows from the configuration and the number of tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from skillwright.bank import LexicalEmbedder
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, Task
from skillwright.datasets import Splits
from skillwright.datasets.clusters import clusters_of
from skillwright.jobs.run.bank_source import DocumentAndBank, bank_source, read_injected_bank
from skillwright.jobs.run.estimate import (
    ACCEPTED_SHARE,
    MEASURED_TASKS,
    Assumptions,
    Stage,
    Stages,
    episode_prompts,
    expected_turns,
    judge_stage,
    make_stage,
    measured_opening,
    users_stage,
)
from skillwright.jobs.run.money import PricedModel, priced_models, side_llms
from skillwright.jobs.run.tasks import (
    is_adapter,
    make_splits,
    refuse_unasked_data,
    refuse_untrainable,
    tasks_to_look_at,
)
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.wiring import (
    expected_line_draws,
    skills_confirmed,
    skills_tested,
    trained_on_in_an_epoch,
)


@dataclass(frozen=True, slots=True)
class Estimate(Stages):
    """The expected cost of a run.

    Attributes:
        stages: The stages that ask a model, in order.
        opening_tokens: The measured length of an agent's first prompt, with the initial skill.
        measured: The tasks that it was measured on.
        llms: The models, with prices and their age.
        power: The gain that the gate of a training detects; "" for an evaluation.
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
    """Estimate a training run. Builds and opens a few environments; calls no model.

    Args:
        config: The run.
        skill: The text that it begins with.
        turns: Turns of an episode; ``None`` to assume them.

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
    train, val = splits.train.tasks, splits.val.tasks
    power = config.power(len(train), len(val), clusters_of(val))
    return replace(episodes.estimate(played, asked, llms), power=power)


async def estimate_evaluation(
    config: RunConfig, skill: str, plan: EvalPlan, turns: int | None = None
) -> Estimate:
    """Estimate an evaluation.

    The test split stays sealed: its first prompts are taken to be as long as those of train tasks.
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
    """Return the text that is injected from the document and the bank, for each task."""
    if not config.skill.bank:
        return [skill] * len(tasks)
    # All embedders inject about the same amount of text, so none is called.
    bank = bank_source(read_injected_bank(config.skill.bank), config.bank, LexicalEmbedder())
    return [one.text for one in DocumentAndBank(skill, bank).contexts(tasks)]


def _played(config: RunConfig, splits: Splits, has_skill: bool) -> Iterator[tuple[str, int]]:
    """Count the episodes of each stage."""
    optimizer, evaluation = config.optimizer, config.evaluation
    train, val, test = len(splits.train.tasks), len(splits.val.tasks), len(splits.test)
    looks = config.train.epochs - 1 if optimizer.updates_epoch else 0
    gate = evaluation.gate
    # The incumbent's draws are played once for all candidates until one is accepted. A gate with a
    # belief draws candidates alone.
    new = 1.0 if gate.believes else (1.0 + ACCEPTED_SHARE) / 2
    starts_blank = not has_skill
    yield "baseline", val
    yield "train", config.train.epochs * trained_on_in_an_epoch(config, train)
    yield "gate", round(config.decisions(train) * gate.expected_rollouts(val) * new)
    yield "lines", expected_line_draws(config, val)
    if gate.release is not None:
        yield "release test", gate.release.expected_rollouts(val)
    yield "epoch update", 2 * min(optimizer.slow_update_samples, train) * looks
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    yield "confirmation", confirmed * evaluation.confirm_tasks
    tested = skills_tested(config, starts_blank=starts_blank)
    yield "test", test * tested if evaluation.test else 0


@dataclass(frozen=True, slots=True)
class _Episodes:
    """The size of an episode, in turns and tokens."""

    config: RunConfig
    llm: PricedModel
    assumed: Assumptions
    opening_tokens: int
    measured: tuple[str, ...]

    def estimate(
        self, played: Sequence[Stage], asked: Sequence[Stage], llms: Sequence[PricedModel]
    ) -> Estimate:
        """Return the estimate over rollout and optimizer stages, simulated users included."""
        llms, stages = tuple(llms), list(played)
        episodes = sum(one.episodes for one in played)
        for llm in side_llms(self.config.env):
            llms = (*llms, llm)
            stages.append(
                users_stage(llm, self.assumed, episodes, self.assumed.turns)
                if llm.role == "user"
                else judge_stage(self.config.env, llm, self.assumed, episodes, self.opening_tokens)
            )
        stages = [stage for stage in (*stages, *asked) if stage.calls]
        return Estimate(tuple(stages), self.opening_tokens, self.measured, llms, self.assumed)

    @property
    def transcript_tokens(self) -> int:
        """The length of a finished episode."""
        return self.opening_tokens + self.assumed.turns * self.assumed.turn_tokens

    def stage(self, name: str, count: int) -> Stage:
        """Return the stage of ``count`` episodes."""
        history, assumed = self.config.rollout.history_turns, self.assumed
        prompts = episode_prompts(self.opening_tokens, assumed.turns, history, assumed)
        return make_stage(name, self.llm, count, prompts, assumed.action_tokens, plays=count)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The requests to the optimizer."""

    config: RunConfig
    llm: PricedModel
    assumed: Assumptions
    transcript_tokens: int
    skill_tokens: int

    def asked(self, steps: int) -> Iterator[tuple[str, int, int]]:
        """Yield the name of each stage, its number of requests, and the evidence tokens in one."""
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
        """Return the stage of ``count`` requests with ``evidence`` tokens each."""
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
    """Return the calls that merge the proposals into one, ``size`` at a time, level by level."""
    calls = 0
    while proposals > 1:
        proposals = ceil(proposals / size)
        calls += proposals
    return calls
