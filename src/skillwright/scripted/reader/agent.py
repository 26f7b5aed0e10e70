"""A hasty but obedient reader, as a chat model."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from skillwright.core import Message
from skillwright.scripted.answering import ScriptedModel, skill_in
from skillwright.scripted.reader.rules import ReaderRule, read_rules

_PASSAGE: Final = re.compile(r"^Passage \d+: ", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_YEAR: Final = re.compile(r"\b1[5-9]\d\d\b|\b20\d\d\b")
_NAME: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_AMOUNT: Final = re.compile(r"\b\d[\d.,]* [a-z]+")
# Too common to say which sentence answers a question.
_EMPTY: Final = frozenset(
    {"a", "an", "the", "of", "in", "is", "was", "did", "does", "from", "to", "how", "many", "much"}
)


class _Asked(NamedTuple):
    """A question over passages, as a prompt shows it."""

    question: str
    passages: tuple[str, ...]


class ScriptedReader(ScriptedModel):
    """Answers questions over passages by the rules that it recognizes in its skill.

    It reads little more than the generated questions of ``qa``, and never looks at the seed.
    Without a skill it answers out of the first passage with the first that it finds, and who and
    where in whole sentences.
    """

    identity = "scripted:reader"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the answer in ``<answer>`` tags."""
        del seed
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
    """Return the sentence that shares most words with the question, the first of equals."""
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
    # Without names and numbers: a hasty reader looks for what is asked, not for whom.
    return frozenset(re.findall(r"\b[a-z]+\b", text)) - _EMPTY
