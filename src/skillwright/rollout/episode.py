"""One attempt at an episode: an agent in a fresh environment, turn by turn."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import (
    Act,
    ConfigError,
    ContractError,
    EnvError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    JudgeError,
    Message,
    ModelError,
    ModelRefused,
    RequestRefused,
    SkillContext,
    StopReason,
    Task,
    Trajectory,
    Turn,
    TurnContext,
    Usage,
    UsageError,
)
from skillwright.core.agent import sendable, with_ids_of
from skillwright.core.seeds import derive_seed
from skillwright.envs import TextEnv
from skillwright.envs.drive import (
    Reply,
    metrics_of,
    native_tools,
    open_env,
    step_env,
    step_env_native,
    usage_of,
)
from skillwright.models import EndpointDown
from skillwright.rollout.limits import Limits
from skillwright.rollout.prompt import PromptStyle, render

MakeEnv = Callable[[Task], TextEnv]

_SLACK = 1e-9  # ten rewards of 0.1 may sum to slightly more than 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """An episode to play, and the content address of its result."""

    spec: EpisodeSpec
    skill: SkillContext
    key: str

    def adopt(self, result: EpisodeResult) -> EpisodeResult:
        """Return the result of an equal assignment as the result of this one."""
        skill = self.skill
        if result.spec is self.spec and result.skill_version == skill.version:
            return result  # the usual case: it was played for this assignment
        return replace(
            result,
            spec=self.spec,
            skill_version=skill.version,
            skill_ids=skill.skill_ids,
            skill_scores=skill.scores,
        )


class Attempt:
    """One attempt: `start`, then `advance` with an action per `context` while `live`, then `close`.

    An error of the environment, or an invalid return value, becomes `EnvError` or `ContractError`;
    hand it to `fail`. All other errors are our bugs.
    """

    def __init__(
        self,
        assignment: Assignment,
        make_env: MakeEnv,
        limits: Limits,
        prompt: PromptStyle,
        on_turn: Callable[[Turn], None],
        *,
        takes_tools: bool = False,
    ) -> None:
        self.assignment = assignment
        self._task = _bounded(assignment.spec, limits)
        self._make_env = make_env
        self._limits = limits
        self._style = prompt
        self._on_turn = on_turn
        self._takes_tools = takes_tools
        self._env: TextEnv | None = None
        self._opening = Reply((), {})
        self._tools: tuple[dict[str, Any], ...] = ()
        self._turns: list[Turn] = []
        self._context: TurnContext | None = None
        self._reward = 0.0
        self._metrics: dict[str, float] = {}
        self._stop = StopReason.DONE
        self._failure: Failure | None = None
        self._ended_at = 0.0
        self._failed_usage = self._unfinished = Usage()
        self._side_usage: dict[str, Usage] = {}

    @property
    def live(self) -> bool:
        """Whether the agent has a turn to take."""
        return self._context is not None

    @property
    def context(self) -> TurnContext:
        """The agent's next prompt; only while `live`."""
        if self._context is None:
            raise RuntimeError("the episode is over; there is no next turn")
        return self._context

    @property
    def opening(self) -> Trajectory:
        """The environment's opening, without turns."""
        return Trajectory(self._opening.raw_text, metadata=self._opening.metadata)

    @property
    def outside_metrics(self) -> frozenset[str]:
        """Metrics that the environment does not compute; see `AboutEnv`."""
        return getattr(self._opened(), "outside_metrics", frozenset())

    async def start(self) -> None:
        """Build the environment and open the episode."""
        with self._charged_to_env("being built", usage_errors_escape=True):
            self._env = self._make_env(self._task)
        with self._charged_to_env("init", usage_errors_escape=True):
            self._tools = native_tools(self._env)
            if self._tools and not self._takes_tools:
                raise ConfigError(why_no_tools(self._task.env))
            self._opening = await open_env(self._env)
        self._show_next(self._opening.metadata)

    async def advance(self, act: Act) -> None:
        """Send an action to the environment."""
        context, index = self.context, len(self._turns)
        self._unfinished = act.usage  # counts too if the environment fails or the run stops here
        with self._charged_to_env(f"step {index}"):
            reply = await self._step(act, context)
        self._unfinished = Usage()
        turn = Turn(
            index=index,
            prompt=tuple(context.messages),
            act=act,
            observation=reply.raw_text,
            reward=reply.reward,
            metadata=reply.metadata,
            messages=reply.messages,
            seed=context.seed,
        )
        self._turns.append(turn)
        self._reward += turn.reward
        self._on_turn(turn)
        if reply.done:
            self._end(StopReason.MAX_TURNS if reply.truncated else StopReason.DONE)
        elif len(self._turns) == self._task.extras.get("max_turns"):
            self._end(StopReason.MAX_TURNS)
        else:
            self._show_next(reply.metadata)
            # An agent and an environment that never wait would block the loop.
            await asyncio.sleep(0)

    async def _step(self, act: Act, context: TurnContext) -> Reply:
        if not self._tools:
            return await step_env(self._opened(), act.text)
        sent = sendable(act.tool_calls, context.messages)
        return await step_env_native(self._opened(), act.text, with_ids_of(act.tool_calls, sent))

    def cut(self, overflow: RequestRefused) -> None:
        """End the attempt because its prompt exceeds the agent's context; the reward so far counts.

        Before the first turn this is a failure, with its own stop reason.
        """
        if self._turns:
            self._end(StopReason.CONTEXT)
        else:
            self.fail(overflow)
            self._stop = StopReason.CONTEXT

    def fail(self, fault: Exception) -> None:
        """End the attempt with an error."""
        self._context = None
        self._ended_at = asyncio.get_running_loop().time()
        self._stop = StopReason.TIMEOUT if isinstance(fault, TimeoutError) else StopReason.FAILURE
        self._failure = Failure.of(fault)
        if isinstance(fault, ModelError):
            self._failed_usage = replace(fault.usage, failed_calls=fault.failed_calls)
        if isinstance(fault, TimeoutError):
            passed = f"over {self._limits.episode_timeout_s} s, in turn {len(self._turns)}"
            self._failure = Failure(FailureCause.TIMEOUT, str(fault) or passed)
        elif _comes_from_user(fault):
            self._failure = Failure(FailureCause.USER, str(fault))

    def close(self) -> None:
        """Release the environment; closing twice is allowed."""
        env, self._env = self._env, None
        if env is None:
            return
        try:
            self._side_usage = usage_of(env)
        except Exception:  # an error in the user's usage must not lose the reward
            logger.warning("environment %r lost count", self._task.env, exc_info=True)
        try:
            env.close()
        except Exception:  # a leak must not lose the reward, which is known by now
            logger.warning("environment %r broke while closing", self._task.env, exc_info=True)

    def result(
        self, *, attempts: int, started_at: float, lost: Usage, lost_side: Mapping[str, Usage]
    ) -> EpisodeResult:
        """Return the result: the sum of the step rewards, or the failure.

        Args:
            attempts: Number of attempts with this one.
            started_at: Time of the event loop, in seconds, when the first one started.
            lost: Usage of the agent in earlier attempts.
            lost_side: Usage of other models in earlier attempts, by purpose.
        """
        side_usage = dict(lost_side)
        for purpose, spent in self._side_usage.items():
            side_usage[purpose] = side_usage.get(purpose, Usage()) + spent
        return EpisodeResult(
            spec=self.assignment.spec,
            reward=self._reward if self._failure is None else None,
            failure=self._failure,
            stop_reason=self._stop,
            trajectory=Trajectory(
                self._opening.raw_text, tuple(self._turns), self._opening.metadata
            ),
            metrics=self._metrics,
            attempts=attempts,
            skill_version=self.assignment.skill.version,
            skill_ids=self.assignment.skill.skill_ids,
            skill_scores=self.assignment.skill.scores,
            key=self.assignment.key,
            wall_s=self._ended_at - started_at,
            lost_usage=lost + self._failed_usage + self._unfinished,
            side_usage=side_usage,
        )

    def _show_next(self, metadata: Mapping[str, Any]) -> None:
        spec, skill = self.assignment.spec, self.assignment.skill
        prompt = render(self._style, self._opening.messages, self._turns, skill.text)
        most = self._limits.max_prompt_chars
        size = sum(map(_size, prompt)) if most is not None else 0
        if most is None or size <= most:
            turn = len(self._turns)
            seed = derive_seed("turn", spec.seed, turn)
            self._context = TurnContext(prompt, seed, metadata, skill.text, self._tools, turn)
            return
        self.cut(
            RequestRefused(
                f"the opening prompt of task {spec.task.id!r} has {size} characters, over "
                f"limits.max_prompt_chars = {most}; raise the limit or shorten the skill"
            )
        )

    def _end(self, reason: StopReason) -> None:
        self._context = None
        self._stop = reason
        self._ended_at = asyncio.get_running_loop().time()
        with self._charged_to_env("at its end"):
            # Step rewards may be partial or negative; their sum is the score.
            if not -_SLACK <= self._reward <= 1 + _SLACK:
                raise ContractError(
                    f"the sum of the step rewards is {self._reward:g}, and an episode's reward "
                    "lies in [0, 1]; scale it"
                )
            self._reward = min(max(self._reward, 0.0), 1.0)
            self._metrics = metrics_of(self._opened())

    def _opened(self) -> TextEnv:
        if self._env is None:
            raise RuntimeError("an attempt is started first, and closed last")
        return self._env

    @contextmanager
    def _charged_to_env(self, where: str, *, usage_errors_escape: bool = False) -> Iterator[None]:
        try:
            yield
        except Exception as fault:
            if stops_the_run(fault) or (usage_errors_escape and isinstance(fault, UsageError)):
                raise
            raise self._charge(fault, where) from fault

    def _charge(self, fault: Exception, where: str) -> EnvError | ContractError:
        """Convert an environment's exception to our error, with environment, task and method."""
        env = self._task.env
        place = f"environment {env!r}, task {self._task.id!r}, {where}"
        match fault:
            case ContractError():
                check = f"`skillwright env check {env}` shows what an environment must return."
                return ContractError(f"{place}: {fault}. {check}")
            case EnvError():
                return type(fault)(f"{place}: {fault}")
            case _:
                return EnvError(f"{place}: {type(fault).__name__}: {fault}")


