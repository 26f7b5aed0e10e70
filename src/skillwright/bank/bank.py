"""A bank at one version.

A bank is immutable. `skillwright.bank.apply` creates the next version, and a `BankStore` stores all
versions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skillwright.core import BankSkill, SkillKind, SkillStatus, UsageError, did_you_mean
from skillwright.core.jsonio import digest

_PREFIX = {SkillKind.GENERAL: "g", SkillKind.TASK_SPECIFIC: "t", SkillKind.LESSON: "l"}
ID_FORM = "1 to 64 letters, digits and _ . : # -"
_ID = re.compile(r"[\w.:#-]{1,64}")
_OUR_ID = re.compile(r"([gtl])(\d{1,15})")


class UnknownSkill(UsageError):
    """A bank has no skill with this id."""


@dataclass(frozen=True, slots=True)
class SkillStats:
    """Results of the episodes that a skill was injected into.

    Attributes:
        retrieved: Contexts that contain it.
        episodes: Scored episodes with it; faulted episodes do not count.
        wins: Solved episodes.
    """

    retrieved: int = 0
    episodes: int = 0
    wins: int = 0

    def __add__(self, other: "SkillStats") -> "SkillStats":
        """Add counts of different episodes."""
        return SkillStats(
            self.retrieved + other.retrieved, self.episodes + other.episodes, self.wins + other.wins
        )

    @property
    def losses(self) -> int:
        """Scored episodes that were not solved."""
        return self.episodes - self.wins

    @property
    def utility(self) -> float:
        """Win rate in (0, 1), smoothed toward one half (Laplace's rule of succession)."""
        return (self.wins + 1) / (self.episodes + 2)


@dataclass(frozen=True)
class Bank:
    """The skills of a bank at one version.

    Attributes:
        version: From 1; 0 is the empty bank.
        skills: All skills up to this version, including retired ones, in order of addition.
        stats: Counts by id when this version was created; a missing id means no episode.
        issued: The highest number that was ever assigned, by prefix (``g``, ``t``, ``l``), and the
            highest version of a skill that a rollback undid, by its id. So an id always means the
            same skill, and an id with a version the same wording.
        meta: Facts about the whole bank, as JSON values: its source, and unknown fields of an
            imported file.

    Raises:
        ValueError: Two skills have the same id, or an id is malformed (`ID_FORM`).
    """

    version: int = 0
    skills: tuple[BankSkill, ...] = ()
    stats: Mapping[str, SkillStats] = field(default_factory=dict)
    issued: Mapping[str, int] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for skill in self.skills:
            if not is_id(skill.id):
                raise ValueError(f"a bank has a skill with the id {skill.id!r}; an id is {ID_FORM}")
        if len(self._by_id) != len(self.skills):
            twice = Counter(skill.id for skill in self.skills).most_common(1)[0][0]
            raise ValueError(f"a bank has two skills with the id {twice!r}; ids must be unique")

    @cached_property
    def active(self) -> tuple[BankSkill, ...]:
        """The skills that may be injected."""
        return tuple(skill for skill in self.skills if skill.status == SkillStatus.ACTIVE)

    @cached_property
    def content_digests(self) -> Mapping[str, str]:
        """`BankSkill.content_digest` of all skills, by id."""
        return {skill.id: skill.content_digest for skill in self.skills}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ids, contents, versions and statuses.

        The bank's version, evidence and statistics are excluded, so a rollback restores the digest.
        """
        digests = self.content_digests
        return digest(
            [
                [skill.id, digests[skill.id], skill.version, str(skill.status)]
                for skill in sorted(self.skills, key=lambda skill: skill.id)
            ]
        )

    def get(self, skill_id: str) -> BankSkill:
        """Return the skill with an id, whatever its status.

        Raises:
            UnknownSkill: There is none; the message names the nearest id.
        """
        try:
            return self._by_id[skill_id]
        except KeyError:
            raise UnknownSkill(
                f"version {self.version} of the bank has no skill {skill_id!r}. "
                f"{did_you_mean(skill_id, self._by_id)}"
            ) from None

    def __contains__(self, skill_id: object) -> bool:
        """Return whether a skill has this id."""
        return skill_id in self._by_id

    def stats_of(self, skill_id: str) -> SkillStats:
        """Return a skill's counts, zeros without episodes."""
        return self.stats.get(skill_id, SkillStats())

    @cached_property
    def highest(self) -> Mapping[str, int]:
        """The highest number that is used or was ever assigned, by prefix."""
        return highest_numbers((skill.id for skill in self.skills), self.issued)

    @cached_property
    def _by_id(self) -> Mapping[str, BankSkill]:
        return {skill.id: skill for skill in self.skills}


def is_id(text: str) -> bool:
    """Return whether a text is a valid skill id."""
    return _ID.fullmatch(text) is not None


def prefix_of(kind: SkillKind) -> str:
    """Return the first letter of the ids of a kind: g, t or l."""
    return _PREFIX[kind]


def make_id(kind: SkillKind, number: int) -> str:
    """Format an id: ``g001``, ``t014``, ``l1000``."""
    return f"{_PREFIX[kind]}{number:03d}"


def highest_numbers(ids: Iterable[str], *issued: Mapping[str, int]) -> dict[str, int]:
    """Return the highest number by prefix, over ids and assigned numbers."""
    highest = dict.fromkeys(_PREFIX.values(), 0)
    for numbers in issued:
        for key, number in numbers.items():
            highest[key] = max(highest.get(key, 0), number)
    for skill_id in ids:
        if found := _OUR_ID.fullmatch(skill_id):
            highest[found[1]] = max(highest[found[1]], int(found[2]))
    return highest


class BankError(UsageError):
    """A bank's file is missing, damaged, busy, or cannot be written."""


class UnknownVersion(BankError):
    """A bank has no such version."""


class BankMoved(BankError):
    """Another process created a new version in the meantime."""
