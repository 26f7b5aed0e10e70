"""The scripted optimizer for the seeker: the mistakes that it recognizes, and its lessons."""

import re
from collections.abc import Mapping
from typing import Final

from skillwright.worlds.scripted import Lesson, LessonAnalyst
from skillwright.worlds.search.scripted.seeker.agent import SeekerRule

LONG_QUERY: Final = 6
"""Minimum words of a query that counts as the whole question."""

_SEARCH: Final = re.compile(r"<search>(.*?)</search>", re.DOTALL)
_COMPARED: Final = re.compile(r"finished first: the (.+), the (.+) or the (.+)\?")
_LIFE: Final = re.compile(r"\bwas born in \w+ in \d{4}\b")
_RECORD: Final = "Entered in the ledger"


def searches_in(episode: str) -> list[str]:
    """Return the queries in a rendered episode."""
    return [query.strip() for query in _SEARCH.findall(episode)]


def pasted(episode: str) -> bool:
    """Tell whether the agent searched for a whole question."""
    return any(len(query.split()) >= LONG_QUERY for query in searches_in(episode))


def stopped_early(episode: str) -> bool:
    """Tell whether the agent read the record without looking up the person in it."""
    asks_on = "of the" in episode and re.search(r"\?.*maker|maker[^?\n]*\bborn\b", episode)
    return bool(asks_on) and _RECORD in episode and not _LIFE.search(episode)


def compared_too_few(episode: str) -> bool:
    """Tell whether the agent compared objects without looking up all of them."""
    named = _COMPARED.search(episode)
    return named is not None and not set(named.groups()) <= set(searches_in(episode))


FACT: Final = (
    r"In the records of (?P<archive>\w+), who was the maker of .*"
    r"[:;] (?P<role>[a-z ]+), (?P<right>[A-Z]\w+ [A-Z]\w+)[.;].*"
    r'Expected "(?P=right)"'
)
"""Matches an archive's word for the maker in an episode about a maker."""

LESSONS: Final[Mapping[str, Lesson]] = {
    SeekerRule.NAME_ALONE: Lesson(
        "searched for the whole question and found letters that ask the same",
        pasted,
        (
            "Search for the name alone, such as two words, and never for the whole question.",
            "Put only the name of a thing into a search; its other words find letters.",
        ),
    ),
    SeekerRule.NEXT_NAME: Lesson(
        "answered from the first passage where the question asks about somebody named there",
        stopped_early,
        (
            "Where the question asks about a person whom a record names, search for that person "
            "next, and so for a town.",
            "Follow the chain: what is found first leads to another search, for the person or the "
            "town.",
        ),
    ),
    SeekerRule.ALL_COMPARED: Lesson(
        "compared without looking at everything",
        compared_too_few,
        (
            "Look up each of the things that are to be compared before you answer.",
            "In a comparison find the year of every one.",
        ),
    ),
    "fact": Lesson(
        "took another person of the record for the maker",
        FACT,
        (
            "In the records of {archive} the maker is called the {role}.",
            "The {role} of a record of {archive} is the maker.",
        ),
    ),
}
"""Rule, or ``fact`` for an archive's word -> test for episodes that needed it, and its text."""

SUPERSTITIONS: Final = (
    "Answer from memory; a search wastes a turn.",
    "Repeat every search, so that nothing is overlooked.",
    "Paste the full question into the search, so that no word is lost.",
)
"""Plausible advice that loses right answers."""


def seeker_analyst() -> LessonAnalyst:
    """Return the scripted optimizer for the seeker."""
    return LessonAnalyst("scripted:seeker_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
