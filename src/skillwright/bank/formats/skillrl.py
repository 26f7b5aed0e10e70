"""Read and write the files that SkillRL publishes: banks, without loss, and refined memories.

A bank is ``{"general_skills": [...], "task_specific_skills": {category: [...]},
"common_mistakes": [...], "metadata": {...}}``; banks for search have ``query_type_skills`` instead
of
the second key. Ids, metadata and unknown keys of a file are kept in `Bank.meta` for the export.

Source: SkillRL (arXiv 2602.08234), and the files that its authors published.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillwright.bank.bank import Bank
from skillwright.bank.changes import Add, ChangeReport, apply, only_equal
from skillwright.bank.formats.interchange import read_json, read_sections
from skillwright.core import (
    BankSkill,
    Counterfactual,
    DataError,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
)
from skillwright.core.jsonio import dumps

META_KEY = "skillrl"
"""The key of `Bank.meta` with the imported document."""

_GENERAL, _MISTAKES = "general_skills", "common_mistakes"
_BY_CATEGORY = ("task_specific_skills", "query_type_skills")
_CATEGORY_ALIASES = {"examine": "look_at_obj_in_light"}
_NAME_WORDS = 5


def read_skillrl(text: str, where: str = "the bank") -> tuple[BankSkill, ...]:
    """Read the skills of a bank in SkillRL's layout, as pending drafts without ids.

    A mistake becomes a lesson: its description is the failure point, its cause the flawed
    reasoning, and
    its remedy both the corrective action and the principle.

    Raises:
        DataError: The document is invalid; the message names the item.
    """
    return tuple(draft for _, draft in _drafts(_document(text, where), where))


def import_skillrl(bank: Bank, text: str, where: str = "the bank") -> tuple[Bank, ChangeReport]:
    """Add the skills of a bank in SkillRL's layout to a bank, pending.

    Only equal skills are merged, not similar ones, so that nothing is lost.

    Args:
        bank: The bank to add to.
        text: The document.
        where: Its name in messages.

    Returns:
        The next version, and the outcome of each item in the order of the document.

    Raises:
        DataError: The document is invalid.
    """
    document = _document(text, where)
    drafts = [draft for _, draft in _drafts(document, where)]
    made, report = apply(bank, [Add(draft) for draft in drafts], is_near=only_equal)
    meta = {**bank.meta, META_KEY: document}
    return replace(made, version=bank.version + 1, meta=meta), report


def to_skillrl(bank: Bank) -> str:
    """Write a bank in SkillRL's layout.

    Items of the imported document are written unchanged if the bank still has their skill with this
    content and it is not retired; other skills follow them.
    """
    imported = bank.meta.get(META_KEY)
    document = json.loads(dumps(imported)) if imported else _empty()
    kept = {s.content_digest: s for s in bank.skills if s.status != SkillStatus.RETIRED}
    written: set[str] = set()
    gone: list[tuple[list[Any], Any]] = []
    for place, draft in _drafts(document, "the imported document"):
        if draft.content_digest in kept:
            written.add(draft.content_digest)
        else:
            gone.append(place)
    for items, item in gone:
        # By identity: two items of a file may be equal.
        del items[next(n for n, one in enumerate(items) if one is item)]
    for content, skill in kept.items():
        if content not in written:
            _section(document, skill).append(_item(skill))
    return dumps(document, indent=2) + "\n"


def is_skillrl(document: object) -> bool:
    """Return whether a JSON value has SkillRL's layout."""
    return isinstance(document, Mapping) and not {_GENERAL, *_BY_CATEGORY}.isdisjoint(document)


def _document(text: str, where: str) -> dict[str, Any]:
    document = read_json(text, where)
    if not is_skillrl(document):
        raise DataError(
            f"{where} is no bank in SkillRL's layout: it has none of "
            f"{_GENERAL}, {', '.join(_BY_CATEGORY)}"
        )
    made: dict[str, Any] = document
    return made


def _empty() -> dict[str, Any]:
    return {_GENERAL: [], _BY_CATEGORY[0]: {}, _MISTAKES: [], "metadata": {"source": "skillwright"}}


def _drafts(
    document: Mapping[str, Any], where: str
) -> Iterator[tuple[tuple[list[Any], Any], BankSkill]]:
    """Yield every item as a draft, with the list that contains it."""
    for items, kind, category, name in read_sections(
        document, where, _GENERAL, _BY_CATEGORY, _MISTAKES
    ):
        ours = _CATEGORY_ALIASES.get(category, category)
        for position, item in enumerate(items):
            yield (items, item), _draft(item, kind, ours, f"{where}: {name}[{position}]")


def _draft(item: object, kind: SkillKind, category: str, where: str) -> BankSkill:
    if not isinstance(item, Mapping):
        raise DataError(f"{where}: it is a {type(item).__name__}, not an object")

    def text(key: str, default: str | None = None) -> str:
        value = item.get(key)
        value = default if value is None else value
        if not isinstance(value, str):
            raise DataError(f"{where}: {key} is {value!r}, not a text")
        return " ".join(value.split())

    facts: dict[str, Any] = {
        "kind": kind,
        "category": category,
        "status": SkillStatus.PENDING,
        "provenance": Provenance(SkillOrigin.IMPORTED),
    }
    when = text("when_to_apply", "")
    if kind != SkillKind.LESSON:
        return BankSkill("", text("title"), text("principle"), when, **facts)
    description, remedy = text("description"), text("how_to_avoid")
    first_words = " ".join(description.split()[:_NAME_WORDS]).rstrip(".,;:")
    lesson = Counterfactual(description, text("why_it_happens"), remedy)
    return BankSkill("", text("title", first_words), remedy, when, counterfactual=lesson, **facts)


