"""The models of a run, for adapters that call the blocking functions of the `skillopt` package.

Adapters call ``chat_target`` from any thread. A context variable identifies the run; a thread of
the adapter's own pool has none and gets the only active run. With several runs, such a call is
refused, because it could be charged to the wrong one.

Calls run in the run's event loop, with its limits, retries, permits and records. An adapter may
catch a `ModelError` and score the episode 0, so errors are remembered and `Hearing.sift` drops
such rows.
"""

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any

from skillwright.core import (
    ChatModel,
    Completion,
    ConfigError,
    ContractError,
    EpisodeResult,
    Failure,
    FailureCause,
    Message,
    ModelError,
    ModelRefused,
    ModelTimeout,
    Purpose,
    Reflector,
    RequestRefused,
    Sampling,
    SkillwrightError,
)
from skillwright.core.chat import question
from skillwright.core.jsonio import digest, write_text
from skillwright.rollout.compat import Role, SessionModel

# Model errors that an adapter caught must not become scores. Many adapters score them as zero, so
# each error's message begins with `NO_ANSWER` and a unique mark, which identifies rows that quote
# it. Adapters may also continue from files with such zeros: a file next to the folder of a rollout
# marks an unanswered request for later attempts and processes, which move the folder away.


NO_ANSWER = "[no answer from the model]"
"""Part of every error's message: a row that quotes it is no score."""

IN_A_FORK = (
    f"{NO_ANSWER} a process that the adapter forked asked for it, and the run's own "
    "process alone can: ask in a thread pool, or before and after what runs in processes"
)

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Hearing:
    """Model errors during an adapter's rollout; a retry that succeeds at once removes its error."""

    context: Context  # of the adapter's caller: its permit covers what the adapter asks
    folder: Path | None = None  # where the adapter writes; ``None`` where nothing is scored
    faults: dict[str, SkillwrightError] = field(default_factory=dict)  # by mark
    lost: dict[str, str] = field(default_factory=dict)  # rows that are no score, and why, by id
    _times: dict[str, Iterator[int]] = field(default_factory=dict, init=False)
    _again: dict[int, tuple[str, str]] = field(default_factory=dict, init=False)

    def mark(self, key: str) -> str:
        """Return the mark of an error; equal requests share one."""
        return f"{NO_ANSWER} ({key[:8]}.{next(self._times.setdefault(key, count(1)))})"

    def asked(self, key: str) -> None:
        """Record that this thread gave its last request up, as it makes another one."""
        if self._again.get(get_ident(), (key, ""))[0] != key:
            del self._again[get_ident()]

    def answered(self) -> None:
        """Forget the error of a request that this thread repeated."""
        _, mark = self._again.pop(get_ident(), ("", ""))
        self.faults.pop(mark, None)

    def note(self, key: str, mark: str, fault: SkillwrightError) -> None:
        """Record a failed request; the same thread's retry of it replaces its earlier error."""
        self.answered()
        self.faults[mark] = fault
        self._again[get_ident()] = (key, mark)
        self.doubt()

    def doubt(self, error: str = "") -> None:
        """Write the file that marks the folder's scores as affected by errors.

        Args:
            error: The error of a forked process, which shares no memory with this one; `sift`
                raises it, so the rollout fails. Without one, `trust` can remove the mark.
        """
        if self.folder is not None:
            with _doubt(self.folder).open("a", encoding="utf-8") as file:
                file.write(error)

    def is_reported(self, error: Exception) -> bool:
        """Return whether an adapter's error reports a model error, which is no score."""
        return NO_ANSWER in str(error)

    def trust(self) -> None:
        """Remove the mark: no score in the folder results from an error."""
        if self.folder is not None:
            _doubt(self.folder).unlink(missing_ok=True)

    def refuse_missing(self) -> None:
        """Raise the error of a missing name or prompt of `skillopt`, even if it was caught."""
        for fault in self.faults.values():
            if isinstance(fault, ConfigError):
                raise fault

    def sift(self, rows: Any) -> Any:
        """Return a rollout's rows without those that result from errors."""
        for fault in self.faults.values():
            refused = isinstance(fault, ModelRefused) and not isinstance(fault, RequestRefused)
            if refused or not isinstance(fault, ModelError):
                raise fault
        if self.folder is not None and (said := _said(_doubt(self.folder))):
            raise ContractError(IN_A_FORK if IN_A_FORK in said else said)
        kept, quoted = self._without_lost(rows)
        for mark, fault in self.faults.items():
            if mark not in quoted:
                raise fault
        self.trust()
        return kept

    def _without_lost(self, rows: Any) -> tuple[Any, str]:
        """Return the rows that quote no error, and the texts of the others."""
        if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
            return rows, ""
        kept, quoted = [], ""
        for row in rows:
            quotes = list(_quotes(row))
            if not quotes:
                kept.append(row)
                continue
            row_id = row.get("id") if isinstance(row, Mapping) else getattr(row, "id", "")
            self.lost[str(row_id)] = quotes[0]
            quoted += "\n".join(quotes)
            _log.warning("the row of %r is no score: %s", row_id, quotes[0])
        return kept, quoted

    def charge(self, result: EpisodeResult) -> EpisodeResult:
        """Return an episode with its failure charged to the model, if its row was dropped."""
        quote = self.lost.get(result.task_id)
        if quote is None or result.failure is None:
            return result
        return replace(result, failure=Failure(FailureCause.MODEL, quote))


