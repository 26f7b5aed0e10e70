"""Episodes on Ray: where the workers of a pool run, and what Ray's faults are to a run.

The engine is `PooledEngine`; only the placement of its workers is here. A worker is an async actor
that plays as many episodes at once as it is handed. A setting is put into the object store once,
with the keys that it needs: what a runtime environment holds, Ray's dashboard shows.

Source: Ray 2.60, its documentation of async actors, label selectors and exceptions.
"""

import asyncio
import logging
import os
import platform
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skillwright.core import ConfigError
from skillwright.envs.side_models import share_limits
from skillwright.plugins.ray.leases import Demand, EndpointLedger, Grant, LeasedLimits, Rates
from skillwright.plugins.ray.pool import Worker, WorkerLost, WorkerPool, unsendable
from skillwright.plugins.ray.worker import EpisodeWorker, Shared
from skillwright.rollout.workers import Cluster
from skillwright.version import __version__

INSTALL: Final = "pip install 'skillwright[ray]'"
START_S: Final = 120.0
"""Seconds that a worker has to come up, Ray's start of its process included."""
ANSWER_S: Final = 5.0
"""Seconds that a head has to take a connection."""
STORE_BYTES: Final = 256 * 2**20
"""The object store of a Ray that is started here: settings and reports are small."""
CALLS_AT_ONCE: Final = 10_000
"""Calls that an actor has at once: those that hand over, and those that wait for a turn."""
LEDGER: Final = "skillwright-endpoints"
"""The name of the actor that keeps the bounds of endpoints, in the namespace of the driver."""

OWN: Final = "local"
"""The address of a Ray that is started for this process, and ends with it."""

# Nothing is sent to Ray's makers, and a driver without a GPU hides none from its workers.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def refuse_without_ray(what: str) -> None:
    """Refuse what needs Ray where it is not installed.

    Raises:
        ConfigError: It is not; the message has the command.
    """
    if find_spec("ray") is None:
        raise ConfigError(f"{what} needs Ray, and it is not installed: {INSTALL}")


def _ray() -> Any:
    import ray

    return ray


def connect(settings: Cluster) -> bool:
    """Connect this process to Ray, or start a Ray of its own. Blocks, for up to a minute.

    Returns:
        Whether it was not connected before, so that the caller has to disconnect it.

    Raises:
        ConfigError: Ray is not installed, nothing answers at the address, or a Ray or a Python of
            another version does.
    """
    refuse_without_ray("rollout.engine 'ray'")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    address = address_of(settings)
    _refuse_dead(address)
    ray = _ray()
    if ray.is_initialized():
        return False
    if address == OWN:
        _start(ray, settings)
        return True
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise connection_problem(address, error) from error
    return True


def address_of(settings: Cluster) -> str:
    """Return the address of a head, or `OWN`."""
    return settings.address or os.environ.get("RAY_ADDRESS") or OWN


