"""The interchange form of a bank: one JSON document that is the same, byte for byte, every time.

``{"schema_version": 1, "meta": {...}, "general": [...], "by_category": {category: [...]},
"lessons": [...]}``: everything that a bank knows, retired and quarantined skills included.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillwright.bank.bank import Bank, SkillStats
from skillwright.bank.formats.items import item_of, skill_of
from skillwright.bank.formats.json_text import read_json, read_sections
from skillwright.core import BankSkill, DataError, SkillKind, did_you_mean
from skillwright.core.jsonio import dumps, read_text, write_text

SCHEMA_VERSION = 1
_KEYS = ("schema_version", "meta", "general", "by_category", "lessons")


def to_json(bank: Bank) -> str:
    """Write a bank in its interchange form; equal banks give equal bytes."""
    general, lessons = [], []
    by_category: dict[str, list[dict[str, Any]]] = {}
    for skill in bank.skills:
        item = item_of(skill, bank.stats_of(skill.id))
        match skill.kind:
            case SkillKind.GENERAL:
                general.append(item)
            case SkillKind.LESSON:
                lessons.append(item)
            case SkillKind.TASK_SPECIFIC:
                by_category.setdefault(skill.category, []).append(item)
    document = {
        "schema_version": SCHEMA_VERSION,
        "meta": {
            "version": bank.version,
            "content_hash": bank.digest,
            "issued": dict(sorted(bank.issued.items())),
            "order": [skill.id for skill in bank.skills],
            "facts": bank.meta,
        },
        "general": general,
        "by_category": by_category,
        "lessons": lessons,
    }
    return dumps(document, indent=2) + "\n"


def from_json(text: str, where: str = "the bank") -> Bank:
    """Read a bank from its interchange form.

    Args:
        text: The document. ``meta`` may be left out by people who write a bank by hand.
        where: Names it in messages.

    Raises:
        DataError: It is no such document; the message names the item that is wrong.
    """
    document = _document(text, where)
    skills: dict[str, BankSkill] = {}
    stats: dict[str, SkillStats] = {}
    sections = read_sections(document, where, "general", ("by_category",), "lessons")
    for items, kind, category, name in sections:
        for position, item in enumerate(items):
            place = f"{where}: {name}[{position}]"
            skill, counts = skill_of(item, place)
            by_category = kind is SkillKind.TASK_SPECIFIC
            if skill.kind != kind or (by_category and skill.category != category):
                raise DataError(
                    f"{place}: skill {skill.id!r} is of kind {str(skill.kind)!r} and category "
                    f"{skill.category!r}, so it does not belong there; move it"
                )
            if skill.id in skills:
                raise DataError(f"{place}: the id {skill.id!r} is used twice; ids are unique")
            skills[skill.id] = skill
            if counts != SkillStats():
                stats[skill.id] = counts
    return _bank(document.get("meta", {}), skills, stats, where)


def save_bank(bank: Bank, path: Path) -> None:
    """Write a bank's interchange form to a file; a reader never sees half of it.

    Raises:
        OSError: The folder cannot be written or the disk is full; an old file is untouched.
    """
    write_text(path, to_json(bank))


def load_bank(path: Path) -> Bank:
    """Read a bank from a file of the interchange form.

    Raises:
        DataError: The file cannot be read, or is no such document.
    """
    return from_json(read_text(path, "bank"), str(path))


def _document(text: str, where: str) -> dict[str, Any]:
    document = read_json(text, where)
    if not isinstance(document, dict):
        raise DataError(f"{where} is a {type(document).__name__}, not an object")
    for key in document:
        if key not in _KEYS:
            raise DataError(
                f"{where}: unknown key {key!r}. {did_you_mean(key, _KEYS)} A bank in SkillRL's "
                "layout is read by `skillwright.bank.read_skillrl`."
            )
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{where}: schema_version is {version!r}, and this Skillwright reads "
            f"{SCHEMA_VERSION}. Export it again, or upgrade Skillwright."
        )
    return document


def _bank(
    meta: object, skills: Mapping[str, BankSkill], stats: Mapping[str, SkillStats], where: str
) -> Bank:
    if not isinstance(meta, dict):
        raise DataError(f"{where}: meta is no object")
    version, issued = meta.get("version", 1), meta.get("issued", {})
    order, facts = meta.get("order", list(skills)), meta.get("facts", {})
    if not _is_count(version) or not isinstance(facts, dict):
        raise DataError(f"{where}: meta.version is no whole number, or meta.facts no object")
    if not isinstance(issued, dict) or not all(map(_is_count, issued.values())):
        raise DataError(f"{where}: meta.issued is no object of whole numbers")
    if not isinstance(order, list) or sorted(map(repr, order)) != sorted(map(repr, skills)):
        raise DataError(f"{where}: meta.order does not name each skill once; take it out")
    bank = Bank(version, tuple(skills[key] for key in order), stats, issued, facts)
    if meta.get("content_hash", bank.digest) != bank.digest:
        raise DataError(
            f"{where}: meta.content_hash does not fit its skills: the file was changed by hand or "
            "damaged. Take content_hash out to accept it as it is."
        )
    return bank


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
