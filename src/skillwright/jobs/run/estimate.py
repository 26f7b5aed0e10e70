"""Estimate the cost of a run of any job: calls, tokens and money per stage.

No model is called and no episode is played. First prompts are measured by opening a few
environments; the rest are assumptions, which are part of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from skillwright.config import RlConfig, RunConfig
from skillwright.config.env import EnvSection
from skillwright.core import Task, Usage
from skillwright.core.jsonio import dumps
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.run.money import PricedModel
from skillwright.jobs.run.preflight import build_first
from skillwright.jobs.run.tasks import environment_of
from skillwright.models.http.wire import cost_usd
from skillwright.rollout import PromptStyle, render


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Round figures for what is unknown before a run.

    Attributes:
        turns: Turns of an episode; see `expected_turns`.
        action_tokens: Tokens of an agent's answer.
        observation_tokens: Tokens of an observation.
        success_rate: Share of successful episodes, which analysts read separately.
        accepted_share: Share of accepted candidates, after which the gate plays a new incumbent.
        instructions_tokens: Tokens of an optimizer's request without skill and evidence.
        proposal_tokens: Tokens of an optimizer's answer.
        user_share: Share of turns that a simulated user answers.
        user_prompt_tokens: Tokens of that user's first prompt.
        chars_per_token: Characters per token of English text.
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
        """Tokens that a turn adds to the next prompt."""
        return self.action_tokens + self.observation_tokens

    def lines(self, *, trains: bool = True, has_user: bool = True) -> list[str]:
        """Format as lines: those about optimizers if it trains, about users if one is a model."""
        learning = [
            f"{self.success_rate:.0%} of the episodes succeed, {self.accepted_share:.0%} "
            "of the candidates are accepted, the skill keeps its length",
            f"an optimizer's question has {self.instructions_tokens:,} tokens besides skill and "
            f"evidence, its answer {self.proposal_tokens:,}",
            "every step proposes more edits than its budget, if it has one, so they are ranked",
        ]
        turns = (
            f"an episode takes {self.turns} turns; each adds {self.action_tokens} tokens of the "
            f"agent and {self.observation_tokens} of the environment to the next prompt"
        )
        if self.turns == 1:
            turns = f"an episode takes 1 turn, with an answer of {self.action_tokens} tokens"
        user = (
            f"a simulated user opens and hears {self.user_share:.0%} of the turns, and its first "
            f"prompt has {self.user_prompt_tokens} tokens"
        )
        return [
            turns,
            *(learning if trains else ()),
            *([user] if has_user else ()),
            f"{self.chars_per_token:g} characters are a token; nothing is cached and nothing fails",
        ]


SUCCESS_RATE = Assumptions(turns=1).success_rate
ACCEPTED_SHARE = Assumptions(turns=1).accepted_share
UNBOUNDED_TURNS = 10
"""Turns of an episode without ``env.max_turns``."""


def expected_turns(max_turns: int | None) -> int:
    """Estimate the turns of an episode: half of the limit for a success, else the limit."""
    most = max_turns or UNBOUNDED_TURNS
    return max(1, round(most * (1.0 - SUCCESS_RATE / 2.0)))


MEASURED_TASKS = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """The calls, tokens and cost of one stage, over the whole run.

    Attributes:
        role: Role of the called model.
        episodes: Number of episodes; 0 for an optimizer's stage.
        cost_usd: Cost in US dollars; ``None`` if a price is unknown.
    """

    name: str
    role: str
    episodes: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


def sum_of(stages: Sequence[Stage]) -> Stage:
    """Return the sum of stages; its cost is unknown if any stage's is."""
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
    """The stages of a job."""

    __slots__ = ()

    stages: tuple[Stage, ...]

    @property
    def total(self) -> Stage:
        """The sum of all stages; its cost is unknown if any stage's is."""
        return sum_of(self.stages)

    @property
    def known_cost_usd(self) -> float:
        """Total cost of the stages with known prices, in US dollars."""
        return sum(stage.cost_usd for stage in self.stages if stage.cost_usd is not None)

    def over_budget(self, config: RunConfig | RlConfig) -> str:
        """Describe the limit of the budget that the run is expected to reach, or return ``""``."""
        total, budget = self.total, config.budget
        tokens = total.input_tokens + total.output_tokens
        if budget.usd is not None and total.cost_usd is not None and total.cost_usd > budget.usd:
            return f"over budget.usd = {budget.usd:g}: it will stop there, and can be resumed"
        if budget.tokens is not None and tokens > budget.tokens:
            return f"over budget.tokens = {budget.tokens:,}: it will stop there, and can be resumed"
        return ""


async def measured_opening(
    env: EnvSection, seed: int, tasks: Sequence[Task], skills: Sequence[str], assumed: Assumptions
) -> int:
    """Return the mean tokens of tasks' first prompts, including native tools."""
    sizes = [
        await _opening(env, replace(task, extras={"seed": seed, **task.extras}), skill)
        for task, skill in zip(tasks, skills, strict=True)
    ]
    return round(fmean(sizes) / assumed.chars_per_token)


async def _opening(section: EnvSection, task: Task, skill: str) -> int:
    """Return the characters of the first prompt of a task, and of its tools."""
    env = build_first(_without_models(section), task)
    try:
        reply = await open_env(env)
        tools = sum(len(dumps(tool)) for tool in native_tools(env))
    finally:
        env.close()
    messages = render(PromptStyle(), reply.messages, [], skill)
    return tools + sum(len(said["content"]) for said in messages)


def _without_models(env: EnvSection) -> EnvSection:
    """Replace a simulated user that is a model or a person by a script."""
    return env.model_copy(update={"config": environment_of(env).quiet_config(env.config)})


def users_stage(llm: PricedModel, assumed: Assumptions, episodes: int, turns: int) -> Stage:
    """Estimate the cost of simulated users, whose prompts contain the whole conversation."""
    heard = range(1 + round(turns * assumed.user_share))
    said, answer = assumed.turn_tokens, assumed.observation_tokens
    prompts = [assumed.user_prompt_tokens + count * said for count in heard]
    return make_stage("simulated user", llm, episodes, prompts, answer)


def judge_stage(
    env: EnvSection, llm: PricedModel, assumed: Assumptions, episodes: int, opening: int
) -> Stage:
    """Estimate the cost of a judge, which reads the task, a reply and its rubric, and votes."""
    rubric = len(dumps(env.config)) / assumed.chars_per_token
    prompt = round(opening + assumed.action_tokens + rubric)
    judging = environment_of(env).judging(env.config)
    votes = judging.votes if judging else 1
    times = episodes * assumed.turns * votes
    return make_stage("judge", llm, times, [prompt], assumed.observation_tokens)


def make_stage(
    name: str, llm: PricedModel, times: int, prompts: Sequence[int], answer: int, *, plays: int = 0
) -> Stage:
    """Return the cost of sending a list of prompts ``times`` times.

    Args:
        name: The stage's name.
        llm: The model.
        times: How many times the list is sent.
        prompts: Tokens of each prompt.
        answer: Tokens of each answer.
        plays: Episodes of the stage.
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
    """Return the tokens of an episode's prompts, which contain all earlier turns or the latest."""
    kept = [turn if history is None else min(turn, history) for turn in range(turns)]
    return [opening + turn * assumed.turn_tokens for turn in kept]


def _cost(llm: PricedModel, prompt: int, answer: int) -> float | None:
    if llm.is_free:
        return 0.0
    return cost_usd(Usage(calls=1, input_tokens=prompt, output_tokens=answer), llm.prices)
