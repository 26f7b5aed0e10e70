"""Parsers for the prompts of optimizers and teachers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

# Headings count only outside of tags, and turns only as whole lines in the first column, so that
# texts of environments, agents and skills are not mistaken for them.


NO_LIMIT: Final = 8
"""Maximum number of edits if the prompt sets none."""

_SKILL = re.compile(r"\s*## Current skill\n<skill>\n(.*?)\n</skill>\n", re.DOTALL)
_PREVIOUS = re.compile(r"\n## Previous skill\n<skill>\n(.*?)\n</skill>\n", re.DOTALL)
_NOTES = re.compile(r"\n## Optimi[sz]er notes\n")
_BUDGET = re.compile(r"(?:Propose|Select) at most (\d{1,6}) (?:edits|suggestions|skill)")
_TRAJECTORY = re.compile(
    r'^<trajectory id="([^"\n]*)"([^>\n]*)>\n<task>(.*?)</task>\n(.*?)^</trajectory>$',
    re.DOTALL | re.MULTILINE,
)
_EPISODE = re.compile(
    r'^<trajectory id="([^"\n]*)"([^>\n]*)>\n(.*?)^</trajectory>$', re.DOTALL | re.MULTILINE
)
_TURN = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)
_OUTCOME = re.compile(r' outcome="(\w+)"')
_TASK_TYPE = re.compile(r' family="([^"\n]*)"')  # prompt text
_PLACE = re.compile(r"\A(?:\[fact\] (?!place: ).*\n)*\[fact\] place: (.*)")
_LINE = re.compile(r"^\[(\d{1,6})\] (action|result): (.*(?:\n    .*)*)", re.MULTILINE)


Reply = dict[str, Any]
"""Reply before its conversion to JSON."""


class Unreadable(ValueError):
    """A required part of the prompt is missing."""


class Step(NamedTuple):
    """One turn: its number, the command, and the outcome."""

    turn: int
    action: str
    result: str


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An episode in a prompt."""

    id: str  # id in evidence
    outcome: str  # ``failure`` or ``success``
    opening: str  # the first text of the game
    steps: tuple[Step, ...]  # the turns in the prompt, in order
    task_type: str = ""  # task type or category, or ""
    place: str = ""  # scope of the task, or ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of an analyst's prompt."""

    skill: str  # the current skill, "" for an empty one
    budget: int  # maximum number of proposed edits
    earlier: str  # summary of earlier steps, or ""
    trajectories: tuple[Trajectory, ...]  # in the order shown


@dataclass(frozen=True, slots=True)
class Listing:
    """The parts of a merge or ranking prompt."""

    skill: str  # the current skill, "" for an empty one
    budget: int  # maximum number of selected edits
    items: tuple[dict[str, Any], ...]  # the objects of the JSON array: patches or edits


@dataclass(frozen=True, slots=True)
class Retrospect:
    """The parts of a prompt at an epoch's end."""

    skill: str  # the current skill, "" for an empty one
    previous: str  # the skill of the previous epoch, likewise
    earlier: str  # the previous guidance or notes, or ""
    # trajectories with the current skill; ``outcome`` is the category of the pair
    trajectories: tuple[Trajectory, ...]


def read_retrospect(user: str) -> Retrospect:
    """Parse the prompt of a slow update or a meta skill."""
    shown = _SKILL.match(user)
    rest = user[shown.end() :] if shown else ""
    before = _PREVIOUS.match(rest)
    if not shown or not before:
        raise Unreadable(user[:80])
    head, mark, body = rest[before.end() :].partition("\n## Comparison\n")
    earlier = re.match(r"\n## Previous (?:guidance|notes)\n(.*)\n\n## Outcomes\n", head, re.DOTALL)
    if not mark or not earlier:
        raise Unreadable(user[:80])
    return Retrospect(
        skill=_filled(shown[1]),
        previous=_filled(before[1]),
        earlier=_filled(earlier[1]),
        trajectories=tuple(t for t in read_trajectories(body) if t.id.endswith(" (current)")),
    )


def read_reading(user: str) -> Reading:
    """Parse an analyst's prompt."""
    shown = _SKILL.match(user)
    if not shown:
        raise Unreadable(user[:80])
    head, mark, body = user[shown.end() :].partition("\n## Trajectories\n<trajectory ")
    _, _, earlier = head.partition("\n## Earlier steps\n")
    if not mark:
        raise Unreadable(user[:80])
    return Reading(
        skill=_filled(shown[1]),
        budget=_budget(head.partition("\n## Earlier steps\n")[0]),
        earlier=_filled(_NOTES.split(earlier, maxsplit=1)[0]),
        trajectories=tuple(read_trajectories(f"<trajectory {body}")),
    )


def read_listing(user: str, heading: str) -> Listing:
    """Parse a merge or ranking prompt, which ends with a JSON array under a heading."""
    shown = _SKILL.match(user)
    if not shown:
        raise Unreadable(user[:80])
    head, items = json_list_under(heading, user[shown.end() :])
    return Listing(
        skill=_filled(shown[1]),
        budget=_budget(head.rpartition("## Edit budget\n")[2]),
        items=tuple(item for item in items if isinstance(item, dict)),
    )