def _section(document: dict[str, Any], skill: BankSkill) -> list[Any]:
    match skill.kind:
        case SkillKind.GENERAL:
            return _list_in(document, _GENERAL)
        case SkillKind.LESSON:
            return _list_in(document, _MISTAKES)
        case SkillKind.TASK_SPECIFIC:
            key = next((key for key in _BY_CATEGORY if key in document), _BY_CATEGORY[0])
            document[key] = document.get(key) or {}
            return _list_in(document[key], skill.category)


def _list_in(document: dict[str, Any], key: str) -> list[Any]:
    if document.get(key) is None:
        document[key] = []
    items: list[Any] = document[key]
    return items


def _item(skill: BankSkill) -> dict[str, Any]:
    lesson = skill.counterfactual
    if lesson is None:
        return {
            "skill_id": skill.id,
            "title": skill.name,
            # The layout has no place for details.
            "principle": f"{skill.principle}\n\n{skill.details}".rstrip(),
            "when_to_apply": skill.applicability,
        }
    return {
        "mistake_id": skill.id,
        "title": skill.name,
        "description": lesson.failure_point,
        "why_it_happens": lesson.flawed_reasoning,
        "how_to_avoid": f"{lesson.corrective_action} {skill.principle}"
        if lesson.corrective_action != skill.principle
        else skill.principle,
        "when_to_apply": skill.applicability,
    }


_TRAJECTORY, _GUIDELINES = "refined_trajectory", "strategic_guidelines"


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """An important step of an episode.

    Attributes:
        index: Its number in the episode.
        observation: The critical observation.
    """

    index: int
    action: str
    observation: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class RefinedMemory:
    """An episode as summarized by SkillRL's authors before distillation.

    It is evidence, not a skill: teachers read it, and compression is compared with it.

    Attributes:
        description: Summary of the content.
        environment: Name of the environment.
        outcome: Result, such as ``Success``.
        goal: The task.
        plan: Steps that solve such tasks; "" if there are none.
        mistakes: (condition, bad action) to avoid.
        episode: The environment's name of the episode.
    """

    id: str
    description: str
    environment: str
    outcome: str
    goal: str
    steps: tuple[MemoryStep, ...]
    plan: str
    mistakes: tuple[tuple[str, str], ...]
    episode: str

    @property
    def succeeded(self) -> bool:
        """Whether the episode was a success."""
        return self.outcome.strip().casefold() == "success"


def read_memories(text: str, where: str = "the memories") -> tuple[RefinedMemory, ...]:
    """Read refined memories: one record, or a list of them.

    Raises:
        DataError: It is not JSON, or a record is invalid; the message names it.
    """
    value = read_json(text, where)
    records = value if isinstance(value, list) else [value]
    return tuple(_memory(one, f"{where}[{number}]") for number, one in enumerate(records))


def _memory(record: object, where: str) -> RefinedMemory:
    if not isinstance(record, Mapping) or "content" not in record:
        raise DataError(f"{where}: it is no refined memory; those have memory_id and content")
    tags, content = _object(record, "tags", where), _object(record, "content", where)
    guidelines = _unwrapped(content.get(_GUIDELINES, {}), _GUIDELINES)
    steps = _unwrapped(content.get(_TRAJECTORY, []), _TRAJECTORY)
    if not isinstance(guidelines, Mapping) or not isinstance(steps, list):
        raise DataError(f"{where}: {_GUIDELINES} is no object, or {_TRAJECTORY} no list")
    mistakes = guidelines.get("mistakes_to_avoid") or []
    if not isinstance(mistakes, list):
        raise DataError(f"{where}: mistakes_to_avoid is no list")
    return RefinedMemory(
        id=_text(record, "memory_id"),
        description=_text(record, "contextual_description"),
        environment=_text(tags, "environment"),
        outcome=_text(tags, "outcome"),
        goal=_text(_object(content, "task_meta", where), "original_goal"),
        steps=tuple(_step(step, f"{where}, step {n}") for n, step in enumerate(steps)),
        plan=_text(guidelines, "planning_pattern"),
        mistakes=tuple(
            (_text(one, "trigger_condition"), _text(one, "bad_action"))
            for one in mistakes
            if isinstance(one, Mapping)
        ),
        episode=_text(record, "origin_env_id"),
    )


def _step(step: object, where: str) -> MemoryStep:
    if not isinstance(step, Mapping):
        raise DataError(f"{where}: it is a {type(step).__name__}, not an object")
    index = step.get("step_index", 0)
    return MemoryStep(
        int(index) if isinstance(index, int | float) else 0,
        _text(step, "action"),
        _text(step, "critical_observation"),
        _text(step, "reasoning"),
    )


def _unwrapped(value: Any, key: str) -> Any:
    """Remove the second nesting that some published records have."""
    while isinstance(value, Mapping) and key in value:
        value = value[key]
    return value


def _object(record: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = record.get(key, {})
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: {key} is a {type(value).__name__}, not an object")
    return value


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