def stops_the_run(fault: Exception) -> bool:
    """Tell whether an endpoint refuses every request, or is down for good."""
    refused = isinstance(fault, ModelRefused) and not isinstance(fault, RequestRefused)
    return refused or (isinstance(fault, EndpointDown) and fault.for_good)


def why_no_tools(env: str) -> str:
    """Explain why an agent cannot play an environment that offers its tools natively."""
    return (
        f"environment {env!r} offers its tools natively, and this agent takes none: native calls "
        "need a chat model behind an endpoint. For programs at a command line and for policies "
        "that are trained, let calls be written as text (tau_bench: env.config.tools: tags; table: "
        "env.config.mcp.calls: tags)"
    )


def _size(message: Message) -> int:
    calls = (call["function"] for call in message.get("tool_calls") or ())
    return len(message["content"]) + sum(len(one["name"] + one["arguments"]) for one in calls)


def _bounded(spec: EpisodeSpec, limits: Limits) -> Task:
    """Set the seed and the turn limit in the extras of a task."""
    extras = {"seed": spec.seed, **spec.task.extras}
    bounds = (extras.get("max_turns"), limits.max_turns)
    if given := [bound for bound in bounds if isinstance(bound, int)]:
        extras["max_turns"] = min(given)
    return replace(spec.task, extras=extras)


def _comes_from_user(fault: Exception) -> bool:
    # Besides a judge, the only model that an environment calls is its simulated user.
    is_env = isinstance(fault, EnvError) and not isinstance(fault, JudgeError)
    return is_env and _stems_from_model(fault)


def _stems_from_model(fault: BaseException) -> bool:
    cause = fault.__cause__
    return cause is not None and (isinstance(cause, ModelError) or _stems_from_model(cause))
