"""Compare two runs on the tasks that both attempted, with intervals and the changed tasks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from statistics import fmean
from typing import Any, Literal

from skillwright.core import DataError, RunError, Usage
from skillwright.core.jsonio import JsonRecord, encode_fields
from skillwright.evaluation import PairedDifference, gain_text, paired_difference
from skillwright.evaluation.gates.judging import MAX_LOST_SHARE
from skillwright.jobs.inspect.compare_sides import (
    CompareMetric,
    Side,
    changed_tasks,
    env_differences,
    is_flipped,
    read_side,
)


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison; attempts count at the common tasks.

    Attributes:
        job: ``eval``, ``train`` or ``rl``.
        skill: The name of the tested skill; "" for an evaluation.
        what: What was measured, as displayed.
        attempts: Scored attempts.
        failures: Failed attempts, which are left out.
        only_here: Tasks that the other side did not attempt, which are left out.
        unscored: Common tasks without a score on this side, which are left out.
        tokens: Mean tokens of a scored attempt; ``None`` if unknown.
        cost_usd: Mean cost of a scored attempt; ``None`` if a price is unknown.
    """

    run: str
    path: Path
    job: str
    skill: str
    what: str
    attempts: int
    failures: int
    only_here: int
    unscored: int
    tokens: float | None = None
    cost_usd: float | None = None

    @property
    def lost_share(self) -> float:
        """Share of the attempts at the common tasks that failed, in [0, 1]."""
        drawn = self.attempts + self.failures
        return self.failures / drawn if drawn else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return encode_fields(self) | {"path": str(self.path)}


@dataclass(frozen=True, slots=True)
class ComparedTask(JsonRecord):
    """A task with scores on both sides: mean score, mean success, and scored attempts of each."""

    id: str
    task_type: str
    a: float
    b: float
    success_a: float
    success_b: float
    attempts_a: int
    attempts_b: int

    @property
    def is_flipped(self) -> bool:
        """Whether exactly one side solved it: at least half of its scored attempts succeeded."""
        return is_flipped(self.success_a, self.success_b)

    @property
    def change(self) -> float:
        """B's success minus A's, in [-1, 1]."""
        return self.success_b - self.success_a


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The difference between run B and run A on the tasks with scores on both sides.

    Attributes:
        a: The baseline.
        metric: ``hard`` compares success, ``soft`` the reward.
        tasks: The common tasks, sorted by id.
        overall: The difference B - A over all tasks.
        task_types: The same by task type; empty if tasks have no type.
        notes: Other differences between the runs, in words.
        is_scripted: Whether a scripted model took part, which every display must say.
    """

    a: ComparedSide
    b: ComparedSide
    metric: CompareMetric
    tasks: tuple[ComparedTask, ...]
    overall: PairedDifference
    task_types: Mapping[str, PairedDifference] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_scripted: bool = False

    @property
    def now_solved(self) -> list[ComparedTask]:
        """Tasks that B solved and A did not, the largest change first."""
        return self._flipped(1)

    @property
    def no_longer_solved(self) -> list[ComparedTask]:
        """Tasks that A solved and B did not, the largest change first."""
        return self._flipped(-1)

    @property
    def doubt(self) -> str:
        """Why no difference is proven, or "" if one is."""
        found = self.overall
        if self.lost:
            return self.lost
        if found.interval.low <= 0 <= found.interval.high:
            return "the interval includes 0"
        if found.exact_p_value is not None and found.exact_p_value > _ALPHA:
            return (
                f"only {found.better + found.worse} of {found.tasks} tasks changed, which may be "
                f"chance (exact test: p = {found.exact_p_value:.2g})"
            )
        return ""

    @property
    def lost(self) -> str:
        """A warning if more than a tenth of a side's attempts failed, or ""."""
        for label, side in (("A", self.a), ("B", self.b)):
            if side.lost_share > MAX_LOST_SHARE:
                return (
                    f"{side.failures} of {side.attempts + side.failures} attempts of {label} "
                    f"ended by a fault, more than {MAX_LOST_SHARE:.0%}, and what they would have "
                    "scored is not known"
                )
        return ""

    @property
    def result(self) -> Literal["better", "worse", "not shown"]:
        """The result for B; a difference is shown if the interval and the exact test exclude 0."""
        if self.doubt:
            return "not shown"
        return "better" if self.overall.effect > 0 else "worse"

    @property
    def sentence(self) -> str:
        """The result as a sentence, with the 95% interval of B - A."""
        change = f"B - A is {gain_text(self.overall.effect, self.overall.interval)}"
        change += " of reward" if self.metric == "soft" else ""
        if self.result != "not shown":
            return f"B is {self.result} than A: {change}."
        return f"No difference is shown: {change}; {self.doubt}."

    def shortfall(self, min_effect: float) -> str:
        """Say why B - A is not shown to be at least ``min_effect``, or return "".

        The lower bound of the 95% interval must reach it, so that noise does not pass. With a
        ``min_effect`` of 0 or more, B must also be shown to be better; see `result`.
        """
        low = self.overall.interval.low
        if self.lost:
            return self.lost
        if low < min_effect:
            return (
                f"the lower bound of the 95% interval is {gain_text(low)}, below "
                f"{gain_text(min_effect)}"
            )
        return self.doubt if min_effect >= 0 else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        record = encode_fields(self)
        return record | {
            "now_solved": [task.id for task in self.now_solved],
            "no_longer_solved": [task.id for task in self.no_longer_solved],
            "scripted": record.pop("is_scripted"),
            "result": self.result,
            "sentence": self.sentence,
        }

    def _flipped(self, sign: int) -> list[ComparedTask]:
        found = [task for task in self.tasks if task.is_flipped and sign * task.change > 0]
        return sorted(found, key=lambda task: (-abs(task.change), task.id))


