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
    """Provides the skill text of each task: one document for all, or retrieval from a bank."""

    @property
    def waits(self) -> bool:
        """Whether retrieval may take long (a model, an endpoint), so that it runs in a thread."""

    def context(self, task: Task) -> SkillContext:
        """Return the skill text for a task."""

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skill text for each task; one batch may be cheaper than single calls."""


@dataclass(frozen=True, slots=True)
class PlainSkill:
    """One skill document for every task."""

    waits: ClassVar[bool] = False

    text: str

    def context(self, task: Task) -> SkillContext:
        """Return the document."""
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
        """Id of the task of both episodes."""
        return self.candidate.task_id

    @property
    def is_shared(self) -> bool:
        """Whether one episode serves both sides, because their prompts are equal."""
        return bool(self.candidate.key) and self.candidate.key == self.incumbent.key

    @property
    def gain(self) -> float | None:
        """Candidate's minus incumbent's reward, or ``None`` if either episode failed."""
        if self.candidate.reward is None or self.incumbent.reward is None:
            return None
        return self.candidate.reward - self.incumbent.reward


class Duel(Protocol):
    """Draws paired episodes of incumbent and candidate for a gate."""

    @property
    def task_ids(self) -> Sequence[str]:
        """Ids of the held-out tasks, in a fixed order."""

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``.

        Draws of a task are numbered; every call returns new ones.
        """


class StepDuel(Duel, Protocol):
    """A duel that can also draw the candidate alone, for gates that know the current skill."""

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        """Draw the next ``n`` episodes of each task under the candidate alone."""


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """The arguments of `EnvAdapter.reflect`'s default implementation.

    Attributes:
        results: Rows of `rollout`, as the adapter returned them.
        skill: The skill text of the rollouts.
        prediction_dir: Folder with ``<id>/conversation.json`` per row.
        seed: Seed that shuffles rows into minibatches; ``None`` keeps the input order.
        step_buffer_context: Summary of earlier steps, for the analysts.
        meta_skill_context: The optimizer's notes, for the analysts.
        minibatch_size: Trajectories per analyst call.
        edit_budget: Maximum edits per analyst.
        failure_only: Analyze failures only.
        analyst_workers: Maximum concurrent analyst calls.
        patches_dir: Folder for each minibatch's answer; ``None`` stores none.
        prompts: Environment-specific analyst prompts by name (``analyst_error``,
            ``analyst_success``); without one the generic prompt is used.
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
        """Return raw patches in minibatch order, ``None`` for a dropped one; blocking."""
