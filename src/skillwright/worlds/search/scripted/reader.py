"""The scripted agent and optimizer for generated questions."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from skillwright.core import Message
from skillwright.models.scripted.teacher import ScriptedModel, skill_in
from skillwright.worlds.scripted import Lesson, LessonAnalyst

# The rules that the scripted reader recognizes in a skill, by words in single sentences.


class ReaderRule(StrEnum):
    """A rule that the reader recognizes in a skill."""

    SHORTEST = "shortest"
    """Answer with the shortest span instead of its sentence."""
    ASKED_UNIT = "asked_unit"
    """Convert numbers to the unit that the question asks for."""
    ASKED_YEAR = "asked_year"
    """Choose the statement whose years include the year in the question."""
    RIGHT_PASSAGE = "right_passage"
    """Read the passage about the subject of the question."""
    EXPLAIN = "explain"
    """Harmful: answer in a sentence with an explanation."""


BAD_RULES: Final = frozenset({ReaderRule.EXPLAIN})

_TELLS: Final[Mapping[ReaderRule, str]] = {
    ReaderRule.SHORTEST: r"\b(short(est)?|span|bare|nothing else|only the (name|answer|words?))\b",
    ReaderRule.ASKED_UNIT: r"\bunits?\b",
    ReaderRule.ASKED_YEAR: r"\b(years?|dates?)\b",
    ReaderRule.RIGHT_PASSAGE: (
        r"\bpassages?\b.*\b(names?|named|about|mentions?|right|town)\b"
        r"|\b(names?|named|about|mentions?|right|town)\b.*\bpassages?\b"
    ),
    ReaderRule.EXPLAIN: r"\b(explain\w*|(full|whole|complete) sentences?)\b",
}
_PATTERNS: Final = {rule: re.compile(text) for rule, text in _TELLS.items()}
_ADVICE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_NEGATED: Final = re.compile(r"\b(do not|don't|never|avoid|not (with|in)|no|ignore)\b")


@lru_cache(maxsize=512)
def read_rules(text: str) -> frozenset[ReaderRule]:
    """Return the rules in a text; the later of two sentences about a rule wins."""
    given: dict[ReaderRule, bool] = {}
    for sentence in _ADVICE_END.split(text.lower()):
        for rule, pattern in _PATTERNS.items():
            if found := pattern.search(sentence):
                given[rule] = not _NEGATED.search(sentence[: found.start()])
                if rule is ReaderRule.EXPLAIN and given[rule]:
                    given[ReaderRule.SHORTEST] = False
    return frozenset(rule for rule, wanted in given.items() if wanted)


_PASSAGE: Final = re.compile(r"^Passage \d+: ", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_YEAR: Final = re.compile(r"\b1[5-9]\d\d\b|\b20\d\d\b")
_NAME: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_AMOUNT: Final = re.compile(r"\b\d[\d.,]* [a-z]+")
# Words too common to match a question with a sentence.
_EMPTY: Final = frozenset(
    {"a", "an", "the", "of", "in", "is", "was", "did", "does", "from", "to", "how", "many", "much"}
)


class _Asked(NamedTuple):
    """A question over passages, read from a prompt."""

    question: str
    passages: tuple[str, ...]


class ScriptedReader(ScriptedModel):
    """Answers the generated questions of ``qa`` by the rules that it recognizes in its skill.

    It does not depend on the seed. Without a skill it answers from the first passage with the
    first match, and questions about who and where with whole sentences.
    """

    identity = "scripted:reader"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the answer in ``<answer>`` tags."""
        asked = _asked([one["content"] for one in messages if one["role"] == "user"])
        answer = _answer(asked, read_rules(skill_in(messages))) if asked else "I do not know"
        return f"<answer>{answer}</answer>"


def _asked(said: Sequence[str]) -> _Asked | None:
    shown, mark, question = said[-1].rpartition("Question: ") if said else ("", "", "")
    passages = tuple(text.strip() for text in _PASSAGE.split(shown) if text.strip())
    return _Asked(question.strip(), passages) if mark and passages else None


