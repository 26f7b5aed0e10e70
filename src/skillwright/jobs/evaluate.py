"""Evaluate one skill on one split: how good is the agent, and how sure is that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill, Task, skill_hash
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import ScoreTable, pass_hat_k
from skillwright.jobs.progress import RunStarted, Scored, StageStarted
from skillwright.jobs.same_tasks import refuse_other_tasks
from skillwright.jobs.wiring import Arena
from skillwright.rollout import refuse_no_score
from skillwright.runs import RunFolder

EvalSplit = Literal["train", "val", "test"]
EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True)
class EvalPlan:
    """What an evaluation run evaluates its skill on.

    Attributes:
        split: Which tasks.
        trials: Attempts per task, at least 1.
        min_pass: The success rate below which the answer is no, in [0, 1].
    """

    split: EvalSplit
    trials: int
    min_pass: float = 0.0


@dataclass(frozen=True, slots=True)
class EvalReport:
    """What an evaluation found.

    Attributes:
        split: Which tasks.
        trials: Attempts per task that were asked for.
        skill_version: The skill's hash.
        table: Success by family, with intervals; failures counted apart.
        pass_k: pass^1 ... pass^trials over the tasks of which no attempt failed for a fault of
            the infrastructure; empty where there is none.
        complete_tasks: How many tasks those are.
    """

    split: str
    trials: int
    skill_version: str
    table: ScoreTable
    pass_k: tuple[float, ...]
    complete_tasks: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "split": self.split,
            "trials": self.trials,
            "skill_version": self.skill_version,
            "table": self.table.to_dict(),
            "pass_k": list(self.pass_k),
            "complete_tasks": self.complete_tasks,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            **{
                **data,
                "table": ScoreTable.from_dict(data["table"]),
                "pass_k": tuple(data["pass_k"]),
            }
        )


async def evaluate(run: Arena, folder: RunFolder, plan: EvalPlan) -> EvalReport:
    """Play every task of a split as often as planned, with the run's skill, and score it.

    Episodes that the store holds with a reward are used again; those that failed are played again.
    An evaluation that is finished, without a failure, returns at once.

    Args:
        run: The parts.
        folder: Where the episodes are stored.
        plan: Which tasks, and how often.

    Raises:
        DataError: The tasks are not those that the run began with.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Nothing but failures came back.
    """
    known = run.store.events(EVALUATED)
    if known and not (finished := EvalReport.from_dict(known[-1].payload)).table.overall.failures:
        return finished
    refuse_other_tasks(run)
    skill = run.store.skill(0)
    tasks = _tasks(run, plan.split)
    specs = [
        EpisodeSpec(task, evaluation_seed(run.config.run.seed, task.id, draw), draw, plan.split)
        for task in tasks
        for draw in range(plan.trials)
    ]
    run.watcher.see(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            minds={"target": run.target_identity},
            facts=(f"{len(tasks)} {plan.split} tasks x {plan.trials}, skill {skill_hash(skill)}",),
            episodes=len(specs),
        )
    )
    run.watcher.see(StageStarted("evaluate", episodes=len(specs)))
    results = await run.engine.run(specs, PlainSkill(skill))
    refuse_no_score(results)
    threshold = run.config.env.success_threshold
    wins = _wins_of_complete_tasks(results, plan.trials, threshold)
    ks = range(1, plan.trials + 1) if wins else ()
    report = EvalReport(
        split=plan.split,
        trials=plan.trials,
        skill_version=skill_hash(skill),
        table=ScoreTable.of(results, threshold),
        pass_k=tuple(pass_hat_k(wins, plan.trials, k) for k in ks),
        complete_tasks=len(wins),
    )
    run.watcher.see(Scored("skill", plan.split, report.table.overall))
    with run.store.transaction(durable=True):
        run.store.append_event(EVALUATED, report.to_dict())
    return report


def _tasks(run: Arena, split: EvalSplit) -> tuple[Task, ...]:
    if split == "test":
        return run.splits.test.open()
    return run.splits.train.tasks if split == "train" else run.splits.val.tasks


def _wins_of_complete_tasks(
    results: Sequence[EpisodeResult], trials: int, threshold: float
) -> list[int]:
    """Count successes per task; a task that lost an attempt to a fault is left out."""
    outcomes: dict[str, list[bool]] = {}
    for result in results:
        if result.reward is not None:
            outcomes.setdefault(result.task_id, []).append(result.is_success(threshold))
    return [sum(attempts) for attempts in outcomes.values() if len(attempts) == trials]
