"""JSON in model replies: a tolerant parser, and repair requests."""

import json
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Generic, TypeVar

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
from skillwright.models.leftovers import holds_edits, left_over, unreadable_note
from skillwright.models.repairs import (
    FENCE,
    Found,
    answer_part,
    holds_undoubled_latex,
    is_quoted,
    near_values,
    other_notations,
    unreadable_parts,
    with_doubled_backslashes,
)
from skillwright.models.shapes import as_json, end_of_json, fit, operation_group
from skillwright.models.validation import explain_validation_error

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply", bound=BaseModel)

_FENCE = re.compile(r"^[ \t]*```(?:json)?[ \t]*$", re.IGNORECASE | re.MULTILINE)
# JSON within YAML, or a table of TOML.
_WITHIN = re.compile(r"^[ \t]*(?:- )?\w+:[ \t]*['\"]?[\[{]|^\[\[?[\w.]+\]\]?[ \t]*$", re.MULTILINE)
_MOST_FENCES = 400
# Distinguishes the start of JSON from a brace in prose.
_OBJECT = re.compile(r'\{\s*["}]')
_CONTAINER = re.compile(r'\{\s*["}]|\[\s*[{[]')


def extract_json(text: str) -> dict[str, Any] | None:
    """Find the first JSON object in a text, fenced ones first, in linear time.

    A text that ends inside an object gives ``None``, even if that object contains complete ones.
    """
    whole: dict[str, Any] | None = as_json(text, dict)
    fence = _FENCE.search(text)
    if whole is not None or fence is None:
        return whole if whole is not None else _first(text, 0)
    fenced = _first(text, fence.end())
    if fenced is None and _FENCE.search(text, fence.end()) is None and _breaks_off(text):
        return None  # an open fence: the text before it is not the answer
    return fenced if fenced is not None else _first(text, 0)


@dataclass(frozen=True, slots=True)
class ReadReply(Generic[Reply]):
    """A reply in the requested form.

    Attributes:
        value: The reply.
        repairs: Notes on how it was repaired, and on what it holds that was not read.
    """

    value: Reply
    repairs: tuple[str, ...] = ()


def parse_reply(text: str, finish_reason: str, reply_type: type[Reply]) -> Reply:
    """Parse a model's JSON object as a typed reply; see `read_reply`."""
    return read_reply(text, finish_reason, reply_type).value


