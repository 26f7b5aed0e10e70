"""The interchange form of a bank: one deterministic JSON document.

``{"schema_version": 1, "meta": {...}, "general": [...], "by_category": {category: [...]},
"lessons": [...]}``: all data of a bank, including retired and pending skills.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from skillwright.bank.bank import ID_FORM, Bank, SkillStats, is_id
from skillwright.core import (
    BankSkill,
    Counterfactual,
    DataError,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
    did_you_mean,
)
from skillwright.core.jsonio import dumps, read_text, write_text


def read_json(text: str, where: str) -> Any:
    """Read a JSON value; refuse what could not be written again.

    Args:
        text: The document.
        where: Its name in messages.

    Raises:
        DataError: It is not JSON, or has NaN, an infinity, half a surrogate pair, or a duplicate
            key.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
        # An ASCII escape may encode text that files and endpoints refuse.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"{where} holds {half!r}, half a surrogate pair; take it out") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from error
    return value


def read_sections(
    document: Mapping[str, Any], where: str, general: str, by_category: Sequence[str], lessons: str
) -> Iterator[tuple[list[Any], SkillKind, str, str]]:
    """Yield each list of items of a bank's document, with its kind, category and name.

    Args:
        document: The document; a missing or null section has no items.
        where: Its name in messages.
        general: The key of the general skills.
        by_category: Keys of objects that hold lists by category.
        lessons: The key of the lessons.

    Raises:
        DataError: A section is not a list, or not an object of categories.
    """
    yield _items(document.get(general), where, general), SkillKind.GENERAL, "", general
    for key in by_category:
        categories = {} if document.get(key) is None else document[key]
        if not isinstance(categories, Mapping):
            raise DataError(f"{where}: {key} is no object of categories")
        for category, items in categories.items():
            name = f"{key}[{category!r}]"
            yield _items(items, where, name), SkillKind.TASK_SPECIFIC, str(category), name
    yield _items(document.get(lessons), where, lessons), SkillKind.LESSON, "", lessons


def _items(value: object, where: str, name: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise DataError(f"{where}: {name} is no list")
    return value or []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_LESSON_KEYS = ("failure_point", "flawed_reasoning", "corrective_action")
_A_COUNT = "a whole number from 0 to 2^63 - 1"
_EXPECTED = {
    "created_step": _A_COUNT,
    "version": _A_COUNT,
    "stats": "an object of uses, wins and losses",
    "source_episode_ids": "a list of texts",
    "source_turns": "a list of pairs: an episode's key, and a turn",
}
_Word = TypeVar("_Word", bound=StrEnum)

Count = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]  # SQLite's range


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Stats(_Strict):
    uses: Count = 0
    wins: Count = 0
    losses: Count = 0


class _Item(_Strict):
    id: StrictStr
    title: StrictStr
    principle: StrictStr
    when_to_apply: StrictStr
    kind: StrictStr
    category: StrictStr | None = None
    scope: StrictStr = ""
    failure_point: StrictStr | None = None
    flawed_reasoning: StrictStr | None = None
    corrective_action: StrictStr | None = None
    origin: StrictStr = str(SkillOrigin.IMPORTED)
    created_step: Count | None = None
    parent_id: Any = None
    source_episode_ids: list[StrictStr] = []
    source_turns: list[tuple[StrictStr, StrictInt]] = []
    prompt_digest: StrictStr = ""
    model: StrictStr = ""
    version: Count = 1
    status: StrictStr = str(SkillStatus.ACTIVE)
    stats: _Stats = _Stats()
    details: StrictStr = ""


def item_of(skill: BankSkill, stats: SkillStats) -> dict[str, Any]:
    """Return a skill as a JSON object; ``category`` is null for skills of every task."""
    about_all = skill.kind != SkillKind.TASK_SPECIFIC and not skill.category
    lesson = skill.counterfactual
    parts = {} if lesson is None else {key: getattr(lesson, key) for key in _LESSON_KEYS}
    evidence = skill.provenance
    return {
        "id": skill.id,
        "title": skill.name,
        "principle": skill.principle,
        "when_to_apply": skill.applicability,
        "category": None if about_all else skill.category,
        "scope": skill.scope,
        "kind": "skill" if lesson is None else "lesson",
        **parts,
        "origin": str(evidence.origin),
        "created_step": evidence.step,
        "parent_id": skill.id if skill.version > 1 else None,
        "source_episode_ids": list(evidence.episodes),
        "source_turns": [list(turn) for turn in evidence.turns],
        "prompt_digest": evidence.prompt_digest,
        "model": evidence.model,
        "version": skill.version,
        "status": str(skill.status),
        "stats": {"uses": stats.retrieved, "wins": stats.wins, "losses": stats.losses},
        **({"details": skill.details} if skill.details else {}),
    }