def _start(ray: Any, settings: Cluster) -> None:
    for last in (False, False, True):
        try:
            ray.init(
                address=OWN,
                num_cpus=settings.workers,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (
            Exception
        ) as error:  # Ray gives its own processes 30 s, and raises no kind of its own
            ray.shutdown()
            if last:
                raise ConfigError(
                    f"Ray did not start on this machine: {' '.join(str(error).split())[:300]}. "
                    "Leave the machine to itself for a minute, or start Ray beforehand with "
                    "`ray start --head` and give rollout.ray.address: auto"
                ) from error
        else:
            return


def connection_problem(address: str, error: Exception) -> ConfigError:
    """Say why there is no connection, and the next move."""
    said = " ".join(str(error).split())
    if "ersion mismatch" in said:
        return ConfigError(
            f"the Ray at {address!r} is of another version: {said}. Install its versions here, or "
            "start it from an environment like this one"
        )
    return ConfigError(
        f"rollout.ray.address: no Ray can be reached at {address!r} ({said[:300]}). Start one with "
        "`ray start --head`, correct the address, or leave it out for a Ray of this run's own"
    )


def _refuse_dead(address: str) -> None:
    """Check that a server is there: Ray itself would try for a minute."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise connection_problem(address, error) from error


# A worker: the actor, and the handle by which the pool speaks to it.


class RayWorker(EpisodeWorker):
    """What runs as an actor.

    Args:
        cwd: The folder that files are named from; it is made where it is missing.
        paths: Where the driver imports from, for a driver on this machine.
        ledger: The actor that keeps the bounds of endpoints for all workers.
    """

    def __init__(self, cwd: str, paths: Sequence[str], ledger: Any) -> None:
        name = _ray().get_runtime_context().get_actor_id()
        self._limits = LeasedLimits(_RemoteLedger(ledger), name)
        super().__init__(_fetched, limits=self._limits)
        share_limits(self._limits)
        with suppress(OSError):  # of another user's machine; then files are named in full
            Path(cwd).mkdir(parents=True, exist_ok=True)
            os.chdir(cwd)
        sys.path.extend(path for path in paths if path not in sys.path and Path(path).exists())

    async def open(self) -> tuple[tuple[str, str], str, int]:
        """Return the versions, which have to be the driver's, and where it is: host and process."""
        self._limits.open()
        return versions(), socket.gethostname(), os.getpid()


async def _fetched(handle: Any) -> Any:
    return await handle


def versions() -> tuple[str, str]:
    """Return the versions of Skillwright and Python that pickles have to agree on."""
    return __version__, ".".join(platform.python_version_tuple()[:2])


class _RemoteLedger:
    """A `LedgerClient` of the ledger that is an actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def renew(self, holder: str, demands: Mapping[str, Demand]) -> dict[str, Grant]:
        grants: dict[str, Grant] = await self._actor.renew.remote(holder, dict(demands))
        return grants

    async def turn(self, endpoint: str, rates: Rates, tokens: int, within_s: float) -> str:
        asked = self._actor.turn.remote(endpoint, rates, tokens, within_s)
        try:
            late: str = await asked
        except asyncio.CancelledError:
            _ray().cancel(asked)  # who does not wait to the end gives the place back
            raise
        return late

    def settle(self, endpoint: str, expected: int, used: int) -> None:
        self._actor.settle.remote(endpoint, expected, used)

    def hold(self, endpoint: str, seconds: float) -> None:
        self._actor.hold.remote(endpoint, seconds)


class _ActorHandle:
    """A `Worker` that is an actor, in process ``pid`` of a host."""

    def __init__(self, actor: Any, host: str, pid: int) -> None:
        self.actor = actor
        self.pid = pid
        self._host = host

    def hand(self, setting: Shared, orders: bytes) -> None:
        # The answer is not awaited: what goes wrong is reported, or the actor is gone.
        self.actor.hand.remote(setting, orders)

    def stop(self, tickets: Sequence[int]) -> None:
        self.actor.stop.remote(list(tickets))

    async def collect(self) -> bytes:
        try:
            report: bytes = await self.actor.collect.remote()
        except _losses() as error:
            place = f"process {self.pid} on {self._host}"
            raise WorkerLost(f"{place}: {why_lost(error)}") from error
        return report

    def dismiss(self) -> None:
        _ray().kill(self.actor, no_restart=True)


def _losses() -> tuple[type[Exception], ...]:
    """Return the errors after which a worker's episodes are played by another one."""
    from ray import exceptions as known

    return (
        known.RayActorError,
        known.WorkerCrashedError,
        known.NodeDiedError,
        known.OutOfMemoryError,
        known.ObjectLostError,
        known.ObjectStoreFullError,
        known.OutOfDiskError,
        known.RaySystemError,
        known.RuntimeEnvSetupError,
    )


def why_lost(error: BaseException) -> str:
    """Say in a line what became of a worker."""
    said = " ".join(str(error).split())
    kind = type(error).__name__
    if "OutOfMemory" in kind or "memory pressure" in said or "OOM" in said:
        return (
            "it was out of memory. Let fewer episodes play at once (rollout.max_concurrent), or "
            f"give its node more memory ({said[:300]})"
        )
    if kind in ("ObjectStoreFullError", "OutOfDiskError"):
        return (
            "Ray's object store is full. Start Ray with a larger one (`ray start "
            f"--object-store-memory`), or let fewer episodes play at once ({said[:300]})"
        )
    return f"{kind}: {said[:400]}"


class RayPlacement:
    """Workers as actors, each with a CPU of its own, on nodes that have the labels."""

    def __init__(self, settings: Cluster) -> None:
        self.workers = settings.workers or _cpus(settings.labels)
        self._labels = dict(settings.labels)
        self._is_elsewhere = address_of(settings) != OWN  # its nodes have their own environment
        self._ledger = (
            _ray()
            .remote(EndpointLedger)
            .options(
                **self._options(),
                **{"name": LEDGER, "get_if_exists": True, "num_cpus": 0},
                **{"max_restarts": -1, "max_task_retries": -1},
            )
            .remote()
        )

    @property
    def has_other_machines(self) -> bool:
        """Whether the cluster is on more than one."""
        return len({node["NodeManagerAddress"] for node in _ray().nodes() if node["Alive"]}) > 1

    def share(self, value: Any) -> Any:
        """Put something into the object store."""
        try:
            return _ray().put(value)
        except (TypeError, AttributeError, ValueError) as error:
            raise unsendable(error) from error

    async def start(self) -> Worker:
        """Start an actor, and see that it runs what the driver runs."""
        ray = _ray()
        options = {**self._options(), "num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        if self._labels:
            options["label_selector"] = self._labels
        made = ray.remote(RayWorker).options(**options)
        actor = made.remote(str(Path.cwd()), sys.path, self._ledger)
        try:
            async with asyncio.timeout(START_S):
                theirs, host, pid = await actor.open.remote()
        except TimeoutError:
            ray.kill(actor)
            raise WorkerLost(self._no_room()) from None
        except _losses() as error:
            raise WorkerLost(why_lost(error)) from error
        if tuple(theirs) != versions():
            ray.kill(actor)
            raise ConfigError(
                f"a worker has Skillwright {theirs[0]} with Python {theirs[1]}, and this process "
                f"has {versions()[0]} with {versions()[1]}; install the same on every node"
            )
        return _ActorHandle(actor, host, pid)

    def _options(self) -> dict[str, Any]:
        """Return what every actor of ours needs: many calls at once, and our code."""
        inherited = os.environ.get("PYTHONPATH", "") if self._is_elsewhere else ""
        paths = [path for path in inherited.split(os.pathsep) if path]
        options: dict[str, Any] = {"max_concurrency": CALLS_AT_ONCE}
        if paths:
            joined = os.pathsep.join([*paths, "${PYTHONPATH}"])
            options["runtime_env"] = {"env_vars": {"PYTHONPATH": joined}}
        return options

    def _no_room(self) -> str:
        labels = f" on a node with the labels {self._labels}" * bool(self._labels)
        return (
            f"it did not come up within {START_S:g} s; it needs a free CPU{labels}. `ray status` "
            "shows what is free; see rollout.ray.workers and rollout.ray.labels"
        )


def _cpus(labels: Mapping[str, str]) -> int:
    """Return the CPUs of the nodes that have the labels, at least 1."""
    nodes = [
        node["Resources"]
        for node in _ray().nodes()
        if node["Alive"] and labels.items() <= node.get("Labels", {}).items()
    ]
    return max(1, int(sum(one.get("CPU", 0) for one in nodes)))


class RayEngine:
    """Plays episodes on Ray: the engine ``ray``."""

    def refuse_missing(self, what: str) -> None:
        """Refuse what needs Ray where it is not installed."""
        refuse_without_ray(what)

    @asynccontextmanager
    async def connection(self, cluster: Cluster) -> AsyncIterator[None]:
        """Connect this process to Ray for a while; one that is connected already stays so.

        Raises:
            ConfigError: See `connect`.
        """
        is_ours = await asyncio.to_thread(connect, cluster)
        try:
            yield
        finally:
            if is_ours:
                await asyncio.to_thread(_ray().shutdown)

    @asynccontextmanager
    async def workers(self, cluster: Cluster) -> AsyncIterator[WorkerPool]:
        """Open a pool of workers on Ray.

        Raises:
            ConfigError: See `connect`.
        """
        async with self.connection(cluster), WorkerPool(RayPlacement(cluster)) as pool:
            yield pool
