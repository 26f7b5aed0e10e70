"""Tasks, attempts at them, and their outcome: a reward or a failure, never both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Self

from skillwright.core.agent import Act
from skillwright.core.chat import Message, Usage
from skillwright.core.edits import Patch, refuse_other
from skillwright.core.errors import (
    ContractError,
    EnvError,
    JudgeError,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReplyInvalid,
)
from skillwright.core.jsonio import JsonRecord, encode_fields


class FailureCause(StrEnum):
    """The component that failed."""

    MODEL = "model"
    """The agent's endpoint failed after its retries."""
    MODEL_REFUSED = "model_refused"
    """The endpoint refused the request (key, model name, context length)."""
    REPLY = "reply"
    """The model's answer did not have the requested form."""
    ENVIRONMENT = "environment"
    """The environment raised, or broke its contract."""
    USER = "user"
    """The endpoint of a simulated user failed."""
    JUDGE = "judge"
    """The endpoint of the judge failed, or gave no verdict."""
    TIMEOUT = "timeout"
    """A deadline passed."""
    WORKER = "worker"
    """The remote worker was lost repeatedly."""


@dataclass(frozen=True, slots=True)
class Failure(JsonRecord):
    """Why an episode has no reward. Failures are retried and reported separately, never scored."""

    cause: FailureCause
    message: str

    @classmethod
    def of(cls, fault: BaseException) -> Self:
        """Convert an exception into a failure with its cause."""
        return cls(_cause(fault), str(fault) or type(fault).__name__)


def _cause(fault: BaseException) -> FailureCause:
    match fault:
        case ModelRefused():
            return FailureCause.MODEL_REFUSED
        case ReplyInvalid():
            return FailureCause.REPLY
        case ModelTimeout() | TimeoutError():
            return FailureCause.TIMEOUT
        case ModelError():
            return FailureCause.MODEL
        case JudgeError():
            return FailureCause.JUDGE
        case EnvError():
            return FailureCause.ENVIRONMENT
        case _:
            return FailureCause.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an environment.

    Attributes:
        id: Stable, and unique over all splits of the data set.
        env: Registered name of the environment.
        extras: Arguments from which the environment builds the task; plain JSON values.
        task_type: Task type, by which results are grouped; ``""`` for none.
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
        draw: Number of the attempt at the same task, from 0.
        phase: Purpose of the attempt (``train``, ``gate``, ``test``, ...); for the record only.
        step: The training step, or ``None``; for the record only.
    """

    task: Task
    seed: int
    draw: int = 0
    phase: str = ""
    step: int | None = None


USER_TURN: Final = "user_simulator"
"""Metadata key under which an environment reports the turn of its simulated user."""


class StopReason(StrEnum):
    """Why an episode ended."""

    DONE = "done"
    """The environment ended it."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached, which counts as a truncation, not as a loss."""
    TIMEOUT = "timeout"
    """The episode's deadline passed."""
    CONTEXT = "context"
    """The next prompt exceeded the agent's context window."""
    FAILURE = "failure"
    """A failure; the episode has no reward."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and its outcome.

    Attributes:
        index: From 0.
        prompt: The exact messages of the agent's prompt.
        observation: The environment's raw text, without additions for the prompt.
        metadata: The environment's metadata.
        messages: The environment's reply as in the next prompt.
    """

    index: int
    prompt: tuple[Message, ...]
    act: Act
    observation: str
    reward: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An episode's turns.

    Attributes:
        opening: The environment's first raw text, which includes the task statement.
    """

    opening: str
    turns: tuple[Turn, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """The agent's usage over all turns."""
        total = Usage()
        for turn in self.turns:
            total = total + turn.act.usage
        return total


