"""Adapters that import another package: what runs them over our code, and how it is found.

``env.compat`` names an entry point of ``skillwright.compat``. Its class provides the module paths
of the other package, and the functions there that ask the models of a run.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from skillwright.core import ChatModel, EpisodeResult, Reflector
from skillwright.entry_points import entry_point

Role = Literal["target", "optimizer"]


@dataclass(frozen=True, slots=True)
class SessionModel:
    """The model of a role, made with the first question to it.

    Attributes:
        max_tokens: The limit on an answer that its settings name.
    """

    name: str
    backend: str
    make: Callable[[], ChatModel]
    effort: str = ""
    max_tokens: int | None = None


class Hearing(Protocol):
    """The faults of models during one rollout of an adapter."""

    def refuse_missing(self) -> None:
        """Raise the error of a name or prompt that the other package has and ours does not."""
        ...

    def is_reported(self, error: Exception) -> bool:
        """Tell whether an error of the adapter reports a fault of a model."""
        ...

    def trust(self) -> None:
        """Record that no score in the folder results from a fault."""
        ...

    def sift(self, rows: Any) -> Any:
        """Return the rows of a rollout, without those that a fault scored."""
        ...

    def charge(self, result: EpisodeResult) -> EpisodeResult:
        """Return an episode with its failure charged to the model, where its row was lost so."""
        ...


class ModelSession(Protocol):
    """The models of one run, while adapters may ask them."""

    reflector: Reflector | None

    def hear(self, folder: Path | None = None) -> AbstractContextManager[Hearing]:
        """Charge what an adapter asks meanwhile to one rollout, which writes to a folder."""
        ...

    def forget_unanswered(self, folder: Path) -> None:
        """Remove from an adapter's folder what a fault scored, so that it is not continued."""
        ...

    def close(self) -> None:
        """End it: further questions are faults."""
        ...


class Compat(Protocol):
    """Another package's module paths over our code."""

    no_run: str
    """The message for a question outside of a run."""

    def modules(self, file: Path | None) -> AbstractContextManager[None]:
        """Provide the module paths until the block ends.

        Args:
            file: The adapter's file, whose neighbors are found too.
        """
        ...

    def missing_names(self) -> AbstractContextManager[list[str]]:
        """Collect the names that are looked for in this thread and not there, a sentence each."""
        ...

    def module_of(self, file: Path) -> str:
        """Return the module path of an adapter's file within the other package, or ``""``."""
        ...

    def session(
        self, target: SessionModel, optimizer: SessionModel, loop: asyncio.AbstractEventLoop
    ) -> ModelSession:
        """Open the models of a run to adapters."""
        ...


def compat(name: str) -> Compat:
    """Return what runs the adapters of another package.

    Raises:
        DataError: No installed package provides it.
    """
    made: Compat = entry_point("skillwright.compat", name, "package to be compatible with").load()()
    return made
