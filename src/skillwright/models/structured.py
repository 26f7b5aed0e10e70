"""JSON out of what a model wrote: a tolerant reader, and one chance to repair a reply.

A reply may stand in a code fence, have words around it, or hold line breaks inside its strings.
It may not be cut off: half a proposal is no proposal.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from skillwright.core import ChatModel, Completion, Message, Purpose, ReplyInvalid, Sampling
from skillwright.models.validation import explain_validation_error

Reply = TypeVar("Reply", bound=BaseModel)
Json = TypeVar("Json", dict[str, Any], list[Any])

_FENCE = re.compile(r"^[ \t]*```(?:json)?[ \t]*$", re.IGNORECASE | re.MULTILINE)
# A string is one token, closed or not, so that a scan reads every character once.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)
# What tells the start of JSON from a brace in prose.
_OBJECT = re.compile(r'\{\s*["}]')
_ARRAY = re.compile(r'\[\s*(?:[]\[{"\d-]|true|false|null)')


def extract_json(text: str) -> dict[str, Any] | None:
    """Find the first JSON object in a text, in time linear in its length.

    A fenced one comes first. A text that breaks off inside an object gives ``None``, even where
    that object holds complete ones.
    """
    return _extract(text, _OBJECT, dict)


def extract_json_array(text: str) -> list[Any] | None:
    """Find the first JSON array in a text; see `extract_json`."""
    return _extract(text, _ARRAY, list)


def parse_reply(text: str, finish_reason: str, reply_type: type[Reply]) -> Reply:
    """Read a model's JSON object as a typed reply.

    Args:
        text: What the model wrote.
        finish_reason: Why it stopped; ``length`` means that the token limit cut it off.
        reply_type: The form that was asked for.

    Raises:
        ReplyInvalid: The reply was cut off, has no JSON object, or does not have the form; the
            message says which, in words that the model can act on as well.
    """
    found = extract_json(text)
    if found is None:
        if finish_reason == "length":
            raise ReplyInvalid(
                f"The reply was cut off by the token limit after {len(text):,} characters, before "
                "its JSON object was complete. Raise max_tokens, or ask for less."
            )
        raise ReplyInvalid(
            f"The reply holds no complete JSON object; it begins {text[:80]!r}. "
            "Answer with one JSON object and nothing else."
        )
    try:
        return reply_type.model_validate(found)
    except ValidationError as error:
        problems = explain_validation_error(error, reply_type)
        raise ReplyInvalid(f"The JSON object does not have the form asked for:\n{problems}") from (
            None
        )


async def ask_json(
    model: ChatModel,
    messages: Sequence[Message],
    reply_type: type[Reply],
    *,
    sampling: Sampling = Sampling(),
    purpose: Purpose,
    repair_rounds: int = 1,
) -> Reply:
    """Ask for a JSON object, and where it is wrong, ask again with the error.

    After a reply that the token limit cut off, the next round may be twice as long.

    Args:
        model: Who is asked.
        messages: The conversation; it says what form the object has.
        reply_type: That form.
        sampling: How to decode.
        purpose: What the tokens are counted under.
        repair_rounds: How often to ask again, at least 0.

    Raises:
        ReplyInvalid: The last reply was wrong too.
        ModelError: The endpoint failed.
    """
    conversation = list(messages)
    for rounds_left in reversed(range(repair_rounds + 1)):
        completion = await model.complete(conversation, sampling=sampling, purpose=purpose)
        try:
            return parse_reply(completion.text, completion.finish_reason, reply_type)
        except ReplyInvalid as problem:
            if not rounds_left:
                raise
            conversation = [*messages, *_complaint(completion, problem)]
            if completion.finish_reason == "length" and sampling.max_tokens:
                sampling = replace(sampling, max_tokens=2 * sampling.max_tokens)
    raise ValueError(f"repair_rounds is {repair_rounds}; ask at least once")


def _complaint(completion: Completion, problem: ReplyInvalid) -> list[Message]:
    said: Message = {"role": "assistant", "content": completion.text or "(nothing)"}
    asked: Message = {
        "role": "user",
        "content": f"{problem}\n\nAnswer again with the whole JSON object, and only that.",
    }
    return [said, asked]


def _extract(text: str, opening: re.Pattern[str], wanted: type[Json]) -> Json | None:
    whole = _load(text, wanted)
    if whole is not None:
        return whole
    fence = _FENCE.search(text)
    fenced = _first(text, fence.end(), opening, wanted) if fence else None
    return fenced if fenced is not None else _first(text, 0, opening, wanted)


def _first(text: str, start: int, opening: re.Pattern[str], wanted: type[Json]) -> Json | None:
    while found := opening.search(text, start):
        end = _end(text, found.start())
        if end is None:
            return None  # it breaks off: what is complete inside it is not the answer
        value = _load(text[found.start() : end], wanted)
        if value is not None:
            return value
        start = end
    return None


def _end(text: str, start: int) -> int | None:
    """Return where the bracket at ``start`` is closed, or ``None``; those in strings are text."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token.group() in "{[":
            depth += 1
        elif token.group() in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _load(text: str, wanted: type[Json]) -> Json | None:
    """Read JSON of one type, or ``None``. Raw line breaks in strings are allowed, NaN is not."""
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, wanted) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
