"""Files of rollouts: episodes as JSON lines, without prompts and tokens, for other learners."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillwright.core import (
    Act,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import JsonRecord, decode, dumps, read_text


@dataclass(frozen=True, slots=True)
class KeptTurn(JsonRecord):
    """A turn without its prompt and tokens."""

    said: str
    observation: str
    reward: float
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout(JsonRecord):
    """A line of a file of rollouts."""

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
        DataError: The file is unreadable or empty, or a line is not an episode; the message names
            it.
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
