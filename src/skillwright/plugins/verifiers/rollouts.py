"""Environments of verifiers with ``load_environment()``: our agent as client, watched rubrics.

Source: verifiers 0.1.14 to 0.3 (PrimeIntellect-ai/verifiers).
"""

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from inspect import isawaitable
from typing import Any, Final, NoReturn

from skillwright.core import DataError, EnvError, JudgeError, SkillwrightError, ToolCall
from skillwright.core.call_json import Unreadable, read_arguments
from skillwright.core.jsonio import dumps
from skillwright.plugins.verifiers.words import Ask, quiet, said

# Errors that verifiers stores with a rollout and that the agent causes.
_AGENTS_OWN: Final = ("ToolParseError", "InvalidModelResponseError", "EmptyModelResponseError")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded environment, shared by the rollouts of a process.

    Attributes:
        name: Its name in messages.
        env: What its ``load_environment()`` returned.
        asks_judge: Whether its rubric calls a model.
    """

    name: str
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

    def as_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with what verifiers expects, or raise a `DataError`."""
        if not row.get("prompt"):
            raise DataError(
                f"{self.name} needs a row with a prompt, a list of messages; env.data of kind "
                "'verifiers' takes those of its own data set"
            )
        row = {"example_id": 0, "answer": "", **row}
        if isinstance(row.get("task"), str) and not row["task"].startswith("{"):
            del row["task"]  # formerly the name of an environment; now it would be read as JSON
        return row

    async def play(
        self, row: Mapping[str, Any], ask: Ask, *, max_turns: int, recorded: Any
    ) -> Mapping[str, Any]:
        """Play a row, and return its reward and metrics; ``recorded`` replaces the judge's."""
        del max_turns  # the asker raises an error in place of an answer too many
        try:
            state = await self.env.rollout(row, _client_class()(ask), "skillwright", {})
            self._refuse_error(state)
            return recorded if recorded is not None else await self._scored(state)
        except SkillwrightError:
            raise
        except Exception as error:
            raise EnvError(f"{self.name} raised {said(error)}") from error

    def _refuse_error(self, state: Mapping[str, Any]) -> None:
        error = state.get("error")
        if state.get("timed_out"):
            raise EnvError(f"{self.name} ran out of the time that it gives itself")
        if error is None or any(type(one).__name__ in _AGENTS_OWN for one in _chain(error)):
            return
        for one in _chain(error):
            if isinstance(one, SkillwrightError):
                raise one
        raise EnvError(f"{self.name} failed: {' from '.join(map(said, _chain(error)))}")

    async def _scored(self, state: Any) -> Mapping[str, Any]:
        faults: list[Fault] = []
        faults_of_rollout.set(faults)
        rubric = self.env.rubric
        try:
            await rubric.score_rollout(state)
        finally:
            await rubric.cleanup(state)
        for fault in faults:
            kind = JudgeError if fault.judges else EnvError
            raise kind(
                f"{self.name} has no score: {fault.function}() of its rubric {fault.how}"
            ) from fault.error
        metrics = {name: float(n) for name, n in (state.get("metrics") or {}).items()}
        return {"reward": float(state["reward"]), "metrics": metrics}


def as_loaded(name: str, env: Any) -> Loaded:
    """Check what a ``load_environment()`` returned, and watch its rubrics, or raise `DataError`."""
    if not hasattr(env, "rollout") or not hasattr(env, "rubric"):
        raise DataError(f"{name}: load_environment() returned a {type(env).__name__}")
    if getattr(env, "requires_group_rollouts", False):
        raise DataError(
            f"{name} scores the rollouts of a task by comparing them, so one episode has no score "
            "here"
        )
    return Loaded(name, env, asks_judge=_watch(env))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


@cache
def _client_class() -> Any:
    """Return a subclass of verifiers' ``Client`` that sends its requests to our agent."""
    base = importlib.import_module("verifiers.clients").Client

    async def get_response(self: Any, prompt: Any, *args: Any, tools: Any = None, **_: Any) -> Any:
        del args
        answer = await self.client(prompt, tools)
        if answer is None:
            raise importlib.import_module("verifiers.errors").OverlongPromptError("out of turns")
        return _response(*answer)

    def unasked(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise EnvError("verifiers called a client method that our agent does not have")

    names = dict.fromkeys(base.__abstractmethods__, unasked)
    return type("AgentOfOurs", (base,), {**names, "get_response": get_response})


def _response(spoken: str, calls: Sequence[ToolCall]) -> Any:
    types = importlib.import_module("verifiers.types")
    made = [
        types.ToolCall(id=one.id, name=one.name, arguments=_arguments(one.arguments))
        for one in calls
    ]
    message = types.ResponseMessage(
        content=spoken,
        tool_calls=made or None,
        finish_reason="tool_calls" if made else "stop",
        is_truncated=False,
    )
    return types.Response(id="", created=0, model="skillwright", message=message)


def _arguments(written: str) -> str:
    """Return arguments as one JSON object, as verifiers reads them; what is none stays."""
    try:
        return dumps(read_arguments(written))
    except Unreadable:
        return written


# Errors in a rubric's functions are recorded, because verifiers scores them as 0.


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed function of a rubric: its name, behavior, and error."""

    function: str
    how: str
    judges: bool
    error: Exception | None


faults_of_rollout: ContextVar[list[Fault]] = ContextVar("faults")
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
        faults_of_rollout.get([]).append(Fault(name, how, judges, error))

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
