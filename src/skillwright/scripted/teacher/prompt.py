"""A teacher's prompt, read back into its parts."""

import re
from dataclasses import dataclass
from typing import Final

from skillwright.scripted.analyst.prompt import Trajectory, read_trajectories

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
    """A skill that the bank has."""

    id: str  # what it is called
    kind: str  # ``general``, ``task_specific`` or ``lesson``
    category: str  # "" for every one
    place: str  # the one place that it holds in, or ""
    text: str  # its name and everything that it says

    @property
    def line(self) -> str:
        """The skill as agents are told it."""
        return f"- [{self.id}] {self.text}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many skills may be added: in all, to one category, and more to the weakest."""

    total: int
    per_category: int
    extra: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a teacher is given."""

    categories: tuple[str, ...]  # the categories that it is about
    place: str  # the place that it is about, or ""
    count: int  # the most skills that it may write
    skills: tuple[KnownSkill, ...]  # what the bank has, where it is shown
    weakest: str  # the weakest category, where that is said
    limits: Limits  # of an update; zeros where there is none
    earlier: str  # what was proposed before, as text
    trajectories: tuple[Trajectory, ...]  # in the order shown
    text: str  # the part of the prompt with the trajectories

    def of(self, outcome: str) -> list[Trajectory]:
        """Return the trajectories with an outcome, ``success`` or ``failure``."""
        return [one for one in self.trajectories if one.outcome == outcome]


def read_assignment(user: str) -> Assignment:
    """Read a teacher's prompt; what it does not have is empty."""
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
            found["id"],
            found["kind"],
            found["category"] or "",
            found["place"] or "",
            found["text"],
        )
        for found in _KNOWN_SKILL.finditer(section)
    ]
