"""JSON in model replies: a tolerant parser, and repair requests."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from skillwright.core import (
    ChatModel,
    Completion,
    Message,
    ModelRefused,
    Purpose,
    ReplyInvalid,
    Sampling,
)
from skillwright.models.validation import explain_validation_error

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply", bound=BaseModel)
Json = TypeVar("Json", dict[str, Any], list[Any])

_FENCE = re.compile(r"^[ \t]*```(?:json)?[ \t]*$", re.IGNORECASE | re.MULTILINE)
# A string is one token, closed or not, so that a scan takes linear time.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)
# Distinguishes the start of JSON from a brace in prose.
_OBJECT = re.compile(r'\{\s*["}]')
_ARRAY = re.compile(r'\[\s*(?:[]\[{"\d-]|true|false|null)')


def extract_json(text: str) -> dict[str, Any] | None:
    """Find the first JSON object in a text, fenced ones first, in linear time.

    A text that ends inside an object gives ``None``, even if that object contains complete ones.
    """
    return _extract(text, _OBJECT, dict)


def extract_json_array(text: str) -> list[Any] | None:
    """Find the first JSON array in a text; see `extract_json`."""
    return _extract(text, _ARRAY, list)


def parse_reply(text: str, finish_reason: str, reply_type: type[Reply]) -> Reply:
    """Parse a model's JSON object as a typed reply.

    A `ReplyInvalid` names the problem in words that also instruct the model.
    """
    found = extract_json(text)
    # A complete object before a truncated one may be its draft.
    if finish_reason == "length" and (found is None or _breaks_off(text)):
        what = "before its JSON object was complete" if text else "all of them spent on reasoning"
        raise ReplyInvalid(
            f"The reply was cut off by the token limit after {len(text):,} characters, {what}. "
            "Raise max_tokens, or ask for less."
        )
    if found is None and finish_reason == "content_filter":
        raise ReplyInvalid(
            "The endpoint's content filter withheld the reply, or a part of it. Where that stays "
            "so, use another model, or change the filter's settings."
        )
    if found is None:
        raise ReplyInvalid(
            f"The reply holds no complete JSON object; it begins {text[:80]!r}. "
            "Answer with one JSON object and nothing else."
        )
    answer = _best(text, reply_type)
    if answer is not None:
        return answer
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
    """Ask for a JSON object; repeat the request with the error up to ``repair_rounds`` times.

    After a truncated reply, the next limit is twice as long, which is logged. A reply that stays
    invalid or truncated raises `ReplyInvalid`; it never counts as an empty answer.
    """
    conversation = list(messages)
    cut_off: ReplyInvalid | None = None
    for rounds_left in reversed(range(repair_rounds + 1)):
        try:
            completion = await model.complete(conversation, sampling=sampling, purpose=purpose)
        except ModelRefused as refusal:
            if cut_off is None:
                raise
            raise ReplyInvalid(f"{cut_off} Asking for more was refused: {refusal}") from refusal
        try:
            return parse_reply(completion.text, completion.finish_reason, reply_type)
        except ReplyInvalid as problem:
            if not rounds_left:
                raise
            conversation = [*messages, *_complaint(completion, problem)]
            if completion.finish_reason == "length":
                cut_off = problem
                sampling = _twice_as_long(sampling, completion, purpose)
    raise ValueError(f"repair_rounds is {repair_rounds}; ask at least once")


def _best(text: str, reply_type: type[Reply]) -> Reply | None:
    """Return the last of the objects that fill most of the form, fenced ones first.

    Models write examples and drafts before the answer, and remarks after it.
    """
    best: Reply | None = None
    for inside in (True, False):
        for value in _objects(text, fenced=inside):
            try:
                found = reply_type.model_validate(value)
            except ValidationError:
                continue
            if best is None or len(found.model_fields_set) >= len(best.model_fields_set):
                best = found
        if best is not None:
            return best
    return None


def _objects(text: str, *, fenced: bool) -> Iterator[dict[str, Any]]:
    """List the outermost JSON objects of a text."""
    marks = [found.end() for found in _FENCE.finditer(text)]
    start = 0
    while found := _OBJECT.search(text, start):
        end = _end(text, found.start())
        if end is None:
            return
        is_inside = sum(mark <= found.start() for mark in marks) % 2 == 1
        value = _load(text[found.start() : end], dict)
        if value is not None and is_inside == fenced:
            yield value
        start = end


def _twice_as_long(sampling: Sampling, completion: Completion, purpose: Purpose) -> Sampling:
    # Without a limit in the request, the endpoint's own limit is the length of this answer.
    limit = sampling.max_tokens or completion.usage.output_tokens
    if not limit:
        return sampling
    logger.warning(
        "%s: model %r was cut off at its limit of %d tokens; asking again with %d. "
        "Raise max_tokens to spare this.",
        purpose.value,
        completion.model,
        limit,
        2 * limit,
    )
    return replace(sampling, max_tokens=2 * limit)


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
    if fence is None:
        return _first(text, 0, opening, wanted)
    fenced = _first(text, fence.end(), opening, wanted)
    if fenced is None and _FENCE.search(text, fence.end()) is None and _breaks_off(text):
        return None  # an open fence: the text before it is not the answer
    return fenced if fenced is not None else _first(text, 0, opening, wanted)


def _breaks_off(text: str) -> bool:
    """Return whether a text ends inside a JSON object."""
    start = 0
    while found := _OBJECT.search(text, start):
        end = _end(text, found.start())
        if end is None:
            return True
        start = end
    return False


def _first(text: str, start: int, opening: re.Pattern[str], wanted: type[Json]) -> Json | None:
    while found := opening.search(text, start):
        end = _end(text, found.start())
        if end is None:
            return None  # truncated: complete objects inside are not the answer
        value = _load(text[found.start() : end], wanted)
        if value is not None:
            return value
        start = end
    return None


def _end(text: str, start: int) -> int | None:
    """Return the position of the bracket that closes the one at ``start``, or ``None``."""
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
    """Parse JSON of one type, or return ``None``; raw line breaks are allowed, NaN is not."""
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, wanted) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
