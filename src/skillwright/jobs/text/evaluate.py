"""Evaluate one skill on one split, with confidence intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Self

from skillwright.config.run import RunConfig
from skillwright.core import EpisodeResult, Usage, skill_hash
from skillwright.core.concurrency import together
from skillwright.core.jsonio import decode, encode_fields
from skillwright.envs.table.scorers import Assertions
from skillwright.envs.table.settings import read_settings
from skillwright.evaluation import Interval, Score, ScoreTable, pass_hat_k, pass_hat_k_interval
from skillwright.jobs.kinds import EVALUATED
from skillwright.jobs.run.bank_source import injected_lines
from skillwright.jobs.run.bench import SplitName
from skillwright.jobs.run.progress import RunStarted, Scored, StageStarted
from skillwright.jobs.run.resume import refuse_other_tasks
from skillwright.jobs.run.tasks import EnvFindings, env_findings, find_tasks
from skillwright.jobs.run.turn_ends import TurnEnds
from skillwright.jobs.text.fork import FORKED, Fork
from skillwright.jobs.text.wiring import RunParts
from skillwright.rollout import refuse_no_score
from skillwright.runs import RunFolder

MOST_FAILURES = 0.1
"""Default share of failed episodes above which an evaluation fails."""


_ENOUGH_ATTEMPTS = 20
_MOST_TRIALS = 5


def usual_trials(config: RunConfig, split: SplitName) -> int:
    """Return the attempts per task of an evaluation: 1, or up to 5 for few evals of a skill.

    Raises:
        UsageError: The tasks are missing or damaged.
    """
    table = config.env.name == "table"
    if not (table and isinstance(read_settings(config.env.config).scorer, Assertions)):
        return 1
    tasks = dict(zip(("train", "val", "test"), find_tasks(config.env), strict=True))[split]
    return max(1, min(_MOST_TRIALS, ceil(_ENOUGH_ATTEMPTS / max(len(tasks), 1))))


@dataclass(frozen=True, slots=True)
class EvalPlan:
    """The settings of an evaluation.

    Attributes:
        trials: Attempts per task, at least 1.
        min_pass: The success rate below which the evaluation fails, in [0, 1].
        max_failures: The share of failed episodes above which it fails, in [0, 1].
        fork: A recorded episode; only its task is played, from one of its turns on.
    """

    split: SplitName
    trials: int
    min_pass: float = 0.0
    max_failures: float = MOST_FAILURES
    fork: Fork | None = None

    @property
    def phase(self) -> str:
        """The phase of its episodes."""
        return self.split if self.fork is None else FORKED

    def why_not(self, score: Score) -> list[str]:
        """Return the reasons why an evaluation fails, if it does."""
        played = score.episodes + score.failures
        reasons = []
        if played and score.failures > self.max_failures * played:
            reasons.append(
                f"{score.failures} of {played} episodes ended by a fault "
                f"({score.failures / played:.0%}), and at most {self.max_failures:.0%} may "
                "(--max-faults): the scores are those of the rest"
            )
        if score.success_rate is None:
            reasons.append("no episode has a score")
        elif score.success_rate < self.min_pass:
            # As many digits as it takes: 0.9999 is not 100%, and a rate just below is not above.
            rate, least = (f"{100 * share:.6g}%" for share in (score.success_rate, self.min_pass))
            reasons.append(f"{rate} solved, and --min-pass is {least}")
        return reasons


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The result of an evaluation.

    Attributes:
        trials: Planned attempts per task.
        skill_version: The skill's hash.
        table: Success by task type, with intervals; failures counted apart.
        pass_k: pass^1 ... pass^trials over the complete tasks; empty if there are none.
        complete_tasks: Number of tasks without an attempt that failed.
        pass_k_intervals: 95% confidence intervals of ``pass_k``, with tasks as the sample.
        usage: Usage by purpose: the agent's, and a simulated user's.
        environment: The environment's own results.
        turns: How the agent's answers ended.
    """

    split: str
    trials: int
    skill_version: str
    table: ScoreTable
    pass_k: tuple[float, ...]
    complete_tasks: int
    pass_k_intervals: tuple[Interval, ...] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    environment: EnvFindings | None = None
    turns: TurnEnds = field(default_factory=lambda: TurnEnds(0))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return encode_fields(self) | {"turns": self.turns.to_dict() if self.turns.turns else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        known = {
            "environment": EnvFindings.read(data),
            "turns": TurnEnds.from_dict(turns) if (turns := data.get("turns")) else TurnEnds(0),
        }
        return decode(cls, {**data, **known})


async def evaluate(run: RunParts, folder: RunFolder, plan: EvalPlan) -> EvalReport:
    """Play every task of a split a number of times with the run's skill, and score it.

    Stored episodes with a reward are reused; failed ones are played again. A finished evaluation
    without failures returns at once.

    Args:
        run: The parts of the run.
        folder: The run's folder.
        plan: What to play.

    Raises:
        DataError: The tasks are not those that the run began with.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Every episode failed.
        NotMeasured: Most answers were cut, empty, or called tools natively; or a first prompt did
            not fit the model's window.
    """
    known = run.store.events(EVALUATED)
    if known and not (finished := EvalReport.from_dict(known[-1].payload)).table.overall.failures:
        return finished
    refuse_other_tasks(run.store, run.bench.facts)
    skill = run.store.skill(0)
    tasks: int | None = getattr(run.bench.sizes, plan.split)
    episodes = (tasks or 0) * plan.trials
    run.callback.on_event(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            llms={"target": run.bench.target_identity},
            facts=(_plays(plan, tasks, skill), *injected_lines(run.store)),
            episodes=episodes,
        )
    )
    run.callback.on_event(StageStarted("evaluate", episodes=episodes))
    trials = await together(
        run.bench.measure(skill, plan.split, draw, phase=plan.phase) for draw in range(plan.trials)
    )
    results = [result for trial in trials for result in trial]
    refuse_no_score(results)
    report = _report(run, plan, skill, results)
    if plan.fork is None:
        report.turns.refuse_mostly_lapsed()
        run.callback.on_event(Scored("skill", plan.split, report.table.overall))
    with run.store.transaction(durable=True):
        run.store.append_event(EVALUATED, report.to_dict())
    return report


