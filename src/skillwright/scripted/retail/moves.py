"""What an agent can do in a turn, and a conversation as the moves that were made in it."""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from skillwright.core import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Say:
    """Write to the customer."""

    text: str

    def written(self) -> str:
        """Return the turn as the environment takes it."""
        return self.text


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool."""

    name: str
    arguments: dict[str, Any]

    def written(self) -> str:
        """Return the turn as the environment takes it."""
        call = {"name": self.name, "arguments": self.arguments}
        return f"<tool_call>{json.dumps(call)}</tool_call>"


Service = Generator[Say | Call, str, T]
"""Yields moves, is sent what came of each, and returns what was found out."""


def call(name: str, **arguments: Any) -> Service[str]:
    """Call a tool and return what it says."""
    result = yield Call(name, arguments)
    return result.replace("<tool_response>", "").replace("</tool_response>", "").strip()


def look(name: str, **arguments: Any) -> Service[dict[str, Any] | None]:
    """Call a tool that shows a record; ``None`` where there is none."""
    result = yield from call(name, **arguments)
    try:
        record = json.loads(result)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def heard(messages: Sequence[Message]) -> list[str]:
    """Return what the agent read so far: the opening, then what came of each of its turns."""
    return [message["content"] for message in messages if message["role"] != "system"][::2]


def next_move(service: Service[None], replies: Sequence[str]) -> Say | Call:
    """Play a service through what came of its moves so far, and return the next one."""
    try:
        move = next(service)
        for reply in replies:
            move = service.send(reply)
    except StopIteration:
        return Say("Goodbye.")
    return move