def forget_unanswered(folder: Path) -> None:
    """Remove rows that quote errors from ``results.jsonl``, so that an adapter replays them.

    If an earlier attempt ended with an unanswered request that no row quotes, move the folder away.
    """
    if _doubt(folder).exists():
        if folder.exists():
            aside = next(
                one
                for number in range(1, 1_000_000)
                if not (one := folder.with_name(f"{folder.name}.unanswered_{number}")).exists()
            )
            folder.rename(aside)
        _doubt(folder).unlink()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.jsonl"
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if NO_ANSWER not in line]
    if len(kept) < len(lines):
        write_text(file, "".join(kept))


def _doubt(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.unanswered")


def _said(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _quotes(row: Any) -> Iterator[str]:
    """Return the texts of a row that quote an error."""
    todo, seen = [row], set[int]()
    while todo:
        value = todo.pop()
        match value:
            case str():
                if NO_ANSWER in value:
                    yield value
                continue
            case Mapping():
                parts = list(value.values())
            case list() | tuple():
                parts = list(value)
            case _:
                parts = list(getattr(value, "__dict__", {}).values())
        if id(value) not in seen:  # a value may hold itself
            seen.add(id(value))
            todo += reversed(parts)


NO_RUN = (
    "no run is running, so there is no model to ask: skillopt's model functions work in the "
    "rollout and reflect of an adapter, not when it is imported, built or checked"
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request; tokens are counted under ``stage``, the adapter's name for it."""

    role: Role
    messages: Sequence[Message]
    stage: str
    purpose: Purpose
    tools: Sequence[dict[str, Any]] = ()
    sampling: Sampling = field(default_factory=Sampling)
    timeout_s: float | None = None  # ``None`` leaves that to the role's settings

    @property
    def key(self) -> str:
        """Identifies equal requests."""
        return digest(question(self.role, self.messages, self.tools, self.sampling))


class ModelSession:
    """The models of one run, while adapters may call them."""

    def __init__(
        self,
        target: SessionModel,
        optimizer: SessionModel,
        loop: asyncio.AbstractEventLoop,
        reflector: Reflector | None = None,
    ) -> None:
        self.llms: Mapping[str, SessionModel] = {"target": target, "optimizer": optimizer}
        self.reflector = reflector
        self._loop = loop
        self._process = os.getpid()
        self._made: dict[str, ChatModel] = {}
        self._tokens: dict[str, Counter[str]] = {}
        self._guard = threading.Lock()
        self._waiting: set[Future[Completion]] = set()
        self._open = True
        self._base = Hearing(copy_context())
        self._hearings: list[Hearing] = []
        with _guard:
            _sessions.append(self)

    @contextmanager
    def hear(self, folder: Path | None = None) -> Iterator[Hearing]:
        """Assign an adapter's requests to one rollout, which writes to a folder."""
        hearing = Hearing(copy_context(), folder)
        token = _heard.set((self, hearing))
        with self._guard:
            self._hearings.append(hearing)
        try:
            yield hearing
        finally:
            _heard.reset(token)
            with self._guard:
                self._hearings.remove(hearing)

    def forget_unanswered(self, folder: Path) -> None:
        """Remove the results of errors from a folder; see `forget_unanswered`."""
        forget_unanswered(folder)

    def ask(self, asked: Ask) -> Completion:
        """Send a request and wait for the answer, from any thread but the event loop's."""
        return self.put(asked.key, asked.stage, lambda: self._answer(asked))

    def put(self, key: str, stage: str, make: Callable[[], Any]) -> Completion:
        """Run an answer's coroutine in the run's loop, and wait for it."""
        self._refuse_fork()
        heard = self._heard()
        for hearing in heard:
            hearing.asked(key)
        try:
            self._refuse_loop()
            answer = self._wait(make, heard[-1].context)
        except ModelError as error:
            mark = heard[-1].mark(key)
            fault = type(error)(f"{mark} {error}")
            fault.usage, fault.failed_calls = error.usage, error.failed_calls
            for hearing in heard:
                hearing.note(key, mark, fault)
            raise fault from error
        except SkillwrightError as error:
            self.note(error)
            raise
        for hearing in heard:
            hearing.answered()
        self.count(stage, answer.usage.input_tokens, answer.usage.output_tokens)
        return answer

    def note(self, fault: SkillwrightError) -> None:
        """Record a permanent error; a forked process records it in a file."""
        if os.getpid() != self._process:
            for hearing in self._hearings:  # no lock; see _refuse_fork
                hearing.doubt(str(fault))
            return
        for hearing in self._heard():
            hearing.note("", str(fault), fault)

    def model(self, role: Role) -> ChatModel:
        """Return the model of a role; made once."""
        with self._guard:
            if role not in self._made:
                self._made[role] = self.llms[role].make()
            return self._made[role]

    def count(self, stage: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Add a call to the sums of its stage."""
        used = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        with self._guard:
            self._tokens.setdefault(stage, Counter()).update({"calls": 1, **used})

    def tokens(self) -> dict[str, dict[str, int]]:
        """Return the sums by stage, with the total under ``_total``."""
        with self._guard:
            found = dict(self._tokens)
        every = sum(found.values(), Counter[str]())
        return {stage: _summed(of) for stage, of in {**found, "_total": every}.items()}

    def forget_tokens(self) -> None:
        """Reset the sums."""
        with self._guard:
            self._tokens.clear()

    def _started(self, make: Callable[[], Any], context: Context) -> "Future[Any]":
        outcome: Future[Any] = Future()
        within = context.copy()  # one context cannot be entered twice at once

        def start() -> None:
            try:
                task = self._loop.create_task(_settle(make, outcome), context=within)
            except Exception as error:  # noqa: BLE001 - reported to the thread that waits
                outcome.set_exception(error)
                return
            outcome.add_done_callback(lambda done: self._drop(done, task))

        with self._guard:
            if not self._open:
                raise ModelError("the run that the model belongs to has ended")
            self._waiting.add(outcome)
        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError as error:  # the loop is closed
            raise ModelError("the run that the model belongs to has ended") from error
        return outcome

    def close(self) -> None:
        """Refuse new requests; waiting ones get a fault."""
        with _guard:
            if self in _sessions:
                _sessions.remove(self)
        with self._guard:
            self._open = False
            waiting = list(self._waiting)
        for one in waiting:
            one.cancel()

    def _drop(self, done: "Future[Any]", task: "asyncio.Task[None]") -> None:
        with self._guard:
            self._waiting.discard(done)
        if done.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    def _wait(self, make: Callable[[], Any], context: Context) -> Completion:
        outcome = self._started(make, context)
        try:
            answer: Completion = outcome.result()
        except CancelledError as error:
            raise ModelError("the run ended before there was an answer") from error
        return answer

    async def _answer(self, asked: Ask) -> Completion:
        try:
            async with asyncio.timeout(asked.timeout_s):
                return await self.model(asked.role).complete(
                    asked.messages,
                    tools=asked.tools,
                    sampling=asked.sampling,
                    purpose=asked.purpose,
                )
        except TimeoutError as error:
            raise ModelTimeout(f"{asked.stage}: no answer within {asked.timeout_s} s") from error

    def _heard(self) -> list[Hearing]:
        """Return the rollouts that record an error, the most likely one last."""
        mine = _heard.get()
        if mine is not None and mine[0] is self:
            return [mine[1]]
        with self._guard:
            # Rollouts last: only their context has a permit. Without it, a rollout's request could
            # wait for a permit that the rollout itself holds.
            return sorted(self._hearings, key=lambda one: one.folder is not None) or [self._base]

    def _refuse_fork(self) -> None:
        """Refuse a request of a forked process, which lacks the event loop.

        The error is recorded in a file, because the run's process does not share this memory.
        """
        if os.getpid() == self._process:
            return
        for hearing in self._hearings:  # no lock: its holder at the fork is not in this process
            hearing.doubt(IN_A_FORK)
        raise ContractError(IN_A_FORK)

    def _refuse_loop(self) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is self._loop:
            raise ContractError(
                "the model functions of skillopt block, and were called on the run's event loop; "
                "in an 'async def' method write: await asyncio.to_thread(chat_target, ...)"
            )


_heard: ContextVar[tuple[ModelSession, Hearing] | None] = ContextVar("heard", default=None)
_sessions: list[ModelSession] = []
_guard = threading.Lock()


def present_session() -> ModelSession:
    """Return the caller's run."""
    found = session_if_any()
    if found is not None:
        return found
    if _sessions:
        fault = ConfigError(
            f"{len(_sessions)} runs are running in this process, and this thread does not say "
            "which one it asks for: start it with contextvars.copy_context().run, or let each run "
            "have a process of its own"
        )
        for session in list(_sessions):  # one of them asked, and may catch it
            session.note(fault)
        raise fault
    raise ConfigError(NO_RUN)


def session_if_any() -> ModelSession | None:
    """Return the caller's run, or ``None``."""
    mine = _heard.get()
    if mine is not None:
        return mine[0]
    with _guard:
        return _sessions[0] if len(_sessions) == 1 else None


def note_if_any(fault: SkillwrightError) -> None:
    """Record an error in the caller's run, if there is one."""
    session = session_if_any()
    if session is not None:
        session.note(fault)


async def _settle(make: Callable[[], Any], outcome: "Future[Any]") -> None:
    try:
        answer = await make()
    except asyncio.CancelledError:
        outcome.cancel()
        raise
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for it
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(answer)


def _summed(used: Mapping[str, int]) -> dict[str, int]:
    names = ("calls", "prompt_tokens", "completion_tokens")
    found = {name: used.get(name, 0) for name in names}
    return {**found, "total_tokens": found["prompt_tokens"] + found["completion_tokens"]}