def compare_runs(
    run_a: str | Path,
    run_b: str | Path,
    root: str | Path = "runs",
    *,
    skill_a: str | None = None,
    skill_b: str | None = None,
    metric: CompareMetric = "hard",
) -> RunComparison:
    """Compare the scores of two runs on the tasks that both attempted.

    An evaluation contributes all of its attempts; a training the test episodes of one skill.

    Args:
        run_a: The baseline: a run's folder, its name below ``root``, or a file of another program.
        run_b: The run that is compared with it.
        root: The folder that holds runs.
        skill_a: The tested skill of a training (``initial``, ``best``, ...; of an RL training
            ``cold_start``, ``final``, ...), by default ``best`` or ``final``; or the scorer,
            configuration or provider in a file.
        skill_b: The same for ``run_b``.
        metric: ``hard`` compares success, ``soft`` the reward.

    Raises:
        RunError: There is no such run or skill, a run has no scores, both sides are the same, or
            no task has a score on both sides.
        DataError: Tasks of equal ids are not the same tasks.
    """
    a = read_side("A", run_a, root, skill_a)
    b = read_side("B", run_b, root, skill_b)
    _refuse_same(a, b)
    notes = _refuse_other_tasks(a, b)
    _refuse_other_thresholds(a, b, metric)
    common = sorted(a.attempts.keys() & b.attempts.keys())
    tasks = _tasks(a, b, common, metric)
    types = defaultdict[str, list[ComparedTask]](list)
    for task in tasks:
        types[task.task_type].append(task)
    types.pop("", None)
    if a.env is not None and b.env is not None:
        settings = ", ".join(env_differences(a.env, b.env))
        notes += [f"settings of the environment differ: {settings}"] if settings else []
    return RunComparison(
        a=_compared(a, common, only_here=len(a.attempts) - len(common)),
        b=_compared(b, common, only_here=len(b.attempts) - len(common)),
        metric=metric,
        tasks=tasks,
        overall=_difference(tasks),
        task_types={name: _difference(found) for name, found in sorted(types.items())},
        notes=tuple(notes),
        is_scripted=a.is_scripted or b.is_scripted,
    )


_ALPHA = 0.05
_NAMED = 3  # task ids that an error names


def _difference(tasks: Sequence[ComparedTask]) -> PairedDifference:
    return paired_difference([(task.a, task.b) for task in tasks])


def _compared(side: Side, common: Sequence[str], only_here: int) -> ComparedSide:
    scored = [len(side.scores(task_id, "soft")) for task_id in common]
    usages = [one.usage for task in common for one in side.attempts[task] if one.reward is not None]
    total = sum(usages, start=Usage())
    tokens = total.input_tokens + total.output_tokens
    return ComparedSide(
        run=side.name,
        path=side.path,
        job=side.job,
        skill=side.skill,
        what=side.what,
        attempts=sum(scored),
        failures=side.failures(common),
        only_here=only_here,
        unscored=scored.count(0),
        tokens=tokens / len(usages) if tokens else None,
        cost_usd=total.cost_usd / len(usages) if total.cost_usd else None,
    )


