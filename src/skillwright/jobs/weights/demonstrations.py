"""Read demonstrations: the solved episodes of a run, or chats in a file."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from skillwright.core import (
    ConfigError,
    DataError,
    EpisodeResult,
    Message,
    RunError,
    SkillSource,
    Task,
    TurnContext,
)
from skillwright.jobs.run.launch import find_run
from skillwright.policy import Coverage, PolicyBackend, Row
from skillwright.rollout.prompt import skill_in, with_other_skill
from skillwright.runs import RunFolder, RunStore

CHATS: Final = ".jsonl"
"""The ending of a file of chats; any other name is that of a run."""
_ROLES = ("system", "user", "assistant", "tool")


def episodes_of_run(
    name: str, root: str, tasks: Sequence[Task], threshold: float
) -> list[EpisodeResult]:
    """Return a run's solved episodes of given train tasks, of all its stages.

    Raises:
        ConfigError: There is no such run, or it solved none of them.
    """
    mine = {task.id: task for task in tasks}
    try:
        with RunStore.open(
            RunFolder.look(find_run(name, root)).store_path, read_only=True
        ) as store:
            solved = [
                store.load_episode(one.id)
                for one in store.episodes()
                if one.task_id in mine and one.reward is not None and one.reward >= threshold
            ]
    except RunError as error:
        raise ConfigError(
            f"cold_start.demonstrations {name!r} is neither a {CHATS} file nor a run: {error}"
        ) from error
    if not solved:
        raise ConfigError(
            f"cold_start.demonstrations: run {name!r} solved none of the {len(mine)} tasks to "
            "train on, by their ids; name a run on the same tasks"
        )
    return [replace(one, spec=replace(one.spec, task=mine[one.task_id])) for one in solved]


def as_read(results: Sequence[EpisodeResult], skills: SkillSource) -> list[EpisodeResult]:
    """Replace the skills in the prompts of episodes by those of ``skills``."""
    skills.contexts([one.spec.task for one in results])
    return [_as_read(one, skills.context(one.spec.task).text) for one in results]


def _as_read(result: EpisodeResult, text: str) -> EpisodeResult:
    played = result.trajectory
    turns = tuple(
        replace(turn, prompt=with_other_skill(turn.prompt, skill_in(turn.prompt), text))
        for turn in played.turns
    )
    return replace(result, trajectory=replace(played, turns=turns))


def chat_rows(policy: PolicyBackend, path: Path) -> tuple[list[Row], Coverage]:
    """Turn chats into rows: one per answer of the assistant, with all messages before it.

    A line holds ``{"messages": [{"role": ..., "content": ...}, ...]}``. An answer with
    ``"weight": 0`` is not trained on.

    Raises:
        DataError: A line is no chat, or holds nothing to learn.
    """
    rows: list[Row] = []
    actions: Counter[str] = Counter()
    chats = 0
    for where, messages in _chats(path):
        chats += 1
        for index, one in enumerate(messages):
            if one["role"] != "assistant" or not one.get("weight", 1):
                continue
            before = tuple(Message(role=m["role"], content=m["content"]) for m in messages[:index])
            row = policy.target(TurnContext(before, 0, {}), one["content"])
            turn = sum(m["role"] == "assistant" for m in messages[:index])
            rows.append(replace(row, group=where, episode=where, turn=turn))
            actions.update(one["content"].split()[:1])
    return rows, Coverage(episodes=chats, wins=chats, rows=len(rows), actions=dict(actions))


def check_chats(path: Path) -> int:
    """Check the chats in a file, and return their number.

    Raises:
        DataError: A line is no chat, or holds nothing to learn.
    """
    return sum(1 for _ in _chats(path))


def _chats(path: Path) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    for where, item in _lines(path):
        messages = item.get("messages") if isinstance(item, dict) else None
        if not isinstance(messages, list) or not messages:
            raise DataError(f"{where}: a chat is an object with a list of 'messages'")
        for at, one in enumerate(messages):
            _check_message(f"{where}, message {at + 1}", one, is_first=at == 0)
        if not any(one["role"] == "assistant" and one.get("weight", 1) for one in messages):
            raise DataError(f"{where}: no message of the assistant is to be learned")
        yield where, messages


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the lines that are not blank, with their position."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path.name}:{number}", json.loads(line)
    except OSError as error:
        raise DataError(
            f"cold_start.demonstrations {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise DataError(f"{path.name}:{number}: not a line of JSON ({error})") from error


def _check_message(where: str, one: Any, *, is_first: bool) -> None:
    if not isinstance(one, dict) or one.get("role") not in _ROLES:
        raise DataError(f"{where}: a message has a 'role', one of {', '.join(_ROLES)}")
    if not isinstance(one.get("content"), str):
        raise DataError(f"{where}: its 'content' is no text")
    if one.get("weight", 1) not in (0, 1):
        raise DataError(f"{where}: its 'weight' is {one['weight']!r}; 0 leaves it out, 1 learns it")
    if is_first and one["role"] == "assistant":
        raise DataError(
            f"{where}: a chat does not begin with the assistant; put what it answers first"
        )
