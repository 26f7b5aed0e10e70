"""Is what the recipe ends with proven better than what it began reinforcement with?"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from skillwright.core import EpisodeResult, Pair, SkillSource, Task
from skillwright.evaluation import RELEASE_PHASE, DrawCount, Draws, differing, release_draws
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.rl.checkpoints import Checkpoints
from skillwright.jobs.rl.report import selected
from skillwright.jobs.rl.state import RlKind, RlState
from skillwright.jobs.rl.wiring import Workshop
from skillwright.policy import PolicyBackend
from skillwright.runs import VerdictRecord


@dataclass(frozen=True, slots=True)
class Version:
    """Weights with the skills that are injected."""

    iteration: int
    skills: SkillSource


@dataclass(slots=True)
class WeightsDuel:
    """Draws paired results of two versions; the weights of one at a time are loaded."""

    run: Workshop
    policy: PolicyBackend
    checkpoints: Checkpoints
    sides: tuple[Version, Version]
    draws: Draws
    _tasks: dict[str, Task] = field(init=False)
    _count: DrawCount = field(init=False)

    def __post_init__(self) -> None:
        self._tasks = {task.id: task for task in self.run.tasks.val}
        self._count = DrawCount(dict.fromkeys(self._tasks, self.draws.first))

    @property
    def task_ids(self) -> Sequence[str]:
        """The val tasks, in order."""
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``."""
        specs = [
            self.draws.spec(self._tasks[task_id], number)
            for task_id in task_ids
            for number in self._count.take(task_id, n)
        ]
        played: list[list[EpisodeResult]] = []
        for side in self.sides:
            self.checkpoints.load(self.policy, side.iteration)
            engine = self.run.measuring_engine(self.policy, self.run.config.evaluation.temperature)
            played.append(await engine.run(specs, side.skills))
        return [Pair(*pair) for pair in zip(*played, strict=True)]


async def release(
    run: Workshop, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Test what the run ends with, where the gate leaves proof to the release; write it down.

    The reference, which the cold start ended with, and the first bank, against the selected weights
    and their bank: one test, on draws that decided nothing before. Weights and bank change
    together, so they are tested together; where that proves nothing, the cold start stays released.
    """
    test, chosen = run.config.evaluation.gate.release, selected(run.config, state)
    if test is None or chosen == 0 or state.release is not None:
        return state
    val = len(run.tasks.val)
    run.watcher.see(StageStarted("release test", episodes=test.expected_rollouts(val)))
    sides = (
        Version(0, run.source(state.first_version)),
        Version(chosen, run.source(state.version_after(chosen))),
    )
    draws = release_draws(run.config.run.seed, 0, None)
    duel = WeightsDuel(run, policy, checkpoints, sides, draws)
    # The weights were selected, and the bank's changes judged, on the same tasks.
    weights = len(state.validations) if run.config.evaluation.select == "best" else 1
    of_bank = differing(one.verdict for one in state.evolutions.values() if one.verdict)
    terms = replace(run.terms, judged=of_bank, weights=weights)
    verdict = await test.judge(duel, state.ledger, terms)
    with run.store.transaction(durable=True):
        run.store.record_verdict(VerdictRecord(chosen, verdict.to_dict(), "", RELEASE_PHASE))
        return write_down(run.store, state, RlKind.RELEASE, verdict.to_dict())
