"""Messages as JSON that refers to stored texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skillwright.core import Message


def contents(messages: Iterable[Message]) -> list[str]:
    """List the texts of messages; a content that is no text has none."""
    return [text for message in messages if isinstance(text := message.get("content"), str)]


def write_message(message: Message, texts: Mapping[str, int]) -> list[Any]:
    """Return ``[role, content, rest]``, the content as a number where ``texts`` holds it."""
    rest: dict[str, Any] = {**message}
    role, content = rest.pop("role"), None
    if isinstance(rest.get("content"), str):
        content = rest.pop("content")
        content = texts.get(content, content)
    return [role, content, rest] if rest else [role, content]


def read_message(item: Sequence[Any], texts: Mapping[int, str]) -> Message:
    """Read what `write_message` wrote."""
    role, content, *rest = item
    message: dict[str, Any] = {"role": role}
    if content is not None:
        message["content"] = texts[content] if isinstance(content, int) else content
    for more in rest:
        message |= more
    return message  # type: ignore[return-value]  # a TypedDict that was built key by key


def referred_texts(items: Iterable[Sequence[Any]]) -> list[int]:
    """List the numbers of the stored texts that written messages refer to."""
    return [item[1] for item in items if isinstance(item[1], int)]
