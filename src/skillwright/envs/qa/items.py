"""Questions as files have them: under several names, in several shapes, but never half."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import digest

QUESTION: Final = ("question", "query")
PASSAGES: Final = ("passages", "passage", "contexts", "context", "documents", "paragraphs")
ANSWERS: Final = ("answers", "answer", "gold_answers", "golds", "gold")
ID: Final = ("id", "key", "qid", "question_id", "uid")
_TEXT: Final = ("text", "passage", "paragraph", "content", "body")
_DOCUMENT: Final = re.compile(r"\[DOC\]")
_TITLE: Final = re.compile(r"\s*(?:\[TLE\](?P<title>.*?)\[PAR\])?(?P<text>.*)", re.DOTALL)
_MARK: Final = re.compile(r"\s*\[(?:TLE|PAR|SEP)\]\s*")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that an answer may be in; the title may be blank."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Question:
    """A question over passages.

    Attributes:
        text: The question.
        passages: At least one, in the order of the file.
        answers: At least one; any of them is right.
    """

    text: str
    passages: tuple[Passage, ...]
    answers: tuple[str, ...]


def read_question(item: Mapping[str, Any]) -> Question:
    """Read an item: ``question``, ``passages`` and ``answers``, or other names of these.

    Passages are a text or a list of texts or objects (``title`` and ``text``); a text with
    ``[DOC]`` marks, as SearchQA has it, is cut there. Answers are a text, a number, a list of
    these, or SQuAD's object with such a list under ``text``. Any other key is left alone.

    Raises:
        DataError: A part is missing, blank, there twice, or of another shape.
    """
    text = _part(item, QUESTION)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"the question is {_shown(text)}; write a text")
    passages = tuple(one for one in _passages(_part(item, PASSAGES)) if one.text)
    if not passages:
        raise DataError("there is no passage with a text; give at least one under 'passages'")
    answers = tuple(_answers(_part(item, ANSWERS)))
    if not answers:
        raise DataError("there is no right answer; give at least one under 'answers'")
    return Question(text.strip(), passages, answers)


def with_ids(items: Sequence[Any]) -> list[Any]:
    """Check the items of a file, and give an ``id`` to those that have another or none.

    An item without any is called after what it says, so that its id never changes.
    """
    return [_with_id(item, f"question {index}") for index, item in enumerate(items)]


def fitting(passages: Sequence[Passage], most_chars: int) -> tuple[Passage, ...]:
    """Return the passages, the first in order, whose texts have ``most_chars`` >= 1 together.

    A passage is shown whole or not at all; only the first is cut where it is too long alone.
    """
    kept: list[Passage] = []
    left = most_chars
    for passage in passages:
        left -= len(passage.text)
        if left < 0:
            break
        kept.append(passage)
    return tuple(kept) or (Passage(passages[0].title, passages[0].text[:most_chars]),)


def _with_id(item: Any, where: str) -> Any:
    if not isinstance(item, Mapping):
        raise DataError(f"{where} is {_shown(item)}, not an object")
    name = next((name for name in ID if item.get(name) not in (None, "")), None)
    called = f"{where} (id {item[name]!r})" if name else where
    try:
        question = read_question(item)
    except DataError as error:
        raise DataError(f"{called}: {error}") from error
    content = [question.text, [str(one) for one in question.passages]]
    item_id = str(item[name]) if name else f"q-{digest(content)[:12]}"
    return {"description": question.text, **item, "id": item_id}


def _part(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    given = [name for name in names if item.get(name) is not None]
    if len(given) > 1:
        raise DataError(f"{given[0]!r} and {given[1]!r} are the same part; give one of them")
    if not given:
        others = f", nor {', '.join(names[1:])}" if names[1:] else ""
        raise DataError(f"there is no {names[0]!r}{others}; there is {', '.join(map(str, item))}")
    return item[given[0]]


def _passages(value: Any) -> Iterable[Passage]:
    if isinstance(value, str):
        return map(_document, _DOCUMENT.split(value))
    if isinstance(value, list | tuple):
        return [one for part in value for one in _listed_passage(part)]
    if isinstance(value, Mapping):
        return [_titled(value)]
    raise DataError(f"passages are {_shown(value)}; write a text, or a list of texts")


def _listed_passage(value: Any) -> Iterable[Passage]:
    if isinstance(value, str | Mapping):
        return _passages(value)
    raise DataError(f"a passage is {_shown(value)}; write a text, or an object with title and text")


def _titled(value: Mapping[str, Any]) -> Passage:
    text, title = _part(value, _TEXT), value.get("title") or ""
    if not isinstance(text, str) or not isinstance(title, str):
        raise DataError(f"a passage is {_shown(value)}; its title and its text are texts")
    return Passage(title.strip(), text.strip())


def _document(text: str) -> Passage:
    found = _TITLE.fullmatch(text)
    title, body = (found["title"] or "", found["text"]) if found else ("", text)
    return Passage(title.strip(), _MARK.sub(" ", body).strip())


def _answers(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping) and isinstance(value.get("text"), list | tuple):
        value = value["text"]
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, bool) or not isinstance(one, str | int | float) or one == "":
            raise DataError(f"a right answer is {_shown(one)}; write a text")
        yield str(one)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
