"""Skill-aware reflection: a gap in the skill is one thing, a slip of the agent another.

Where the agent did not do what the skill says (an execution lapse), the analyst writes a short note
for an appendix instead of another rule.

Source: SkillOpt (microsoft/SkillOpt), skill-aware reflection.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from skillwright.core import ConfigError
from skillwright.core.edit import SourceType
from skillwright.core.fence import is_hidden
from skillwright.core.skill import without_markers

MAX_NOTE_CHARS = 400
_TRAILING = " \t.,;:!?…"


class AppendixSource(StrEnum):
    """Whose notes go into the appendix."""

    BOTH = "both"
    """Those of failure and of success analysts."""
    FAILURE_ONLY = "failure_only"
    """Those of failure analysts."""


@dataclass(frozen=True, slots=True)
class SkillAware:
    """How skill-aware reflection works in a run.

    Attributes:
        appendix_source: Whose notes are taken.
        consolidate_threshold: With more notes than this the optimiser is asked to make them fewer;
            0 never asks.
        gated: Notes are part of a step's candidate, and stand or fall with it. Else a job adds
            them to the current skill after the gate, unmeasured, as in SkillOpt.

    Raises:
        ConfigError: The threshold is below 0.
    """

    appendix_source: AppendixSource = AppendixSource.BOTH
    consolidate_threshold: int = 0
    gated: bool = True

    def __post_init__(self) -> None:
        if self.consolidate_threshold < 0:
            raise ConfigError(
                f"skill_aware_consolidate_threshold is {self.consolidate_threshold}; "
                "it must be at least 0, and 0 never consolidates"
            )

    def addendum(self, source_type: SourceType) -> str:
        """Return the name of the prompt that is added to an analyst's, or ``""``."""
        if source_type == "failure":
            return "skill_aware_error"
        return "skill_aware_success" if self.appendix_source is AppendixSource.BOTH else ""


def read_notes(value: object) -> list[str]:
    """Read notes as a model writes them: a list or one text, of texts or objects.

    An object has its text as ``note`` or ``content``. Each note comes out on one line; one that is
    empty, too long or holds hidden characters is left out.
    """
    items = value if isinstance(value, list) else [value]
    found = (_text(item) for item in items)
    return unique_notes(note for note in found if note)


def unique_notes(notes: Iterable[str]) -> list[str]:
    """Return notes without repetitions, the first of equals.

    Case, white space and punctuation at the end make no difference.
    """
    first: dict[str, str] = {}
    for note in notes:
        first.setdefault(" ".join(note.split()).rstrip(_TRAILING).casefold(), note)
    return [note for key, note in first.items() if key]


def _text(item: Any) -> str:
    if isinstance(item, Mapping):
        item = item.get("note") or item.get("content")
    if not isinstance(item, str):
        return ""
    note = " ".join(without_markers(item).split()).removeprefix("- ").strip()
    if len(note) > MAX_NOTE_CHARS or any(map(is_hidden, note)):
        return ""
    return note
