"""What an agent is told about its job before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from skillwright.core.skill import skill_hash
from skillwright.core.task import Task


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
        """Return what the agent is told for ``task``."""

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return what the agent is told for each task; asking for all at once may be cheaper."""


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
