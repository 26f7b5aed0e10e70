"""Separate an answer from its reasoning, and cut the marks of a chat template around it.

A server with the chat template and the parser of its model sends neither. What is cut has a known
format in a certain place: reasoning at the beginning, gpt-oss's channels, marks at both ends. Other
marks stay, because an answer may be about them; so does what the prompt mentions, but ``<think>``.
A tag in quotes, in a tool call, or in JSON is part of a value.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from skillwright.core.calls import holds_mark, holes


@dataclass(frozen=True, slots=True)
class Visible:
    """An answer without the marks that its server should have removed.

    Attributes:
        text: The answer.
        reasoning: Reasoning that was in it.
        cut: Marks of the chat template that were cut.
        left: Marks that may be part of the answer, and so were left.
    """

    text: str
    reasoning: str = ""
    cut: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


_TAGS = r"think|thinking|thoughts?|reasoning|scratchpad|seed:think|mm:think"
_THINKS = (
    rf"<(?:{_TAGS})>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|START_THINKING\|>"
    r"|<\|think(?:ing)?\|>"
)
_THOUGHT = (
    rf"</(?:{_TAGS})>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>"
    r"|<\|/think(?:ing)?\|>"
)
_OPENS: Final = re.compile(rf"\s*({_THINKS})", re.IGNORECASE)
_TAG: Final = re.compile(rf"(?P<opens>{_THINKS})|{_THOUGHT}", re.IGNORECASE)
_SPECIAL = r"<\|/?[A-Za-z][\w.-]{0,40}\|>|<\uff5c[^<>\uff5c\s]{1,40}\uff5c>"
_MARK = rf"{_SPECIAL}|</s>|<eos>|<pad>|<end_of_(?:turn|utterance)>|<turn\|>|\[/?(?:EOS|INST)\]"
_HEAD: Final = re.compile(
    r"\s*(<\|(?:im_start|turn)\|?>\s*(?:assistant|model)\b|<start_of_turn>\s*model\b"
    r"|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>|<\|start\|>assistant\b(?!<\|channel)"
    r"|<\|(?:begin_of_text|startoftext|assistant|begin_of_solution|START_RESPONSE|CHATBOT_TOKEN"
    r"|START_OF_TURN_TOKEN)\|>|<\uff5c(?:Assistant|begin▁of▁sentence)\uff5c>|<bos>|<s>(?!.*</s>)|\[/INST\])",
    re.DOTALL,
)
_TAIL: Final = re.compile(rf"(?:[\t\r\n ]*(?:{_MARK}))+\s*\Z")
_LONGEST_TAIL: Final = 500
# Such a word makes the mark behind it a word of the sentence.
_MENTIONS: Final = re.compile(
    r"(?:\b(?:is|are|be|was|with|by|the|an?|tags?|tokens?|marks?|use|add|write|called|as|of|like|and"
    r"|or|to|in|after|before)|[:=,(])\Z",
    re.IGNORECASE,
)
_HEADER = r"<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|start\|>|<\|turn>|<s>|\[INST\]"
# What a model wrote behind the end of its turn, where the server did not stop it.
_NEXT_TURN: Final = re.compile(
    rf"(<\|(?:im_end|eot_id|end|endoftext)\|>|<end_of_turn>|<turn\|>|</s>)\s*(?:{_HEADER})"
)
_HEADERS: Final = re.compile(_HEADER)
_CHANNEL: Final = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?(?P<to>\s*to=[^<]{1,120})?\s*<\|channel\|>\s*(?P<name>\w+)"
    r"(?P<about>[^<]*(?:<\|constrain\|>[^<]*)?)<\|message\|>(?P<body>.*?)"
    r"(?:<\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
# gpt-oss, where the server cut the marks and left the names of the channels.
_NAMES_OF_CHANNELS: Final = re.compile(r"\s*analysis(.*?)assistantfinal(.*)", re.DOTALL)
_BOX: Final = re.compile(r"<\|(?:begin|end)_of_box\|>")
_LEFT: Final = re.compile(rf"{_SPECIAL}|</?s>|<(?:start|end)_of_turn>")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTES: Final = frozenset("`'\"\u201c\u201d\u2018\u2019«»")
_SIGNS: Final = re.compile(r"<[|/a-z\uff5c]|\[/?[A-Z]|◁|assistantfinal", re.IGNORECASE)


def visible(
    text: str,
    in_prompt: Callable[[str], bool] = lambda mark: False,
    *,
    cut_off: bool = False,
    has_reasoning: bool = False,
) -> Visible:
    """Separate an answer from its reasoning and from template marks.

    Args:
        text: What the server sent as the answer.
        in_prompt: Tells whether the prompt holds a mark.
        cut_off: Whether the bound on its length ended the answer.
        has_reasoning: Whether the server sent reasoning besides.
    """
    if not _SIGNS.search(text):
        return Visible(text)
    cut: list[str] = []
    said, thoughts = _without_channels(text, in_prompt, cut)
    said = _without_ends(said, in_prompt, cut)
    said, more = _without_thoughts(said, in_prompt, cut_off, has_reasoning)
    said = _without_ends(said, in_prompt, cut)
    left = tuple(mark for mark in _left(said) if not in_prompt(mark))
    return Visible(said, "\n\n".join(filter(None, (*thoughts, *more))), tuple(cut), left)


def spoken(text: str) -> str:
    """Return an answer without reasoning anywhere in it; "" where the reasoning has no end."""
    said = visible(text).text
    kept: list[tuple[int, int]] = []
    at, is_open = 0, False
    for found in _tags(said):
        if not found["opens"]:
            if not is_open:  # templates may write the opening tag into the prompt
                kept.clear()
            at, is_open = found.end(), False
        elif not is_open:
            kept.append((at, found.start()))
            is_open = True
    if is_open:
        return ""
    return "".join(said[start:end] for start, end in (*kept, (at, len(said)))).strip()


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of reasoning that are no part of a value or a quotation."""
    is_value = _in_values(text)
    for found in _TAG.finditer(text):
        around = {text[max(0, found.start() - 1) : found.start()], text[found.end() :][:1]}
        if not around <= _QUOTES and not is_value(found.start()):
            yield found