# `EpisodeResult` is the result type of our engine. `RolloutResult`, `RawPatch`,
# `FailureSummaryEntry` and `SlowUpdateResult` are the documented wire types of adapters (source:
# SkillOpt, microsoft/SkillOpt, API reference).


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """One finished attempt: a reward or a `Failure`, never both.

    Attributes:
        reward: The episode's reward in [0, 1], or ``None`` with a failure.
        trajectory: The turns of the last attempt.
        attempts: Number of attempts in fresh environments, at least 1.
        skill_version: Version of the injected skill.
        skill_ids: Injected skills of a bank, in order; empty for a plain document.
        skill_scores: Retrieval scores, one per id, or empty.
        key: Content address under which the result can be reused.
        wall_s: Seconds from start to end, without waiting in a queue.
        hard: The benchmark's own pass or fail, 0 or 1 or a smoothed value between; ``None`` if the
            reward against a threshold decides, and with a failure.
        row: The row of an adapter, a JSON object; ``None`` for our own episodes.
        lost_usage: Usage of earlier attempts and of failed calls. It is in the ledger, and not in
            an episode that is read back.
        side_usage: Usage of other models than the agent in all attempts, by purpose, such as a
            simulated user. It is in the ledger, too.
    """

    spec: EpisodeSpec
    reward: float | None = None
    failure: Failure | None = None
    stop_reason: StopReason = StopReason.DONE
    trajectory: Trajectory = field(default_factory=lambda: Trajectory(opening=""))
    metrics: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    skill_version: str = ""
    skill_ids: tuple[str, ...] = ()
    skill_scores: tuple[float, ...] = ()
    key: str = ""
    wall_s: float = 0.0
    hard: float | None = None
    row: Mapping[str, Any] | None = None
    lost_usage: Usage = field(default_factory=Usage, compare=False)
    side_usage: Mapping[str, Usage] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if (self.reward is None) == (self.failure is None):
            raise ValueError(f"task {self.task_id!r}: set exactly one of reward and failure")
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"task {self.task_id!r}: reward {self.reward} is no score")
        # NaN fails the comparison too.
        if self.hard is not None and not 0 <= self.hard <= 1:
            raise ValueError(f"task {self.task_id!r}: hard is {self.hard}; it lies in [0, 1]")
        if self.hard is not None and self.failure is not None:
            raise ValueError(
                f"task {self.task_id!r}: a failure neither passes nor fails; drop hard"
            )

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self.spec.task.id

    @property
    def task_type(self) -> str:
        """Task type of the task."""
        return self.spec.task.task_type

    def is_success(self, threshold: float = 1.0) -> bool:
        """Tell whether ``hard``, or else the reward, reaches ``threshold``; false for a failure."""
        score = self.reward if self.hard is None else self.hard
        return score is not None and score >= threshold

    def hard_score(self, threshold: float = 1.0) -> float:
        """Return ``hard``, or else 1 if the reward reaches ``threshold`` and 0 if not.

        Raises:
            ValueError: The episode has a failure and thus no score.
        """
        if self.reward is None:
            raise ValueError(f"task {self.task_id!r}: a failure has no score; leave it out")
        return float(self.reward >= threshold) if self.hard is None else self.hard


@dataclass
class RolloutResult:
    """One row of `EnvAdapter.rollout`, normalized.

    Attributes:
        hard: Pass or fail, 0 or 1 (a smoothed value in [0, 1] is allowed).
        soft: Partial credit in [0, 1].
        extras: Every key of the row that has no field of its own.
    """

    id: str
    hard: float
    soft: float
    n_turns: int = 0
    fail_reason: str = ""
    task_type: str = ""
    task_description: str = ""
    predicted_answer: str = ""
    question: str = ""
    reference_text: str = ""
    target_system_prompt: str = ""
    target_user_prompt: str = ""
    spreadsheet_preview: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Normalize a row: ``id`` to str, scores to float, texts to str, the rest to ``extras``.

        ``n_turns`` may be missing or ``None``.

        Raises:
            ContractError: ``hard`` or ``soft`` is missing; or one of them, or ``n_turns``, is not
                a finite number. (SkillOpt raises a TypeError there.)
        """
        refuse_other(data, "a row of a rollout")
        row_id = str(data.get("id", ""))
        known = set(cls.__dataclass_fields__)
        extras = {key: value for key, value in data.items() if key not in known}
        inner = data.get("extras")
        if isinstance(inner, dict):
            extras |= inner
        elif "extras" in data:
            extras["extras"] = inner
        return cls(
            id=row_id,
            hard=_number(data, "hard", row_id),
            soft=_number(data, "soft", row_id),
            n_turns=0 if data.get("n_turns") is None else int(_number(data, "n_turns", row_id)),
            extras=extras,
            **{name: str(data[name]) for name in _RESULT_TEXTS if name in data},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return id, hard and soft always, other fields where truthy, extras flattened."""
        data: dict[str, Any] = {"id": self.id, "hard": self.hard, "soft": self.soft}
        for name in ("n_turns", *_RESULT_TEXTS):
            if getattr(self, name):
                data[name] = getattr(self, name)
        # An extra with the name of a field must not overwrite a score.
        own = self.__dataclass_fields__.keys() - {"extras"}
        return {**data, **{key: value for key, value in self.extras.items() if key not in own}}


