"""The interface of engines, the events that they report, and the error of one that is down."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    ModelError,
    SkillSource,
    Turn,
)


class EngineDown(ModelError):
    """So many episodes failed in a row that going further would only burn time and money."""


def refuse_no_score(results: Sequence[EpisodeResult]) -> None:
    """Stop where not one of several episodes has a reward: that is no score to go by.

    Raises:
        EngineDown: All of them failed; the message quotes the latest fault.
    """
    failures = [result.failure for result in results if result.failure is not None]
    if failures and len(failures) == len(results):
        raise EngineDown(
            f"all {len(failures)} episodes failed, so there is no score; the latest: "
            f"{failures[-1].message}"
        )


Permit = Callable[[], AbstractAsyncContextManager[None]]
"""Asked before something that costs is begun: ``async with permit():`` until it is stored.

What it raises stops the run. ``contextlib.nullcontext`` permits everything.
"""


class Engine(Protocol):
    """Plays episodes: an agent with a skill in environments."""

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode and return the results in the order of ``specs``.

        A fault is a result with a `Failure`; it does not stop the others.

        Raises:
            ModelRefused: An endpoint refuses the key or the model; a retry cannot help.
            EngineDown: Nothing but failures came back for too long.
            UsageError: An environment cannot be built as asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """An environment answered an action.

    Attributes:
        spec: The episode.
        attempt: Which attempt at it, from 1.
        turn: What happened.
    """

    spec: EpisodeSpec
    attempt: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode has its result, all attempts over.

    Attributes:
        result: The result.
        reused: It was recorded before and was not played again.
    """

    result: EpisodeResult
    reused: bool = False


class Observer(Protocol):
    """Watches an engine. It only watches; what it raises stops the run."""

    def on_turn(self, event: TurnFinished) -> None:
        """Called after every turn."""
        ...

    def on_episode(self, event: EpisodeFinished) -> None:
        """Called once per episode; one that is asked for twice at the same time shows once."""
        ...