def json_list_under(heading: str, text: str) -> tuple[str, list[Any]]:
    """Return the text before the last such heading, and the JSON array below it."""
    # Line breaks in JSON strings are escaped, so that the last heading is the real one.
    head, mark, body = text.rpartition(f"\n## {heading}\n")
    try:
        items = json.loads(body) if mark else None
    except (ValueError, RecursionError) as fault:
        raise Unreadable(heading) from fault
    if not isinstance(items, list):
        raise Unreadable(heading)
    return head, items


def _filled(text: str) -> str:
    """Return a section's text, or "" if it says that it is empty."""
    return "" if text.strip() in {"", "(empty)", "(none)"} else text


def _budget(section: str) -> int:
    found = _BUDGET.search(section)
    return int(found[1]) if found else NO_LIMIT


def read_trajectories(text: str) -> Iterator[Trajectory]:
    """Parse the trajectories in a prompt."""
    for name, attributes, opening, body in _TRAJECTORY.findall(text):
        outcome, task_type = _OUTCOME.search(attributes), _TASK_TYPE.search(attributes)
        place = _PLACE.match(body)
        yield Trajectory(
            id=name,
            outcome=outcome[1] if outcome else "",
            opening=opening,
            steps=tuple(_steps(body)),
            task_type=task_type[1] if task_type else "",
            place=place[1].strip() if place else "",
        )


def episode_texts(shown: str, outcome: str) -> dict[str, str]:
    """Return the texts of the episodes with an outcome, without their first lines, by id."""
    return {
        name: body
        for name, attributes, body in _EPISODE.findall(shown)
        if f' outcome="{outcome}"' in attributes
    }


def last_turns(episode: str, most: int) -> list[int]:
    """Return the numbers of the last turns of an episode's text."""
    return sorted({int(turn) for turn in _TURN.findall(episode)})[-most:]


def _steps(body: str) -> Iterator[Step]:
    said: dict[int, dict[str, str]] = {}
    for turn, kind, text in _LINE.findall(body):
        said.setdefault(int(turn), {})[kind] = text
    for turn, lines in said.items():
        yield Step(turn, lines.get("action", "").strip(), lines.get("result", "").strip())


_TRAJECTORIES: Final = "\n## Trajectories that "
_NUMBER = re.compile(r"at most (\d{1,6})", re.IGNORECASE)
_LIMITS = re.compile(r"Add at most (\d+) skills, and at most (\d+) to one category; (\d+) more")
_WEAKEST = re.compile(r"^- (.+): \d+ of \d+ \(the weakest\)$", re.MULTILINE)
_KNOWN_SKILL = re.compile(
    r"^- \[(?P<id>[^\]\n]+)\] (?P<kind>\w+)(?:, category (?P<category>[^:,\n]+))?"
    r"(?:, place (?P<place>[^:\n]+))?: (?P<text>.+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class KnownSkill:
    """A skill of the bank."""

    id: str
    kind: str  # ``general``, ``task_specific`` or ``lesson``
    category: str  # "" for all categories
    place: str  # scope, or ""
    text: str  # name and content

    @property
    def line(self) -> str:
        """The skill's text for agents."""
        return f"- [{self.id}] {self.text}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum number of added skills: in all, per category, and for the weakest category."""

    total: int
    per_category: int
    extra: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The parts of a teacher's prompt."""

    categories: tuple[str, ...]  # categories of the request
    place: str  # scope of the request, or ""
    count: int  # maximum number of skills to write
    skills: tuple[KnownSkill, ...]  # the bank's skills in the prompt
    weakest: str  # the weakest category, or ""
    limits: Limits  # limits of an update, or zeros
    earlier: str  # earlier proposals, as text
    trajectories: tuple[Trajectory, ...]  # in the order of the prompt
    text: str  # the part of the prompt with the trajectories

    def of(self, outcome: str) -> list[Trajectory]:
        """Return the trajectories with an outcome, ``success`` or ``failure``."""
        return [one for one in self.trajectories if one.outcome == outcome]


def read_assignment(user: str) -> Assignment:
    """Parse a teacher's prompt; missing parts are empty."""
    head, mark, body = f"\n{user}".partition(_TRAJECTORIES)
    sections = {
        name: "" if text.strip() == "(none)" else text.strip()
        for name, _, text in (part.partition("\n") for part in head.split("\n## ")[1:])
    }
    named = sections.get("Category") or sections.get("Categories", "")
    count = _NUMBER.search(sections.get("How many", ""))
    limits = _LIMITS.search(sections.get("Limits", ""))
    weakest = _WEAKEST.search(sections.get("Success by category", ""))
    return Assignment(
        categories=tuple(name.strip() for name in named.split(",") if name.strip()),
        place=sections.get("Place", ""),
        count=int(count[1]) if count else 0,
        skills=tuple(_skills(sections.get("Current skills", ""))),
        weakest=weakest[1] if weakest else "",
        limits=Limits(*map(int, limits.groups())) if limits else Limits(0, 0, 0),
        earlier=sections.get("Earlier changes", ""),
        trajectories=tuple(read_trajectories(body)) if mark else (),
        text=body,
    )


def _skills(section: str) -> list[KnownSkill]:
    return [
        KnownSkill(
            found["id"], found["kind"], found["category"] or "", found["place"] or "", found["text"]
        )
        for found in _KNOWN_SKILL.finditer(section)
    ]
