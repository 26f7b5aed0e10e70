"""The interface of engines, the events that they report, and the error of one that is down."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from skillwright.core import EpisodeResult, EpisodeSpec, ModelError, SkillSource, Turn


class EngineDown(ModelError):
    """Too many episodes failed; continuing would waste time and money."""


def refuse_no_score(results: Sequence[EpisodeResult]) -> None:
    """Stop if every episode failed, because failures give no score.

    Raises:
        EngineDown: All failed; the message quotes the latest failure.
    """
    failures = [result.failure for result in results if result.failure is not None]
    if failures and len(failures) == len(results):
        raise EngineDown(
            f"all {len(failures)} episodes failed, so there is no score; the latest: "
            f"{failures[-1].message}"
        )


Permit = Callable[[], AbstractAsyncContextManager[None]]
"""Context entered before an episode starts and left when it is stored; may raise to stop.

``contextlib.nullcontext`` permits everything.
"""


class Engine(Protocol):
    """Plays episodes: an agent with a skill in environments."""

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode and return the results in the order of ``specs``.

        An expected error becomes a result with a `Failure` and does not stop the others.

        Raises:
            ModelRefused: An endpoint refuses the key or the model; a retry cannot help.
            EngineDown: Too many episodes failed.
            UsageError: An environment cannot be built as asked.
        """


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The environment answered an action; ``attempt`` counts from 1."""

    spec: EpisodeSpec
    attempt: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """All attempts of an episode are over; a reused result was recorded before and not replayed."""

    result: EpisodeResult
    reused: bool = False


class Observer(Protocol):
    """Observes an engine; an exception that it raises stops the run."""

    def on_turn(self, event: TurnFinished) -> None:
        """Called after every turn."""

    def on_episode(self, event: EpisodeFinished) -> None:
        """Called once per episode; an episode requested twice at the same time is reported once."""
