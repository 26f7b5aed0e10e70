"""Third-party adapters: find, build and call them.

Adapters block and are called from one thread, one call at a time. A method written ``async def`` is
awaited in the loop instead, where calls may overlap.
"""

import asyncio
import concurrent.futures
import inspect
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from skillwright.core import ConfigError, EnvError, SkillwrightError, UsageError, did_you_mean
from skillwright.envs import EnvAdapter, spec
from skillwright.rollout.workers import worker_engine

_OURS = str(Path(__file__).parents[1])
_BETWEEN = (
    _OURS,
    str(Path(asyncio.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
    threading.__file__,
)
"""Files of stack frames between a run and the adapter's first line."""

Bug = tuple[str, str, int | None]


class FaultLog:
    """Logs errors of an adapter; shows the traceback once per type of error and line."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._seen: set[Bug] = set()
        self._said: set[tuple[str, Bug]] = set()

    def warn(self, said: str, fault: BaseException, *, once: bool = False) -> None:
        """Log an error in one line, the first of its kind with the adapter's stack frames."""
        theirs, bug = _their_frames(fault), _bug(fault)
        if once and (said, bug) in self._said:
            return
        shows = bug not in self._seen and _is_worth_showing(fault, theirs)
        self._seen.add(bug)
        self._said.add((said, bug))
        why = f"{type(fault).__name__}: {fault}"
        self._log.warning(
            "%s: %s",
            said,
            why,
            exc_info=(type(fault), fault, theirs or fault.__traceback__) if shows else None,
        )


def _bug(fault: BaseException) -> Bug:
    frames = traceback.extract_tb(fault.__traceback__)
    where = (frames[-1].filename, frames[-1].lineno) if frames else ("", 0)
    return type(fault).__name__, *where


def _their_frames(fault: BaseException) -> TracebackType | None:
    """Return a traceback from the adapter's first frame on, or ``None``."""
    frames = fault.__traceback__
    while frames and frames.tb_frame.f_code.co_filename.startswith(_BETWEEN):
        frames = frames.tb_next
    return frames


def _is_worth_showing(fault: BaseException, theirs: TracebackType | None) -> bool:
    """Tell whether a traceback helps: our own errors explain themselves."""
    return theirs is not None or not isinstance(fault, SkillwrightError)


T = TypeVar("T")

HELPERS = (
    "build_reference_text",
    "get_reference_metadata",
    "attach_reference_context",
    "select_representative_items",
    "get_error_minibatch_prompt",
    "get_success_minibatch_prompt",
    "_load_env_prompt",
    "_env_name",
)
"""Methods with a default implementation that depends only on the arguments."""

Around = Callable[[], AbstractContextManager[object]]
"""Makes the context in which an adapter's code runs, such as its import paths."""

HEARTBEAT_S = 0.5
"""Maximum seconds that a loop waiting for an adapter sleeps."""

_log = logging.getLogger(__name__)


class _Job(NamedTuple):
    context: Context
    work: Callable[[], Any]
    outcome: "Future[Any]"


class CallThread:
    """Runs blocking calls one at a time in one thread, which starts with the first call.

    The thread is a daemon, and a cancelled caller does not wait for it, so Ctrl-C ends the process
    even if the adapter never returns.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call in the caller's context and return its result."""
        if self._thread is None:
            target = partial(_serve, self._jobs)
            self._thread = threading.Thread(target=target, name=self._name, daemon=True)
            self._thread.start()
        outcome: Future[T] = Future()
        self._jobs.put(_Job(copy_context(), work, outcome))
        waiting = asyncio.wrap_future(outcome)
        try:
            # A signal does not wake a loop that sleeps while another thread works, so Ctrl-C needs
            # this.
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=HEARTBEAT_S)
        finally:
            waiting.cancel()
        return waiting.result()

    def close(self) -> None:
        """End the thread after the waiting calls; do not wait for it."""
        self._jobs.put(None)


def _serve(jobs: "queue.SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        if not job.outcome.set_running_or_notify_cancel():
            continue  # the caller was cancelled
        try:
            result = job.context.run(job.work)
        except StopIteration as error:  # a future cannot hold it
            job.outcome.set_exception(EnvError(f"StopIteration: {error}"))
        except Exception as error:  # noqa: BLE001 - raised again where the call is awaited
            job.outcome.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - foreign code must not end the run
            fault = EnvError(f"{type(error).__name__}: {error}")
            job.outcome.set_exception(fault.with_traceback(error.__traceback__))
        else:
            job.outcome.set_result(result)


class ForeignAdapter:
    """An adapter with awaitable calls."""

    def __init__(
        self, adapter: EnvAdapter, thread: CallThread | None = None, around: Around = nullcontext
    ) -> None:
        self.adapter = adapter
        self.faults = FaultLog(_log)
        self._thread = thread or _thread_of(type(adapter))
        self._around = around

    @classmethod
    async def build(
        cls,
        adapter_type: type[EnvAdapter],
        arguments: Mapping[str, Any],
        around: Around = nullcontext,
    ) -> "ForeignAdapter":
        """Build an adapter in its thread; errors of its constructor propagate."""
        thread = _thread_of(adapter_type)
        with around():
            return cls(await thread.run(partial(adapter_type, **arguments)), thread, around)

    def overrides(self, method: str) -> bool:
        """Tell whether the adapter overrides a method."""
        own = inspect.getattr_static(self.adapter, method, None)
        return own is not inspect.getattr_static(EnvAdapter, method)

    async def call(self, method: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
        """Call a method of the adapter or its loader, and await it if it is asynchronous."""
        work = partial(method, *args, **_accepted(method, optional))
        with self._around():
            result = work() if inspect.iscoroutinefunction(method) else await self._thread.run(work)
            return await result if inspect.isawaitable(result) else result

    async def listed(self, method: Callable[..., Any], /, *args: Any, **optional: Any) -> Any:
        """Call a method; return the items of an iterator or async generator as a list.

        A generator runs while it is read, so it is read in the adapter's thread.
        """
        answer = await self.call(method, *args, **optional)
        if isinstance(answer, Iterator):
            return await self.call(partial(list, answer))
        if inspect.isasyncgen(answer):
            with self._around():
                return [one async for one in answer]
        return answer

    async def consult(
        self, otherwise: T, method: Callable[..., Any], /, *args: Any, **named: Any
    ) -> T:
        """Call a helper method; if it fails, log that and return ``otherwise``.

        Helpers depend only on their arguments. If the adapter overrides none, they run outside its
        thread and do not wait for a rollout.
        """
        try:
            if any(map(self.overrides, HELPERS)):
                answer = await self.call(method, *args, **named)
            else:
                with self._around():
                    answer = await asyncio.to_thread(method, *args, **named)
        except Exception as error:  # noqa: BLE001 - foreign code; logged with its traceback
            # Once: it is called for every item.
            self.faults.warn(f"{_name_of(method)} failed, and is done without", error, once=True)
            return otherwise
        if answer is None:
            return otherwise
        if not isinstance(answer, type(otherwise)):
            kind = type(answer).__name__
            _log.warning("%s returned %s, and is done without", _name_of(method), kind)
            return otherwise
        return answer

    def close(self) -> None:
        """Let the adapter's thread end."""
        self._thread.close()


def _name_of(method: Callable[..., Any]) -> str:
    return getattr(method, "__qualname__", repr(method))


def _thread_of(adapter_type: type[EnvAdapter]) -> CallThread:
    return CallThread(f"skillwright-{adapter_type.__name__}")


def _accepted(method: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):  # written in C, or hidden by a decorator
        return dict(named)
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return dict(named)
    return {name: value for name, value in named.items() if name in parameters}


_NEVER_PASSED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def load_adapter(name: str) -> type[EnvAdapter] | None:
    """Find the adapter class of a name, ``package.module:Class`` or ``path/to/file.py:Class``.

    Returns:
        The class, or ``None`` if the name is a text environment's.

    Raises:
        DataError: Nothing has this name, or it cannot be imported.
        ConfigError: The class lacks methods of the interface.
    """
    found = spec(name).find()
    if not (isinstance(found, type) and issubclass(found, EnvAdapter)):
        return None
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(
            f"adapter {name!r} does not write {', '.join(missing)}(); every adapter needs "
            "build_train_env, build_eval_env, rollout and get_task_types"
        )
    return found


def constructor_arguments(
    adapter_type: type[EnvAdapter], cfg: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """Return the configuration values that a constructor takes."""
    parameters = [
        one
        for one in inspect.signature(adapter_type).parameters.values()
        if one.kind not in _NEVER_PASSED
    ]
    for one in parameters:
        if one.default is inspect.Parameter.empty and one.name not in cfg:
            raise ConfigError(
                f"adapter {name!r} needs {one.name!r}, and the configuration does not have it. "
                f"{did_you_mean(one.name, cfg)} Set env.config.{one.name}."
            )
    return {one.name: cfg[one.name] for one in parameters if one.name in cfg}


async def build_adapter(
    adapter_type: type[EnvAdapter], cfg: Mapping[str, Any], name: str, around: Around = nullcontext
) -> ForeignAdapter:
    """Build an adapter that can run here.

    Raises:
        ConfigError: An argument is missing, the constructor raised, or Ray is needed and missing.
    """
    arguments = constructor_arguments(adapter_type, cfg, name)
    try:
        foreign = await ForeignAdapter.build(adapter_type, arguments, around)
        needs_ray = await foreign.call(foreign.adapter.requires_ray)
    except SkillwrightError:
        raise
    except Exception as error:
        raise ConfigError(
            f"adapter {name!r} cannot be built: {type(error).__name__}: {error}. It was given "
            f"{', '.join(sorted(arguments)) or 'no arguments'}; its settings are in env.config."
        ) from error
    if needs_ray:
        try:
            worker_engine("ray").refuse_missing(f"adapter {name!r}, whose requires_ray() is true,")
        except UsageError:
            foreign.close()
            raise
    return foreign
