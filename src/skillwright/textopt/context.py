"""The settings of a run's learning steps, and the context of one step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from skillwright.core import ConfigError
from skillwright.core.fence import is_hidden
from skillwright.core.skill import SourceType, without_markers
from skillwright.textopt.proposal import BudgetControl, EditLimits, RankFallback, UpdateMode

# Skill-aware reflection separates gaps in the skill from execution lapses, where the agent did not
# do what the skill says. For a lapse the analyst writes a note for an appendix, not a rule.
# Source: SkillOpt (microsoft/SkillOpt).


MAX_NOTE_CHARS = 400
_TRAILING = " \t.,;:!?…"


class AppendixSource(StrEnum):
    """The analysts whose notes go into the appendix."""

    BOTH = "both"
    """Failure and success analysts."""
    FAILURE_ONLY = "failure_only"
    """Failure analysts."""


@dataclass(frozen=True, slots=True)
class SkillAware:
    """The settings of skill-aware reflection.

    Attributes:
        consolidate_threshold: Number of notes above which the optimizer is asked for fewer; 0
            never asks.
        gated: Notes are part of a step's candidate, accepted or rejected with it. Else a job adds
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
        """Return the name of the prompt added to an analyst's, or ``""``."""
        if source_type == "failure":
            return "skill_aware_error"
        return "skill_aware_success" if self.appendix_source is AppendixSource.BOTH else ""


def read_notes(value: object) -> list[str]:
    """Read a model's notes: one or a list of texts or of objects with ``note`` or ``content``.

    Each note becomes one line; empty and too long notes and those with hidden characters are
    dropped.
    """
    items = value if isinstance(value, list) else [value]
    found = (_text(item) for item in items)
    return unique_notes(note for note in found if note)


def unique_notes(notes: Iterable[str]) -> list[str]:
    """Return the first of equal notes; case, white space and final punctuation are ignored."""
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


ANY_REWARD = 1e-9
"""SkillOpt's success threshold: every reward above zero."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The settings of reflection and merging.

    Attributes:
        minibatch_size: Trajectories per analyst call, at least 1.
        merge_batch_size: Patches per merge call, at least 2.
        success_threshold: The reward from which a trajectory is a success.
        failure_only: Successes are not analyzed.
        analyst_workers: Maximum concurrent analyst calls, at least 1.
        analyst_budget: Maximum edits per analyst; ``None`` is the step's budget, or no limit if the
            optimizer decides on it later.
        limits: Limits on the length of edits and skills.
        update_mode: Way from proposals to a candidate.
        rewrite_max_tokens: Maximum tokens of a reply with a whole skill; ``None`` is the usual
            limit.
        budget_control: Source of the step's edit budget.
        none_means_fixed: With ``lr_control_mode: none`` the schedule still applies, as in SkillOpt.
        rank_fallback: Choice of edits if the model's ranking is unusable.
        skill_aware: Settings of skill-aware reflection; ``None`` is off.
        repair_anchors: Edits whose anchor is not in the document go back to the optimizer once.
        insert_after_fallback: An ``insert_after`` without its anchor appends, as in SkillOpt.

    Raises:
        ConfigError: A size is below its minimum.
    """

    minibatch_size: int = 8
    merge_batch_size: int = 8
    success_threshold: float = 1.0
    failure_only: bool = False
    analyst_workers: int = 16
    analyst_budget: int | None = None
    limits: EditLimits = field(default_factory=EditLimits)
    update_mode: UpdateMode = UpdateMode.PATCH
    rewrite_max_tokens: int | None = 64_000
    budget_control: BudgetControl = BudgetControl.FIXED
    none_means_fixed: bool = False
    rank_fallback: RankFallback = RankFallback.SUPPORT
    skill_aware: SkillAware | None = None
    repair_anchors: bool = True
    insert_after_fallback: bool = False

    def addendum(self, source_type: SourceType) -> str:
        """Return the name of the prompt added to an analyst's, or ``""``."""
        if self.skill_aware is None or self.rewrites_whole:
            return ""
        return self.skill_aware.addendum(source_type)

    def __post_init__(self) -> None:
        for name, least in (("minibatch_size", 1), ("merge_batch_size", 2), ("analyst_workers", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")

    @property
    def rewrites_whole(self) -> bool:
        """Tell whether every analyst and every merge writes a whole skill."""
        return self.update_mode is UpdateMode.FULL_REWRITE

    @property
    def control(self) -> BudgetControl:
        """The source of the budget; ``none`` if whole skills are rewritten."""
        if self.rewrites_whole:
            return BudgetControl.NONE
        if self.budget_control is BudgetControl.NONE and self.none_means_fixed:
            return BudgetControl.FIXED
        return self.budget_control

    def analyst_cap(self, budget: int | None) -> int | None:
        """Return the maximum number of edits per analyst in a step with ``budget``."""
        if self.rewrites_whole:
            return None
        if self.analyst_budget is not None:
            return self.analyst_budget
        # The optimizer decides after it has seen all edits, so there is no cap before.
        return budget if self.control is BudgetControl.FIXED else None


@dataclass(frozen=True, slots=True)
class StepContext:
    """The context of one step.

    Attributes:
        name: Name of the step in ids of proposals (``s3``).
        skill: The document used in the rollouts.
        budget: Maximum number of edits; ``None`` is no limit.
        seed: Seed of the model's sampling and, in `reflect`, of the shuffle into minibatches
            (micro-batches have their own); ``None`` keeps the order and sets no sampling seed.
        earlier_steps: Text about earlier steps (`StepMemory.render`), or ``""``.
        meta_skill: The optimizer's memory from earlier epochs, or ``""``.
    """

    name: str
    skill: str
    budget: int | None
    seed: int | None = None
    earlier_steps: str = ""
    meta_skill: str = ""
