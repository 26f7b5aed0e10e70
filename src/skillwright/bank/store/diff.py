"""What differs between two versions of a bank."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from skillwright.bank.bank import Bank
from skillwright.core import BankSkill, SkillStatus

_SAID = ("name", "principle", "applicability", "category", "scope")
_PARTS = ("failure_point", "flawed_reasoning", "corrective_action")


@dataclass(frozen=True, slots=True)
class Refinement:
    """A skill that has other words.

    Attributes:
        before: As it was.
        after: As it is.
        fields: What differs, by field: (before, after).
    """

    before: BankSkill
    after: BankSkill
    fields: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class BankDiff:
    """What differs between two versions of a bank.

    Attributes:
        before: The number of the version that is compared with.
        after: The number of the other version.
        added: Skills that only the other has, as they are there.
        refined: Skills that have other words there.
        retired: Skills that are retired there and were not.
        admitted: Skills that are active there and were quarantined.
        restored: Skills that were retired and are not there: after a rollback.
        quarantined: Skills that are quarantined there and were active: after a rollback.
        removed: Skills that the other does not have: after a rollback.
    """

    before: int
    after: int
    added: tuple[BankSkill, ...] = ()
    refined: tuple[Refinement, ...] = ()
    retired: tuple[BankSkill, ...] = ()
    admitted: tuple[BankSkill, ...] = ()
    restored: tuple[BankSkill, ...] = ()
    quarantined: tuple[BankSkill, ...] = ()
    removed: tuple[BankSkill, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether both versions say the same to the same agents."""
        return not any(getattr(self, one.name) for one in fields(self)[2:])


def difference(before: Bank, after: Bank) -> BankDiff:
    """Compare two versions of a bank; evidence and statistics are not compared."""
    retired = SkillStatus.RETIRED
    pairs = [(before.get(new.id), new) for new in after.skills if new.id in before]
    return BankDiff(
        before.version,
        after.version,
        added=tuple(new for new in after.skills if new.id not in before),
        refined=tuple(
            Refinement(old, new, fields) for old, new in pairs if (fields := _changed(old, new))
        ),
        retired=_turned(pairs, retired),
        admitted=_turned(pairs, SkillStatus.ACTIVE, SkillStatus.QUARANTINED),
        restored=tuple(new for old, new in pairs if old.status == retired != new.status),
        quarantined=_turned(pairs, SkillStatus.QUARANTINED, SkillStatus.ACTIVE),
        removed=tuple(old for old in before.skills if old.id not in after),
    )


def _turned(
    pairs: list[tuple[BankSkill, BankSkill]], to: SkillStatus, source: SkillStatus | None = None
) -> tuple[BankSkill, ...]:
    return tuple(
        new
        for old, new in pairs
        if new.status == to and old.status != to and source in (None, old.status)
    )


def _changed(old: BankSkill, new: BankSkill) -> dict[str, tuple[str, str]]:
    one, other = _said(old), _said(new)
    return {key: (one[key], other[key]) for key in one if one[key] != other[key]}


def _said(skill: BankSkill) -> dict[str, str]:
    said = {key: getattr(skill, key) for key in _SAID}
    for key in _PARTS:
        said[key] = getattr(skill.counterfactual, key) if skill.counterfactual else ""
    return said
