"""From selected proposals to a candidate document, by the way of each update mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.repair import Repair, repair_anchors
from skillwright.textopt.rewrite import Rewrite, rewrite_skill, take_candidate
from skillwright.textopt.update import Update, apply_proposals
from skillwright.textopt.update_modes import UpdateMode


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate, and what it took beside the proposals.

    Attributes:
        update: The candidate, and what became of each proposal.
        repair: How lost anchors were replaced, or ``None`` where nobody was asked.
        rewrite: How the skill was written anew, or ``None`` where it was edited.
    """

    update: Update
    repair: Repair | None = None
    rewrite: Rewrite | None = None

    @property
    def fault(self) -> AnalystFault | None:
        """Why the repair or the rewrite has no answer, or ``None``."""
        asked = self.repair or self.rewrite
        return asked.fault if asked else None


class Maker(Protocol):
    """Makes a candidate in one update mode."""

    async def __call__(
        self,
        optimizer: Optimizer,
        settings: StepSettings,
        context: StepContext,
        proposals: Sequence[Proposal],
    ) -> Made:
        """Make the candidate of the selected proposals."""
        ...


async def make_candidate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Make the candidate of the selected proposals, in the way of the run's update mode."""
    return await _MAKERS[settings.update_mode](optimizer, settings, context, proposals)


async def _edit(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Apply the edits; those whose anchor is lost get one repair."""
    update = apply_proposals(
        context.skill,
        proposals,
        settings.limits,
        insert_after_fallback=settings.insert_after_fallback,
    )
    update, repair = await repair_anchors(optimizer, settings, context, proposals, update)
    return Made(update, repair=repair)


async def _rewrite(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Have one call rewrite the skill by the suggestions."""
    update, rewrite = await rewrite_skill(optimizer, settings, context, proposals)
    return Made(update, rewrite=rewrite)


async def _take(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Take the first rewritten skill; the optimiser has written it already."""
    del optimizer
    update, rewrite = take_candidate(settings, context, proposals)
    return Made(update, rewrite=rewrite)


_MAKERS: Mapping[UpdateMode, Maker] = {
    UpdateMode.PATCH: _edit,
    UpdateMode.REWRITE: _rewrite,
    UpdateMode.FULL_REWRITE: _take,
}
