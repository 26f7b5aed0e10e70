"""What the scripted reader's analyst looks for in a wrong answer, and how it words the lesson."""

from typing import Final

from skillwright.scripted.lesson_analyst import Lesson, LessonAnalyst
from skillwright.scripted.reader.rules import ReaderRule

# The answer that was wrong does not hold the right one.
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
"""Rule -> how to find that it was missing, and how to teach it."""

SUPERSTITIONS: Final = (
    "Explain each answer, so that nobody has to ask again.",
    "Write in full sentences, as is polite.",
)
"""Good-sounding advice that makes right answers wrong."""


def reader_analyst() -> LessonAnalyst:
    """Return the optimiser that teaches the scripted reader."""
    return LessonAnalyst("scripted:reader_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
