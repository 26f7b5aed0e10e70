"""Compare two runs on the tasks that both attempted: what differs, how surely, and which tasks.

    attempts of A and B -> mean score per task and side -> difference per task -> effect, interval

The tasks are the sample. Failures are no scores: they are left out and counted.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from statistics import fmean

from skillwright.core import DataError, RunError
from skillwright.evaluation import PairedDifference, paired_difference
from skillwright.jobs.inspect.compare_sides import (
    CompareMetric,
    Side,
    changed_tasks,
    env_differences,
    read_side,
)
from skillwright.jobs.inspect.comparison import ComparedSide, ComparedTask, RunComparison

_NAMED = 3  # task ids that an error names


def compare_runs(
    run_a: str | Path,
    run_b: str | Path,
    root: str | Path = "runs",
    *,
    skill_a: str | None = None,
    skill_b: str | None = None,
    metric: CompareMetric = "hard",
) -> RunComparison:
    """Compare what two runs scored on the tasks that both attempted.

    An evaluation brings all of its attempts; a training the test episodes of one tested skill.

    Args:
        run_a: The baseline: a run's folder, or its name below ``root``.
        run_b: The run that is compared with it.
        root: The folder that holds runs.
        skill_a: Which tested skill of a training (``initial``, ``best``, ...; of an RL training
            ``cold_start``, ``final``, ...); ``None`` is ``best``, or ``final``.
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


def _difference(tasks: Sequence[ComparedTask]) -> PairedDifference:
    return paired_difference([(task.a, task.b) for task in tasks])


def _compared(side: Side, common: Sequence[str], only_here: int) -> ComparedSide:
    scored = [len(side.scores(task_id, "soft")) for task_id in common]
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
    if a.job == "eval":
        raise RunError(f"A and B are the same evaluation, {a.name!r}; name another run as one side")
    raise RunError(
        f"A and B are the same: run {a.name!r}, skill {a.skill!r}. Name another run, or another "
        "skill that it tested with --skill-a or --skill-b"
    )


def _refuse_other_tasks(a: Side, b: Side) -> list[str]:
    """Refuse tasks that have only their ids in common; return a doubt where nobody can tell.

    An adapter's tasks say what they are in words only.
    """
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


def _some(ids: Sequence[str]) -> str:
    rest = ", ..." if len(ids) > _NAMED else ""
    return ", ".join(map(repr, ids[:_NAMED])) + rest


def _refuse_other_thresholds(a: Side, b: Side, metric: CompareMetric) -> None:
    one, other = a.env.success_threshold, b.env.success_threshold
    if metric == "hard" and not math.isclose(one, other):
        raise RunError(
            f"A counts a reward of {one:g} as a success and B one of {other:g} "
            "(env.success_threshold), so their success rates do not compare. Use --metric soft, "
            "which compares rewards"
        )