_RESULT_TEXTS = tuple(one.name for one in fields(RolloutResult) if one.default == "")


def _number(row: dict[str, Any], name: str, row_id: str) -> float:
    try:
        value = float(row[name])
    except KeyError:
        raise ContractError(
            f"rollout row {row_id!r} has no {name!r}; every row needs id, hard and soft"
        ) from None
    except (TypeError, ValueError, OverflowError):
        raise ContractError(
            f"rollout row {row_id!r}: {name} is {row[name]!r}, not a number"
        ) from None
    if not math.isfinite(value):
        raise ContractError(f"rollout row {row_id!r}: {name} is {value}, which is no score")
    return value


@dataclass
class FailureSummaryEntry:
    """How often one kind of failure was seen in a minibatch."""

    failure_type: str
    count: int = 0
    description: str = ""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read an entry; the count is cast to int."""
        refuse_other(data, "an entry of failure_summary")
        return cls(
            failure_type=data.get("failure_type", ""),
            count=int(data.get("count", 0)),
            description=data.get("description", ""),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the three fields."""
        return encode_fields(self)


@dataclass
class RawPatch:
    """The edits that one analyst call proposes.

    Attributes:
        source_type: ``failure`` or ``success``: the minibatch that the analyst read.
    """

    patch: Patch
    source_type: str = "failure"
    batch_size: int = 0
    failure_summary: list[FailureSummaryEntry] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: dict[str, Any] | None) -> Self | None:
        """Read a raw patch.

        Returns:
            ``None`` for ``None`` (a dropped slot), or if the inner patch is no object.

        Raises:
            TypeError: ``batch_size`` is ``None``.
        """
        if data is None:
            return None
        refuse_other(data, "a raw patch")
        inner = data.get("patch") or data
        if not isinstance(inner, dict):
            return None
        return cls(
            patch=Patch.from_dict(inner),
            source_type=data.get("source_type", "failure"),
            batch_size=int(data.get("batch_size", 0)),
            failure_summary=[
                FailureSummaryEntry.from_dict(entry)
                for entry in data.get("failure_summary") or []
                if isinstance(entry, dict)
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented payload."""
        return encode_fields(self)


@dataclass
class SlowUpdateResult:
    """Result of a slow update at the end of an epoch."""

    reasoning: str = ""
    slow_update_content: str = ""
    action: str = ""
    time_s: float | None = None
    prev_hard: float | None = None
    curr_hard: float | None = None
    selection_hard: float | None = None
    selection_soft: float | None = None
    candidate_hash: str = ""
    update_origin: str = ""
    update_target: str = ""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read a result; unknown keys are dropped."""
        refuse_other(data, "the result of a slow update")
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})

    def to_dict(self) -> dict[str, Any]:
        """Return reasoning and content, and all other fields that are set."""
        always = ("reasoning", "slow_update_content")
        return {
            name: value
            for name, value in encode_fields(self).items()
            if name in always or value not in (None, "")
        }
