"""Load environments of `verifiers` without side effects, and watch their rubrics for errors."""

import importlib
import importlib.metadata
import importlib.util
import json
import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import isawaitable
from typing import Any, Final, NoReturn

from skillwright.core import DataError
from skillwright.core.found_code import import_code
from skillwright.core.jsonio import canonical

INSTALL: Final = "pip install 'skillwright[verifiers]'"
PREFIX: Final = "verifiers"

_SHOWN_CHARS: Final = 300

# An environment is loaded once per process and arguments, and shared by its rollouts.


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded environment; ``asks_judge`` says whether its rubric calls a model."""

    env: Any
    asks_judge: bool

    def tool_defs(self, row: Mapping[str, Any]) -> Any:
        """Return the row's tools, or else its environment's, in verifiers' format."""
        info, env = row.get("info"), self.env
        info = json.loads(info) if isinstance(info, str) else info or {}
        if "tool_defs" in info:
            return info["tool_defs"]
        route = info.get("env_id", ())  # path through groups of environments
        for name in [route] if isinstance(route, str) else route:
            env = getattr(env, "env_map", {}).get(name, env)
        return getattr(env, "tool_defs", None)

    def sets(self) -> tuple[Any, Any]:
        """Return its data set, and its eval set, or ``None`` if that is the same."""
        with quiet():
            own = [getattr(self.env, f"build_{name}")() for name in ("dataset", "eval_dataset")]
        first, evaluated = own
        return (evaluated, None) if first is None else (first, evaluated)


def loaded(name: str, env_config: object | None) -> Loaded:
    """Load an environment, once per arguments, or raise a `DataError`."""
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(f"{PREFIX}:{name}: env.config holds the arguments of load_environment()")
    return _load(name, canonical(dict(given)))


@lru_cache(maxsize=16)
def _load(name: str, arguments: str) -> Loaded:
    theirs()
    module = name.rpartition("/")[2].partition("@")[0].replace("-", "_")
    where = name if name.endswith(".py") else module
    if not name.endswith(".py") and importlib.util.find_spec(module) is None:
        raise DataError(
            f"no environment {name!r} of verifiers is installed: there is no package {module!r}. "
            "Install it (pip install, or prime env install OWNER/NAME), or name a file: "
            f"{PREFIX}:path/to/env.py"
        )
    try:
        with quiet():
            load = getattr(import_code(where), "load_environment", None)
            if load is None:
                _refuse_other_kind(name)
            env = load(**json.loads(arguments))
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{PREFIX}:{name} cannot be loaded: {said(error)}") from error
    if not hasattr(env, "rollout") or not hasattr(env, "rubric"):
        raise DataError(f"{PREFIX}:{name}: load_environment() returned a {type(env).__name__}")
    if getattr(env, "requires_group_rollouts", False):
        raise DataError(
            f"{PREFIX}:{name} scores the rollouts of a task by comparing them, so one episode has "
            "no score here"
        )
    return Loaded(env, asks_judge=_watch(env))


def _refuse_other_kind(name: str) -> NoReturn:
    raise DataError(
        f"{name!r} has no load_environment(); tasksets of verifiers.v1 are another kind, which "
        "runs programs in sandboxes, and is not played here"
    )


def theirs() -> Any:
    """Import verifiers, or raise a `DataError` if it is missing or too new."""
    with quiet():
        try:
            found = importlib.import_module("verifiers")
            found.MultiTurnEnv  # noqa: B018 - the module loads its attributes lazily
        except ImportError as error:
            raise DataError(f"verifiers is not installed ({error}); {INSTALL}") from error
        except AttributeError as error:
            version = importlib.metadata.version("verifiers")
            raise DataError(
                f"verifiers {version} has no load_environment() any more, which published "
                f"environments are written for; pip install 'verifiers<0.4'"
            ) from error
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Undo side effects of loading: signal handlers, progress bars, warnings."""
    before = signal.signal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bars = importlib.import_module("datasets.utils.logging") if _has("datasets") else None
        shown = bars is not None and bars.is_progress_bar_enabled()
        if bars is not None:
            bars.disable_progress_bar()
        # Verifiers installs a handler for Ctrl-C, which runs need; in a thread that would raise.
        signal.signal = lambda *_: None
        try:
            yield
        finally:
            signal.signal = before
            if bars is not None and shown:
                bars.enable_progress_bar()


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


# Errors in a rubric's functions are recorded, because verifiers scores them as 0.


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed function of a rubric: its name, behavior, and error."""

    function: str
    how: str
    judges: bool
    error: Exception | None


faults: ContextVar[list[Fault]] = ContextVar("faults")
"""The faults of the rollout that is being scored."""


def _watch(env: Any) -> bool:
    """Watch the rubrics of an environment; returns whether one of them asks a judge."""
    rubrics, judges = [env.rubric, *(one.rubric for one in getattr(env, "envs", ()))], False
    while rubrics:
        rubric = rubrics.pop()
        rubrics += getattr(rubric, "rubrics", ())
        is_judge = hasattr(rubric, "judge_client")
        judges = judges or is_judge
        weights = [*rubric.weights, *[0.0] * len(rubric.funcs)]
        rubric.funcs[:] = [
            _watched(function, judges=is_judge) if weight else function
            for function, weight in zip(rubric.funcs, weights, strict=False)
        ]
    return judges


def _watched(function: Callable[..., Any], *, judges: bool) -> Callable[..., Any]:
    name = getattr(function, "__name__", type(function).__name__)

    def note(how: str, error: Exception | None = None) -> None:
        faults.get([]).append(Fault(name, how, judges, error))

    def checked(value: Any) -> Any:
        try:
            number = float(value)
        except (TypeError, ValueError):
            note(f"returned {str(value)[:80]!r}, no number")
        else:
            if not math.isfinite(number):
                note(f"returned {number}")
        return value

    async def awaited(value: Any) -> Any:
        try:
            return checked(await value)
        except Exception as error:
            note(f"raised {said(error)}", error)
            raise

    @wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            note(f"raised {said(error)}", error)
            raise
        return awaited(value) if isawaitable(value) else checked(value)

    return watched


def said(error: BaseException) -> str:
    """Format an error on one line."""
    text = " ".join(str(error).split())[:_SHOWN_CHARS]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
