"""A process that plays episodes for an engine in another process.

Messages are pickled here: episodes of one call share their texts, and results omit their task.
"""

import asyncio
import os
import pickle
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple

from skillwright.core import Act, ConfigError, EpisodeResult, EpisodeSpec, Task, Turn, Usage
from skillwright.models import HttpClient
from skillwright.models.http.traffic import EndpointLimits
from skillwright.rollout import Limits, PromptStyle, TurnFinished
from skillwright.rollout.episode import Assignment, MakeEnv
from skillwright.rollout.player import Player
from skillwright.rollout.workers import MakeAgent

MAX_REPORT_BYTES: Final = 8 * 2**20
"""Maximum bytes of a report with several episodes; the rest follows in the next one."""
TELL_S: Final = 0.5
"""Seconds for which turns wait for a finished episode to share its report."""
LINGER_S: Final = 0.02
"""Seconds for which a finished episode waits for others to share its report."""

Fetch = Callable[[Any], Awaitable[Any]]
"""Returns a shared value by its handle."""


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file that episodes read: a database, a catalog, a module.

    Attributes:
        path: Absolute path, the same on all machines.
        size: In bytes.
        handle: Handle of its bytes; ``None`` if it is too large to send.
    """

    path: str
    size: int
    handle: Any


@dataclass(frozen=True, slots=True)
class Setting:
    """The common settings of an engine's episodes, which a worker gets once.

    Attributes:
        make_agent: Makes the agent.
        make_env: Builds the environment of a task; picklable.
        limits: Limits of an episode; the engine's own are ignored.
        prompt: Format of the conversation.
        environ: Environment variables (keys) to set if the worker lacks them.
        files: Files that episodes read, for workers on other machines.
    """

    make_agent: MakeAgent
    make_env: MakeEnv
    limits: Limits
    prompt: PromptStyle
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: tuple[SharedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """A setting that every worker can get."""

    name: int
    handle: Any
    max_concurrent: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an episode on a worker.

    Attributes:
        result: Its result.
        abandoned: Its partial result, if it was stopped.
        fault: Error that stopped it and the run; ``None`` if it was asked to stop.
    """

    result: EpisodeResult | None = None
    abandoned: EpisodeResult | None = None
    fault: BaseException | None = None


class TurnNote(NamedTuple):
    """A turn without its texts, for progress and billing."""

    ticket: int
    attempt: int
    turn: int
    reward: float
    finish_reason: str
    usage: Usage

    def event(self, spec: EpisodeSpec) -> TurnFinished:
        """Return the event for observers."""
        act = Act("", self.usage, finish_reason=self.finish_reason)
        return TurnFinished(spec, self.attempt, Turn(self.turn, (), act, "", self.reward))


class Report(NamedTuple):
    """Turns and ends since the previous report."""

    turns: list[TurnNote]
    ended: list[tuple[int, bytes]]


def write_orders(orders: Sequence[tuple[int, Assignment]]) -> bytes:
    """Pickle episodes to play, each with its ticket."""
    return pickle.dumps(list(orders), pickle.HIGHEST_PROTOCOL)


def read_report(body: bytes) -> Report:
    """Read what `EpisodeWorker.collect` returned."""
    return Report(*pickle.loads(body))


def read_end(body: bytes) -> Ended:
    """Read one of `Report.ended`."""
    ended = pickle.loads(body)
    if not isinstance(ended, Ended):
        raise TypeError(f"a worker sent a {type(ended).__name__} in the place of an outcome")
    return ended


