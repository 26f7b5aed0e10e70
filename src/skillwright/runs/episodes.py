"""Stored episodes and their turns."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from skillwright.core import (
    Act,
    ContractError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    Purpose,
    RunError,
    StopReason,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Usage,
)
from skillwright.core.result import USER_TURN  # it is in a column of its own too
from skillwright.runs.archive import (
    RunTable,
    Said,
    failure_columns,
    read_failure,
    read_message,
    read_trajectory,
    shared_texts,
    stored_texts,
    to_json,
    unpack,
    write_trajectory,
)
from skillwright.runs.calls import SUMS, brief, read_usage, spend
from skillwright.runs.window import read_window

_PROMPT_MESSAGES = 64
"""Messages of a first prompt that a window of an episode shows."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """An episode without its turns, for reports.

    Attributes:
        reward: In [0, 1], or ``None`` with a failure.
        hard: Success as the benchmark defines it, or ``None``.
        usage: Usage, a simulated user included.
        wall_s: Seconds from the start to the end.
        started_at: Seconds since 1970, UTC.
        ended_at: Seconds since 1970, UTC.
    """

    id: int
    key: str
    phase: str
    step: int | None
    env: str
    task_id: str
    task_type: str
    split: str
    draw: int
    seed: int
    agent: str
    skill_version: str
    skill_ids: tuple[str, ...]
    reward: float | None
    hard: float | None
    failure: Failure | None
    stop_reason: StopReason
    attempts: int
    turns: int
    metrics: Mapping[str, float]
    usage: Usage
    wall_s: float
    started_at: float
    ended_at: float


class EpisodeTable(RunTable):
    """The episodes of a run."""

    def record_episode(
        self,
        result: EpisodeResult,
        *,
        agent: str = "",
        skill: str | None = None,
        usage: Mapping[str, Usage] | None = None,
    ) -> int:
        """Record a finished episode with its turns, in one transaction.

        A failure is recorded too, in addition to a later success under the same key. A
        success under a key that has one already is not recorded again.

        Args:
            result: Result of the attempt.
            agent: Identity of the agent.
            skill: Injected skill text.
            usage: Usage by purpose; ``None`` means the trajectory's, and that of lost attempts,
                under ``rollout``.

        Returns:
            The episode's number.

        Raises:
            ContractError: The environment reported values that are no JSON.
            RunError: The disk is full; earlier records are safe.
        """
        known = self._id_of(result.key) if result.reward is not None else None
        if known is not None:
            return known
        trajectory = result.trajectory
        with _blaming(result), self._database.transaction():
            extras = to_json(dict(result.spec.task.extras))
            texts = self._archive.put_texts(
                (
                    extras,
                    trajectory.opening,
                    *([] if skill is None else [skill]),
                    *shared_texts(trajectory),
                )
            )
            said, prompt_digests = write_trajectory(trajectory, texts)
            values = {
                **self._values(result),
                "agent": agent,
                "step": result.spec.step,
                "extras": texts[extras],
                "opening": texts[trajectory.opening],
                "skill": None if skill is None else texts[skill],
                "said": self._archive.pack(said),
                "adapter_row": self._packed(result.row),
            }
            episode = self._database.insert("episodes", values)
            self._write_turns(episode, trajectory.turns, prompt_digests)
            total = trajectory.usage + result.lost_usage
            own = {Purpose.ROLLOUT.value: total, **result.side_usage}
            spent = own if usage is None else usage
            spend(self._database, spent, episode=episode)
        return episode

    def find_episode(self, key: str) -> EpisodeResult | None:
        """Return the episode with a reward under a key, equal to what was recorded, or ``None``."""
        episode = self._id_of(key)
        return None if episode is None else self.load_episode(episode)

    def lone_failures(self) -> set[str]:
        """Return the keys of episodes that failed while others, recorded later, did not."""
        rows = self._database.rows(
            """SELECT key FROM episodes WHERE reward IS NULL
                AND id < (SELECT max(id) FROM episodes WHERE reward IS NOT NULL)"""
        )
        return {row["key"] for row in rows}

    def task(self, episode: int) -> Task:
        """Return the spec of an episode by its number, without its turns.

        Raises:
            RunError: There is none.
        """
        row = self._row(episode)
        return _task(row, self._archive.texts((row["extras"],))[row["extras"]])

    def injected_skill(self, episode: int) -> str | None:
        """Return the skill text that was stored with an episode; ``None`` where its prompt has it.

        Raises:
            RunError: There is no such episode.
        """
        number = self._row(episode)["skill"]
        return None if number is None else self._archive.texts((number,))[number]

    def load_episode(self, episode: int) -> EpisodeResult:
        """Return an episode by its number, equal to what was recorded, failures included.

        Raises:
            RunError: There is none.
        """
        row = self._row(episode)
        said = json.loads(unpack(row["said"]))
        texts = self._archive.texts((row["extras"], row["opening"], *stored_texts(said)))
        metadata, turns = read_trajectory(said, texts)
        return self._result(row, texts, metadata, self._turns(episode, turns))

    def load_window(self, episode: int, first: int, most: int) -> EpisodeResult:
        """Return an episode with some of its turns and only its first prompt.

        The rest is not unpacked, so that large episodes open fast.

        Raises:
            RunError: There is none, or it is damaged.
        """
        row = self._row(episode)
        said = read_window(row["said"], first, most, _PROMPT_MESSAGES)
        texts = self._archive.texts((row["extras"], row["opening"], *stored_texts(said)))
        pool = [read_message(item, texts) for item in said["messages"]]
        start, *metadata = said["metadata"]
        turns = [
            Said(
                tuple(pool[index] for index in prompt[1:] if not at and index < len(pool)),
                output,
                observation,
                (),
                reported,
            )
            for at, ((prompt, output, observation, _), reported) in enumerate(
                zip(said["turns"], metadata, strict=True), start=first
            )
        ]
        return self._result(row, texts, start, self._turns(episode, turns, first))

    def _result(
        self,
        row: sqlite3.Row,
        texts: Mapping[int, str],
        metadata: dict[str, Any],
        turns: tuple[Turn, ...],
    ) -> EpisodeResult:
        task = _task(row, texts[row["extras"]])
        return EpisodeResult(
            spec=EpisodeSpec(task, row["seed"], row["draw"], row["phase"], row["step"]),
            reward=row["reward"],
            failure=read_failure(row),
            stop_reason=StopReason(row["stop_reason"]),
            trajectory=Trajectory(opening=texts[row["opening"]], turns=turns, metadata=metadata),
            metrics=json.loads(row["metrics"]),
            attempts=row["attempts"],
            skill_version=row["skill_version"],
            skill_ids=_optional_tuple(row["skill_ids"]) or (),
            skill_scores=_optional_tuple(row["skill_scores"]) or (),
            key=row["key"],
            wall_s=row["wall_s"],
            hard=row["hard"],
            row=_optional_object(row["adapter_row"]),
        )

    def episodes(
        self,
        *,
        phase: str | None = None,
        split: str | None = None,
        step: int | None = None,
        task_id: str | None = None,
    ) -> list[EpisodeSummary]:
        """Summarize episodes of a phase, split, step or task, by task, draw and recording."""
        wanted = {"phase": phase, "split": split, "step": step, "task_id": task_id}
        return self._summaries({name: one for name, one in wanted.items() if one is not None})

    def episode(self, number: int) -> EpisodeSummary | None:
        """Summarize one episode by its number; ``None`` where there is none."""
        return next(iter(self._summaries({"id": number})), None)

    def _summaries(self, filters: Mapping[str, Any]) -> list[EpisodeSummary]:
        conditions = [f"e.{column} = ?" for column in filters] or ["1"]
        rows = self._database.rows(
            f"""SELECT e.*, {SUMS},
                    (SELECT count(*) FROM turns t WHERE t.episode = e.id) AS turns
                FROM episodes e LEFT JOIN usage u ON u.episode = e.id
                WHERE {" AND ".join(conditions)}
                GROUP BY e.id ORDER BY e.task_id, e.draw, e.id""",
            tuple(filters.values()),
        )
        return [_summary(row) for row in rows]

    def end_times(self) -> list[float]:
        """Return when each episode and each call ended, in seconds since 1970."""
        rows = self._database.rows(
            "SELECT ended_at FROM episodes UNION ALL SELECT ended_at FROM calls"
        )
        return [row["ended_at"] for row in rows]

    def turn_ends(self) -> dict[str, int]:
        """Count the turns of scored episodes by finish reason of the agent's answer."""
        rows = self._database.rows(
            """SELECT t.finish_reason AS ending, count(*) AS turns FROM turns t
                JOIN episodes e ON e.id = t.episode WHERE e.reward IS NOT NULL
                GROUP BY t.finish_reason"""
        )
        return {row["ending"]: row["turns"] for row in rows}

    def _row(self, episode: int) -> sqlite3.Row:
        row = self._database.row("SELECT * FROM episodes WHERE id = ?", (episode,))
        if row is None:
            raise RunError(f"{str(self._database.path)!r} holds no episode {episode}")
        return row

    def _id_of(self, key: str) -> int | None:
        """Return the row id of the scored episode with a key; the empty key has none."""
        row = self._database.row(
            "SELECT id FROM episodes WHERE key = ? AND key <> '' AND reward IS NOT NULL", (key,)
        )
        return None if row is None else int(row["id"])

    def _values(self, result: EpisodeResult) -> dict[str, Any]:
        task, now = result.spec.task, self._clock()
        return {
            "key": result.key,
            "phase": result.spec.phase,
            "env": task.env,
            "task_id": task.id,
            "task_type": task.task_type,
            "task_description": task.description,
            "split": task.split,
            "draw": result.spec.draw,
            "seed": result.spec.seed,
            "skill_version": result.skill_version,
            "skill_ids": _optional_json(result.skill_ids or None),
            "skill_scores": _optional_json(result.skill_scores or None),
            "reward": result.reward,
            "hard": result.hard,
            **failure_columns(result.failure, self._archive.redactor),
            "stop_reason": result.stop_reason.value,
            "attempts": result.attempts,
            "metrics": to_json(dict(result.metrics)),
            "wall_s": result.wall_s,
            "started_at": now - result.wall_s,
            "ended_at": now,
        }

    def _write_turns(
        self, episode: int, turns: Sequence[Turn], prompt_digests: Sequence[bytes]
    ) -> None:
        self._database.write_many(
            """INSERT INTO turns (episode, position, seed, prompt_digest, finish_reason, usage,
                token_ids, logprobs, user, called, reward)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            [
                (
                    episode,
                    turn.index,
                    turn.seed,
                    prompt_digest,
                    turn.act.finish_reason,
                    to_json(brief(turn.act.usage)),
                    _optional_json(turn.act.token_ids),
                    _optional_json(turn.act.logprobs),
                    self._user_turn(turn),
                    self._called(turn.act),
                    turn.reward,
                )
                for turn, prompt_digest in zip(turns, prompt_digests, strict=True)
            ],
        )

    def _packed(self, row: Mapping[str, Any] | None) -> bytes | None:
        return None if row is None else self._archive.pack(to_json(dict(row)))

    def _user_turn(self, turn: Turn) -> str | None:
        said = turn.metadata.get(USER_TURN)
        return None if said is None else self._archive.redactor.exact(to_json(said))

    def _called(self, act: Act) -> bytes | None:
        if not act.tool_calls and act.native is None:
            return None
        calls = [[call.id, call.name, call.arguments] for call in act.tool_calls]
        native = None if act.native is None else dict(act.native)
        return self._archive.pack(to_json({"calls": calls, "native": native}))

    def _turns(self, episode: int, said: Sequence[Said], first: int = 0) -> tuple[Turn, ...]:
        rows = self._database.rows(
            "SELECT * FROM turns WHERE episode = ? AND position >= ? ORDER BY position LIMIT ?",
            (episode, first, len(said)),
        )
        return tuple(
            Turn(
                index=row["position"],
                prompt=words.prompt,
                act=_act(words.output, row),
                observation=words.observation,
                reward=row["reward"],
                metadata=words.metadata,
                messages=words.messages,
                seed=row["seed"],
            )
            for row, words in zip(rows, said, strict=True)
        )


def _act(text: str, row: sqlite3.Row) -> Act:
    called = json.loads(unpack(row["called"])) if row["called"] is not None else {}
    return Act(
        text=text,
        usage=Usage(**json.loads(row["usage"])),
        token_ids=_optional_tuple(row["token_ids"]),
        logprobs=_optional_tuple(row["logprobs"]),
        finish_reason=row["finish_reason"],
        tool_calls=tuple(ToolCall(*call) for call in called.get("calls", ())),
        native=called.get("native"),
    )


@contextmanager
def _blaming(result: EpisodeResult) -> Iterator[None]:
    """Name the environment in errors about a report that JSON cannot hold."""
    try:
        yield
    except (ContractError, TypeError, ValueError) as error:
        raise ContractError(
            f"environment {result.spec.task.env!r}, task {result.task_id!r}: {error}. "
            "Extras, metrics, metadata and rows must be plain JSON values."
        ) from error


def _task(row: sqlite3.Row, extras: str) -> Task:
    return Task(
        id=row["task_id"],
        env=row["env"],
        extras=json.loads(extras),
        task_type=row["task_type"],
        description=row["task_description"],
        split=row["split"],
    )


def _optional_json(values: tuple[Any, ...] | None) -> str | None:
    return None if values is None else to_json(values)


def _optional_tuple(body: str | None) -> tuple[Any, ...] | None:
    return None if body is None else tuple(json.loads(body))


def _optional_object(body: bytes | None) -> dict[str, Any] | None:
    return None if body is None else dict(json.loads(unpack(body)))


_READ = ("skill_ids", "failure", "stop_reason", "metrics", "usage")
_COPIED = tuple(one.name for one in fields(EpisodeSummary) if one.name not in _READ)


def _summary(row: sqlite3.Row) -> EpisodeSummary:
    return EpisodeSummary(
        **{name: row[name] for name in _COPIED},
        skill_ids=_optional_tuple(row["skill_ids"]) or (),
        failure=read_failure(row),
        stop_reason=StopReason(row["stop_reason"]),
        metrics=json.loads(row["metrics"]),
        usage=read_usage(row),
    )
