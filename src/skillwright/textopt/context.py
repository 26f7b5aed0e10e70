"""What a learning step is given: settings that hold for a run, and the situation of one step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from skillwright.core import ConfigError
from skillwright.core.fence import is_hidden
from skillwright.core.skill import SourceType, without_markers
from skillwright.textopt.proposal import BudgetControl, EditLimits, RankFallback, UpdateMode

# Skill-aware reflection: a gap in the skill is one thing, a slip of the agent another.
#
# Where the agent did not do what the skill says (an execution lapse), the analyst writes a short
# note for an appendix instead of another rule.
#
# Source: SkillOpt (microsoft/SkillOpt), skill-aware reflection.


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
        consolidate_threshold: With more notes than this the optimizer is asked to make them fewer;
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


ANY_REWARD = 1e-9
"""The success threshold of SkillOpt: every reward above zero is a success."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How a run reflects and merges.

    Attributes:
        minibatch_size: Trajectories per analyst call, at least 1.
        merge_batch_size: Patches per merge call, at least 2.
        success_threshold: A trajectory with at least this reward is a success.
        failure_only: Successes are not analyzed.
        analyst_workers: Analyst calls in flight at once, at least 1.
        analyst_budget: Edits that one analyst may propose; ``None`` is the step's own budget, and
            no limit where the optimizer decides on it later.
        limits: How long edits and skills may become.
        update_mode: How proposals become a candidate.
        rewrite_max_tokens: How long a reply may be that holds a whole skill; ``None`` is as long
            as any other reply.
        budget_control: Who says how many edits a step makes.
        none_means_fixed: With ``lr_control_mode: none`` the schedule still holds, as in SkillOpt.
        rank_fallback: Which edits are made where the model's choice cannot be used.
        skill_aware: How slips of the agent are separated from gaps in the skill; ``None`` does not.
        repair_anchors: Edits whose anchor is not in the document go back to the optimizer once.
        insert_after_fallback: An ``insert_after`` without its anchor appends, as in SkillOpt.

    Raises:
        ConfigError: A size is below its least.
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
        """Return the name of the prompt that is added to an analyst's, or ``""``."""
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
        """What sets the size of a step; ``none`` where skills are rewritten as a whole."""
        if self.rewrites_whole:
            return BudgetControl.NONE
        if self.budget_control is BudgetControl.NONE and self.none_means_fixed:
            return BudgetControl.FIXED
        return self.budget_control

    def analyst_cap(self, budget: int | None) -> int | None:
        """Return how many edits an analyst may propose in a step with ``budget``."""
        if self.rewrites_whole:
            return None
        if self.analyst_budget is not None:
            return self.analyst_budget
        # The optimizer decides once it has seen all edits; a cap would decide before it.
        return budget if self.control is BudgetControl.FIXED else None


@dataclass(frozen=True, slots=True)
class StepContext:
    """The situation of one step.

    Attributes:
        name: Names the step in ids of proposals (``s3``).
        skill: The document that the rollouts were made with.
        budget: Edits that the step may make; ``None`` sets no limit.
        seed: Seeds the model's sampling, and in `reflect` shuffles trajectories into minibatches
            (a step's micro-batches have seeds of their own for that); ``None`` leaves sampling to
            the endpoint, and keeps the input order.
        earlier_steps: What earlier steps tried (`StepMemory.render`), or ``""``.
        meta_skill: What the optimizer has learned about optimizing, or ``""``.
    """

    name: str
    skill: str
    budget: int | None
    seed: int | None = None
    earlier_steps: str = ""
    meta_skill: str = ""
