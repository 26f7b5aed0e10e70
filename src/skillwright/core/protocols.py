"""Protocols that higher packages implement: skills for a task, paired draws, analysts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from skillwright.core.result import EpisodeResult, Task
from skillwright.core.skill import skill_hash


@dataclass(frozen=True, slots=True)
class SkillContext:
    """The skill text for one task, and where it came from.

    Attributes:
        text: What the agent reads; ``""`` means no skill.
        skill_ids: Skills inside ``text``, in order; empty for a plain document.
        scores: Retrieval scores, one per id, or empty.
        version: The version of the document or bank; the text's hash for a plain document.
    """

    text: str
    skill_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    version: str = ""


class SkillSource(Protocol):
    """Gives each task its skill text: one document for all, or a bank that retrieves."""

    @property
    def waits(self) -> bool:
        """Whether an answer may take long (a model, an endpoint): an engine asks in a thread."""

    def context(self, task: Task) -> SkillContext:
        """Return what the agent is given for ``task``."""

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return what the agent is given for each task; asking for all at once may be cheaper."""


@dataclass(frozen=True, slots=True)
class PlainSkill:
    """One skill document for every task."""

    waits: ClassVar[bool] = False

    text: str

    def context(self, task: Task) -> SkillContext:
        """Return the document, whatever the task."""
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the document once per task."""
        return [SkillContext(self.text, version=skill_hash(self.text))] * len(tasks)


@dataclass(frozen=True, slots=True)
class Pair:
    """One draw of a task by both sides, under one seed."""

    incumbent: EpisodeResult
    candidate: EpisodeResult

    @property
    def task_id(self) -> str:
        """The task that both attempted."""
        return self.candidate.task_id

    @property
    def gain(self) -> float | None:
        """Candidate minus incumbent, or ``None`` where a side has a Failure."""
        if self.candidate.reward is None or self.incumbent.reward is None:
            return None
        return self.candidate.reward - self.incumbent.reward


class Duel(Protocol):
    """Draws paired results on demand; a gate decides how many it needs."""

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks that may be drawn, in a fixed order."""

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``.

        A task's draws are numbered; drawing it again gives fresh ones, never a stored one twice.
        """


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """One call of `EnvAdapter.reflect`, as the default implementation hands it on.

    Attributes:
        results: Rows of `rollout`, as the adapter returned them.
        skill: The skill text that the rows were rolled out with.
        prediction_dir: Where ``<id>/conversation.json`` lies per row.
        seed: Shuffles rows into minibatches; ``None`` keeps the input order.
        step_buffer_context: What earlier steps tried, for the analysts.
        meta_skill_context: The optimizer's own memory, for the analysts.
        minibatch_size: Trajectories per analyst call.
        edit_budget: Edits that one analyst may propose.
        failure_only: Successes are not analyzed.
        analyst_workers: Analyst calls in flight at once.
        patches_dir: Where each minibatch's answer is kept for people to read; ``None`` keeps none.
        prompts: Environment-specific analyst prompts by name (``analyst_error``,
            ``analyst_success``); an absent one means the generic prompt.
    """

    results: Sequence[dict[str, Any]]
    skill: str
    prediction_dir: Path
    seed: int | None = None
    step_buffer_context: str = ""
    meta_skill_context: str = ""
    minibatch_size: int = 8
    edit_budget: int = 4
    failure_only: bool = False
    analyst_workers: int = 16
    patches_dir: Path | None = None
    prompts: tuple[tuple[str, str], ...] = ()


class Reflector(Protocol):
    """Reads trajectories and proposes edits; provided by `textopt`, called by adapters."""

    def reflect(self, request: ReflectRequest) -> list[dict[str, Any] | None]:
        """Return raw patch payloads, in minibatch order; ``None`` for a dropped slot.

        Blocks; adapters call it from their own thread.
        """
