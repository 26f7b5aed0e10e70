"""One step of the learner: read, reflect, aggregate, select, update.

It asks the optimiser model and returns what came of it; it writes nothing and judges nothing. The
job rolls out before it and asks the gate after it.

Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from skillwright.core import EpisodeResult
from skillwright.textopt.aggregate import Aggregate, aggregate
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.history import StepEntry, TriedEdit, failure_patterns
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.reflect import Reflection, reflect
from skillwright.textopt.select import Selection, rank_and_select
from skillwright.textopt.transcript import Transcripts, read_episodes
from skillwright.textopt.update import Update, apply_proposals


class StepStatus(StrEnum):
    """What a step came to before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    NO_PATCHES = "skip_no_patches"
    """The analysts proposed nothing, or nothing was there to analyse."""
    FAULTS = "skip_analyst_faults"
    """Nothing was proposed because analysts' answers could not be used."""
    NO_CHANGE = "skip_no_change"
    """Edits were proposed, and none of them changed the document."""


@dataclass(frozen=True, slots=True)
class StepProposal:
    """Everything a step did, in the order it was done.

    Attributes:
        context: What the step was given.
        transcripts: What the analysts could read, and what they could not.
        reflection: Their patches, and their faults.
        merged: The patches made one.
        selection: The edits within the budget.
        update: The candidate, and what became of each edit.
        failed: Ids of the trajectories below the success threshold.
    """

    context: StepContext
    transcripts: Transcripts
    reflection: Reflection
    merged: Aggregate
    selection: Selection
    update: Update
    failed: tuple[str, ...]

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
    def faults(self) -> tuple[AnalystFault, ...]:
        """Every answer that could not be used, in order of the stages."""
        merges = (merge.fault for merge in self.merged.merges)
        return (
            *self.reflection.faults,
            *(fault for fault in (*merges, self.selection.fault) if fault),
        )

    @property
    def status(self) -> StepStatus:
        """What the step came to."""
        if not self.update.is_noop:
            return StepStatus.CANDIDATE
        if any(patch.proposals for patch in self.reflection.patches):
            return StepStatus.NO_CHANGE
        return StepStatus.FAULTS if self.reflection.faults else StepStatus.NO_PATCHES

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trajectories' texts as a JSON object, for the run's record."""
        return {
            "name": self.context.name,
            "status": self.status.value,
            "budget": self.context.budget,
            "trajectories": [
                {"id": row.id, "task_id": row.task_id, "key": row.key, "reward": row.reward}
                for row in self.transcripts.rows
            ],
            "failed": list(self.failed),
            "skipped": [asdict(skipped) for skipped in self.transcripts.skipped],
            "patches": [patch.to_dict() for patch in self.reflection.patches],
            "faults": [fault.to_dict() for fault in self.faults],
            "merges": [merge.to_dict() for merge in self.merged.merges],
            "merged": [proposal.id for proposal in self.merged.proposals],
            "selection": self.selection.to_dict(),
            "edits": [outcome.to_dict() for outcome in self.update.outcomes],
            "counts": self.update.counts,
            "candidate": self.candidate,
            "candidate_hash": self.update.candidate_hash,
        }

    def entry(
        self,
        step: int,
        action: str,
        *,
        scores: tuple[float | None, float | None] = (None, None),
        p_value: float | None = None,
    ) -> StepEntry:
        """Write down the step for later ones.

        Args:
            step: The global step, from 1.
            action: The gate's decision, or the step's status where it was not asked.
            scores: The incumbent's and the candidate's.
            p_value: Of the gate's test.
        """
        edits = zip(self.selection.proposals, self.update.outcomes, strict=True)
        failed = [row for row in self.transcripts.rows if row.id in self.failed]
        notes = (note for patch in self.reflection.patches for note in patch.failures)
        return StepEntry(
            step=step,
            action=action,
            edits=tuple(
                TriedEdit(p.edit.op, p.edit.target, p.edit.content, outcome.status)
                for p, outcome in edits
            ),
            failures=failure_patterns(failed, notes),
            score_before=scores[0],
            score_after=scores[1],
            p_value=p_value,
            n_total=len(self.transcripts.rows),
            n_fail=len(failed),
        )


async def propose(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    results: Sequence[EpisodeResult],
) -> StepProposal:
    """Turn a batch of rollouts into a candidate document.

    Args:
        optimizer: Who reads and proposes.
        settings: What holds for the run.
        context: The skill that was rolled out, and the step's budget.
        results: The batch, in order of its specs; Failures are left out and reported.
    """
    transcripts = read_episodes(results)
    reflection = await reflect(optimizer, settings, context, transcripts.rows)
    merged = await aggregate(optimizer, settings, context, reflection.patches)
    selection = await rank_and_select(optimizer, context, merged.proposals)
    update = apply_proposals(context.skill, selection.proposals, settings.limits)
    failed = tuple(r.id for r in transcripts.rows if not r.is_success(settings.success_threshold))
    return StepProposal(context, transcripts, reflection, merged, selection, update, failed)
