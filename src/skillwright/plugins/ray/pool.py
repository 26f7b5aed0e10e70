"""Episodes over several workers: in batches, bounded, each exactly once, whichever worker dies.

What a worker had not reported when it died is played again, from the beginning, by another one; a
report that comes too late is not looked at. So an episode has one result, and where a run's
process dies only what it had not stored is played again by the next one. An episode that was lost
with its worker twice is played alone the third time: if it is the episode that kills its worker,
it fails alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from skillwright.core import (
    ConfigError,
    EpisodeResult,
    Failure,
    FailureCause,
    StopReason,
    Usage,
)
from skillwright.plugins.ray.worker import (
    Ended,
    Report,
    Setting,
    Shared,
    SharedFile,
    read_end,
    read_report,
    write_orders,
)
from skillwright.rollout.engine import EngineDown
from skillwright.rollout.episode import Assignment
from skillwright.rollout.local import LocalEngine
from skillwright.rollout.player import OnResult, OnTurn, Plays
from skillwright.rollout.workers import MakeAgent

MOST_LOSSES: Final = 3
"""Workers that are lost with an episode before it is a failure."""
MOST_VAIN_STARTS: Final = 3
"""Consecutive starts per worker that may fail while no other worker is left."""
PAUSE_S: Final = 1.0
"""Seconds between two tries to start a worker."""
MAX_FILE_BYTES: Final = 128 * 2**20
"""A larger file is not sent to other machines; it has to be there."""
STOP_S: Final = 5.0
"""How long a run that ends waits to hear what the episodes that it stopped have used."""

logger = logging.getLogger(__name__)


class WorkerLost(Exception):
    """A worker is gone, or cannot be started; the message says why."""


class Worker(Protocol):
    """An `EpisodeWorker` somewhere. What is sent to it arrives in order, or it is lost."""

    def hand(self, setting: Shared, orders: bytes) -> None:
        """Send it episodes to begin."""

    def stop(self, tickets: Sequence[int]) -> None:
        """Send it word to stop episodes."""

    async def collect(self) -> bytes:
        """Wait for its next report.

        Raises:
            WorkerLost: It is gone.
        """

    def dismiss(self) -> None:
        """End it, where it is not gone already."""


class Placement(Protocol):
    """Where workers run."""

    @property
    def workers(self) -> int:
        """How many there are to be, at least 1."""

    @property
    def has_other_machines(self) -> bool:
        """Whether workers may be where this process's files are not."""

    def share(self, value: Any) -> Any:
        """Put something where every worker can get it, once, and return its handle.

        Raises:
            ConfigError: It cannot be sent.
        """

    async def start(self) -> Worker:
        """Start a worker.

        Raises:
            WorkerLost: It did not come up, or there is no room for it at present.
            UsageError: None ever will.
        """


@dataclass(eq=False)
class _Job:
    """An episode that is to be played, or is being played."""

    number: int
    setting: Shared
    assignment: Assignment
    on_turn: OnTurn
    done: "asyncio.Future[Ended]"
    context: Context = field(default_factory=copy_context)  # a budget knows whose turn it is by it
    post: "_Post | None" = None
    is_stopping: bool = False
    losses: int = 0
    used: Usage = field(default_factory=Usage)  # as far as it was reported, on the present worker
    lost: Usage = field(default_factory=Usage)  # the same on those that died

    @property
    def is_suspect(self) -> bool:
        return self.losses == MOST_LOSSES - 1


@dataclass(eq=False)
class _Post:
    """A worker and what it is playing, by ticket."""

    worker: Worker
    jobs: dict[int, _Job] = field(default_factory=dict)
    is_alone: bool = False  # it plays a suspect