def _plays(plan: EvalPlan, tasks: int | None, skill: str) -> str:
    if plan.fork is not None:
        return f"{plan.fork.line}, {plan.trials} times, skill {skill_hash(skill)}"
    return f"{tasks or 'all'} {plan.split} tasks x {plan.trials}, skill {skill_hash(skill)}"


def _report(
    run: RunParts, plan: EvalPlan, skill: str, results: Sequence[EpisodeResult]
) -> EvalReport:
    threshold = run.config.env.success_threshold
    wins = _wins_of_complete_tasks(results, plan.trials, threshold)
    ks = range(1, plan.trials + 1) if wins else ()
    return EvalReport(
        split=plan.split,
        trials=plan.trials,
        skill_version=skill_hash(skill),
        table=ScoreTable.of(results, threshold),
        pass_k=tuple(pass_hat_k(wins, plan.trials, k) for k in ks),
        complete_tasks=len(wins),
        pass_k_intervals=tuple(pass_hat_k_interval(wins, plan.trials, k) for k in ks),
        usage=run.store.usage_by_purpose(),
        environment=env_findings(run.config, plan.split, plan.trials, results),
        turns=TurnEnds.of(results),
    )


def _wins_of_complete_tasks(
    results: Sequence[EpisodeResult], trials: int, threshold: float
) -> list[int]:
    """Count successes per task; a task that lost an attempt to a fault is left out."""
    outcomes: dict[str, list[bool]] = {}
    for result in results:
        if result.reward is not None:
            outcomes.setdefault(result.task_id, []).append(result.is_success(threshold))
    return [sum(attempts) for attempts in outcomes.values() if len(attempts) == trials]
