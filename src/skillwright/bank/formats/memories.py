"""Refined memories, the records that SkillRL's authors summarise episodes in before they distil.

They are evidence and no skills: a teacher is shown them, and ratios of compression compare with
them.

Source: the files that the authors of SkillRL (arXiv 2602.08234) published.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillwright.bank.formats.json_text import read_json
from skillwright.core import DataError

_TRAJECTORY, _GUIDELINES = "refined_trajectory", "strategic_guidelines"


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """A step that mattered.

    Attributes:
        index: Its number in the episode.
        action: What the agent did.
        observation: What it saw that was critical.
        reasoning: Why it did it.
    """

    index: int
    action: str
    observation: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class RefinedMemory:
    """A summarised episode.

    Attributes:
        id: Names it.
        description: What it is about.
        environment: Where it was played.
        outcome: How it ended, such as ``Success``.
        goal: The task.
        steps: The steps that mattered.
        plan: The chain of steps that solves such tasks; "" where there is none.
        mistakes: What to avoid: (when it happens, the bad action).
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
    def won(self) -> bool:
        """Whether the episode was a success."""
        return self.outcome.strip().casefold() == "success"


def read_memories(text: str, where: str = "the memories") -> tuple[RefinedMemory, ...]:
    """Read refined memories: one record, or a list of them.

    Raises:
        DataError: It is no JSON, or a record is none; the message names it.
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
    """Take off the second wrapping that some published records have."""
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
