"""Episodes over several workers, each with exactly one result even if workers die.

Episodes that a dead worker had not reported are replayed by another one; its late reports are
ignored. An episode lost twice is replayed alone, so that an episode that kills its worker fails
alone. After a crash of the run, only episodes that were not stored are replayed.
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

from skillwright.core import ConfigError, EpisodeResult, Failure, FailureCause, StopReason, Usage
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
from skillwright.rollout import EngineDown, LocalEngine
from skillwright.rollout.episode import Assignment
from skillwright.rollout.player import OnResult, OnTurn, Plays
from skillwright.rollout.workers import MakeAgent

MOST_LOSSES: Final = 3
"""Lost workers after which an episode is a failure."""
MOST_VAIN_STARTS: Final = 3
"""Consecutive failed starts per worker after which a pool without workers gives up."""
PAUSE_S: Final = 1.0
"""Seconds between two attempts to start a worker."""
MAX_FILE_BYTES: Final = 128 * 2**20
"""Largest file that is sent to other machines."""
STOP_S: Final = 5.0
"""Seconds to wait for the usage of episodes stopped at a run's end."""

logger = logging.getLogger(__name__)


class WorkerLost(Exception):
    """A worker died or did not start; the message has the reason."""


class Worker(Protocol):
    """A remote `EpisodeWorker`. Messages to it arrive in order, or it is lost."""

    def hand(self, setting: Shared, orders: bytes) -> None:
        """Send it episodes to play."""

    def stop(self, tickets: Sequence[int]) -> None:
        """Ask it to stop episodes."""

    async def collect(self) -> bytes:
        """Wait for its next report, or raise `WorkerLost`."""

    def dismiss(self) -> None:
        """End it if it still runs."""


class Placement(Protocol):
    """Where workers run."""

    @property
    def workers(self) -> int:
        """Number of workers, at least 1."""

    @property
    def has_other_machines(self) -> bool:
        """Whether workers may lack this process's files."""

    def share(self, value: Any) -> Any:
        """Send a value to where every worker can get it, and return its handle."""

    async def start(self) -> Worker:
        """Start a worker.

        A temporary failure is a `WorkerLost`, a permanent one a `UsageError`.
        """


@dataclass(eq=False)
class _Job:
    """An episode in the queue or in play."""

    number: int
    setting: Shared
    assignment: Assignment
    on_turn: OnTurn
    done: "asyncio.Future[Ended]"
    context: Context = field(default_factory=copy_context)  # budgets charge by context
    post: "_Post | None" = None
    is_stopping: bool = False
    losses: int = 0
    used: Usage = field(default_factory=Usage)  # reported by the current worker
    lost: Usage = field(default_factory=Usage)  # reported by lost workers

    @property
    def is_suspect(self) -> bool:
        return self.losses == MOST_LOSSES - 1


@dataclass(eq=False)
class _Post:
    """A worker and its episodes, by ticket."""

    worker: Worker
    jobs: dict[int, _Job] = field(default_factory=dict)
    is_alone: bool = False  # it plays a suspect alone


class WorkerPool:
    """Plays episodes on workers while it is open (``async with pool``), and replaces lost ones.

    ``lost`` counts the lost workers; ``pause_s`` is the time between two starts.
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
        """Send the common settings of an engine's episodes to where every worker can get them.

        ``files`` are sent once per pool, if workers are on other machines.
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

        ``on_turn`` gets its turns in order, without their texts; ``stopped`` gets the partial
        result if it is stopped. Without workers, an `EngineDown` is raised.
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

    # One task per worker starts it, forwards its reports, and replaces it when it is lost.

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
        """Requeue a lost worker's episodes at the front, in their order."""
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

    # The least busy worker plays, up to an equal share of the concurrent episodes.

    def _wake(self) -> None:
        # Episodes that become ready in one iteration of the loop are sent together.
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
        """Assign suspects to idle workers; return the workers reserved for suspects."""
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
    """Return a worker's result for its assignment, with the usage of lost workers."""
    adopted = job.assignment.adopt(result)
    if job.losses:
        adopted = replace(adopted, lost_usage=adopted.lost_usage + job.lost)
    return adopted


def _so_far(job: _Job, ended: Ended) -> EpisodeResult:
    """Return the partial result of a stopped episode, for its usage."""
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
    """Return the error of settings that cannot be pickled."""
    return ConfigError(
        f"cannot be sent to workers: {error}. Models and environments are sent by name: put their "
        "classes into a module or a file, or use engine 'local'"
    )


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
    """Plays episodes on the workers of a pool, otherwise as `LocalEngine`.

    Observers get turns without their texts. Policies play in lockstep, which only `LocalEngine`
    supports.

    Attributes:
        pool: The workers.
        make_agent: Makes ``agent`` again on a worker.
        environ: Environment variables for workers, such as keys of endpoints.
        files: Files that episodes read; see `WorkerPool.share`.
    """

    _: KW_ONLY
    pool: WorkerPool
    make_agent: MakeAgent
    environ: dict[str, str] = field(default_factory=dict, repr=False)
    files: Sequence[Path] = ()

    def __post_init__(self) -> None:
        """Share the common settings; a lockstep agent or unpicklable parts are a `ConfigError`."""
        super().__post_init__()
        if self.mode == "lockstep":
            raise ConfigError(
                "an agent that plays in lockstep stays in this process: use engine 'local' for it"
            )
        setting = Setting(self.make_agent, self.make_env, self.limits, self.prompt, self.environ)
        self._shared = self.pool.share(setting, self.files)

    def _player(self) -> Plays:
        return _OnWorkers(self.pool, self._shared)
