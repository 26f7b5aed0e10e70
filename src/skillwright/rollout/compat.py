"""Compatibility layers: they run adapters that import another package, over our code.

``env.compat`` names an entry point of ``skillwright.compat``. Its class provides the module paths
of the other package, and its functions that call models use the models of the run.
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
    """The model of a role, created at its first call; ``max_tokens`` limits its answers."""

    name: str
    backend: str
    make: Callable[[], ChatModel]
    effort: str = ""
    max_tokens: int | None = None


class Hearing(Protocol):
    """The model errors during one rollout of an adapter."""

    def refuse_missing(self) -> None:
        """Raise the error of a name or prompt that the other package has and ours does not."""

    def is_reported(self, error: Exception) -> bool:
        """Tell whether an error of the adapter reports a model error."""

    def trust(self) -> None:
        """Record that no score in the folder results from a model error."""

    def sift(self, rows: Any) -> Any:
        """Return the rows of a rollout without those that a model error scored."""

    def charge(self, result: EpisodeResult) -> EpisodeResult:
        """Return an episode; attribute its failure to the model if a model error lost its row."""


class ModelSession(Protocol):
    """The models of one run, open to adapters."""

    reflector: Reflector | None

    def hear(self, folder: Path | None = None) -> AbstractContextManager[Hearing]:
        """Attribute an adapter's model calls meanwhile to one rollout, which writes to a folder."""

    def forget_unanswered(self, folder: Path) -> None:
        """Remove results of model errors from an adapter's folder, so that they are not reused."""

    def close(self) -> None:
        """End the session; further calls raise errors."""


class Compat(Protocol):
    """Another package's module paths over our code."""

    no_run: str
    """The message for a model call outside of a run."""

    def modules(self, file: Path | None) -> AbstractContextManager[None]:
        """Provide the module paths, and those next to an adapter's file, until the block ends."""

    def missing_names(self) -> AbstractContextManager[list[str]]:
        """Collect the names that this thread did not find, one sentence each."""

    def module_of(self, file: Path) -> str:
        """Return the module path of an adapter's file within the other package, or ``""``."""

    def session(
        self, target: SessionModel, optimizer: SessionModel, loop: asyncio.AbstractEventLoop
    ) -> ModelSession:
        """Open the models of a run to adapters."""


def compat(name: str) -> Compat:
    """Return the compatibility layer of a package.

    Raises:
        DataError: No installed package provides it.
    """
    made: Compat = entry_point("skillwright.compat", name, "package to be compatible with").load()()
    return made
