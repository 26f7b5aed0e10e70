"""Data sets for SkyRL, one row per task, and what was played of them.

Source: ``PromptDataset`` of SkyRL 0.3 (NovaSky-AI/SkyRL).
"""

import importlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from skillwright.core import (
    Act,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    Message,
    PlainSkill,
    SkillContext,
    SkillSource,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import JsonRecord, decode, dumps, read_text
from skillwright.envs import spec
from skillwright.plugins.skyrl.envs import (
    EXTRA_INFO,
    INSTALL,
    TRAINER_COLUMNS,
    is_task_row,
    skill_in,
    task_columns,
)
from skillwright.rollout.engine import SKILL_HEADING
from skillwright.worlds.tau_bench import TauBenchEnv, configured_store

ROW_COLUMNS: Final = ("prompt", "env_class", "task_index", "task_split", "max_turns")
DEFAULT_TURNS: Final = 30

_PLACEHOLDER: Final = "The environment writes the conversation."
_CHARS_PER_TOKEN: Final = 3.5  # of the JSON that prompts and observations mostly are
_TURN_TOKENS: Final = 150  # what the agent writes in one


def tau_bench_rows(
    split: str, env_config: object | None = None, max_turns: int = DEFAULT_TURNS
) -> list[dict[str, Any]]:
    """Return a row per task of a split, with `ROW_COLUMNS`.

    Args:
        split: A split of the data, such as ``test``.
        env_config: The environment's settings; they say which domain, and where its data is.
        max_turns: Most turns of an episode, at least 1. SkyRL's generator puts its own instead.

    Raises:
        DataError: There is no such split, or the data is missing or damaged.
    """
    if max_turns < 1:
        raise DataError(f"max_turns is {max_turns}; an episode needs at least 1")
    tasks = configured_store(env_config).tasks(split)
    return [
        {
            "prompt": [{"role": "user", "content": _PLACEHOLDER}],
            "env_class": "tau_bench",
            "task_index": index,
            "task_split": split,
            "max_turns": max_turns,
        }
        for index in range(len(tasks))
    ]


def expected_tokens(env_config: object | None = None, max_turns: int = DEFAULT_TURNS) -> int:
    """Estimate the tokens of the longest conversation that ``max_input_length`` should hold.

    The trainer checks the placeholder prompt only, and ends an episode that outgrows its limit
    without telling the environment, which then is paid nothing.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    store = configured_store(env_config)
    split = "test" if "test" in store.splits else store.splits[-1]
    script = {"user_strategy": "scripted", "user_replies": ["Hello."]}
    env = TauBenchEnv(env_config, {"task_index": 0, "task_split": split, **script})
    opening, _ = env.init([])
    chars = sum(len(message["content"]) for message in opening)
    # Every turn at its longest would be a conversation that nobody has; half of them is a long one.
    turns = max_turns * (_TURN_TOKENS + store.domain.longest_observation / _CHARS_PER_TOKEN / 2)
    return round(chars / _CHARS_PER_TOKEN + turns)


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as JSON lines, or as Parquet where the file's name ends in ``.parquet``.

    Raises:
        DataError: The name ends in something else, pyarrow is not installed, or the file cannot
            be written.
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


# Rows of any tasks, with the skills of a bank in their prompts, and the way back.


def task_rows(tasks: Sequence[Task], skills: SkillSource | None = None) -> list[dict[str, Any]]:
    """Return a row per task, with the skills that its agent is given in the prompt.

    SkyRL repeats a row for every episode of a group, so a group has the same skills.

    Args:
        tasks: All of their ids differ.
        skills: What is retrieved for them; ``None`` for nothing.

    Returns:
        Rows of ``prompt`` (the skills, then the task's description), ``env_class``,
        ``data_source``, ``extra_info`` (the task and its skills by name) and a column for each of
        the task's extras.

    Raises:
        DataError: Two tasks have one id, an environment is unknown, or an extra has the name of
            one of SkyRL's columns.
        ModelError: ``skills`` asks an endpoint, and that failed.
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
        prompt: The column of that name.
        extras: All other columns.
        name: The task's id where the row does not say it.

    Raises:
        DataError: ``extra_info`` lacks something that `task_rows` writes.
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
    """The skills of the rows of a batch: a `SkillSource`.

    Attributes:
        by_task: By the task's id.
    """

    waits: ClassVar[bool] = False

    by_task: Mapping[str, SkillContext]

    def context(self, task: Task) -> SkillContext:
        """Return the skills of the task's row."""
        return self.by_task[task.id]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills of the row of each task."""
        return [self.context(task) for task in tasks]


# What was played, for those who learn from it outside of SkyRL.


@dataclass(frozen=True, slots=True)
class KeptTurn(JsonRecord):
    """A turn without its prompt and tokens."""

    said: str
    observation: str
    reward: float
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout(JsonRecord):
    """A line of a file of rollouts: what a teacher reads of an episode."""

    task: Task
    seed: int
    draw: int
    phase: str
    step: int | None
    reward: float | None
    failure: Failure | None
    stop_reason: StopReason
    opening: str
    metadata: Mapping[str, Any]
    turns: tuple[KeptTurn, ...]
    skill_version: str
    skill_ids: tuple[str, ...]
    metrics: Mapping[str, float]
    key: str

    @classmethod
    def of(cls, result: EpisodeResult) -> "Rollout":
        """Return the line of an episode."""
        asked, played = result.spec, result.trajectory
        turns = (
            KeptTurn(one.act.text, one.observation, one.reward, one.metadata)
            for one in played.turns
        )
        return cls(
            *(asked.task, asked.seed, asked.draw, asked.phase, asked.step),
            *(result.reward, result.failure, result.stop_reason),
            *(played.opening, played.metadata, tuple(turns)),
            *(result.skill_version, result.skill_ids),
            {name: one for name, one in result.metrics.items() if math.isfinite(one)},
            result.key,
        )

    def result(self) -> EpisodeResult:
        """Return the episode."""
        turns = tuple(
            Turn(index, (), Act(one.said), one.observation, one.reward, one.metadata)
            for index, one in enumerate(self.turns)
        )
        return EpisodeResult(
            EpisodeSpec(self.task, self.seed, self.draw, self.phase, self.step),
            reward=self.reward,
            failure=self.failure,
            stop_reason=self.stop_reason,
            trajectory=Trajectory(self.opening, turns, self.metadata),
            metrics=self.metrics,
            skill_version=self.skill_version,
            skill_ids=self.skill_ids,
            key=self.key,
        )


def write_rollouts(results: Sequence[EpisodeResult], path: Path) -> None:
    """Append episodes to a file of JSON lines, without prompts and tokens.

    Raises:
        DataError: The file cannot be written.
    """
    lines = "".join(f"{dumps(Rollout.of(one).to_dict())}\n" for one in results)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def read_rollouts(path: Path) -> list[EpisodeResult]:
    """Read what `write_rollouts` wrote, failures included.

    Raises:
        DataError: The file cannot be read, holds no episode, or a line is none; the message says
            which.
    """
    results = []
    for number, line in enumerate(read_text(path, "rollouts").splitlines(), start=1):
        where = f"{path}, line {number}"
        try:
            results.append(decode(Rollout, json.loads(line), where).result())
        except ValueError as error:
            raise DataError(f"{where} is no episode: {error}") from error
    if not results:
        raise DataError(f"{str(path)!r} holds no episode")
    return results
