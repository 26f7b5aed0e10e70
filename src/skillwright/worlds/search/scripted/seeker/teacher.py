"""The scripted teacher for searches in the generated archives."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from skillwright.models.scripted.prompts import Assignment, last_turns
from skillwright.models.scripted.teacher import (
    Insight,
    InsightTeacher,
    Randomness,
    Slots,
    Teaching,
    Tells,
    Written,
)
from skillwright.worlds.search.scripted.seeker.agent import SeekerRule
from skillwright.worlds.search.scripted.seeker.optimizer import (
    LESSONS,
    SUPERSTITIONS,
    compared_too_few,
    pasted,
    searches_in,
    stopped_early,
)

_ASKED: Final = re.compile(r"In the records of (\w+), who was the maker of the ")
_RIGHT: Final = re.compile(r'Expected "([^"\n]+)"')
_ANSWER: Final = re.compile(r"<answer>([^<\n]+)</answer>")
_LEAST_SHOWN: Final = 2


class SearchTeacher(InsightTeacher):
    """Writes skills from episodes; an archive's word for the maker has the archive as scope."""

    def __init__(self) -> None:
        super().__init__("scripted:search_teacher", _is_search, INSIGHTS, _FALLBACK, _BELIEFS)

    def place(self, asked: Assignment) -> list[Written] | None:
        """Write a skill with the archive's word for the maker, if two episodes show it."""
        shown = {**self._episodes(asked, "success"), **self._episodes(asked, "failure")}
        if not shown:
            return None
        found = list(_words_shown(shown))[:1]
        return [word for _, word, names in found if len(names) >= _LEAST_SHOWN]

    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Propose skills, including the archives' words that failures show."""
        changes = super().evolve(asked, rng)
        if changes is None:
            return None
        known = "\n".join(skill.text for skill in asked.skills)
        new = [
            {"op": "add", "kind": "task_specific", "category": "", "place": archive, **word}
            for archive, word, _ in _words_shown(self._episodes(asked, "failure"))
            if word["principle"] not in known
        ]
        return [*changes, *Slots(asked).within(new)]


def _is_search(text: str) -> bool:
    return "In the records of" in text


def _words_shown(shown: Mapping[str, str]) -> Iterator[tuple[str, Written, list[str]]]:
    """Yield archive, skill with its word, and episodes that show it; the most frequent first."""
    evidence: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, text in shown.items():
        for found in _words(text):
            evidence[found].append(name)
    met: set[str] = set()
    for (archive, role), names in sorted(evidence.items(), key=lambda one: (-len(one[1]), one[0])):
        if archive not in met:
            met.add(archive)
            turns = [{"id": name, "turns": last_turns(shown[name], 1)} for name in names]
            yield archive, _word(archive, role).principle(turns), names


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield archive and word for the maker from an episode."""
    asked, right, answered = _ASKED.search(text), _RIGHT.search(text), _ANSWER.findall(text)
    name = right[1] if right else (answered[-1] if answered and "Right." in text else "")
    entry = re.search(rf"[:;] ([a-z ]+), {re.escape(name)}[.;]", text) if name else None
    if asked and entry:
        yield asked[1], entry[1]


def _word(archive: str, role: str) -> Teaching:
    said = (f"In the records of {archive} the maker is called the {role}.",)
    return Teaching(
        "fact",
        "",
        f"The maker in {archive}",
        said,
        f"when a question asks for a maker in the records of {archive}",
        "taking another person of the record for the maker.",
        "The first name of a record would be the maker's.",
        f"take the {role}.",
    )


def _insight(rule: SeekerRule, kept: Tells, name: str, when: str, *mistake: str) -> Insight:
    lesson = LESSONS[rule]
    teaching = Teaching(rule, "", name, lesson.wordings, when, *mistake)
    return Insight(teaching, lambda text: bool(lesson.seen_in(text)), kept)


INSIGHTS: Final = (
    _insight(
        SeekerRule.NAME_ALONE,
        lambda text: bool(searches_in(text)) and not pasted(text),
        "Search for names",
        "before every search",
        "searching for the words of the question.",
        "More words would find more.",
        "search for one name.",
    ),
    _insight(
        SeekerRule.NEXT_NAME,
        lambda text: "born" in text and not stopped_early(text) and len(searches_in(text)) > 1,
        "Follow the name",
        "when a question asks about somebody whom a record names",
        "answering from the first record.",
        "The first passage would hold the answer.",
        "search for whoever the record names.",
    ),
    _insight(
        SeekerRule.ALL_COMPARED,
        lambda text: "finished first:" in text and not compared_too_few(text),
        "Look at all",
        "when things are compared",
        "naming the first that was looked at.",
        "The first would be the oldest.",
        "look up each, and compare the years.",
    ),
)

_FALLBACK: Final = Teaching(
    "short",
    "",
    "Answer shortly",
    ("Answer with the name or the number that was asked for, and nothing around it.",),
    "when the answer is known",
    "wrapping the answer in a sentence.",
    "A sentence would be clearer.",
    "write the bare answer.",
)
_BELIEFS: Final = (
    Teaching(
        "memory",
        "",
        "Trust your memory",
        SUPERSTITIONS[:1],
        "when a question sounds familiar",
        "searching for what is known.",
        "A search would cost nothing.",
        "answer without one.",
    ),
)
