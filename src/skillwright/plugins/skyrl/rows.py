"""Data sets for SkyRL, one row per task.

Source: ``PromptDataset`` of SkyRL 0.3 (NovaSky-AI/SkyRL).
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from skillwright.core import DataError, Message, PlainSkill, SkillContext, SkillSource, Task
from skillwright.core.jsonio import dumps
from skillwright.envs import spec
from skillwright.plugins.skyrl.envs import (
    EXTRA_INFO,
    INSTALL,
    TRAINER_COLUMNS,
    is_task_row,
    skill_in,
    task_columns,
)
from skillwright.rollout.prompt import SKILL_HEADING

_PLACEHOLDER: Final = "The environment writes the conversation."


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as JSON Lines, or as Parquet if the file's name ends in ``.parquet``.

    Raises:
        DataError: The suffix is unknown, pyarrow is not installed, or the file cannot be written.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise DataError(f"{str(path)!r}: rows are written as .parquet or .jsonl")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            path.write_text("".join(f"{dumps(row)}\n" for row in rows), encoding="utf-8")
        else:
            _write_parquet(rows, path)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def _write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"Parquet needs pyarrow, which is not installed ({error}); {INSTALL}, or write "
            f"{path.with_suffix('.jsonl').name!r}"
        ) from error
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)


def task_rows(tasks: Sequence[Task], skills: SkillSource | None = None) -> list[dict[str, Any]]:
    """Return a row per task, with its skills in the prompt.

    SkyRL repeats a row for every episode of a group, so all episodes of a group have equal skills.

    Args:
        tasks: Tasks with unique ids.
        skills: Source of skills; ``None`` for none.

    Returns:
        Rows of ``prompt`` (the skills, then the task's description), ``env_class``,
        ``data_source``, ``extra_info`` (the task and its skills by name) and a column for each of
        the task's extras.

    Raises:
        DataError: Two tasks have the same id, an environment is unknown, or an extra has the name
            of one of SkyRL's columns.
        ModelError: The endpoint of ``skills`` failed.
    """
    if len({task.id for task in tasks}) < len(tasks):
        raise DataError("two tasks have one id; an id names one row")
    for name in {task.env for task in tasks}:
        spec(name)
    contexts = (skills or PlainSkill("")).contexts(tasks)
    return [_row(task, context) for task, context in zip(tasks, contexts, strict=True)]


def _row(task: Task, context: SkillContext) -> dict[str, Any]:
    taken = sorted(task.extras.keys() & set(TRAINER_COLUMNS))
    if taken:
        raise DataError(f"task {task.id!r} has an extra {taken[0]!r}, a name of SkyRL's columns")
    said = Message(role="user", content=task.description or _PLACEHOLDER)
    text = context.text
    section = Message(role="system", content=f"{SKILL_HEADING}\n\n{text}")
    return {
        "prompt": [section, said] if text.strip() else [said],
        "env_class": task.env,
        "data_source": f"{task.env}/{task.split}" if task.split else task.env,
        EXTRA_INFO: {
            "task_id": task.id,
            "task_type": task.task_type,
            "description": task.description,
            "split": task.split,
            "skill_ids": " ".join(context.skill_ids),
            "skill_version": context.version,
        },
        **task.extras,
    }


def read_row(
    env_class: str, prompt: Sequence[Message], extras: Mapping[str, Any], name: str
) -> tuple[Task, SkillContext]:
    """Return the task of a row, and the skills in its prompt.

    Args:
        env_class: The environment.
        prompt: The column ``prompt``.
        extras: All other columns.
        name: Id of the task if the row has none.

    Raises:
        DataError: ``extra_info`` lacks a field that `task_rows` writes.
    """
    if not is_task_row(extras):
        return Task(name, env_class, task_columns(extras)), SkillContext(skill_in(prompt))
    about = extras[EXTRA_INFO]
    try:
        task = Task(
            id=str(about["task_id"]),
            env=env_class,
            extras=task_columns(extras),
            task_type=str(about["task_type"]),
            description=str(about["description"]),
            split=str(about["split"]),
        )
        ids, version = str(about["skill_ids"]), str(about["skill_version"])
    except KeyError as missing:
        raise DataError(
            f"row {name!r}: {EXTRA_INFO} has no {missing.args[0]!r}; write rows by task_rows()"
        ) from missing
    return task, SkillContext(skill_in(prompt), tuple(ids.split()), version=version)


@dataclass(frozen=True, slots=True)
class RowSkills:
    """A `SkillSource` with the skills of a batch's rows.

    Attributes:
        by_task: Skills by task id.
    """

    waits: ClassVar[bool] = False

    by_task: Mapping[str, SkillContext]

    def context(self, task: Task) -> SkillContext:
        """Return the skills of the task's row."""
        return self.by_task[task.id]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills of the row of each task."""
        return [self.context(task) for task in tasks]
