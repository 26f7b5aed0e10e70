"""What a step's micro-batches come to: each is analysed when it is in, and merging goes on beside.

Source: SkillOpt (microsoft/SkillOpt), accumulation of micro-batches. There all of a step is played
before any of it is analysed, and every stage waits for the one before.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skillwright.core.edit import SourceType
from skillwright.core.together import both, together
from skillwright.rollout.transcript import Transcripts
from skillwright.textopt.aggregate import SIDES, Aggregate, PatchNode, merge_sides
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import Evidence, Proposal
from skillwright.textopt.reflect import (
    AnalystPatch,
    Minibatch,
    Outcome,
    Reflection,
    analyse,
    readable_minibatches,
)


@dataclass(frozen=True, slots=True)
class Practice:
    """A micro-batch that was played, ready for analysts.

    Attributes:
        transcripts: What its episodes looked like.
        seed: Shuffles its minibatches; ``None`` keeps their order.
        reflect: An adapter's own analysts, told the step with the micro-batch's name and seed;
            ``None`` means ours.
        env_prompts: An adapter's own prompts for our analysts, by name.
    """

    transcripts: Transcripts
    seed: int | None = None
    reflect: Callable[[StepContext], Awaitable[Reflection]] | None = None
    env_prompts: Mapping[str, str] = field(default_factory=dict)


class Study(NamedTuple):
    """What a step's micro-batches came to, in their order."""

    transcripts: Transcripts
    reflection: Reflection
    merged: Aggregate


async def study(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    practices: Sequence[Awaitable[Practice]],
) -> Study:
    """Have micro-batches analysed as they come in, and what is proposed merged into one patch.

    Calls are named ``s3.f0`` where there is one micro-batch. Where there are several, calls and
    trajectories begin with its number: ``s3.b1.f0``, ``b1.T0``.

    Raises:
        EngineDown: Not one analyst could be reached.
    """
    stage = _Studying(optimizer, settings, context, len(practices))
    sides = {side: stage.patches(side) for side in SIDES}
    batches, merged = await both(
        together(stage.batch(*numbered) for numbered in enumerate(practices)),
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
    """Analyses the micro-batches of one step."""

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
        """Yield a side's patches in order, each as soon as it is there."""
        for analyses in self._analyses:
            for source_type, analysis in await analyses:
                if source_type != side:
                    continue
                outcome = await analysis
                if isinstance(outcome, AnalystPatch):
                    yield PatchNode(side, outcome.proposals)

    async def batch(
        self, index: int, coming: Awaitable[Practice]
    ) -> tuple[Transcripts, Reflection]:
        """Wait for a micro-batch, and have it analyzed."""
        practice = await coming
        several = len(self._analyses) > 1
        name = f"{self._context.name}.b{index}" if several else self._context.name
        context = replace(self._context, name=name)
        if practice.reflect is None:
            reflection = await self._analyzed(index, practice, context)
        else:
            reflection = await practice.reflect(replace(context, seed=practice.seed))
            found = tuple(self._set_apart(index, outcome) for outcome in reflection.outcomes)
            reflection = replace(reflection, outcomes=found)
            known = [(patch.source_type, _known(patch)) for patch in reflection.patches]
            self._analyses[index].set_result(known)
        return self._transcripts(index, practice.transcripts), reflection

    async def _analyzed(self, index: int, practice: Practice, context: StepContext) -> Reflection:
        prompts = {**self._optimizer.env_prompts, **practice.env_prompts}
        optimizer = replace(self._optimizer, env_prompts=prompts)
        rows = practice.transcripts.rows

        async def analyzed(minibatch: Minibatch) -> Outcome:
            found = await analyse(optimizer, self._settings, context, minibatch, self._slots)
            return self._set_apart(index, found)

        async with asyncio.TaskGroup() as group:
            works: list[Analysis] = [
                (minibatch.source_type, group.create_task(analyzed(minibatch)))
                for minibatch in readable_minibatches(rows, self._settings, practice.seed)
            ]
            self._analyses[index].set_result(works)
        return Reflection(tuple(work.result() for _, work in works))

    def _transcripts(self, index: int, read: Transcripts) -> Transcripts:
        return Transcripts(
            tuple(replace(row, id=self._named(index, row.id)) for row in read.rows),
            tuple(replace(row, id=self._named(index, row.id)) for row in read.skipped),
        )

    def _set_apart(self, index: int, outcome: Outcome) -> Outcome:
        """Name the trajectories of an outcome after their micro-batch too.

        Two micro-batches may hold the same task, and a task's name is then no trajectory's.
        """
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
