"""Scorers that may raise, return nonsense or never end: each is asked in a process of its own."""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from skillwright.core import DataError, EnvError
from skillwright.core.fence import one_line
from skillwright.core.found_code import SESSION, find_code
from skillwright.core.jsonio import read_text, text_digest
from skillwright.envs.table.scorers import NOT_RIGHT, Function, Grade, Regex, as_text
from skillwright.envs.table.worker import describe, read_score

_PROGRAM: Final = Path(__file__).with_name("worker.py")
_STARTS_WITHIN_S: Final = 60.0
_MOST_PROCESSES: Final = 4
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
    """Return the digest of the file that a function is in, or "" where it is an installed one.

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
        process.start()
    except EnvError as error:
        raise DataError(f"env.config.scorer: {error}") from error
    finally:
        process.stop()


async def _ask_here(
    function: str, row: Mapping[str, Any], reply: str, limit_s: float
) -> Mapping[str, Any]:
    """Ask a function that only this process has."""
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
    """Ask a free process; stop it when the caller is gone."""
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
    """One question; the thread that asks it has a process of its own per function."""

    def __init__(self, function: str, question: Mapping[str, Any]) -> None:
        self._function = function
        self._question = question
        self._process: _Process | None = None
        self._is_off = False

    def answer(self) -> dict[str, Any]:
        if self._is_off:
            raise EnvError(f"{self._function}: the caller is gone")
        kept: dict[str, _Process] = _own.__dict__.setdefault("processes", {})
        # Another version of the file is another program.
        name = f"{self._function}#{file_digest(self._function)}"
        process = self._process = kept.setdefault(name, _Process(self._function))
        return process.ask(self._question)

    def stop(self) -> None:
        self._is_off = True
        if self._process is not None:
            self._process.stop()


class _Process:
    """A scorer's process; it is started when it is asked, and again after it was stopped."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._name = function or "the regular expression"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        paths = json.dumps([path or str(Path.cwd()) for path in sys.path])
        # -P: other files in the program's folder are not importable by the scorer.
        words = [sys.executable, "-P", str(_PROGRAM), self._function, paths]
        # In a session of its own, so that Ctrl-C is no exception of a scorer's.
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        answer = self._read(_STARTS_WITHIN_S, "to be imported")
        if "broken" in answer:
            self.stop()
            raise EnvError(f"{self._name} cannot be used: {answer['broken']}")

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self.start()
        pipe = self._pipe("stdin")
        try:
            pipe.write(json.dumps(question) + "\n")
            pipe.flush()
        except OSError as error:
            self.stop()
            raise EnvError(f"{self._name} ended by itself before it was asked") from error
        answer = self._read(question["time_limit_s"], "for a reply")
        if "raised" in answer:
            raise EnvError(f"{self._name} gave no score: {answer['raised']}")
        return answer

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self, limit_s: float, what: str) -> dict[str, Any]:
        """Read a line, or stop the process where it takes too long to write one."""
        process, late = self._process, threading.Event()
        if process is None:
            raise EnvError(f"{self._name} was stopped")

        def too_late() -> None:
            late.set()
            _kill(process)

        watch = threading.Timer(limit_s, too_late)
        watch.daemon = True
        watch.start()
        try:
            line = self._pipe("stdout").readline()
        finally:
            watch.cancel()
        if late.is_set():
            self.stop()
            raise EnvError(
                f"{self._name} took longer than {limit_s:g} s {what} and was stopped; "
                "env.config.scorer.time_limit_s allows more"
            )
        if not line:
            code = process.wait()
            self.stop()
            raise EnvError(f"{self._name} ended its process, with exit code {code}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _pipe(self, name: str) -> IO[str]:
        pipe: IO[str] | None = getattr(self._process, name, None)
        if pipe is None:
            raise EnvError(f"{self._name} was stopped")
        return pipe


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and what it started, which would keep its end of the pipe open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