def _in_values(text: str) -> Callable[[int], bool]:
    """Return what tells whether a place of a text is in a tool call or in JSON."""

    @cache
    def places() -> list[tuple[int, int]]:
        return list(holes(text))

    def is_value(at: int) -> bool:
        index = bisect_right(places(), (at, len(text))) - 1
        return index >= 0 and at < places()[index][1]

    return is_value


def _is_quoted(text: str, at: int) -> bool:
    """Tell whether a place of a text is in code, in a tool call, or in JSON."""
    in_code = any(code.start() <= at < code.end() for code in _CODE.finditer(text))
    return in_code or _in_values(text)(at)


def _left(said: str) -> list[str]:
    """Return marks in an answer that are not in code or quoted, and not those of tool calls."""
    outside = _CODE.sub("", said)
    marks = [tag[0] for tag in _tags(outside)] + _LEFT.findall(outside)
    strikes = not said.startswith("<s>") and said.count("<s>") == said.count("</s>")
    known = ("<s>", "</s>") if strikes else ()
    return [] if holds_mark(said) else [mark for mark in dict.fromkeys(marks) if mark not in known]


def _without_channels(
    text: str, in_prompt: Callable[[str], bool], cut: list[str]
) -> tuple[str, list[str]]:
    """Return the final channel of gpt-oss with its calls, and the other channels."""
    if names := _NAMES_OF_CHANNELS.fullmatch(text):
        return names[2].strip(), [names[1].strip()]
    parts = list(_CHANNEL.finditer(text))
    names_of = {part["name"] for part in parts}
    starts_so = text.lstrip().startswith(("<|channel|>", "<|start|>"))
    if not parts or in_prompt("<|channel|>") or not (starts_so or "final" in names_of):
        return text, []
    if _is_quoted(text, parts[0].start()):
        return text, []
    cut.append("<|channel|>")
    before = text[: parts[0].start()].strip().removesuffix("<|end|>")
    said, thoughts = [], [before.strip()]
    for part in parts:
        if part["to"] or "to=" in part["about"]:
            said.append(part[0])
        else:
            (said if part["name"] == "final" else thoughts).append(part["body"].strip())
    return "\n\n".join(filter(None, (*said, text[parts[-1].end() :].strip()))), thoughts


def _without_ends(text: str, in_prompt: Callable[[str], bool], cut: list[str]) -> str:
    """Cut the marks at both ends, and what follows the end of the turn."""
    said = text
    while (head := _HEAD.match(said)) and not in_prompt(head[1]) and said[head.end() :].strip():
        cut.append(head[1])
        said = said[head.end() :].lstrip()
    if (turn := _NEXT_TURN.search(said)) and not in_prompt(turn[0]):
        before = said[: turn.start()]
        if before.strip() and not _HEADERS.search(before) and not _is_quoted(said, turn.start()):
            cut.append(turn[1])
            said = before.rstrip()
    begin = max(0, len(said) - _LONGEST_TAIL)
    tail = _TAIL.search(said, begin)
    if tail and not any(map(in_prompt, marks := re.findall(_MARK, tail[0]))):
        before = said[: tail.start()]
        is_struck = "</s>" in marks and before.count("<s>") > before.count("</s>")
        if before.strip() and not is_struck and not _MENTIONS.search(before):
            cut += [] if holds_mark(before) else marks
            said = before.rstrip()
    boxed = _BOX.sub("", said)
    if boxed != said and not in_prompt("<|begin_of_box|>"):
        cut.append("<|begin_of_box|>")
        said = boxed.strip()
    return said


def _without_thoughts(
    text: str, in_prompt: Callable[[str], bool], cut_off: bool, has_reasoning: bool
) -> tuple[str, list[str]]:
    """Cut reasoning at the beginning, with or without its opening tag."""
    thoughts: list[str] = []
    begin, at, is_open = 0, 0, False
    for found in _tags(text):
        tag = found[0]
        if "think>" not in tag.lower() and in_prompt(tag):
            continue
        if found["opens"]:
            if not is_open and not text[at : found.start()].strip():
                begin, is_open = found.end(), True
            elif not is_open:
                break
            continue
        inner = text[begin if is_open else at : found.start()].strip()
        behind = text[found.end() :]
        if has_reasoning and not is_open and not behind.strip():
            return inner, thoughts
        is_first = not at and not has_reasoning  # templates may write the opening tag
        if not (is_open or is_first or not inner or behind.startswith(("\n", "\r"))):
            break
        thoughts.append(inner)
        at, is_open = found.end(), False
    if is_open and cut_off:
        return "", [*thoughts, text[begin:].strip()]
    return (text[at:].lstrip() if at else text), thoughts
