"""Drives an environment one call at a time, and refuses what its contract forbids."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import ContractError, Message, ToolCall, Usage
from skillwright.envs.text_env import TextEnv

SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Reply:
    """What `init` or `step` returned, checked."""

    messages: tuple[Message, ...]  # the conversation that `init` starts, or what a step adds to it
    metadata: Mapping[str, Any]  # facts beside the text
    reward: float = 0.0  # the reward of the step, finite; 0 for `init`
    done: bool = False  # the episode is over

    @property
    def raw_text(self) -> str:
        """The world's own words: named in the metadata, or else what the last message says."""
        raw = self.metadata.get("observation")
        if isinstance(raw, str):
            return raw
        return self.messages[-1]["content"] if self.messages else ""

    @property
    def truncated(self) -> bool:
        """Whether the turn limit ended the episode."""
        return bool(self.metadata.get("truncated"))


async def open_env(env: TextEnv) -> Reply:
    """Start an episode.

    An environment written for SkyRL-Gym has the blocking pair only, and is driven in place.
    """
    value = await env.ainit([]) if hasattr(env, "ainit") else env.init([])
    if not (isinstance(value, tuple) and len(value) == 2):
        raise ContractError(f"init returned {_shown(value)}, not (messages, metadata)")
    messages = _messages(value[0])
    if not messages:
        raise ContractError("init returned no message; the agent would have nothing to read")
    return Reply(messages, _mapping("metadata", value[1]))


async def step_env(env: TextEnv, action: str) -> Reply:
    """Take one action."""
    return _read(await env.astep(action) if hasattr(env, "astep") else env.step(action))


async def step_env_native(env: TextEnv, said: str, calls: Sequence[ToolCall]) -> Reply:
    """Take a turn of an agent that is offered tools natively."""
    reply = _read(await env.astep_native(said, calls))
    if not reply.done:
        _refuse_strange_answers(reply.messages, [call.id for call in calls])
    return reply


def native_tools(env: TextEnv) -> tuple[dict[str, Any], ...]:
    """Return the tools that an environment offers natively; one written for SkyRL-Gym has none."""
    tools = env.native_tools() if hasattr(env, "native_tools") else ()
    listed = isinstance(tools, Sequence) and not isinstance(tools, str)
    if not listed or not all(map(_is_tool, tools)):
        raise ContractError(
            f"native_tools() is {_shown(tools)}, not a list of "
            '{"type": "function", "function": {"name": ..., "parameters": ...}}'
        )
    return tuple(tools)


def _is_tool(value: object) -> bool:
    function = value.get("function") if isinstance(value, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def _refuse_strange_answers(messages: Sequence[Message], asked: Sequence[str]) -> None:
    """Refuse results that would make the next request one that strict endpoints refuse."""
    answered = [message.get("tool_call_id") for message in messages if message["role"] == "tool"]
    leading = [message["role"] == "tool" for message in messages[: len(answered)]]
    if answered != list(asked[: len(answered)]) or not all(leading):
        raise ContractError(
            f"step_native answered the calls {_shown(answered)} of {_shown(list(asked))}; results "
            "come first, one for each call from the first on, in order, under its id"
        )


def _read(value: object) -> Reply:
    output = _mapping("the step output", value)
    missing = [key for key in ("observations", "reward", "done", "metadata") if key not in output]
    if missing:
        raise ContractError(f"the step output lacks {', '.join(map(repr, missing))}")
    return Reply(
        messages=_messages(output["observations"]),
        metadata=_mapping("metadata", output["metadata"]),
        reward=_number("reward", output["reward"]),
        done=bool(output["done"]),
    )


def metrics_of(env: TextEnv) -> dict[str, float]:
    """Read an episode's metrics."""
    metrics = _mapping("get_metrics()", env.get_metrics())
    return {str(name): _number(f"metric {name!r}", number) for name, number in metrics.items()}


def usage_of(env: TextEnv) -> dict[str, Usage]:
    """Read what an environment's own models consumed; one written for SkyRL-Gym tells nothing."""
    if not hasattr(env, "get_usage"):
        return {}
    usage = _mapping("get_usage()", env.get_usage())
    if not all(isinstance(spent, Usage) for spent in usage.values()):
        raise ContractError(f"get_usage() is {_shown(usage)}, not a Usage by purpose")
    return {str(purpose): spent for purpose, spent in usage.items()}


def _messages(value: object) -> tuple[Message, ...]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if listed and all(map(_is_message, value)):  # type: ignore[call-overload]  # narrowed above
        return tuple(value)  # type: ignore[arg-type]  # each was checked
    raise ContractError(f"messages are {_shown(value)}, not a list of role and content")


def _is_message(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("role"), str)
        and isinstance(value.get("content"), str)
    )


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ContractError(f"{name} is {_shown(value)}, not a mapping")
    return value


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ContractError(f"{name} is {_shown(value)}, not a number") from None
    if not math.isfinite(number):
        raise ContractError(f"{name} is {number}, which is no score")
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
