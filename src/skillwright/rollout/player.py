"""Play episodes to their results, with retries and deadlines, on any machine."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, Protocol

from skillwright.core import (
    Agent,
    ContractError,
    EnvError,
    EpisodeResult,
    FailureCause,
    ModelError,
    RequestRefused,
    Turn,
    Usage,
)
from skillwright.core.concurrency import together
from skillwright.models import ContextOverflow
from skillwright.rollout.engine import TurnFinished
from skillwright.rollout.episode import Assignment, Attempt, MakeEnv, stops_the_run
from skillwright.rollout.limits import Limits
from skillwright.rollout.prompt import PromptStyle

Mode = Literal["free", "lockstep"]
OnTurn = Callable[[TurnFinished], None]
OnResult = Callable[[EpisodeResult], None]

FAULTS: Final = (ModelError, EnvError, ContractError, TimeoutError)


class Plays(Protocol):
    """Plays episodes that an engine has started."""

    async def play(
        self, wave: Sequence[Assignment], on_turn: OnTurn, settle: OnResult, abandon: OnResult
    ) -> None:
        """Play episodes to their ends.

        Args:
            wave: Episodes to play; several only in lockstep.
            on_turn: Called after every turn.
            settle: Called with the result of each episode as soon as it ends.
            abandon: Called with the partial result of each episode that was stopped.

        Raises:
            ModelRefused: An endpoint refuses the key or the model.
            EndpointDown: An endpoint is down for good.
            UsageError: An environment cannot be built as asked.
        """


@dataclass(frozen=True, slots=True)
class Player:
    """Plays in this process; the attributes are those of `LocalEngine`."""

    agent: Agent
    make_env: MakeEnv
    limits: Limits
    prompt: PromptStyle
    mode: Mode = "free"

    async def play(
        self, wave: Sequence[Assignment], on_turn: OnTurn, settle: OnResult, abandon: OnResult
    ) -> None:
        """Play episodes; retry those that failed, each in a fresh environment."""
        started_at = asyncio.get_running_loop().time()
        lost: dict[str, Usage] = defaultdict(Usage)
        lost_side: dict[str, Mapping[str, Usage]] = defaultdict(dict)
        for number in range(1, self.limits.retries + 2):
            attempts = [self._attempt(assignment, number, on_turn) for assignment in wave]

            def outcome(attempt: Attempt, number: int = number) -> EpisodeResult:
                key = attempt.assignment.key
                return attempt.result(
                    attempts=number, started_at=started_at, lost=lost[key], lost_side=lost_side[key]
                )

            try:
                # If nothing ever waits, a cancelled run notices it here.
                await asyncio.sleep(0)
                await self._play_once(attempts)
            except BaseException:
                for attempt in attempts:
                    attempt.close()
                    abandon(outcome(attempt))
                raise
            for attempt in attempts:
                attempt.close()
            again = []
            for attempt in attempts:
                key = attempt.assignment.key
                result = outcome(attempt)
                if number <= self.limits.retries and _may_pass(result):
                    lost[key] = result.lost_usage + result.trajectory.usage
                    lost_side[key] = result.side_usage
                    again.append(attempt.assignment)
                else:
                    settle(result)
            wave = again

    async def _play_once(self, attempts: Sequence[Attempt]) -> None:
        if self.mode == "lockstep":
            await self._in_step(attempts)
            return
        for attempt in attempts:
            await self._guarded(attempt, partial(self._at_own_pace, attempt))

    async def _at_own_pace(self, attempt: Attempt) -> None:
        await attempt.start()
        while attempt.live:
            await self._take_turn(attempt)

    async def _take_turn(self, attempt: Attempt) -> None:
        try:
            (act,) = await self.agent.act_batch([attempt.context])
        except ContextOverflow as overflow:
            attempt.cut(overflow)
        else:
            await attempt.advance(act)

    async def _in_step(self, attempts: Sequence[Attempt]) -> None:
        await together(self._guarded(attempt, attempt.start) for attempt in attempts)
        while live := [attempt for attempt in attempts if attempt.live]:
            try:
                async with asyncio.timeout(self.limits.episode_timeout_s):
                    acts = await self.agent.act_batch([attempt.context for attempt in live])
            except RequestRefused:
                # The error does not name the refused request; asked one by one, the others are
                # answered.
                moves = [partial(self._take_turn, attempt) for attempt in live]
            except (ModelError, TimeoutError) as fault:
                if stops_the_run(fault):
                    raise
                for attempt in live:  # none of them has an action
                    attempt.fail(fault)
                return
            else:
                pairs = zip(live, acts, strict=True)
                moves = [partial(attempt.advance, act) for attempt, act in pairs]
            await together(map(self._guarded, live, moves))

    async def _guarded(self, attempt: Attempt, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self.limits.episode_timeout_s):
                await work()
        except FAULTS as fault:
            if stops_the_run(fault):
                raise
            attempt.fail(fault)

    def _attempt(self, assignment: Assignment, number: int, on_turn: OnTurn) -> Attempt:
        def note(turn: Turn) -> None:
            on_turn(TurnFinished(assignment.spec, number, turn))

        takes_tools = bool(getattr(self.agent, "takes_tools", False))
        return Attempt(
            *(assignment, self.make_env, self.limits, self.prompt, note), takes_tools=takes_tools
        )


def _may_pass(result: EpisodeResult) -> bool:
    """Tell whether another attempt could end differently."""
    return result.failure is not None and result.failure.cause is not FailureCause.MODEL_REFUSED