class EpisodeWorker:
    """Plays all of its episodes concurrently; ``fetch`` gets a setting by its handle."""

    def __init__(
        self,
        fetch: Fetch,
        linger_s: float = LINGER_S,
        max_report_bytes: int = MAX_REPORT_BYTES,
        limits: EndpointLimits | None = None,
    ) -> None:
        self._fetch = fetch
        self._linger_s = linger_s
        self._max_report_bytes = max_report_bytes
        self._client = HttpClient(limits=limits)
        self._players: dict[int, asyncio.Task[Player]] = {}
        self._tasks: dict[int, asyncio.Task[Ended]] = {}
        self._turns: list[TurnNote] = []
        self._ended: list[tuple[int, bytes]] = []
        self._news = asyncio.Event()
        self._broken: BaseException | None = None

    async def hand(self, setting: Shared, orders: bytes) -> None:
        """Start episodes; `collect` reports their results, including faults."""
        player = self._players.get(setting.name)
        if player is None:
            player = asyncio.create_task(self._load(setting))
            self._players[setting.name] = player
        try:
            read = pickle.loads(orders)
        except Exception as error:  # noqa: BLE001 - raised by `collect`; this call has no caller that waits
            self._broken = _portable(error)
            self._news.set()
            return
        for ticket, assignment in read:
            playing = asyncio.create_task(self._play(player, ticket, assignment))
            self._tasks[ticket] = playing
            playing.add_done_callback(partial(self._end, ticket))

    async def stop(self, tickets: Sequence[int]) -> None:
        """Stop episodes; their partial results are reported."""
        for ticket in tickets:
            if ticket in self._tasks:
                self._tasks[ticket].cancel()

    async def collect(self) -> bytes:
        """Wait for the next report and return it; see `read_report`. Calls must not overlap."""
        while not self._ended:
            if self._broken is not None:
                raise self._broken
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(TELL_S):
                    await self._news.wait()
            if self._turns and not self._ended:
                break
        if self._ended and self._tasks and self._linger_s:
            await asyncio.sleep(self._linger_s)
        turns, self._turns = self._turns, []
        report = Report(turns, self._take())
        return pickle.dumps(tuple(report), pickle.HIGHEST_PROTOCOL)

    async def close(self) -> None:
        """Stop all episodes."""
        tasks = [*self._tasks.values(), *self._players.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._client.aclose()

    def _take(self) -> list[tuple[int, bytes]]:
        taken, room = 0, self._max_report_bytes
        for _, body in self._ended:
            if taken and len(body) > room:
                break
            room -= len(body)
            taken += 1
        first, self._ended = self._ended[:taken], self._ended[taken:]
        return first

    async def _load(self, setting: Shared) -> Player:
        found: Setting = await self._fetch(setting.handle)
        import_environ(found.environ)
        for file in found.files:
            if lacks(file):
                put_down(file, await self._fetch(file.handle))
        agent = found.make_agent(self._client)
        return Player(agent, found.make_env, found.limits, found.prompt)

    async def _play(
        self, loading: asyncio.Task[Player], ticket: int, assignment: Assignment
    ) -> Ended:
        ended = Ended()

        def on_turn(event: TurnFinished) -> None:
            turn = event.turn
            note = (event.attempt, turn.index, turn.reward, turn.act.finish_reason, turn.act.usage)
            self._turns.append(TurnNote(ticket, *note))

        def settle(result: EpisodeResult) -> None:
            nonlocal ended
            ended = Ended(result=_without_task(result))

        def abandon(result: EpisodeResult) -> None:
            nonlocal ended
            ended = Ended(abandoned=_without_task(result))

        try:
            # Shielded: others wait for the setting too.
            player = await asyncio.shield(loading)
            await player.play([assignment], on_turn, settle, abandon)
        except asyncio.CancelledError:
            return ended  # asked to stop
        except Exception as fault:  # noqa: BLE001 - raised again where the run is
            return replace(ended, fault=_portable(fault))
        return ended

    def _end(self, ticket: int, playing: "asyncio.Task[Ended]") -> None:
        del self._tasks[ticket]
        ended = Ended() if playing.cancelled() else playing.result()
        self._ended.append((ticket, pickle.dumps(ended, pickle.HIGHEST_PROTOCOL)))
        self._news.set()


def lacks(file: SharedFile) -> bool:
    """Tell whether a file is missing on this machine and must be fetched.

    Raises:
        ConfigError: It cannot be fetched, or a different file has its path.
    """
    path = Path(file.path)
    if not path.exists():
        if file.handle is not None:
            return True
        why = "is not on a worker's machine, and too large to be sent there"
    elif path.stat().st_size != file.size:
        why = "is on a worker's machine, with another size"
    else:
        return False
    raise ConfigError(f"{file.path!r} {why}. Put it on a disk that all machines share")


def put_down(file: SharedFile, body: bytes) -> None:
    """Write a file atomically, under the path that it has on the driver's machine.

    Raises:
        ConfigError: It cannot be written.
    """
    path = Path(file.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Atomically, because another worker of this machine may read it.
        with NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
            unfinished.write(body)
        Path(unfinished.name).replace(path)
    except OSError as error:
        raise ConfigError(
            f"{file.path!r} cannot be written on a worker's machine: {error.strerror}. Put it on a "
            "disk that all machines share"
        ) from error


def import_environ(environ: Mapping[str, str]) -> None:
    """Set environment variables that this process does not have."""
    for name, value in environ.items():
        os.environ.setdefault(name, value)


def _without_task(result: EpisodeResult) -> EpisodeResult:
    task = result.spec.task
    return replace(result, spec=EpisodeSpec(Task(task.id, task.env), result.spec.seed))


def _portable(fault: BaseException) -> BaseException:
    """Return a picklable error with its traceback."""
    trace = "".join(traceback.format_exception(fault))
    sent: object = None
    with suppress(Exception):  # pickling an external error may raise anything
        sent = pickle.loads(pickle.dumps(fault))
    if not isinstance(sent, BaseException):
        sent = RuntimeError(f"{type(fault).__name__}: {fault}")
    sent.add_note(f"On the worker:\n{trace}")
    return sent
