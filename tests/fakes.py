"""Fakes for models and worlds: they answer what they are told, and keep what they saw."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import (
    Act,
    Completion,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Message,
    Purpose,
    Sampling,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.textopt import TrainRollouts, read_episodes

Reply = str | dict[str, Any] | list[Any] | Completion | Exception
"""A text, a value to be sent as JSON, a whole completion, or what the endpoint raises."""


@dataclass(frozen=True)
class Asked:
    """One call, as the fake received it."""

    messages: tuple[Message, ...]
    sampling: Sampling
    purpose: Purpose

    @property
    def user(self) -> str:
        """The first user message."""
        return next(m["content"] for m in self.messages if m["role"] == "user")


class ScriptedReplies:
    """A ChatModel with prepared answers.

    Args:
        replies: Answers in the order of the calls, or a function of the call, for calls that come
            at once.
        finish_order: Holds the first ``len(finish_order)`` calls until all of them have come, and
            lets them go in this order (``[2, 0, 1]``: the third first).

    Attributes:
        asked: Every call, in order of arrival.
        finished: Their numbers, in the order of their answers.
        most_in_flight: The most calls that waited at once.
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Callable[[Asked], Reply],
        *,
        finish_order: Sequence[int] = (),
    ) -> None:
        self.identity = "scripted:replies"
        self.asked: list[Asked] = []
        self.finished: list[int] = []
        self.most_in_flight = 0
        self._replies = replies
        self._finish_order = list(finish_order)
        self._let_go = [asyncio.Event() for _ in finish_order]

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Give the next answer."""
        del tools
        number = len(self.asked)
        asked = Asked(tuple(messages), sampling, purpose)
        self.asked.append(asked)
        if callable(self._replies):
            reply = self._replies(asked)
        elif number < len(self._replies):
            reply = self._replies[number]
        else:
            raise AssertionError(f"call {number + 1}, but only {len(self._replies)} replies")
        self.most_in_flight = max(self.most_in_flight, len(self.asked) - len(self.finished))
        await self._wait(number)
        self.finished.append(number)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        return Completion(reply if isinstance(reply, str) else json.dumps(reply))

    async def _wait(self, number: int) -> None:
        if number >= len(self._finish_order):
            return
        if number == len(self._finish_order) - 1:
            self._let_go[self._finish_order[0]].set()
        await self._let_go[number].wait()
        place = self._finish_order.index(number) + 1
        if place < len(self._finish_order):
            self._let_go[self._finish_order[place]].set()


def in_one_batch(
    results: Sequence[EpisodeResult], seed: int | None = None
) -> list[Awaitable[TrainRollouts]]:
    """Give a step one micro-batch, which is in already."""

    async def trained_on() -> TrainRollouts:
        return TrainRollouts(read_episodes(results), seed)

    return [trained_on()]


def make_episode(
    task_id: str,
    reward: float | None = 0.0,
    turns: Sequence[tuple[str, str]] = (("look", "Nothing happens."),),
    *,
    opening: str = "Your task is to: wait.",
    task_type: str = "waiting",
    draw: int = 0,
    stop: StopReason = StopReason.DONE,
    key: str = "",
) -> EpisodeResult:
    """Build an episode from (action, result) pairs; a reward of ``None`` makes it a Failure."""
    return EpisodeResult(
        spec=EpisodeSpec(Task(task_id, env="fake", task_type=task_type), seed=1, draw=draw),
        reward=reward,
        failure=Failure(FailureCause.MODEL, "503") if reward is None else None,
        stop_reason=stop,
        trajectory=Trajectory(
            opening,
            tuple(
                Turn(index, (), Act(action), result, 0.0)
                for index, (action, result) in enumerate(turns)
            ),
        ),
        key=key,
    )
