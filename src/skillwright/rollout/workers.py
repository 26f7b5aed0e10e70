"""Engines that play episodes outside of this process: their interface and lookup.

A package adds an engine by an entry point of ``skillwright.engines`` that names its class; its name
is the value of ``rollout.engine``.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field, PositiveInt

from skillwright.core import Agent
from skillwright.core.settings import Settings
from skillwright.entry_points import entry_point
from skillwright.models import HttpClient
from skillwright.rollout.engine import Engine
from skillwright.rollout.local import LocalEngine

ENGINES = "skillwright.engines"

MakeAgent = Callable[[HttpClient], Agent]
"""Makes an agent on a worker; sent there as a pickle."""


def _check_head(address: str) -> str:
    if "://" in address:
        raise ValueError(
            f"{address!r} is no address of a head; write 'host:6379', or 'auto'. From a machine "
            "outside of the cluster, hand the whole command over: `ray job submit -- skillwright "
            "train ...`"
        )
    return address


class Cluster(Settings):
    """Where episodes are played with ``engine: ray``."""

    address: Annotated[str, Field(min_length=1), AfterValidator(_check_head)] | None = None
    """Head ``host:port``, or ``auto``; unset, ``$RAY_ADDRESS`` or a Ray started for the run."""
    workers: PositiveInt | None = None
    """Worker processes, one CPU each; unset, one per CPU."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Required node labels, such as ``{"pool": "rollouts"}``."""


class Workers(Protocol):
    """Workers that are running."""

    def engine(
        self,
        local: LocalEngine,
        make_agent: MakeAgent,
        environ: Mapping[str, str],
        files: Sequence[Path],
    ) -> Engine:
        """Return an engine that gives the results of ``local`` but plays on the workers.

        Args:
            local: Keeps its keys, recorder, limits and order.
            make_agent: Makes the agent of ``local`` on a worker.
            environ: Environment variables for the workers, such as endpoint keys.
            files: Files that episodes read; sent to workers on other machines.

        Raises:
            ConfigError: A part of ``local`` cannot be sent to another process.
        """


class WorkerEngine(Protocol):
    """A way to play episodes outside of this process."""

    def refuse_missing(self, what: str) -> None:
        """Raise an error if the engine's library is not installed.

        Raises:
            ConfigError: It is not installed; the message has the command that installs it.
        """

    def workers(self, cluster: Cluster) -> AbstractAsyncContextManager[Workers]:
        """Start workers, and end them on leaving.

        Raises:
            ConfigError: There is no connection, or workers cannot run what this process runs.
        """

    def connection(self, cluster: Cluster) -> AbstractAsyncContextManager[None]:
        """Connect this process, for an adapter that starts its own work on the cluster."""


def worker_engine(name: str) -> WorkerEngine:
    """Return an engine by its name.

    Raises:
        DataError: No package provides it, or its import fails.
    """
    made: WorkerEngine = entry_point(ENGINES, name, "engine").load()()
    return made
