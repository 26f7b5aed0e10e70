"""One step of the learner: read, reflect, aggregate, select, update.

It asks the optimiser model and returns what came of it; it writes nothing and judges nothing. The
job rolls out before it and asks the gate after it.

Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904).
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from skillwright.core.codec import encode
from skillwright.rollout.transcript import Transcripts
from skillwright.textopt.aggregate import Aggregate
from skillwright.textopt.appendix import appendix_notes
from skillwright.textopt.budget import BudgetDecision, decide_budget
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.history import StepEntry, TriedEdit, failure_patterns
from skillwright.textopt.items import label
from skillwright.textopt.making import Made, make_candidate, with_step_notes
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.practice import Practice, study
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.reflect import Reflection
from skillwright.textopt.select import Selection, rank_and_select
from skillwright.textopt.update import EditOutcome, Update
from skillwright.textopt.update_modes import BudgetControl


class StepStatus(StrEnum):
    """What a step came to before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    NO_PATCHES = "skip_no_patches"
    """The analysts proposed nothing, or nothing was there to analyse."""
    FAULTS = "skip_analyst_faults"
    """Nothing was proposed because analysts' answers could not be used."""
    NO_REWRITE = "skip_no_rewrite"
    """A new skill was asked for, and what was written cannot be used."""
    NO_CHANGE = "skip_no_change"
    """Edits were proposed, and none of them changed the document."""


@dataclass(frozen=True, slots=True)
class StepProposal:
    """Everything a step did, in the order it was done.

    Attributes:
        failed: Ids of the trajectories below the success threshold.
    """

    context: StepContext
    transcripts: Transcripts
    reflection: Reflection
    merged: Aggregate
    budget: BudgetDecision
    selection: Selection
    made: Made
    failed: tuple[str, ...]

    @property
    def update(self) -> Update:
        """The candidate, and what became of each proposal."""
        return self.made.update

    @property
    def candidate(self) -> str:
        """The document to judge; the skill itself where nothing changed."""
        return self.update.candidate

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """Every proposal that was written, parents before children, each once."""
        written = [one for patch in self.reflection.patches for one in patch.proposals]
        written += [one for merge in self.merged.merges for one in merge.outputs]
        return tuple({one.id: one for one in written}.values())

    @property
    def execution_notes(self) -> tuple[str, ...]:
        """What the agent is to be reminded of, each note once.

        Where skill-aware reflection is not gated, a job adds them to the current skill after the
        gate (`add_notes`); else they stand in the candidate.
        """
        return self.reflection.execution_notes

    @property
    def faults(self) -> tuple[AnalystFault, ...]:
        """Every answer that could not be used, in order of the stages."""
        merges = (merge.fault for merge in self.merged.merges)
        later = (*merges, self.budget.fault, self.selection.fault, *self.made.faults)
        return (*self.reflection.faults, *(fault for fault in later if fault))

    @property
    def status(self) -> StepStatus:
        """What the step came to."""
        if not self.update.is_noop:
            return StepStatus.CANDIDATE
        if any(patch.proposals for patch in self.reflection.patches):
            rewrite = self.made.rewrite
            lost = rewrite is not None and bool(rewrite.unusable)
            return StepStatus.NO_REWRITE if lost else StepStatus.NO_CHANGE
        return StepStatus.FAULTS if self.reflection.faults else StepStatus.NO_PATCHES

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trajectories' texts as a JSON object, for the run's record."""
        return {
            "name": self.context.name,
            "status": self.status.value,
            "budget": self.budget.budget,
            "budget_decision": encode(self.budget),
            "trajectories": [
                {"id": row.id, "task_id": row.task_id, "key": row.key, "reward": row.reward}
                for row in self.transcripts.rows
            ],
            "failed": list(self.failed),
            "skipped": encode(self.transcripts.skipped),
            "reflection_notes": list(self.reflection.notes),
            "patches": encode(self.reflection.patches),
            "faults": encode(self.faults),
            "execution_notes": list(self.execution_notes),
            "merges": encode(self.merged.merges),
            "merged": [proposal.id for proposal in self.merged.proposals],
            "selection": self.selection.to_dict(),
            "repair": encode(self.made.repair),
            "rewrite": encode(self.made.rewrite),
            "appendix": encode(self.made.appendix),
            **self._note_counts,
            "edits": encode(self.update.outcomes),
            "counts": self.update.counts,
            "candidate": self.candidate,
            "candidate_hash": self.update.candidate_hash,
        }

    @property
    def _note_counts(self) -> dict[str, int | bool]:
        if self.made.appendix is None:
            return {"n_execution_lapse_notes": len(self.execution_notes)}
        return self.made.appendix.counts

    def entry(
        self,
        step: int,
        action: str,
        *,
        scores: tuple[float | None, float | None] = (None, None),
        p_value: float | None = None,
    ) -> StepEntry:
        """Write down the step for later ones."""
        edits = zip(self.selection.proposals, self.update.outcomes, strict=True)
        failed = [row for row in self.transcripts.rows if row.id in self.failed]
        read = (patch for patch in self.reflection.patches if patch.source_type == "failure")
        notes = (note for patch in read for note in patch.failures)
        return StepEntry(
            step=step,
            action=action,
            edits=(*(_tried(p, outcome) for p, outcome in edits), *self._tried_notes()),
            failures=failure_patterns(failed, notes),
            score_before=scores[0],
            score_after=scores[1],
            p_value=p_value,
            n_total=len(self.transcripts.rows),
            n_fail=len(failed),
        )

    def _tried_notes(self) -> list[TriedEdit]:
        """Return the notes that the candidate has and the skill had not."""
        if self.made.appendix is None:
            return []
        before = appendix_notes(self.context.skill)
        new = [note for note in self.made.appendix.notes if note not in before]
        return [TriedEdit("note", "", note, "applied_note") for note in new]


def _tried(proposal: Proposal, outcome: EditOutcome) -> TriedEdit:
    op, content = label(proposal.edit)
    return TriedEdit(op, proposal.edit.target, content, outcome.status)


async def propose(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    practices: Sequence[Awaitable[Practice]],
) -> StepProposal:
    """Turn a step's micro-batches into a candidate document.

    All micro-batches are awaited at once, and the analysts of each start when it is in. The
    outcome is the same whatever comes first.

    Raises:
        EngineDown: Not one analyst could be reached; the step has no outcome, and can be tried
            again.
    """
    if settings.control is BudgetControl.NONE:
        context = replace(context, budget=None)
    transcripts, reflection, merged = await study(optimizer, settings, context, practices)
    budget = await decide_budget(optimizer, settings, context, transcripts.rows, merged.proposals)
    selection = await rank_and_select(
        optimizer,
        replace(context, budget=budget.budget),
        merged.proposals,
        settings.update_mode,
        settings.rank_fallback,
    )
    made = await make_candidate(optimizer, settings, context, selection.proposals)
    notes = reflection.execution_notes
    made = await with_step_notes(optimizer, settings, context, made, notes)
    failed = tuple(r.id for r in transcripts.rows if not r.is_success(settings.success_threshold))
    return StepProposal(
        context=context,
        transcripts=transcripts,
        reflection=reflection,
        merged=merged,
        budget=budget,
        selection=selection,
        made=made,
        failed=failed,
    )
