"""Call scorers that may raise, return nonsense or never end, each in its own process."""

import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Final

from skillwright.core import DataError, EnvError
from skillwright.core.fence import one_line
from skillwright.core.found_code import SESSION, find_code
from skillwright.core.jsonio import read_text, text_digest
from skillwright.core.supervised import end_supervised, supervised
from skillwright.envs.table.scorers import NOT_RIGHT, Function, Grade, Regex, as_text
from skillwright.envs.table.worker import describe, read_score

_PROGRAM: Final = Path(__file__).with_name("worker.py")
_STARTS_WITHIN_S: Final = 60.0
_MOST_PROCESSES: Final = 4
_LOOKS_AGAIN_S: Final = 0.1
_REASON_CHARS: Final = 80


async def scored_apart(
    scorer: Function | Regex, row: Mapping[str, Any], reply: str, right: Any
) -> Grade:
    """Score a reply by a function or a regular expression.

    Raises:
        EnvError: It raised, took too long, or returned no number in [0, 1].
    """
    name = "" if isinstance(scorer, Regex) else scorer.function
    what = {"pattern": as_text(right)} if isinstance(scorer, Regex) else {"row": dict(row)}
    if name.startswith(f"{SESSION}:"):
        return _graded(await _ask_here(name, row, reply, scorer.time_limit_s))
    question = {**what, "reply": reply}
    found = await _ask(name, {**question, "time_limit_s": scorer.time_limit_s})
    if isinstance(scorer, Regex) and found["score"] < 1:
        expected = f'Expected what matches "{as_text(right)}".'
        return Grade(found["score"], expected, reason="the pattern does not match")
    return _graded(found)


def _graded(found: Mapping[str, Any]) -> Grade:
    score, said = found["score"], found.get("feedback", "")
    feedback = said or ("Right." if score == 1 else f"The score is {score:g}.")
    reason = "" if score == 1 else one_line(feedback, _REASON_CHARS)
    return Grade(score, feedback, said or NOT_RIGHT, reason=reason)


def file_digest(function: str) -> str:
    """Return the digest of the file of a function, or "" for an installed package.

    Raises:
        DataError: There is no such file.
    """
    file = function.rpartition(":")[0]
    return text_digest(read_text(Path(file), "scorer")) if file.endswith(".py") else ""


def refuse_unusable(scorer: Function) -> None:
    """Refuse a function that cannot be imported, before anything is played.

    Raises:
        DataError: Its file is missing or raises, or has no such function.
    """
    file_digest(scorer.function)
    if scorer.function.startswith(f"{SESSION}:"):
        find_code(scorer.function, "the scorer")
        return
    process = _Process(scorer.function)
    try:
        process.start(threading.Event())
    except EnvError as error:
        raise DataError(f"env.config.scorer: {error}") from error
    finally:
        process.stop()


async def _ask_here(
    function: str, row: Mapping[str, Any], reply: str, limit_s: float
) -> Mapping[str, Any]:
    """Call a function that only this process can import."""
    score = find_code(function, "the scorer")
    try:
        async with asyncio.timeout(limit_s):
            if inspect.iscoroutinefunction(score):
                value = await score(dict(row), reply)
            else:
                value = await _in_a_thread(score, dict(row), reply)
        return read_score(value)
    except TimeoutError as error:
        raise EnvError(f"{function} took longer than {limit_s:g} s for a reply") from error
    except Exception as error:
        raise EnvError(f"{function} gave no score: {describe(error)}") from error


async def _in_a_thread(score: Callable[..., Any], row: dict[str, Any], reply: str) -> Any:
    """Call a function in its own thread, so that one that never ends blocks no other call."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()

    def call() -> None:
        try:
            done.set_result(score(row, reply))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            done.set_exception(error)

    threading.Thread(target=call, name="scorer", daemon=True).start()
    return await asyncio.wrap_future(done)


async def _ask(function: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Call the scorer in a free process; stop the process if the caller is cancelled."""
    asked = _Asked(function, question)
    future = _threads().submit(asked.answer)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        asked.stop()
        raise


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_MOST_PROCESSES, os.cpu_count() or 1), "scorer")


_own = threading.local()


class _Asked:
    """One call of a scorer; each thread has its own process per function."""

    def __init__(self, function: str, question: Mapping[str, Any]) -> None:
        self._function = function
        self._question = question
        self._is_off = threading.Event()

    def answer(self) -> dict[str, Any]:
        kept: dict[str, _Process] = _own.__dict__.setdefault("processes", {})
        # A changed file needs a new process.
        name = f"{self._function}#{file_digest(self._function)}"
        return kept.setdefault(name, _Process(self._function)).ask(self._question, self._is_off)

    def stop(self) -> None:
        """Make the thread end its process, unless it has the answer."""
        self._is_off.set()


class _Process:
    """A scorer's process, used by one thread; it starts on demand, also after it ended."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._name = function or "the regular expression"
        self._process: subprocess.Popen[str] | None = None
        self._lines: SimpleQueue[str] = SimpleQueue()

    def start(self, is_off: threading.Event) -> "subprocess.Popen[str]":
        paths = json.dumps([path or str(Path.cwd()) for path in sys.path])
        # -P: other files in the program's folder are not importable by the scorer.
        words = [sys.executable, "-P", str(_PROGRAM), self._function, paths]
        # In its own session, so that Ctrl-C does not raise an exception in a scorer.
        process = self._process = subprocess.Popen(
            supervised(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        self._lines = SimpleQueue()
        reading = (process.stdout, self._lines)
        threading.Thread(target=_read_lines, args=reading, name="scorer", daemon=True).start()
        answer = self._read(_STARTS_WITHIN_S, "to be imported", is_off)
        if "broken" in answer:
            self.stop()
            raise EnvError(f"{self._name} cannot be used: {answer['broken']}")
        return process

    def ask(self, question: Mapping[str, Any], is_off: threading.Event) -> dict[str, Any]:
        process = self._process
        if process is None or process.poll() is not None:
            process = self.start(is_off)
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        except OSError as error:
            self.stop()
            raise EnvError(f"{self._name} ended by itself before it was asked") from error
        answer = self._read(question["time_limit_s"], "for a reply", is_off)
        if "raised" in answer:
            raise EnvError(f"{self._name} gave no score: {answer['raised']}")
        return answer

    def stop(self) -> int:
        """End the process and all that it started; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        end_supervised(process)
        if process.stdin is not None:
            with suppress(BrokenPipeError):  # an unread question
                process.stdin.close()
        return process.returncode

    def _read(self, limit_s: float, what: str, is_off: threading.Event) -> dict[str, Any]:
        """Read a line; stop the process on timeout, or if the caller is cancelled."""
        ends_at = time.monotonic() + limit_s
        line = None
        while line is None and not is_off.is_set() and time.monotonic() < ends_at:
            with suppress(Empty):
                line = self._lines.get(timeout=min(_LOOKS_AGAIN_S, limit_s))
        if line is None:
            self.stop()
            if is_off.is_set():
                raise EnvError(f"{self._name}: its caller is gone")
            raise EnvError(
                f"{self._name} took longer than {limit_s:g} s {what} and was stopped; "
                "env.config.scorer.time_limit_s allows more"
            )
        if not line:
            raise EnvError(f"{self._name} ended its process, with exit code {self.stop()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _read_lines(pipe: IO[str], lines: "SimpleQueue[str]") -> None:
    """Pass lines on, and "" at the end, so that no caller waits for a pipe that stays open."""
    with pipe:
        for line in pipe:
            lines.put(line)
    lines.put("")