def _tasks(
    a: Side, b: Side, common: Iterable[str], metric: CompareMetric
) -> tuple[ComparedTask, ...]:
    found = [
        ComparedTask(
            id=task_id,
            task_type=a.tasks[task_id].task_type,
            a=fmean(scores_a),
            b=fmean(scores_b),
            success_a=fmean(a.scores(task_id, "hard")),
            success_b=fmean(b.scores(task_id, "hard")),
            attempts_a=len(scores_a),
            attempts_b=len(scores_b),
        )
        for task_id in common
        if (scores_a := a.scores(task_id, metric)) and (scores_b := b.scores(task_id, metric))
    ]
    if not found:
        raise RunError(
            f"no task has a score in both runs: {_of(a)}; {_of(b)}. Compare runs on the same "
            "tasks, such as two evaluations of one split"
        )
    return tuple(found)


def _of(side: Side) -> str:
    ids = list(side.attempts)
    return f"{side.label} ({side.name}, {side.what}) attempted {len(ids)} ({_some(ids)})"


def _refuse_same(a: Side, b: Side) -> None:
    if (a.path.resolve(), a.skill) != (b.path.resolve(), b.skill):
        return
    if a.job in ("eval", "file"):
        what = "evaluation" if a.job == "eval" else "results"
        raise RunError(f"A and B are the same {what}, {a.name!r}; name another run as one side")
    raise RunError(
        f"A and B are the same: run {a.name!r}, skill {a.skill!r}. Name another run, or another "
        "skill that it tested with --skill-a or --skill-b"
    )


def _refuse_other_tasks(a: Side, b: Side) -> list[str]:
    """Refuse tasks that share only their ids; return a warning if that cannot be checked.

    Of an adapter's tasks, only the descriptions can be compared.
    """
    if a.env is None or b.env is None:
        return _doubts(a, b)
    one, other = PurePath(a.env.name).name, PurePath(b.env.name).name
    if one != other:
        raise DataError(
            f"A plays {a.env.name!r} and B {b.env.name!r}: equal task ids do not make these the "
            "same tasks. Compare runs on one environment"
        )
    changed = changed_tasks(a, b)
    known = [task for task in changed if a.tasks[task].extras and b.tasks[task].extras]
    if known:
        raise DataError(
            f"{len(known)} of {len(a.tasks.keys() & b.tasks.keys())} common task ids name "
            f"different tasks in A and B ({_some(known)}): the data changed between the runs "
            "(another file, version or seed), so their scores cannot be paired. Evaluate both on "
            "the same data"
        )
    if not changed:
        return []
    differ = f"{len(changed)} common tasks differ in type or description ({_some(changed)})"
    return [f"{differ}; check that both runs played the same data"]


def _doubts(a: Side, b: Side) -> list[str]:
    """Return what is known of whether tasks of equal ids are the same, where a side is a file."""
    common = sorted(a.tasks.keys() & b.tasks.keys())
    asked = [(one, a.tasks[one].description, b.tasks[one].description) for one in common]
    differ = [one for one, first, second in asked if first and second and first != second]
    if differ:
        return [
            f"the questions of {len(differ)} of {len(common)} common tasks differ "
            f"({_some(differ)}): check that both sides hold the same tasks"
        ]
    if a.env is None and b.env is None and all(first and second for _, first, second in asked):
        return []
    return ["tasks of equal ids are taken to be the same"]


def _some(ids: Sequence[str]) -> str:
    rest = ", ..." if len(ids) > _NAMED else ""
    return ", ".join(map(repr, ids[:_NAMED])) + rest


def _refuse_other_thresholds(a: Side, b: Side, metric: CompareMetric) -> None:
    one, other = a.threshold, b.threshold
    if metric == "hard" and not math.isclose(one, other):
        raise RunError(
            f"A counts a reward of {one:g} as a success and B one of {other:g} "
            "(env.success_threshold), so their success rates do not compare. Use --metric soft, "
            "which compares rewards"
        )
