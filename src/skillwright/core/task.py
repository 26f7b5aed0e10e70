"""One job to do, and one attempt at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """A job in an environment.

    Attributes:
        id: Unique over all splits of its data set, and stable.
        env: The name under which the environment is registered.
        extras: What the environment needs to build this task; plain JSON values.
        task_type: The family that results are broken down by; ``""`` for none.
        description: One line for people.
        split: ``train``, ``val`` or ``test``.
    """

    id: str
    env: str
    extras: Mapping[str, Any] = field(default_factory=dict)
    task_type: str = ""
    description: str = ""
    split: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """One attempt at a task.

    Attributes:
        seed: The luck of this attempt.
        draw: Which of several attempts at the same task this is, from 0.
        phase: What the attempt is for (``train``, ``gate``, ``test``, ...); recorded only.
        step: The training step that asks for it, or ``None``; recorded only.
    """

    task: Task
    seed: int
    draw: int = 0
    phase: str = ""
    step: int | None = None
