"""Read question items of published data sets, with their different keys and formats."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import digest

QUESTION: Final = ("question", "query")
PASSAGES: Final = ("passages", "passage", "contexts", "context", "documents", "paragraphs")
ANSWERS: Final = (
    *("answers", "answer", "gold_answers", "golden_answers", "possible_answers", "golds", "gold"),
)
ID: Final = ("id", "key", "qid", "question_id", "uid", "_id")
_ALIASES: Final = ("answer_aliases", "aliases")
_TEXT: Final = ("text", "passage", "paragraph", "content", "body", "paragraph_text")
_DOCUMENT: Final = re.compile(r"\[DOC\]")
_TITLE: Final = re.compile(r"\s*(?:\[TLE\](?P<title>.*?)\[PAR\])?(?P<text>.*)", re.DOTALL)
_MARK: Final = re.compile(r"\s*\[(?:TLE|PAR|SEP)\]\s*")


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage; the title may be blank."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Question:
    """A question over passages.

    Attributes:
        text: The question.
        passages: Passages in the order of the file; empty if they have to be searched for.
        answers: Accepted answers, at least one.
    """

    text: str
    passages: tuple[Passage, ...]
    answers: tuple[str, ...]


def read_question(item: Mapping[str, Any], *, has_passages: bool = True) -> Question:
    """Read an item with ``question``, ``passages`` and ``answers``, or other usual keys for these.

    Passages are a text, or a list of texts, of objects (``title`` and ``text``), or of HotpotQA's
    pairs of title and sentences; a text with SearchQA's ``[DOC]`` marks is split there. Answers
    are a text, a number, a list of these, SQuAD's object with such a list under ``text``, or
    TriviaQA's with ``value`` and ``aliases``. Other keys are ignored.

    Args:
        item: The item.
        has_passages: False to ignore the item's passages, because they are searched for.

    Raises:
        DataError: A part is missing, blank, duplicate, or in an unknown format.
    """
    text = _part(item, QUESTION)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"the question is {_shown(text)}; write a text")
    brought = _passages(_part(item, PASSAGES)) if has_passages else ()
    passages = tuple(one for one in brought if one.text)
    if has_passages and not passages:
        raise DataError("there is no passage with a text; give at least one under 'passages'")
    aliases = [one for name in _ALIASES for one in item.get(name) or ()]
    answers = tuple(dict.fromkeys([*_answers(_part(item, ANSWERS)), *_answers(aliases)]))
    if not answers:
        raise DataError("there is no right answer; give at least one under 'answers'")
    return Question(text.strip(), passages, answers)


def with_ids(items: Sequence[Any]) -> list[Any]:
    """Check the items of a file, and add an ``id`` to those that have another key for it or none.

    The id of an item without one is a digest of its content, so that it is stable.
    """
    return [_checked(item, f"question {index}")[0] for index, item in enumerate(items)]


def without_passages(items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a file's questions for search tasks: id, question, answers and category.

    The category is the item's ``task_type``, or else `question_category`. The item's own passages
    are dropped.
    """
    return [_to_search(item, f"question {index}") for index, item in enumerate(items)]


def listed_passages(value: Any) -> tuple[Passage, ...]:
    """Read the passages of a question, in any of the formats of `read_question`.

    Raises:
        DataError: The format is unknown.
    """
    return tuple(one for one in _passages(value) if one.text)


def fitting(passages: Sequence[Passage], most_chars: int) -> tuple[Passage, ...]:
    """Return the first passages whose texts together have at most ``most_chars`` >= 1 characters.

    Passages are not truncated, except a first one that is too long.
    """
    kept: list[Passage] = []
    left = most_chars
    for passage in passages:
        left -= len(passage.text)
        if left < 0:
            break
        kept.append(passage)
    return tuple(kept) or (Passage(passages[0].title, passages[0].text[:most_chars]),)


def _to_search(item: Any, where: str) -> dict[str, Any]:
    known, question = _checked(item, where, has_passages=False)
    return {
        "id": known["id"],
        "task_type": str(item.get("task_type") or question_category(item)),
        "description": question.text,
        "question": question.text,
        "answers": list(question.answers),
    }


