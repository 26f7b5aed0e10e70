"""What an agent is told about its job before it starts."""

from dataclasses import dataclass
from typing import Protocol

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

    def context(self, task: Task) -> SkillContext:
        """Return what the agent is told for ``task``."""
        ...


@dataclass(frozen=True, slots=True)
class PlainSkill:
    """One skill document for every task."""

    text: str

    def context(self, task: Task) -> SkillContext:
        """Return the document, whatever the task."""
        del task
        return SkillContext(self.text, version=skill_hash(self.text))
