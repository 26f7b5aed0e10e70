"""The next rollouts, played while a decision is open: a bet that the current skill stays.

From the moment a step's rollouts are in until its gate has decided, an engine has little to do: a
few analysts are asked, then one call after the other. What comes next depends on the decision
alone: with the current skill or with the candidate. The bet is on the current skill, for two
reasons. It is the likelier one: simulated runs of the default gate accept 27% to 45% of candidates,
by what the edits are worth (``benchmarks/gates.py``). And its text is known from the start, so what
is played for it takes places that nobody needs; a candidate's could only begin beside the gate.

A bet plays what would be played next, with the same seeds, through the same engine; the rollouts
that the decision asks for find it in the store or in flight. So it changes when something is
played, and never what: a run takes the same decisions with and without. What it played in vain
stays in the store under the phase `AHEAD`, and its cost under that purpose.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from skillwright.core import SkillwrightError
from skillwright.core.paths import Ahead, played_ahead
from skillwright.core.protocols import together
from skillwright.datasets import BatchSpec
from skillwright.jobs.run.bench import Bench, StepRef
from skillwright.jobs.text.judging import first_update
from skillwright.jobs.text.state import TrainState
from skillwright.jobs.text.wiring import Assembly

Play = Callable[[Bench], Coroutine[Any, Any, object]]
"""Plays something; the results are in the store."""

logger = logging.getLogger(__name__)


class Bets:
    """What is played ahead in a run: a context, at whose end nothing is left running.

    Args:
        bench: Where to play, or ``None`` for a run that does not bet.
    """

    def __init__(self, bench: Bench | None) -> None:
        self._bench = bench
        self._open: list[tuple[Ahead, asyncio.Task[None]]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop(self._open)
        if error is None:
            self._raise_bugs()

    def place(self, play: Play | None) -> None:
        """Begin to play what is asked for if the current skill stays; ``None`` is no bet."""
        if self._bench is None or play is None:
            return
        work = Ahead()
        with played_ahead(work):
            task = asyncio.create_task(_in_silence(play(self._bench)))
        self._open.append((work, task))

    async def settled(
        self, state: TrainState, decision: Coroutine[Any, Any, TrainState]
    ) -> TrainState:
        """Await a decision: what was bet on is needed then, or is stopped before this returns.

        What was needed before stays needed, whatever is decided next.
        """
        decided = await decision
        stays = decided.skill_version == state.skill_version
        for work, _ in self._open:
            work.is_needed = work.is_needed or stays
        await self._stop([(work, task) for work, task in self._open if not work.is_needed])
        self._raise_bugs()
        return decided

    async def _stop(self, lost: Sequence[tuple[Ahead, asyncio.Task[None]]]) -> None:
        tasks = [task for _, task in lost if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _raise_bugs(self) -> None:
        ended = [task for _, task in self._open if task.done()]
        self._open = [(work, task) for work, task in self._open if not task.done()]
        bugs = [task.exception() for task in ended if not task.cancelled()]
        for bug in filter(None, bugs):
            raise bug


async def _in_silence(work: Coroutine[Any, Any, object]) -> None:
    """Let it fail: nobody may ever ask, and whoever does is answered by the engine itself."""
    try:
        await work
    except SkillwrightError as fault:
        logger.debug("what was played ahead ended early: %s", fault)


def after_step(
    run: Assembly, state: TrainState, place: StepRef, batches: Sequence[BatchSpec]
) -> Play | None:
    """Return what is played after a step if its candidate does not become current.

    Args:
        run: The run.
        state: Where it stood before the step.
        place: The step.
        batches: Micro-batches of the epoch's next step; none after its last one.

    Returns:
        ``None`` where that is nothing, or where the skill is not likely to stay.
    """
    optimizer, epoch = run.config.optimizer, place.epoch
    notes = optimizer.skill_aware is not None and not optimizer.skill_aware.gated
    if notes or run.gate.accepts_all:
        return None
    skill, ends = run.store.skill(state.skill_version), _ends_after(run, state.idle_steps + 1)
    if batches:
        at = StepRef(place.step + 1, epoch)
        return None if ends else lambda bench: _train_on(bench, batches, skill, at)
    if epoch > 1 and optimizer.updates_epoch:
        before = run.store.skill(state.epochs[-1].steps_ended_with)
        return lambda bench: bench.compare(before, skill, epoch)
    update = first_update(run, skill) if epoch == 1 else None
    return None if ends else _next_epoch(run, update.candidate if update else skill, place)


def beside_update(run: Assembly, state: TrainState, place: StepRef) -> Play | None:
    """Return what is played after an epoch update if it does not change the skill."""
    optimizer = run.config.optimizer
    forced = optimizer.use_slow_update and not optimizer.gate_slow_update
    if place.epoch == 1 or forced or run.gate.accepts_all or _ends_after(run, state.idle_steps):
        return None  # an epoch without a comparison is updated at once
    return _next_epoch(run, run.store.skill(state.skill_version), place)


def _ends_after(run: Assembly, idle_steps: int) -> bool:
    patience = run.config.train.patience
    return patience is not None and idle_steps >= patience


def _next_epoch(run: Assembly, skill: str, place: StepRef) -> Play | None:
    if place.epoch == run.config.train.epochs:
        return None
    each, size = run.config.train.accumulation, run.config.train.batch_size
    at = StepRef(place.step + 1, place.epoch + 1)

    async def play(bench: Bench) -> None:
        batches = await bench.batches(at.epoch, run.steps_per_epoch * each, size)
        await _train_on(bench, batches[:each], skill, at)

    return play


async def _train_on(bench: Bench, batches: Sequence[BatchSpec], skill: str, place: StepRef) -> None:
    await together(
        bench.train_on(batch, skill, place, index) for index, batch in enumerate(batches)
    )