def skill_of(item: object, where: str) -> tuple[BankSkill, SkillStats]:
    """Read a skill and its counts from a JSON object.

    Args:
        item: The object. ``id``, ``title``, ``principle``, ``when_to_apply``, ``kind`` and the
            parts of a lesson are required.
        where: Its name in messages.

    Raises:
        DataError: A key is missing, unknown, or has an invalid value.
    """
    if not isinstance(item, dict):
        raise DataError(f"{where}: it is a {type(item).__name__}, not an object")
    try:
        read = _Item.model_validate(item)
        skill = BankSkill(
            id=_id(read.id),
            name=read.title,
            principle=read.principle,
            applicability=read.when_to_apply,
            kind=_kind(read),
            category=read.category or "",
            scope=read.scope,
            counterfactual=_lesson(read),
            version=read.version,
            status=_word("status", read.status, SkillStatus),
            provenance=Provenance(
                origin=_word("origin", read.origin, SkillOrigin),
                episodes=tuple(read.source_episode_ids),
                turns=tuple(read.source_turns),
                prompt_digest=read.prompt_digest,
                model=read.model,
                step=read.created_step,
            ),
            details=read.details,
        )
    except ValidationError as error:
        raise DataError(f"{where}: {_said(error, item)}") from error
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
    counts = read.stats
    return skill, SkillStats(counts.uses, counts.wins + counts.losses, counts.wins)


def _id(written: str) -> str:
    if not is_id(written):
        raise ValueError(f"id is {written!r}, not {ID_FORM}")
    return written


def _kind(read: _Item) -> SkillKind:
    if read.kind not in ("skill", "lesson"):
        raise ValueError(f"kind is {read.kind!r}; it must be 'skill' or 'lesson'")
    if read.kind == "lesson":
        return SkillKind.LESSON
    return SkillKind.GENERAL if read.category is None else SkillKind.TASK_SPECIFIC


def _lesson(read: _Item) -> Counterfactual | None:
    if read.kind != "lesson":
        return None
    parts = {key: getattr(read, key) for key in _LESSON_KEYS}
    missing = [key for key, text in parts.items() if text is None]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")
    return Counterfactual(**parts)


def _word(key: str, written: str, words: type[_Word]) -> _Word:
    if written not in list(words):
        raise ValueError(f"{key} is {written!r}. {did_you_mean(written, map(str, words))}")
    return words(written)


def _said(error: ValidationError, item: dict[Any, Any]) -> str:
    """Describe one error: an unknown key, else the first missing or invalid key."""
    found = error.errors()
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    key, *inner = map(str, first["loc"])
    if first["type"] == "extra_forbidden" and not inner:
        return f"unknown key {key!r}. {did_you_mean(key, _Item.model_fields)}"
    if first["type"] == "missing" and not inner:
        return f"{key!r} is missing"
    if key == "stats" and inner and first["type"] != "extra_forbidden":
        return f"{inner[0]} is {first['input']!r}, not {_A_COUNT}"
    return f"{key} is {item[key]!r}, not {_EXPECTED.get(key, 'a text')}"


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
        text: The document; ``meta`` is optional.
        where: Its name in messages.

    Raises:
        DataError: The document is invalid; the message names the item.
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
    """Write a bank's interchange form to a file, atomically.

    Raises:
        OSError: The folder cannot be written or the disk is full; an old file is unchanged.
    """
    write_text(path, to_json(bank))


def load_bank(path: Path) -> Bank:
    """Read a bank from a file of the interchange form.

    Raises:
        DataError: The file cannot be read, or is invalid.
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