def _answer(asked: _Asked, rules: frozenset[ReaderRule]) -> str:
    passage = asked.passages[0]
    if ReaderRule.RIGHT_PASSAGE in rules:
        passage = max(asked.passages, key=lambda text: len(_names(asked.question) & _names(text)))
    sentence = _fitting(asked.question, passage, looks_at_years=ReaderRule.ASKED_YEAR in rules)
    is_short = ReaderRule.SHORTEST in rules
    if asked.question.startswith(("Who", "Where")) and not is_short:
        return sentence
    if ReaderRule.EXPLAIN in rules and not is_short:
        return sentence
    return _span(asked.question, sentence, needs_unit=ReaderRule.ASKED_UNIT in rules) or sentence


def _fitting(question: str, passage: str, *, looks_at_years: bool) -> str:
    """Return the sentence that shares most words with the question; the first one in a tie."""
    wanted = _words(question)
    year = _YEAR.search(question)

    def fit(sentence: str) -> tuple[int, bool]:
        shared = len(_words(sentence) & wanted)
        years = [int(one) for one in _YEAR.findall(sentence)]
        held = bool(year and years and min(years) <= int(year[0]) <= max(years))
        return shared, held and looks_at_years

    return max(_SENTENCE.split(passage), key=fit)


def _span(question: str, sentence: str, *, needs_unit: bool) -> str:
    if question.startswith("When"):
        found = _YEAR.search(sentence)
        return found[0] if found else ""
    if question.startswith("How many"):
        amounts = _AMOUNT.findall(sentence)
        unit = question.split()[2]
        asked = [one for one in amounts if needs_unit and one.endswith(f" {unit}")]
        return next(iter(asked or amounts), "")
    known = _names(question)
    names = [name for name in _NAME.findall(sentence) if name not in known and name != "The"]
    return next(iter(names), "")


def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text)) - {"Who", "When", "Where", "How", "The"}


def _words(text: str) -> frozenset[str]:
    # Without names and numbers, so that it matches the question's kind and not its subject.
    return frozenset(re.findall(r"\b[a-z]+\b", text)) - _EMPTY


# The mistakes that the scripted optimizer recognizes in wrong answers, and its lessons about them.


# The wrong answer does not contain the right one.
_ELSEWHERE: Final = r'Expected "(?P<right>[^"\n]+)", and you answered "(?![^"\n]*(?P=right))'

LESSONS: Final[dict[ReaderRule, Lesson]] = {
    ReaderRule.SHORTEST: Lesson(
        "answered with a whole sentence where a name was asked for",
        r'and you answered "[^"\n]* was [^"\n]*"',
        (
            "Answer with the shortest span that is right, such as a name alone.",
            "Keep the answer short: the bare words that were asked for.",
        ),
    ),
    ReaderRule.ASKED_UNIT: Lesson(
        "gave a measure in another unit",
        r'How many (?P<unit>\w+) .*and you answered "[\d.,]+ (?!(?P=unit))',
        (
            "Give every number in the unit that stands in the question.",
            "Where two units are told, take the unit that the question asks for.",
        ),
    ),
    ReaderRule.ASKED_YEAR: Lesson(
        "named somebody of other years",
        rf"Who was [^\n]* in \d{{4}}\?.*{_ELSEWHERE}",
        (
            "Compare the year in the question with the years in the text before you name anybody.",
            "Of several people, choose the one whose dates hold the year of the question.",
        ),
    ),
    ReaderRule.RIGHT_PASSAGE: Lesson(
        "read a passage about something else",
        rf"(When|Where) was [^\n]*\?.*{_ELSEWHERE}",
        (
            "Read only the passage about the place that the question names.",
            "First find the passage that mentions what you are asked about, then look there.",
        ),
    ),
}
"""Rule -> test for episodes that needed it, and the text that teaches it."""

SUPERSTITIONS: Final = (
    "Explain each answer, so that nobody has to ask again.",
    "Write in full sentences, as is polite.",
)
"""Plausible advice that makes right answers wrong."""


def reader_analyst() -> LessonAnalyst:
    """Return the scripted optimizer for the reader."""
    return LessonAnalyst("scripted:reader_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
