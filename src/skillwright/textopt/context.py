"""The settings of a run's learning steps, and the context of one step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core.edits import SourceType
from skillwright.core.fence import hidden_character, plain_text
from skillwright.core.settings import Settings
from skillwright.core.skill import without_markers
from skillwright.textopt.proposal import BudgetControl, EditLimits, RankFallback, UpdateMode

# Skill-aware reflection separates gaps in the skill from execution lapses, where the agent did not
# do what the skill says. For a lapse the analyst writes a note for an appendix, not a rule.
# Source: SkillOpt (microsoft/SkillOpt).


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
        """Return the name of the prompt added to an analyst's, or ``""``."""
        if source_type == "failure":
            return "skill_aware_error"
        return "skill_aware_success" if self.appendix_source == "both" else ""


def read_notes(value: object, dropped: list[str] | None = None) -> list[str]:
    """Read a model's notes: one or a list of texts or of objects with ``note`` or ``content``.

    An object's only text is its note too. Each note becomes one line; too long notes, those with
    hidden characters and other types are dropped, and ``dropped`` gets the causes.
    """
    items = value if isinstance(value, list) else [value]
    found = (_text(item, [] if dropped is None else dropped) for item in items)
    return unique_notes(note for note in found if note)


def unique_notes(notes: Iterable[str]) -> list[str]:
    """Return the first of equal notes; case, white space and final punctuation are ignored."""
    first: dict[str, str] = {}
    for note in notes:
        first.setdefault(" ".join(note.split()).rstrip(_TRAILING).casefold(), note)
    return [note for key, note in first.items() if key]


def _text(item: Any, dropped: list[str]) -> str:
    if isinstance(item, Mapping):
        texts = [one for one in item.values() if isinstance(one, str)]
        named = item.get("note") or item.get("content")
        item = texts[0] if len(texts) == 1 else named if isinstance(named, str) else item
    if not isinstance(item, str):
        if item:
            dropped.append(f"a reminder is dropped: it is a {type(item).__name__}, not a text")
        return ""
    note = " ".join(without_markers(plain_text(item)).split()).removeprefix("- ").strip()
    hidden = hidden_character(note)
    if hidden or len(note) > MAX_NOTE_CHARS:
        wrong = f"holds the hidden character {hidden}" if hidden else "is too long"
        dropped.append(f"a reminder is dropped: it {wrong}")
        return ""
    return note


ANY_REWARD = 1e-9
"""SkillOpt's success threshold: every reward above zero."""


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
    replies_as_written: SkipJsonSchema[bool] = False
    """Replies are not repaired, and their edits neither repaired nor merged, as in SkillOpt."""
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
    """The maximum lengths of edits and skills."""
    update_mode: UpdateMode = UpdateMode.PATCH
    """How proposals become a candidate."""
    rewrite_max_tokens: PositiveInt | None = 64_000
    budget_control: BudgetControl = BudgetControl.FIXED
    """The policy that limits the number of edits per step."""
    rank_fallback: RankFallback = RankFallback.SUPPORT
    """The edits to apply if the model's choice is unusable."""

    def addendum(self, source_type: SourceType) -> str:
        """Return the name of the prompt added to an analyst's, or ``""``."""
        if self.skill_aware is None or self.rewrites_whole:
            return ""
        return self.skill_aware.addendum(source_type)

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
