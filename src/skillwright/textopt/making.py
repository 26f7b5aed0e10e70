"""From selected proposals to a candidate document, by the way of each update mode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import assert_never

from skillwright.core import skill_hash
from skillwright.textopt.appendix import AppendixUpdate, add_notes
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.repair import Repair, repair_anchors
from skillwright.textopt.rewrite import Rewrite, rewrite_skill, take_candidate
from skillwright.textopt.update import EditOutcome, Update, apply_proposals
from skillwright.textopt.update_modes import UpdateMode


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate, and what it took beside the proposals.

    Attributes:
        update: The candidate, and what became of each proposal.
        repair: How lost anchors were replaced, or ``None`` where nobody was asked.
        rewrite: How the skill was written anew, or ``None`` where it was edited.
        appendix: What the step's execution notes did to the candidate, or ``None`` where there are
            none, or a job adds them after the gate.
    """

    update: Update
    repair: Repair | None = None
    rewrite: Rewrite | None = None
    appendix: AppendixUpdate | None = None

    @property
    def faults(self) -> tuple[AnalystFault, ...]:
        """Why the repair, the rewrite or the consolidation of notes has no answer."""
        asked = (self.repair, self.rewrite, self.appendix)
        return tuple(one.fault for one in asked if one is not None and one.fault is not None)


async def make_candidate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Make the candidate of the selected proposals, in the way of the run's update mode."""
    match settings.update_mode:
        case UpdateMode.PATCH:
            fallback = settings.insert_after_fallback
            update = apply_proposals(
                context.skill, proposals, settings.limits, insert_after_fallback=fallback
            )
            update, repair = await repair_anchors(optimizer, settings, context, proposals, update)
            return Made(update, repair=repair)
        case UpdateMode.REWRITE:
            update, rewrite = await rewrite_skill(optimizer, settings, context, proposals)
            return Made(update, rewrite=rewrite)
        case UpdateMode.FULL_REWRITE:
            update, rewrite = take_candidate(settings, context, proposals)
            return Made(update, rewrite=rewrite)
        case never:
            assert_never(never)


async def with_step_notes(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    made: Made,
    notes: Sequence[str],
) -> Made:
    """Put a step's execution notes into its candidate, where the gate is to judge them too."""
    if not notes or settings.skill_aware is None or not settings.skill_aware.gated:
        return made
    skill = made.update.candidate
    appendix = await add_notes(optimizer, settings, replace(context, skill=skill), notes)
    update = replace(
        made.update,
        candidate=appendix.skill,
        candidate_hash=skill_hash(appendix.skill),
        outcomes=_moved(made.update.outcomes, skill, appendix.skill),
        is_noop=appendix.skill == context.skill,
    )
    return replace(made, update=update, appendix=appendix)


def _moved(outcomes: Sequence[EditOutcome], before: str, after: str) -> tuple[EditOutcome, ...]:
    """Follow the lines of edits; an appendix that stood above them has gone to the end."""
    same = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    shifts = {
        block.a + offset: block.b - block.a
        for block in same.get_matching_blocks()
        for offset in range(block.size)
    }

    def moved(outcome: EditOutcome) -> EditOutcome:
        if outcome.lines is None:
            return outcome
        first, last = outcome.lines
        shift = shifts.get(first - 1, 0)
        return replace(outcome, lines=(first + shift, last + shift))

    return tuple(moved(outcome) for outcome in outcomes)
