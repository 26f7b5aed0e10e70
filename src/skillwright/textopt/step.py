"""One step of the learner: read, reflect, aggregate, select, update.

It calls the optimizer model and returns a proposal. The job plays the rollouts before it and calls
the gate after it.

Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from skillwright.core.concurrency import both, together
from skillwright.core.edits import SourceType
from skillwright.core.jsonio import encode
from skillwright.rollout.transcript import Transcripts
from skillwright.textopt.aggregate import SIDES, Aggregate, PatchNode, merge_sides
from skillwright.textopt.candidate import Made, appendix_notes, make_candidate, with_step_notes
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.history import StepEntry, TriedEdit, failure_patterns
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault, BudgetControl, Evidence, Proposal, label
from skillwright.textopt.reflect import (
    AnalystPatch,
    Minibatch,
    Outcome,
    Reflection,
    analyze,
    readable_minibatches,
)
from skillwright.textopt.select import BudgetDecision, Selection, decide_budget, rank_and_select
from skillwright.textopt.update import EditOutcome, Update

# Analyze micro-batches as they finish; merge their patches concurrently. SkillOpt
# (microsoft/SkillOpt) plays the whole step first, and every stage waits for the one before.


@dataclass(frozen=True, slots=True)
class TrainRollouts:
    """A played micro-batch.

    Attributes:
        transcripts: Its episodes.
        seed: Seed of the shuffle into minibatches; ``None`` keeps their order.
        reflect: An adapter's own analysts, called with the step's context, named and seeded for the
            micro-batch; ``None`` means ours.
        env_prompts: An adapter's own prompts for our analysts, by name.
    """

    transcripts: Transcripts
    seed: int | None = None
    reflect: Callable[[StepContext], Awaitable[Reflection]] | None = None
    env_prompts: Mapping[str, str] = field(default_factory=dict)


class Study(NamedTuple):
    """The results of a step's micro-batches, in order."""

    transcripts: Transcripts
    reflection: Reflection
    merged: Aggregate


async def study(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    train_rollouts: Sequence[Awaitable[TrainRollouts]],
) -> Study:
    """Analyze micro-batches as they arrive, and merge their patches into one.

    Calls are named ``s3.f0``. With several micro-batches, calls and trajectories begin with its
    number: ``s3.b1.f0``, ``b1.T0``.

    Raises:
        EngineDown: No analyst could be reached.
    """
    stage = _Studying(optimizer, settings, context, len(train_rollouts))
    sides = {side: stage.patches(side) for side in SIDES}
    batches, merged = await both(
        together(stage.batch(*numbered) for numbered in enumerate(train_rollouts)),
        merge_sides(optimizer, settings, context, sides),
    )
    transcripts = Transcripts(
        tuple(row for read, _ in batches for row in read.rows),
        tuple(row for read, _ in batches for row in read.skipped),
    )
    reflection = Reflection(
        tuple(outcome for _, reflection in batches for outcome in reflection.outcomes),
        tuple(note for _, reflection in batches for note in reflection.notes),
    )
    reflection.refuse_dead_optimizer()
    return Study(transcripts, reflection, merged)


Analysis = tuple[SourceType, asyncio.Future[Outcome]]