def _checked(item: Any, where: str, *, has_passages: bool = True) -> tuple[Any, Question]:
    if not isinstance(item, Mapping):
        raise DataError(f"{where} is {_shown(item)}, not an object")
    name = next((name for name in ID if item.get(name) not in (None, "")), None)
    called = f"{where} (id {item[name]!r})" if name else where
    try:
        question = read_question(item, has_passages=has_passages)
    except DataError as error:
        raise DataError(f"{called}: {error}") from error
    content = [question.text, [str(one) for one in question.passages]]
    item_id = str(item[name]) if name else f"q-{digest(content)[:12]}"
    return {"description": question.text, **item, "id": item_id}, question


def _part(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    if not any(name in item for name in names):  # accept "Question", too
        item = {str(name).lower(): value for name, value in item.items()}
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
        return [one for part in value for one in _of_part(part)]
    if isinstance(value, Mapping) and isinstance(value.get("title"), list):
        # HotpotQA on Hugging Face: a list of titles, and a list of lists of sentences.
        sentences = value.get("sentences") or value.get("content") or ()
        return [_listed_passage(pair) for pair in zip(value["title"], sentences, strict=False)]
    if isinstance(value, Mapping):
        return [_titled(value)]
    raise DataError(f"passages are {_shown(value)}; write a text, or a list of texts")


def _of_part(value: Any) -> Iterable[Passage]:
    return _passages(value) if isinstance(value, str | Mapping) else [_listed_passage(value)]


def _listed_passage(value: Any) -> Passage:
    match value:
        case [str(title), str(text)]:
            return Passage(title.strip(), text.strip())
        case [str(title), list(sentences)] if all(isinstance(one, str) for one in sentences):
            return Passage(title.strip(), "".join(sentences).strip())
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
    elif isinstance(value, Mapping) and isinstance(value.get("value"), str):
        value = [value["value"], *(value.get("aliases") or ())]
    elif isinstance(value, str) and value.startswith('["'):
        value = _json_list(value)  # PopQA's cells are JSON lists
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, bool) or not isinstance(one, str | int | float) or one == "":
            raise DataError(f"a right answer is {_shown(one)}; write a text")
        yield str(one)


def _json_list(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


# The categories of questions in SkillRL's search banks.


CATEGORIES: Final = (
    *("direct_retrieval", "multi_hop_reasoning", "entity_attribute_lookup", "comparison"),
)
_DIRECT, _HOPS, _ATTRIBUTE, _COMPARED = CATEGORIES

# Question types of HotpotQA and 2WikiMultihopQA.
_TYPES: Final = {
    "bridge": _HOPS,
    "compositional": _HOPS,
    "inference": _HOPS,
    "comparison": _COMPARED,
    "bridge_comparison": _COMPARED,
}
_OF_A_SOURCE: Final = {
    **dict.fromkeys(("nq", "nq_open", "natural_questions", "triviaqa", "trivia_qa"), _DIRECT),
    "popqa": _ATTRIBUTE,
    **dict.fromkeys(("hotpotqa", "hotpot_qa", "musique", "bamboogle"), _HOPS),
    **dict.fromkeys(("2wikimultihopqa", "2wikimqa", "2wiki"), _HOPS),
}
_SOURCE: Final = ("data_source", "dataset", "source")
_HOPPING_ID: Final = re.compile(r"\dhop\d?__")
_COMPARES: Final = re.compile(
    r"^(?:are|were|is|was|do|does|did|have|has)\b.*\b(?:both|same|either|in common)\b"
    r"|\b(?:which|who|whose|what|where)\b.*\bor\b"
    r"|\bin common\b|\b(?:older|younger|earlier|later|taller|larger|smaller|longer) than\b",
    re.IGNORECASE | re.DOTALL,
)


def question_category(item: Mapping[str, Any]) -> str:
    """Return a question's category, one of `CATEGORIES`, or ``""`` if unknown.

    It is derived from HotpotQA's and 2WikiMultihopQA's ``type``, MuSiQue's ids, PopQA's ``prop``,
    or the name of the data set (``data_source``); else from words of comparison in the question.

    Source: the data sets by which the authors of SkillRL (arXiv 2602.08234) sort memories.
    """
    said = _TYPES.get(str(item.get("type", "")).lower(), "")
    compares = bool(_COMPARES.search(str(item.get("question") or item.get("Question") or "")))
    if not said and _HOPPING_ID.match(str(item.get("id", ""))):
        said = _HOPS
    if not said and {"prop", "subj"} <= item.keys():
        said = _ATTRIBUTE
    if not said:
        source = next((str(item[name]).lower() for name in _SOURCE if item.get(name)), "")
        said = _OF_A_SOURCE.get(source, "")
        said = _COMPARED if compares and said in ("", _HOPS) else said
    return said
