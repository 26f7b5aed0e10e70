"""A skill as a JSON object, read with care: what is missing or wrong is named.

The keys are those of the interchange form (`skillwright.bank.to_json`); stores use them too.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

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
_KEYS = frozenset(
    {
        *("id", "title", "principle", "when_to_apply", "category", "scope", "kind", "origin"),
        *("created_step", "parent_id", "source_episode_ids", "source_turns", "prompt_digest"),
        *("model", "version", "status", "stats", *_LESSON_KEYS),
    }
)
_LARGEST = 2**63 - 1  # of what SQLite keeps
_Word = TypeVar("_Word", bound=StrEnum)


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
    fields = _Fields(item, where)
    kind = fields.text("kind")
    if kind not in ("skill", "lesson"):
        raise DataError(f"{where}: kind is {kind!r}; it is 'skill' or 'lesson'")
    category = fields.optional_text("category")
    lesson = None
    if kind == "lesson":
        lesson = Counterfactual(*(fields.text(key) for key in _LESSON_KEYS))
    try:
        skill = BankSkill(
            id=fields.id(),
            name=fields.text("title"),
            principle=fields.text("principle"),
            applicability=fields.text("when_to_apply"),
            kind=_kind(kind, category),
            category=category or "",
            scope=fields.text("scope", ""),
            counterfactual=lesson,
            version=fields.count("version", 1),
            status=fields.word("status", SkillStatus.ACTIVE),
            provenance=fields.provenance(),
        )
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
    return skill, fields.stats()


def _kind(written: str, category: str | None) -> SkillKind:
    if written == "lesson":
        return SkillKind.LESSON
    return SkillKind.GENERAL if category is None else SkillKind.TASK_SPECIFIC


class _Fields:
    """The fields of one item."""

    def __init__(self, item: object, where: str) -> None:
        if not isinstance(item, Mapping):
            raise DataError(f"{where}: it is a {type(item).__name__}, not an object")
        for key in item:
            if key not in _KEYS:
                raise DataError(f"{where}: unknown key {key!r}. {did_you_mean(str(key), _KEYS)}")
        self._item = item
        self._where = where

    def text(self, key: str, default: str | None = None) -> str:
        value = self._item.get(key, default)
        if value is None and key not in self._item:
            raise DataError(f"{self._where}: {key!r} is missing")
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def id(self) -> str:
        value = self.text("id")
        if not is_id(value):
            raise self._wrong("id", ID_FORM)
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._item.get(key) is None else self.text(key)

    def count(self, key: str, default: int) -> int:
        value = self._item.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
            raise self._wrong(key, "a whole number from 0 to 2^63 - 1")
        return value

    def word(self, key: str, default: _Word) -> _Word:
        value = self.text(key, str(default))
        words = type(default)
        if value not in list(words):
            raise DataError(
                f"{self._where}: {key} is {value!r}. {did_you_mean(value, map(str, words))}"
            )
        return words(value)

    def provenance(self) -> Provenance:
        step = None if self._item.get("created_step") is None else self.count("created_step", 0)
        return Provenance(
            origin=self.word("origin", SkillOrigin.IMPORTED),
            episodes=self._episodes(),
            turns=self._turns(),
            prompt_digest=self.text("prompt_digest", ""),
            model=self.text("model", ""),
            step=step,
        )

    def stats(self) -> SkillStats:
        counts = self._item.get("stats", {})
        if not isinstance(counts, Mapping) or counts.keys() - {"uses", "wins", "losses"}:
            raise self._wrong("stats", "an object of uses, wins and losses")
        inner = _Fields({}, f"{self._where}, stats")
        inner._item = counts
        uses, wins, losses = (inner.count(key, 0) for key in ("uses", "wins", "losses"))
        return SkillStats(uses, wins + losses, wins)

    def _episodes(self) -> tuple[str, ...]:
        keys = self._item.get("source_episode_ids", [])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise self._wrong("source_episode_ids", "a list of texts")
        return tuple(keys)

    def _turns(self) -> tuple[tuple[str, int], ...]:
        turns = self._item.get("source_turns", [])
        if not isinstance(turns, list) or not all(map(_is_turn, turns)):
            raise self._wrong("source_turns", "a list of pairs: an episode's key, and a turn")
        return tuple((key, turn) for key, turn in turns)

    def _wrong(self, key: str, expected: str) -> DataError:
        return DataError(f"{self._where}: {key} is {self._item.get(key)!r}, not {expected}")


def _is_turn(value: object) -> bool:
    match value:
        case [str(), int(turn)]:
            return not isinstance(turn, bool)
        case _:
            return False
