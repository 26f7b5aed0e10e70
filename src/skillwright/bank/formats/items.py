"""A skill as a JSON object, read with care: what is missing or wrong is named.

The keys are those of the interchange form (`skillwright.bank.to_json`); stores use them too.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from skillwright.bank.bank import ID_FORM, SkillStats, is_id
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

Count = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]  # of what SQLite keeps


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


def item_of(skill: BankSkill, stats: SkillStats) -> dict[str, Any]:
    """Write a skill as a JSON object; ``category`` is null for what is about every task."""
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
    }


def skill_of(item: object, where: str) -> tuple[BankSkill, SkillStats]:
    """Read a skill and its counts from a JSON object.

    Args:
        item: What stands in the file. Only ``id``, ``title``, ``principle``, ``when_to_apply``,
            ``kind`` and the parts of a lesson must be there.
        where: Names it in messages.

    Raises:
        DataError: A key is missing, unknown, or has no fit value.
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
        raise ValueError(f"kind is {read.kind!r}; it is 'skill' or 'lesson'")
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
    """Say what is wrong first: an unknown key, else the first key that is missing or unfit."""
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