class _Studying:
    """Analyzes the micro-batches of one step."""

    def __init__(
        self, optimizer: Optimizer, settings: StepSettings, context: StepContext, batches: int
    ) -> None:
        self._optimizer = optimizer
        self._settings = settings
        self._context = context
        self._slots = asyncio.Semaphore(settings.analyst_workers)
        loop = asyncio.get_running_loop()
        self._analyses: list[asyncio.Future[list[Analysis]]] = [
            loop.create_future() for _ in range(batches)
        ]

    async def patches(self, side: SourceType) -> AsyncIterator[PatchNode]:
        """Yield a side's patches in order, each as soon as possible."""
        for analyses in self._analyses:
            for source_type, analysis in await analyses:
                if source_type != side:
                    continue
                outcome = await analysis
                if isinstance(outcome, AnalystPatch):
                    yield PatchNode(side, outcome.proposals)

    async def batch(
        self, index: int, coming: Awaitable[TrainRollouts]
    ) -> tuple[Transcripts, Reflection]:
        """Wait for a micro-batch and analyze it."""
        rollouts = await coming
        several = len(self._analyses) > 1
        name = f"{self._context.name}.b{index}" if several else self._context.name
        context = replace(self._context, name=name)
        if rollouts.reflect is None:
            reflection = await self._analyzed(index, rollouts, context)
        else:
            reflection = await rollouts.reflect(replace(context, seed=rollouts.seed))
            found = tuple(self._set_apart(index, outcome) for outcome in reflection.outcomes)
            reflection = replace(reflection, outcomes=found)
            known = [(patch.source_type, _known(patch)) for patch in reflection.patches]
            self._analyses[index].set_result(known)
        return self._transcripts(index, rollouts.transcripts), reflection

    async def _analyzed(
        self, index: int, rollouts: TrainRollouts, context: StepContext
    ) -> Reflection:
        prompts = {**self._optimizer.env_prompts, **rollouts.env_prompts}
        optimizer = replace(self._optimizer, env_prompts=prompts)
        rows = rollouts.transcripts.rows

        async def analyzed(minibatch: Minibatch) -> Outcome:
            found = await analyze(optimizer, self._settings, context, minibatch, self._slots)
            return self._set_apart(index, found)

        async with asyncio.TaskGroup() as group:
            works: list[Analysis] = [
                (minibatch.source_type, group.create_task(analyzed(minibatch)))
                for minibatch in readable_minibatches(rows, self._settings, rollouts.seed)
            ]
            self._analyses[index].set_result(works)
        return Reflection(tuple(work.result() for _, work in works))

    def _transcripts(self, index: int, read: Transcripts) -> Transcripts:
        return Transcripts(
            tuple(replace(row, id=self._named(index, row.id)) for row in read.rows),
            tuple(replace(row, id=self._named(index, row.id)) for row in read.skipped),
        )

    def _set_apart(self, index: int, outcome: Outcome) -> Outcome:
        """Add the micro-batch to trajectory names, because several may hold the same task."""
        if len(self._analyses) == 1 or not isinstance(outcome, AnalystPatch):
            return outcome
        failures = (
            replace(note, trajectories=tuple(self._named(index, t) for t in note.trajectories))
            for note in outcome.failures
        )
        return replace(
            outcome,
            trajectories=tuple(self._named(index, t) for t in outcome.trajectories),
            proposals=tuple(self._with_evidence(index, one) for one in outcome.proposals),
            failures=tuple(failures),
        )

    def _with_evidence(self, index: int, one: Proposal) -> Proposal:
        named = (Evidence(self._named(index, e.trajectory), e.turns) for e in one.evidence)
        return replace(one, evidence=tuple(named))

    def _named(self, index: int, trajectory: str) -> str:
        return f"b{index}.{trajectory}" if len(self._analyses) > 1 else trajectory


def _known(outcome: Outcome) -> asyncio.Future[Outcome]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future


class StepStatus(StrEnum):
    """The outcome of a step before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    NO_PATCHES = "skip_no_patches"
    """The analysts proposed nothing, or there was nothing to analyze."""
    FAULTS = "skip_analyst_faults"
    """Nothing was proposed because analysts' answers were unusable."""
    NO_REWRITE = "skip_no_rewrite"
    """A new skill was requested, and the answer was unusable."""
    NO_CHANGE = "skip_no_change"
    """Edits were proposed, and none changed the document."""


@dataclass(frozen=True, slots=True)
class StepProposal:
    """All stages of a step, in order; ``failed`` has the ids below the success threshold."""

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
        """The candidate, and the outcome of each proposal."""
        return self.made.update

    @property
    def candidate(self) -> str:
        """The document to judge; the skill itself if nothing changed."""
        return self.update.candidate

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """Every proposal, parents before children, each once."""
        written = [one for patch in self.reflection.patches for one in patch.proposals]
        written += [one for merge in self.merged.merges for one in merge.outputs]
        written += self.merged.proposals
        return tuple({one.id: one for one in written}.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped or merged outside of single replies."""
        return (*self.reflection.notes, *self.merged.notes)

    @property
    def execution_notes(self) -> tuple[str, ...]:
        """The unique notes for the agent.

        Unless skill-aware reflection is gated, a job adds them to the current skill after the gate
        (`add_notes`); else the candidate has them.
        """
        return self.reflection.execution_notes

    @property
    def faults(self) -> tuple[AnalystFault, ...]:
        """Every unusable answer, in order of the stages."""
        merges = (merge.fault for merge in self.merged.merges)
        later = (*merges, self.budget.fault, self.selection.fault, *self.made.faults)
        return (*self.reflection.faults, *(fault for fault in later if fault))

    @property
    def status(self) -> StepStatus:
        """The outcome of the step."""
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
            "reflection_notes": list(self.notes),
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
        """Return the step's entry for later steps."""
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
        """Return the notes that are new in the candidate."""
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
    train_rollouts: Sequence[Awaitable[TrainRollouts]],
) -> StepProposal:
    """Make a candidate document from a step's micro-batches.

    All micro-batches are awaited at once, and each is analyzed when it arrives; their order of
    arrival does not change the outcome.

    Raises:
        EngineDown: No analyst could be reached; the step has no outcome and can be retried.
    """
    if settings.control is BudgetControl.NONE:
        context = replace(context, budget=None)
    transcripts, reflection, merged = await study(optimizer, settings, context, train_rollouts)
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
