"""What a skill can teach the scripted reader, and how it is recognised in a text.

The recogniser is small: it looks for words, sentence by sentence.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final


class ReaderRule(StrEnum):
    """Something that a skill may tell the reader."""

    SHORTEST = "shortest"
    """Answer with the shortest span, and not with the sentence that it stands in."""
    ASKED_UNIT = "asked_unit"
    """Give a number in the unit that the question asks for."""
    ASKED_YEAR = "asked_year"
    """Choose the statement whose years hold the year of the question."""
    RIGHT_PASSAGE = "right_passage"
    """Read the passage that is about what the question names."""
    EXPLAIN = "explain"
    """Harmful: answer in a sentence that explains itself."""


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
    """Return the rules that a text gives; of two sentences about one rule the later holds."""
    given: dict[ReaderRule, bool] = {}
    for sentence in _ADVICE_END.split(text.lower()):
        for rule, pattern in _PATTERNS.items():
            if found := pattern.search(sentence):
                given[rule] = not _NEGATED.search(sentence[: found.start()])
                if rule is ReaderRule.EXPLAIN and given[rule]:
                    given[ReaderRule.SHORTEST] = False
    return frozenset(rule for rule, wanted in given.items() if wanted)
