"""Import skills into a bank from any supported form, as pending ones; and load seed banks."""

import logging
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

from skillwright.bank.bank import Bank
from skillwright.bank.changes import Add, ChangeReport, IsNear, apply, near_in_text
from skillwright.bank.formats.agent_skills import read_with_notes
from skillwright.bank.formats.interchange import from_json, read_json
from skillwright.bank.formats.markdown import from_markdown
from skillwright.bank.formats.skillrl import import_skillrl, is_skillrl
from skillwright.core import (
    BankSkill,
    DataError,
    SkillOrigin,
    SkillStatus,
    UsageError,
    did_you_mean,
)
from skillwright.core.jsonio import read_text
from skillwright.core.skill_file import SKILL_FILE

logger = logging.getLogger(__name__)

_MARKDOWN = (".md", ".markdown", ".txt")


def import_skills(
    bank: Bank, path: Path, *, is_near: IsNear = near_in_text
) -> tuple[Bank, ChangeReport]:
    """Add the skills of a file or folder to a bank, pending; `Approve` makes them active.

    Args:
        bank: The bank to add to.
        path: A folder of Agent Skills or its SKILL.md, a JSON file of the interchange form or of
            SkillRL's layout, or a Markdown file.
        is_near: Whether two skills of one kind, category and scope have the same meaning. Not used
            for SkillRL's layout, so that it can be exported without loss.

    Returns:
        The next version, and the outcome of each skill.

    Raises:
        DataError: The file cannot be read, or has none of these forms.
    """
    made, report = _imported(bank, path, is_near)
    if not report.outcomes:
        _warn_of_no_skills(path)
    return made, report


def _imported(bank: Bank, path: Path, is_near: IsNear) -> tuple[Bank, ChangeReport]:
    notes: tuple[str, ...] = ()
    if path.suffix.lower() == ".json":
        text = read_text(path, "bank")
        if is_skillrl(read_json(text, str(path))):
            return import_skillrl(bank, text, str(path))
        drafts = _pending(from_json(text, str(path)))
    elif path.is_dir() or path.name == SKILL_FILE:
        drafts, notes = read_with_notes(path if path.is_dir() else path.parent)
    elif path.suffix.lower() in _MARKDOWN:
        drafts = from_markdown(read_text(path, "skills"), str(path))
    else:
        raise DataError(
            f"{str(path)!r} is none of the forms that skills are read from: a folder with "
            f"{SKILL_FILE}, a .json file (ours or SkillRL's), a Markdown file"
        )
    made, report = apply(bank, [Add(draft) for draft in drafts], is_near=is_near)
    return made, replace(report, notes=notes)


def load_any_bank(path: Path) -> Bank:
    """Read a bank from a JSON file.

    Args:
        path: An export of Skillwright, read as it is; or a file in SkillRL's layout, which has no
            statuses: all of its skills become active.

    Raises:
        DataError: The file cannot be read, or is neither.
    """
    text = read_text(path, "bank")
    if is_skillrl(read_json(text, str(path))):
        made, _ = import_skillrl(Bank(), text, str(path))
        active = (replace(skill, status=SkillStatus.ACTIVE) for skill in made.skills)
        bank = replace(made, skills=tuple(active))
    else:
        bank = from_json(text, str(path))
    if not bank.skills:
        _warn_of_no_skills(path)
    return bank


def _warn_of_no_skills(path: Path) -> None:
    logger.warning("%s holds no skills; nothing of it is added or injected", path)


def _pending(bank: Bank) -> tuple[BankSkill, ...]:
    """Return the skills of another bank as pending drafts, without retired ones."""
    return tuple(
        replace(
            skill,
            id="",
            status=SkillStatus.PENDING,
            # The origin in the file is not trusted.
            provenance=replace(skill.provenance, origin=SkillOrigin.IMPORTED),
        )
        for skill in bank.skills
        if skill.status != SkillStatus.RETIRED
    )


SEED_BANKS: Final = ("alfworld", "tau_bench", "webshop")
"""Environments with a seed bank, in ``seeds/``, written for this project from their rules."""


def seed_bank(name: str) -> Bank:
    """Return the seed bank of an environment, at version 1.

    ALFWorld's has 55 skills: 12 general, 32 for the six categories, 11 lessons.

    Raises:
        UsageError: There is no seed bank of this name.
    """
    if name not in SEED_BANKS:
        raise UsageError(f"there is no seed bank {name!r}. {did_you_mean(name, SEED_BANKS)}")
    file = resources.files("skillwright.bank") / "seeds" / f"{name}.json"
    return from_json(file.read_text(encoding="utf-8"), f"the seed bank {name!r}")
