"""What a step's micro-batches come to: each is analysed when it is in, and merging goes on beside.

Nothing waits that need not: the analysts of a micro-batch start when it was played, and a merge
starts when its chunk of patches is known. Who comes first changes only when things happen.

Source: SkillOpt (microsoft/SkillOpt), accumulation of micro-batches. There all of a step is played
before any of it is analysed, and every stage waits for the one before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from skillwright.core.edit import SourceType
from skillwright.core.together import together
from skillwright.rollout.transcript import Transcripts
from skillwright.textopt.aggregate import SIDES, Aggregate, Merging
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
    batches = await together(stage.batch(*numbered) for numbered in enumerate(practices))
    found = Study(
        Transcripts(
            tuple(row for read, _ in batches for row in read.rows),
            tuple(row for read, _ in batches for row in read.skipped),
        ),
        Reflection(
            tuple(outcome for _, reflection in batches for outcome in reflection.outcomes),
            tuple(note for _, reflection in batches for note in reflection.notes),
        ),
        Aggregate(),
    )
    found.reflection.refuse_dead_optimizer()
    return found._replace(merged=await stage.merging.finish())


class _Studying:
    """Analyses the micro-batches of one step."""

    def __init__(
        self, optimizer: Optimizer, settings: StepSettings, context: StepContext, batches: int
    ) -> None:
        self.merging = Merging(optimizer, settings, context, batches)
        self._optimizer = optimizer
        self._settings = settings
        self._context = context
        self._has_several = batches > 1
        self._slots = asyncio.Semaphore(settings.analyst_workers)

    async def batch(
        self, index: int, coming: Awaitable[Practice]
    ) -> tuple[Transcripts, Reflection]:
        """Wait for a micro-batch, and have it analysed."""
        practice = await coming
        name = f"{self._context.name}.b{index}" if self._has_several else self._context.name
        context = replace(self._context, name=name)
        if practice.reflect is None:
            reflection = await self._analysed(index, practice, context)
        else:
            reflection = await practice.reflect(replace(context, seed=practice.seed))
            found = tuple(self._set_apart(index, outcome) for outcome in reflection.outcomes)
            reflection = replace(reflection, outcomes=found)
            await self.merging.add(index, reflection.patches)
        return self._transcripts(index, practice.transcripts), reflection

    async def _analysed(self, index: int, practice: Practice, context: StepContext) -> Reflection:
        optimizer = replace(
            self._optimizer,
            env_prompts={**self._optimizer.env_prompts, **practice.env_prompts},
        )
        rows, numbers = practice.transcripts.rows, dict.fromkeys(SIDES, 0)
        works: list[Coroutine[Any, Any, Outcome | None]] = []
        for minibatch in readable_minibatches(rows, self._settings, practice.seed):
            side = minibatch.source_type
            works.append(self._one(optimizer, context, minibatch, (index, side, numbers[side])))
            numbers[side] += 1
        # Beside the analysts: knowing how many they are may let merges of earlier patches begin.
        works += [self.merging.expect(index, side, count) for side, count in numbers.items()]
        return Reflection(tuple(outcome for outcome in await together(works) if outcome))

    async def _one(
        self,
        optimizer: Optimizer,
        context: StepContext,
        minibatch: Minibatch,
        place: tuple[int, SourceType, int],
    ) -> Outcome:
        """Have a minibatch analysed, and merge what its patch makes ready."""
        found = await analyse(optimizer, self._settings, context, minibatch, self._slots)
        outcome = self._set_apart(place[0], found)
        await self.merging.put(*place, outcome if isinstance(outcome, AnalystPatch) else None)
        return outcome

    def _transcripts(self, index: int, read: Transcripts) -> Transcripts:
        return Transcripts(
            tuple(replace(row, id=self._named(index, row.id)) for row in read.rows),
            tuple(replace(row, id=self._named(index, row.id)) for row in read.skipped),
        )

    def _set_apart(self, index: int, outcome: Outcome) -> Outcome:
        """Name the trajectories of an outcome after their micro-batch too.

        Two micro-batches may hold the same task, and a task's name is then no trajectory's.
        """
        if not self._has_several or not isinstance(outcome, AnalystPatch):
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
        return f"b{index}.{trajectory}" if self._has_several else trajectory