def read_reply(
    text: str, finish_reason: str, reply_type: type[Reply], *, as_written: bool = False
) -> ReadReply[Reply]:
    """Read a model's reply: strict JSON in the requested form if possible.

    Else the reply is repaired, or read in another shape or notation of the same meaning.

    Args:
        text: The reply.
        finish_reason: Why it ended.
        reply_type: The requested form.
        as_written: Whether only strict JSON in that form is read.

    Raises:
        ReplyInvalid: It cannot be read; the message says why, and what the model should do.
    """
    found = extract_json(text)
    # A complete object before a truncated one may be its draft.
    is_cut = finish_reason == "length"
    if is_cut and (_breaks_off(text) or not text):
        what = "before its JSON object was complete" if text else "all of them spent on reasoning"
        raise ReplyInvalid(
            f"The reply was cut off by the token limit after {len(text):,} characters, {what}. "
            "Raise max_tokens, or ask for less."
        )
    if as_written:
        values = _strict_values(text)
        answer = _best(values, reply_type)
        read = None if answer is None else _accounted(values, answer)
    else:
        read = _read(text, reply_type, is_cut=is_cut)
    if read is not None:
        return read
    if found is None and is_cut:
        raise ReplyInvalid(
            f"The reply was cut off by the token limit after {len(text):,} characters, before its "
            "JSON object was complete. Raise max_tokens, or ask for less."
        )
    if not text.strip() and finish_reason != "content_filter":
        raise ReplyInvalid(
            "The reply is empty: it has no text and calls no tool; what is in its reasoning may be "
            "a draft. Answer with one JSON object and nothing else."
        )
    if found is None and finish_reason == "content_filter":
        raise ReplyInvalid(
            "The endpoint's content filter withheld the reply, or a part of it. Where that stays "
            "so, use another model, or change the filter's settings."
        )
    if found is None:
        raise ReplyInvalid(
            f"The reply holds no complete JSON object; it begins {text[:80]!r}{_where(text)}. "
            "Answer with one JSON object and nothing else."
        )
    try:
        first = reply_type.model_validate(found)
    except ValidationError as error:
        problems = explain_validation_error(error, reply_type)
        raise ReplyInvalid(f"The JSON object does not have the form asked for:\n{problems}") from (
            None
        )
    if as_written:
        return ReadReply(first)
    raise ReplyInvalid(
        "The reply holds a list of several answers, or one in its reasoning alone. "
        "Answer with one JSON object."
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
    """Ask for a JSON object; see `ask_for_reply`."""
    read = await ask_for_reply(
        model, messages, reply_type, sampling=sampling, purpose=purpose, repair_rounds=repair_rounds
    )
    return read.value


async def ask_for_reply(
    model: ChatModel,
    messages: Sequence[Message],
    reply_type: type[Reply],
    *,
    sampling: Sampling = Sampling(),
    purpose: Purpose,
    repair_rounds: int = 1,
    as_written: bool = False,
) -> ReadReply[Reply]:
    """Ask for a JSON object; repeat the request with the error up to ``repair_rounds`` times.

    After a truncated reply, the next limit is twice as long, which is logged. A reply that stays
    invalid or truncated raises `ReplyInvalid`; it never counts as an empty answer.
    ``as_written`` is that of `read_reply`.
    """
    repeats: tuple[str, ...] = ()
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
            said, notes = _said(completion)
            read = read_reply(said, completion.finish_reason, reply_type, as_written=as_written)
            return replace(read, repairs=(*repeats, *notes, *read.repairs))
        except ReplyInvalid as problem:
            if not rounds_left:
                raise
            repeats = (*repeats, f"it was asked for again: {str(problem).splitlines()[0]}")
            conversation = [*messages, *_complaint(completion, problem)]
            if completion.finish_reason == "length":
                cut_off = problem
                sampling = _twice_as_long(sampling, completion, purpose)
    raise ValueError(f"repair_rounds is {repair_rounds}; ask at least once")


def _read(text: str, reply_type: type[Reply], *, is_cut: bool) -> ReadReply[Reply] | None:
    """Read strict JSON first, then other shapes, near JSON, and other notations."""
    answer = answer_part(text)
    has_only_words = re.search(r"\w", answer) and not re.search(r"[\[{<]", answer)
    parts = dict.fromkeys((answer, answer if has_only_words else text))
    for part, in_strings in product(parts, (False, True)):
        read = _read_part(part, reply_type, is_cut=is_cut, in_strings=in_strings)
        if read is not None:
            return read
    return None


def _read_part(
    text: str, reply_type: type[Reply], *, is_cut: bool, in_strings: bool
) -> ReadReply[Reply] | None:
    strict = _strict_values(text, in_strings=in_strings)
    found = _best(strict, reply_type)
    if found is not None and holds_undoubled_latex(text):
        doubled = _strict_values(with_doubled_backslashes(text))
        kept = _best(doubled, reply_type)
        if kept is not None and kept != found:
            return _accounted(doubled, kept, "the backslashes of its LaTeX were not doubled")
    near = list(near_values(text, is_cut=is_cut, in_strings=in_strings))
    written = [] if is_cut else list(_in_notations(text, reply_type, has_json=bool(near)))
    others = [Found(value) for value, _, _ in written]
    if found is not None:
        values = [*strict, *(one for one in near if one.is_repaired)]
        whole = _around(values, written, found)
        return whole or _accounted([*values, *others], found, text=text)
    is_repaired = any(one.is_repaired for one in near)
    notes = (f"it was not strict JSON{_where(text)}",) if is_repaired else ()
    if (best := _best(near, reply_type)) is not None:
        return _around(near, written, best) or _accounted([*near, *others], best, *notes, text=text)
    if (whole := _around(near, written)) is not None:
        return whole
    if not near and isinstance(alone := as_json(FENCE.sub("", text)), list):
        near = [Found(alone)]  # numbers, or texts
    if (other := _best_shape(near, reply_type)) is not None:
        said = _said_of_shape(near, reply_type)
        return _accounted([*near, *others], other, *notes, said, text=text)
    return None


def _in_notations(
    text: str, reply_type: type[Reply], *, has_json: bool
) -> Iterator[tuple[Any, Reply | None, str]]:
    """List the answers in a text in other notations: the value, its one meaning, the notation.

    Where the text has JSON, that may be within them, or in another block.
    """
    blocks = len(FENCE.findall(text))
    if not has_json or 0 < blocks <= _MOST_FENCES or (not blocks and _WITHIN.search(text)):
        for value, notation in other_notations(text):
            read = _best_shape([Found(value)], reply_type)
            if read is not None or holds_edits(value):
                yield value, read, notation


def _around(
    values: Sequence[Found],
    written: Sequence[tuple[Any, Reply | None, str]],
    read: Reply | None = None,
) -> ReadReply[Reply] | None:
    """Return an answer in another notation that has all JSON values within it, and more."""
    for value, whole, notation in written:
        is_more = read is None or left_over([value], read)
        if whole is not None and is_more and not left_over([one.value for one in values], whole):
            others = [Found(other) for other, _, _ in written]
            return _accounted(others, whole, f"it was written in {notation}")
    return None


def _accounted(
    values: Sequence[Found], read: Reply, *repairs: str, text: str = ""
) -> ReadReply[Reply]:
    """Return what was read with notes on the rest, or a fuller reading of the same answer."""
    meant = [one.value for one in values if not one.in_sentence]
    lost = left_over(meant, read)
    repairs = (*repairs, *(unreadable_note(one) for one in unreadable_parts(text)))
    for one in meant if lost else ():
        fuller = fit(one, type(read)) if _validated(one, type(read)) == read else None
        if fuller is not None and fuller != read:
            rest = left_over(meant, fuller)
            said = "what it had next to its list was read"
            if len(rest) < len(lost):
                return ReadReply(fuller, (*repairs, said, *rest))
            break
    return ReadReply(read, (*repairs, *lost))


def _best(values: Sequence[Found], reply_type: type[Reply]) -> Reply | None:
    """Return the last of the values that fill most of the form, fenced ones first.

    Models write examples and drafts before the answer, and remarks after it.
    """
    found = [
        (_validated(item, reply_type), one.is_fenced)
        for one in values
        for item in (one.value if isinstance(one.value, list) else [one.value])
        if isinstance(item, dict) and (one.value is item or len(one.value) == 1)
    ]
    best = _last_and_fullest(found)
    if getattr(reply_type, "one_answer", False) and any(
        one not in (None, best) for one, _ in found
    ):
        raise ReplyInvalid(
            "The reply holds several different answers. Answer with one JSON object, quoting none."
        )
    return best


def _last_and_fullest(found: Iterable[tuple[Reply | None, bool]]) -> Reply | None:
    best: Reply | None = None
    rank = (False, 0)
    for reply, fenced in found:
        if reply is not None and (fenced, len(reply.model_fields_set)) >= rank:
            best, rank = reply, (fenced, len(reply.model_fields_set))
    return best


def _validated(value: Any, reply_type: type[Reply]) -> Reply | None:
    try:
        return reply_type.model_validate(value)
    except ValidationError:
        return None


def _best_shape(values: Sequence[Found], reply_type: type[Reply]) -> Reply | None:
    """Return the last and fullest of the values that mean the form in another shape."""
    if len(values) > 1 and all(isinstance(one.value, dict) for one in values):
        whole = fit([one.value for one in values], reply_type)  # one line of JSON for each item
        if whole is not None:
            return whole if all(one.follows or one.is_fenced for one in values[1:]) else None
    return _last_and_fullest(
        (fit(one.value, reply_type), one.is_fenced) for one in values if not one.in_sentence
    )


def _said_of_shape(values: Sequence[Found], reply_type: type[BaseModel]) -> str:
    try:
        reply_type.model_validate(values[-1].value)
    except ValidationError as error:
        problem = explain_validation_error(error, reply_type).partition("\n")[0]
        return (
            f"it did not have the form asked for ({problem}) and was read as what it can only mean"
        )
    return "it did not have the form asked for and was read as what it can only mean"


def _where(text: str) -> str:
    """Return where a text that should be JSON is malformed, or nothing."""
    start = text.find("{")
    try:
        json.JSONDecoder(strict=False).raw_decode(text, start) if start >= 0 else None
    except json.JSONDecodeError as error:
        said = error.msg[0].lower() + error.msg[1:]
        return f" (line {error.lineno}, column {error.colno}: {said})"
    except RecursionError:
        return " (it is nested too deeply)"
    return ""


def _strict_values(text: str, *, in_strings: bool = True) -> list[Found]:
    """List the outermost JSON objects and lists of a text, each with whether it is fenced."""
    whole = as_json(text)
    if whole is not None:
        return [Found(whole)]
    marks = [found.end() for found in _FENCE.finditer(text)]
    values = []
    start = 0
    opening, lists_left = _CONTAINER, 8  # lists tried, to stay linear
    while found := opening.search(text, start):
        end = end_of_json(text, found.start())
        is_list = found.group().startswith("[")
        if end is None and not is_list:
            break
        value = None if end is None else as_json(text[found.start() : end], (dict, list))
        if value is not None and (in_strings or not is_quoted(text, found.start(), end or 0)):
            is_inside = bisect_right(marks, found.start()) % 2 == 1
            values.append(Found(value, is_inside))
        lists_left -= is_list and value is None
        opening = _CONTAINER if lists_left else _OBJECT
        start = found.end() if is_list and (value is None or end is None) else end or found.end()
    return values


def _said(completion: Completion) -> tuple[str, tuple[str, ...]]:
    """Return the text of a reply, and what it says in the arguments of tool calls.

    A name that is an operation counts: ``append_rule(content=...)``. Where the text is empty, a
    reasoning that is nothing but a JSON object is the answer, which some servers put there.
    """
    is_cut = completion.finish_reason == "length"
    said = [completion.text] if completion.text.strip() else []
    for call in completion.tool_calls:
        named = {"name": call.name, "arguments": call.arguments}
        said.append(json.dumps(named) if operation_group(call.name) else call.arguments)
    alone = FENCE.sub("", completion.reasoning) if not said and not is_cut else ""
    if as_json(alone, dict) is not None:
        return completion.reasoning, (
            "its text was empty, and the answer was all of its reasoning",
        )
    return "\n".join(said), ()


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


def _breaks_off(text: str) -> bool:
    """Return whether a text ends inside a JSON object."""
    start = 0
    while found := _OBJECT.search(text, start):
        end = end_of_json(text, found.start())
        if end is None:
            return True
        start = end
    return False


def _first(text: str, start: int) -> dict[str, Any] | None:
    while found := _OBJECT.search(text, start):
        end = end_of_json(text, found.start())
        if end is None:
            return None  # truncated: complete objects inside are not the answer
        value: dict[str, Any] | None = as_json(text[found.start() : end], dict)
        if value is not None:
            return value
        start = end
    return None
