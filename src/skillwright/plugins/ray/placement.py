"""The placement of a `PooledEngine`'s workers on Ray, and the translation of Ray's errors.

A worker is an async actor that plays many episodes concurrently. Settings with their keys are put
into the object store, because Ray's dashboard shows the content of a runtime environment.

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
from skillwright.plugins.ray.leases import (
    RENEW_S,
    Demand,
    EndpointLedger,
    Grant,
    LeasedLimits,
    Rates,
)
from skillwright.plugins.ray.pool import Worker, WorkerLost, WorkerPool, unsendable
from skillwright.plugins.ray.worker import EpisodeWorker, Shared
from skillwright.rollout.workers import Cluster
from skillwright.version import __version__

INSTALL: Final = "pip install 'skillwright[ray]'"
START_S: Final = 120.0
"""Seconds for a worker to start, including Ray's own start of its process."""
ANSWER_S: Final = 5.0
"""Seconds for a connection to a head."""
STORE_BYTES: Final = 256 * 2**20
"""Object store of a local Ray, in bytes: settings and reports are small."""
CALLS_AT_ONCE: Final = 10_000
"""Concurrent calls per actor: those that hand over episodes, and those that wait for a turn."""
LEDGER: Final = "skillwright-endpoints"
"""Name of the actor with the endpoints' limits, in the driver's namespace."""

OWN: Final = "local"
"""Address of a local Ray, which ends with this process."""

# No usage statistics are sent, and a driver without a GPU does not hide the workers' GPUs.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def refuse_without_ray(what: str) -> None:
    """Raise a `ConfigError` with the install command if Ray is missing."""
    if find_spec("ray") is None:
        raise ConfigError(f"{what} needs Ray, and it is not installed: {INSTALL}")


def _ray() -> Any:
    import ray

    return ray


def connect(settings: Cluster) -> bool:
    """Connect this process to Ray, or start a local Ray; block for up to a minute.

    Return whether it was not connected before, so that the caller must disconnect it. Without Ray,
    an answer, or equal versions of Ray and Python, a `ConfigError` is raised.
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
        ) as error:  # Ray waits 30 s for its processes, and has no error class of its own
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
    """Return the error of a failed connection, with advice."""
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


class RayWorker(EpisodeWorker):
    """The actor: a worker in folder ``cwd``, with the driver's import paths and the ledger."""

    def __init__(self, cwd: str, paths: Sequence[str], ledger: Any) -> None:
        name = _ray().get_runtime_context().get_actor_id()
        self._limits = LeasedLimits(_RemoteLedger(ledger), name)
        super().__init__(_fetched, limits=self._limits)
        share_limits(self._limits)
        with suppress(OSError):  # another user's machine; files then have absolute paths
            Path(cwd).mkdir(parents=True, exist_ok=True)
            os.chdir(cwd)
        sys.path.extend(path for path in paths if path not in sys.path and Path(path).exists())

    async def open(self) -> tuple[tuple[str, str], str, int]:
        """Return the versions, which must equal the driver's, the host, and the process id."""
        self._limits.open()
        return versions(), socket.gethostname(), os.getpid()


async def _fetched(handle: Any) -> Any:
    return await handle


def versions() -> tuple[str, str]:
    """Return the versions of Skillwright and Python, which pickles require to be equal."""
    return __version__, ".".join(platform.python_version_tuple()[:2])


class _RemoteLedger:
    """A `LedgerClient` of a ledger actor."""

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
            _ray().cancel(asked)  # a cancelled caller gives its turn back
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
    """Return the errors that mean a lost worker, whose episodes another worker plays."""
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
    """Return one line about the loss of a worker."""
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
    """Workers as actors, one CPU each, on nodes with the labels."""

    def __init__(self, settings: Cluster) -> None:
        self.workers = settings.workers or _cpus(settings.labels)
        self._labels = dict(settings.labels)
        self._is_elsewhere = address_of(settings) != OWN  # its nodes have their own environment
        self._ledger = self._find_ledger()

    @property
    def has_other_machines(self) -> bool:
        """Whether the cluster has several machines."""
        return len({node["NodeManagerAddress"] for node in _ray().nodes() if node["Alive"]}) > 1

    def share(self, value: Any) -> Any:
        """Put a value into the object store."""
        try:
            return _ray().put(value)
        except (TypeError, AttributeError, ValueError) as error:
            raise unsendable(error) from error

    async def start(self) -> Worker:
        """Start an actor, and check that its versions equal the driver's."""
        ray = _ray()
        options = {**self._options(), "num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        if self._labels:
            options["label_selector"] = self._labels
        made = ray.remote(RayWorker).options(**options)
        actor = None
        try:
            async with asyncio.timeout(START_S):
                actor = made.remote(str(Path.cwd()), sys.path, await self._living_ledger())
                theirs, host, pid = await actor.open.remote()
        except TimeoutError:
            if actor is not None:
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

    def _find_ledger(self) -> Any:
        """Return the ledger of this driver; make it if there is none."""
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, **self._options()}
        made = _ray().remote(EndpointLedger).options(**options, name=LEDGER, get_if_exists=True)
        return made.remote()

    async def _living_ledger(self) -> Any:
        """Return a ledger that answers: one found by name may be ending with its last owner."""
        while True:
            try:
                await self._ledger.renew.remote("", {})
            except _ray().exceptions.RayActorError:
                await asyncio.sleep(RENEW_S)
                self._ledger = self._find_ledger()
            else:
                return self._ledger

    def _options(self) -> dict[str, Any]:
        """Return the options of every actor: concurrent calls, and the driver's code."""
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
    """Return the CPUs of the nodes with the labels, at least 1."""
    nodes = [
        node["Resources"]
        for node in _ray().nodes()
        if node["Alive"] and labels.items() <= node.get("Labels", {}).items()
    ]
    return max(1, int(sum(one.get("CPU", 0) for one in nodes)))


class RayEngine:
    """Plays episodes on Ray: the engine ``ray``."""

    def refuse_missing(self, what: str) -> None:
        """Raise an error if Ray is missing."""
        refuse_without_ray(what)

    @asynccontextmanager
    async def connection(self, cluster: Cluster) -> AsyncIterator[None]:
        """Connect this process to Ray until the block ends; see `connect`."""
        is_ours = await asyncio.to_thread(connect, cluster)
        try:
            yield
        finally:
            if is_ours:
                await asyncio.to_thread(_ray().shutdown)

    @asynccontextmanager
    async def workers(self, cluster: Cluster) -> AsyncIterator[WorkerPool]:
        """Open a pool of workers on Ray; errors as in `connect`."""
        async with self.connection(cluster), WorkerPool(RayPlacement(cluster)) as pool:
            yield pool
