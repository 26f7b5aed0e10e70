"""Call an environment's methods and check what they return."""

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import ContractError, Message, ToolCall, Usage
from skillwright.envs.text_env import TextEnv

SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Reply:
    """The checked result of `init` or `step`."""

    messages: tuple[
        Message, ...
    ]  # the conversation that `init` starts, or messages that a step adds
    metadata: Mapping[str, Any]
    reward: float = 0.0  # finite; 0 for `init`
    done: bool = False  # whether the episode is over

    @property
    def raw_text(self) -> str:
        """The environment's raw text: from the metadata, or else the last message."""
        raw = self.metadata.get("observation")
        if isinstance(raw, str):
            return raw
        return self.messages[-1]["content"] if self.messages else ""

    @property
    def truncated(self) -> bool:
        """Whether the turn limit ended the episode."""
        return bool(self.metadata.get("truncated"))


async def open_env(env: TextEnv) -> Reply:
    """Start an episode; an environment for SkyRL-Gym has only the blocking methods."""
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
    """Send the text and native tool calls of a turn; refuse results of other calls."""
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


# What a model might write that no environment asked for.


HUGE_CHARS = 20_000
DEEP_LEVELS = 5_000
COMMON = 0.9  # how often huge and deep texts, which are slow, make way for common ones

_FRAGMENTS = (
    "<action>",
    "</action>",
    "<action>go",
    "go</action>",
    "<action></action>",
    "<action><action>look</action></action>",
    "<answer>",
    "<answer><answer>x</answer>",
    "</answer>x<answer>",
    "search[",
    "click[]",
    "search[[]]]",
    "<think>",
    "<think>look</think>",
    "</think><action>look",
    "<tool_call>",
    '<tool_call>{"name": "look", "arguments": {',
    "<tool_call>[]</tool_call>",
    "{",
    "}",
    "[1, 2",
    '{"action": null}',
    '{"name": 1, "arguments": "x"}',
    '{"name": "look", "arguments": [{}]}',
    "null",
    "true",
    "NaN",
    "1e999",
    "-0",
    "9" * 5_000,
    "%s %d %(x)s",
    "{0} {} {x!r}",
    "\\",
    "(((*+?[",
    "'\"`",
    "$(look)",
    "../../etc",
    "```json\n{}\n```",
    "None",
    "",
    " ",
    "\n\n\n",
)


def fuzz_action(rng: random.Random, admissible: Sequence[str]) -> str:
    """Write one action that a model might write; the admissible commands are garbled too."""
    return rng.choice(_KINDS)(rng, admissible)


def _fragments(rng: random.Random, admissible: Sequence[str]) -> str:
    words = (*_FRAGMENTS, *admissible[:5])
    return " ".join(rng.choices(words, k=rng.randint(2, 6)))


def _any_characters(rng: random.Random, admissible: Sequence[str]) -> str:
    # Half a surrogate pair is among them: a JSON reply can carry one.
    return "".join(chr(rng.randint(0, sys.maxunicode)) for _ in range(rng.randint(1, 40)))


def _control_characters(rng: random.Random, admissible: Sequence[str]) -> str:
    return "".join(chr(rng.choice((*range(32), 127, 0x202E, 0xFEFF))) for _ in range(8))


def _huge(rng: random.Random, admissible: Sequence[str]) -> str:
    if rng.random() < COMMON:
        return _garbled(rng, admissible)
    text = rng.choice(("a", "a ", "<", "<action>", "<think>", "{", *admissible))
    return (text * HUGE_CHARS)[:HUGE_CHARS]


def _deep(rng: random.Random, admissible: Sequence[str]) -> str:
    if rng.random() < COMMON:
        return _garbled(rng, admissible)
    return rng.choice(("[", '{"a":', "<action>", "(")) * DEEP_LEVELS


def _admissible(rng: random.Random, admissible: Sequence[str]) -> str:
    command = rng.choice(admissible) if admissible else "look"
    return rng.choice(("{}", "<action>{}</action>", "I think so.\n{}")).format(command)


def _garbled(rng: random.Random, admissible: Sequence[str]) -> str:
    command = rng.choice(admissible) if admissible else "look around"
    cut = rng.randint(0, len(command))
    words = command.split()
    rng.shuffle(words)
    return rng.choice(
        (
            command[:cut],
            command[cut:],
            command[:cut] + chr(rng.randint(33, 0x2FFF)) + command[cut:],
            " ".join(words),
            command.upper(),
            f"{command} {command}",
            f"{command}\x00",
            f"  {command}\t\n",
            f"<action>{command}",
            f'{{"action": "{command}"}}',
        )
    )


_KINDS: tuple[Callable[[random.Random, Sequence[str]], str], ...] = (
    lambda rng, _: rng.choice(_FRAGMENTS),
    _fragments,
    _any_characters,
    _control_characters,
    _huge,
    _deep,
    _admissible,
    _garbled,
    _garbled,
)