class WorkerPool:
    """Plays episodes on workers, as long as it is open: ``async with pool``.

    Args:
        placement: Where the workers run; one that dies is replaced there.
        pause_s: See `PAUSE_S`.

    Attributes:
        lost: Workers that died.
    """

    def __init__(self, placement: Placement, *, pause_s: float = PAUSE_S) -> None:
        self.lost = 0
        self._placement = placement
        self._pause_s = pause_s
        self._posts: list[_Post] = []
        self._queue: deque[_Job] = deque()
        self._suspects: deque[_Job] = deque()  # each is played alone
        self._serving: list[asyncio.Task[None]] = []
        self._numbers = count(1)
        self._files: dict[str, SharedFile] = {}
        self._vain_starts = 0
        self._down: BaseException | None = None
        self._is_due = False

    async def __aenter__(self) -> Self:
        for _ in range(self._placement.workers):
            self._serving.append(asyncio.create_task(self._serve()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for serving in self._serving:
            serving.cancel()
        await asyncio.wait(self._serving)
        for post in self._posts:
            post.worker.dismiss()

    def engine(
        self,
        local: LocalEngine,
        make_agent: MakeAgent,
        environ: Mapping[str, str],
        files: Sequence[Path],
    ) -> "PooledEngine":
        """Return an engine that plays on these workers; see `skillwright.rollout.workers`."""
        parts = {one.name: getattr(local, one.name) for one in fields(local)}
        return PooledEngine(
            **parts, pool=self, make_agent=make_agent, environ=dict(environ), files=files
        )

    def share(self, setting: Setting, files: Iterable[Path] = ()) -> Shared:
        """Put what the episodes of an engine have in common where every worker can get it.

        Args:
            setting: What they have in common.
            files: What they read; sent where workers are on other machines, once per pool.
        """
        if self._placement.has_other_machines:
            setting = replace(setting, files=tuple(map(self._sent, files)))
        handle = self._placement.share(setting)
        return Shared(next(self._numbers), handle, setting.limits.max_concurrent)

    def _sent(self, file: Path) -> SharedFile:
        path, size = str(file.absolute()), file.stat().st_size
        if path not in self._files:
            handle = self._placement.share(file.read_bytes()) if size <= MAX_FILE_BYTES else None
            self._files[path] = SharedFile(path, size, handle)
        return self._files[path]

    async def play(
        self, setting: Shared, assignment: Assignment, on_turn: OnTurn, stopped: OnResult
    ) -> EpisodeResult:
        """Play an episode on some worker.

        Args:
            setting: What `share` returned.
            assignment: The episode.
            on_turn: Called for its turns as they are reported, in order, without their texts.
            stopped: Called with what it was until then, where it is stopped on its way.

        Raises:
            EngineDown: There are no workers, and none can be started.
        """
        if self._down is not None:
            raise self._down
        done: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        job = _Job(next(self._numbers), setting, assignment, on_turn, done)
        self._queue.append(job)
        self._wake()
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            await self._withdraw(job)
            if done.done() and done.exception() is None:
                stopped(_so_far(job, done.result()))
            elif job.lost.calls or job.used.calls:
                stopped(_so_far(job, Ended()))
            raise
        ended = done.result()
        if ended.result is not None:
            return _adopted(job, ended.result)
        stopped(_so_far(job, ended))
        raise ended.fault or WorkerLost("a worker stopped an episode without a request")

    async def _withdraw(self, job: _Job) -> None:
        if job.post is None:
            for queue in (self._queue, self._suspects):
                if job in queue:
                    queue.remove(job)
            return
        job.is_stopping = True
        job.post.worker.stop([job.number])
        await asyncio.wait({job.done}, timeout=STOP_S)

    # One task per worker: start it, hand on its reports, replace it when it is lost.

    async def _serve(self) -> None:
        while self._down is None:
            try:
                await self._serve_once()
            except Exception as error:  # noqa: BLE001 - raised again by every episode that waits
                self._fail(error)

    async def _serve_once(self) -> None:
        try:
            worker = await self._placement.start()
        except WorkerLost as loss:
            self._vain_starts += 1
            if not self._posts and self._vain_starts >= MOST_VAIN_STARTS * self._placement.workers:
                self._fail(
                    EngineDown(
                        f"no worker is left and none can be started: {loss}. What was finished is "
                        "stored; mend it and resume"
                    )
                )
            await asyncio.sleep(self._pause_s)
            return
        self._vain_starts = 0
        post = _Post(worker)
        self._posts.append(post)
        try:
            while True:
                self._wake()
                self._take(post, read_report(await worker.collect()))
        except WorkerLost as loss:
            self._posts.remove(post)
            worker.dismiss()
            self._put_back(post, loss)

    def _take(self, post: _Post, report: Report) -> None:
        for note in report.turns:
            job = post.jobs.get(note.ticket)
            if job is None:
                continue
            job.used += note.usage
            try:
                job.context.run(job.on_turn, note.event(job.assignment.spec))
            except Exception as error:  # noqa: BLE001 - raised again where the episode is awaited
                _settle(job, error)
                post.worker.stop([note.ticket])
        for ticket, body in report.ended:
            job = post.jobs.pop(ticket, None)
            if job is not None:
                job.post = None
                _settle(job, read_end(body))
        if not post.jobs:
            post.is_alone = False

    def _put_back(self, post: _Post, loss: WorkerLost) -> None:
        """Queue what a lost worker was playing again, before all others and in its old order."""
        self.lost += 1
        logger.warning("a worker is lost with %d episodes in play: %s", len(post.jobs), loss)
        for job in sorted(post.jobs.values(), key=lambda job: job.number, reverse=True):
            job.post = None
            job.losses += 1
            job.lost, job.used = job.lost + job.used, Usage()
            if job.is_stopping:
                _settle(job, Ended())
            elif job.losses == MOST_LOSSES:
                why = f"{MOST_LOSSES} workers were lost that played it, the last one alone: {loss}"
                _settle(job, Ended(_failed(job, why)))
            elif not job.done.done():
                (self._suspects if job.is_suspect else self._queue).appendleft(job)
        self._wake()

    def _fail(self, error: BaseException) -> None:
        self._down = error
        playing = (job for post in self._posts for job in post.jobs.values())
        for job in (*self._queue, *self._suspects, *playing):
            _settle(job, error)
        self._queue.clear()
        self._suspects.clear()

    # The least busy worker plays, up to an equal share of what may be in play.

    def _wake(self) -> None:
        # Whatever becomes ready in one turn of the loop is sent together.
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        batches: dict[_Post, dict[Shared, list[_Job]]] = {}
        reserved = self._begin_suspects(batches)
        open_posts = [post for post in self._posts if not post.is_alone and post not in reserved]
        while self._queue and open_posts:
            post = min(open_posts, key=lambda one: len(one.jobs))
            job = self._queue[0]
            most = -(-job.setting.max_concurrent // self._placement.workers)
            if len(post.jobs) >= most:
                break
            self._queue.popleft()
            _assign(job, post, batches)
        for post, by_setting in batches.items():
            for setting, jobs in by_setting.items():
                orders = [(job.number, job.assignment) for job in jobs]
                post.worker.hand(setting, write_orders(orders))

    def _begin_suspects(self, batches: "dict[_Post, dict[Shared, list[_Job]]]") -> list[_Post]:
        """Give suspects to workers that play nothing; return those that are to get nothing else."""
        posts = sorted((one for one in self._posts if not one.is_alone), key=lambda p: len(p.jobs))
        reserved = posts[: len(self._suspects)]
        for post in reserved:
            if not post.jobs:
                post.is_alone = True
                _assign(self._suspects.popleft(), post, batches)
        return reserved


def _assign(job: _Job, post: _Post, batches: dict[_Post, dict[Shared, list[_Job]]]) -> None:
    post.jobs[job.number] = job
    job.post = post
    batches.setdefault(post, {}).setdefault(job.setting, []).append(job)


def _settle(job: _Job, end: Ended | BaseException) -> None:
    if job.done.done():
        return
    if isinstance(end, BaseException):
        job.done.set_exception(end)
    else:
        job.done.set_result(end)


def _adopted(job: _Job, result: EpisodeResult) -> EpisodeResult:
    """Return a worker's result as the answer to the question here, with what was lost before."""
    adopted = job.assignment.adopt(result)
    if job.losses:
        adopted = replace(adopted, lost_usage=adopted.lost_usage + job.lost)
    return adopted


def _so_far(job: _Job, ended: Ended) -> EpisodeResult:
    """Return what an episode was that did not end, for those who count what it used."""
    known = ended.result or ended.abandoned
    if known is not None:
        return _adopted(job, known)
    stopped = "it was stopped, and its worker did not say how far it was"
    return replace(_failed(job, stopped), lost_usage=job.lost + job.used)


def _failed(job: _Job, why: str) -> EpisodeResult:
    one = job.assignment
    return EpisodeResult(
        one.spec,
        failure=Failure(FailureCause.WORKER, why),
        stop_reason=StopReason.FAILURE,
        attempts=max(1, job.losses),
        skill_version=one.skill.version,
        skill_ids=one.skill.skill_ids,
        skill_scores=one.skill.scores,
        key=one.key,
        lost_usage=job.lost,
    )


def unsendable(error: Exception) -> ConfigError:
    """Say that what episodes have in common does not pickle."""
    return ConfigError(
        f"cannot be sent to workers: {error}. Models and environments are sent by name: put their "
        "classes into a module or a file, or use engine 'local'"
    )


# The engine over a pool: the one of this process, but for who plays what it begins.


@dataclass(frozen=True, slots=True)
class _OnWorkers:
    pool: WorkerPool
    setting: Shared

    async def play(
        self, wave: Sequence[Assignment], on_turn: OnTurn, settle: OnResult, abandon: OnResult
    ) -> None:
        for assignment in wave:
            settle(await self.pool.play(self.setting, assignment, on_turn, abandon))


@dataclass(eq=False)
class PooledEngine(LocalEngine):
    """Plays episodes on the workers of a pool.

    Keys, memory, bounds, order, what stops a run: all as `LocalEngine` has it, in this process,
    which alone asks the recorder. An observer is given turns without their texts. Policies, whose
    weights are here, play in lockstep, and that is `LocalEngine`'s.

    Attributes:
        pool: Who plays.
        make_agent: Makes ``agent`` again on a worker.
        environ: Environment variables that a worker is given, such as keys of endpoints.
        files: What episodes read; see `WorkerPool.share`.
    """

    _: KW_ONLY
    pool: WorkerPool
    make_agent: MakeAgent
    environ: dict[str, str] = field(default_factory=dict, repr=False)
    files: Sequence[Path] = ()

    def __post_init__(self) -> None:
        """Share what all episodes have in common.

        Raises:
            ConfigError: It plays in lockstep, or its parts cannot be sent to another process.
        """
        super().__post_init__()
        if self.mode == "lockstep":
            raise ConfigError(
                "an agent that plays in lockstep stays in this process: use engine 'local' for it"
            )
        setting = Setting(self.make_agent, self.make_env, self.limits, self.prompt, self.environ)
        self._shared = self.pool.share(setting, self.files)

    def _player(self) -> Plays:
        return _OnWorkers(self.pool, self._shared)
