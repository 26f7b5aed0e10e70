"""What a learning step is given: settings that hold for a run, and the situation of one step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core.fence import is_hidden
from skillwright.core.settings import Settings
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


class SkillAware(Settings):
    """Slips of the agent are kept apart from gaps in the skill; reminders go into an appendix."""

    appendix_source: Literal["both", "failure_only"] = "both"
    """Analysts whose reminders are used."""
    consolidate_threshold: NonNegativeInt = 0
    """Number of reminders above which the optimizer consolidates them; 0 disables it."""
    gated: SkipJsonSchema[bool] = True
    """Reminders are part of the candidate; else they enter after the gate, unmeasured."""

    def addendum(self, source_type: SourceType) -> str:
        """Return the name of the prompt that is added to an analyst's, or ``""``."""
        if source_type == "failure":
            return "skill_aware_error"
        return "skill_aware_success" if self.appendix_source == "both" else ""


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


class ReflectTerms(Settings):
    """How trajectories become proposals."""

    minibatch_size: PositiveInt = 8
    """Trajectories per analyst call."""
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    """Proposals per merge call."""
    failure_only: bool = False
    """Analyze failures only."""
    analyst_workers: PositiveInt = 16
    """Maximum concurrent analyst calls."""


class EditTerms(Settings):
    """How proposals change the skill."""

    none_means_fixed: SkipJsonSchema[bool] = False
    """``none`` keeps the schedule where edits are applied, as in SkillOpt."""
    rewrite_max_tokens: PositiveInt | None = None
    """Maximum output tokens of a rewrite; unset, as for other replies."""
    repair_anchors: SkipJsonSchema[bool] = True
    """Edits whose anchor is not in the document go back to the optimizer once."""
    insert_after_fallback: SkipJsonSchema[bool] = False
    """An ``insert_after`` without its anchor appends, as in SkillOpt."""
    skill_aware: SkillAware | None = None
    """Skill-aware reflection; unset, off."""


class StepSettings(ReflectTerms, EditTerms):
    """How a run reflects and merges."""

    success_threshold: float = 1.0
    """A trajectory with at least this reward is a success."""
    analyst_budget: int | None = None
    """Edits that one analyst may propose; unset, the step's own budget, and no limit where the
    optimizer decides on it later."""
    limits: EditLimits = EditLimits()
    """How long edits and skills may become."""
    update_mode: UpdateMode = UpdateMode.PATCH
    """How proposals become a candidate."""
    rewrite_max_tokens: PositiveInt | None = 64_000
    budget_control: BudgetControl = BudgetControl.FIXED
    """Who says how many edits a step makes."""
    rank_fallback: RankFallback = RankFallback.SUPPORT
    """Which edits are made where the model's choice cannot be used."""

    def addendum(self, source_type: SourceType) -> str:
        """Return the name of the prompt that is added to an analyst's, or ``""``."""
        if self.skill_aware is None or self.rewrites_whole:
            return ""
        return self.skill_aware.addendum(source_type)

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
