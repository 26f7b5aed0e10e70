"""Status, progress, working time and remaining time of a run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from skillwright.config import RlConfig, RunConfig
from skillwright.config.load import look_at_config
from skillwright.dashboard.reading import RunReader
from skillwright.jobs.inspect import RunSummary
from skillwright.jobs.run import TASKS, seconds_worked, sessions_of
from skillwright.jobs.text import Kind, read_plan, skills_confirmed, skills_tested
from skillwright.jobs.weights import RlKind
from skillwright.runs import Event
from skillwright.runs.folder import is_at_work

_LATEST = 100
"""Number of latest episodes from which the rate is computed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Progress of a run.

    Attributes:
        unit: ``steps``, ``iterations`` or ``episodes``.
        expected: Total number, or ``None`` if unknown.
        worked_s: Seconds of work, without pauses between sessions.
        left_s: Estimated seconds left; ``None`` if no process works on it or the rate is unknown.
    """

    unit: str
    done: int
    expected: int | None
    worked_s: float
    left_s: float | None = None


def status_of(one: RunSummary) -> str:
    """Return running, stopped, finished, or unreadable."""
    if one.problem:
        return "unreadable"
    if one.is_finished:
        return "finished"
    at_work = is_at_work(one.path)
    return "not finished" if at_work is None else "running" if at_work else "stopped"


def pace_of(one: RunSummary, reader: RunReader) -> Pace:
    """Estimate a run's progress and remaining time."""
    events = reader.store.events()
    latest = reader.latest(_LATEST)
    began = sessions_of(events)
    worked_s = seconds_worked(reader.store)
    ended = [event.time for event in events if event.kind in (Kind.STEP, RlKind.ITERATION)]
    inside = [moment for moment in ended if moment >= began[-1]]
    each_s = (inside[-1] - began[-1]) / len(inside) if inside else None
    rate = _rate([moment for moment in latest if moment >= began[-1]])
    unit, expected, tail = _planned(one, reader, events)
    done = _attempted(one, reader) if unit == "episodes" else len(ended)
    left_s = None
    if status_of(one) == "running" and expected is not None:
        each_s = (1 / rate if rate else None) if unit == "episodes" else each_s
        if each_s is not None and (rate or not tail):
            left_s = max(expected - done, 0) * each_s + (tail / rate if rate else 0.0)
            left_s = max(left_s - (time.time() - (inside or began)[-1]), 0.0)
    return Pace(unit, done, expected, worked_s, left_s)


def _planned(
    one: RunSummary, reader: RunReader, events: Sequence[Event]
) -> tuple[str, int | None, float]:
    """Return the unit, its expected number, and the episodes after the last unit."""
    path = reader.folder / "config.yaml"
    if one.rl is not None:
        return "iterations", look_at_config(path, RlConfig).grpo.iterations, 0.0
    facts = next((event.payload for event in events if event.kind == TASKS), None)
    counts = {split: fact.get("tasks") for split, fact in facts.items()} if facts else {}
    if one.state is None:
        plan = read_plan(reader.store, reader.folder)
        tasks = counts.get(plan.split) if plan is not None else None
        return "episodes", tasks * plan.trials if plan and tasks else None, 0.0
    if not counts.get("train"):
        return "steps", None, 0.0
    config = look_at_config(path, RunConfig)
    expected = config.train.epochs * config.train.steps_per_epoch(counts["train"])
    test = config.evaluation.gate.release
    tail = test.expected_rollouts(counts.get("val") or 0) if test is not None else 0
    blank = not reader.store.skill(0).strip()
    if config.evaluation.test:
        tail += (counts.get("test") or 0) * skills_tested(config, starts_blank=blank)
    tail += config.evaluation.confirm_tasks * skills_confirmed(config, starts_blank=blank)
    return "steps", expected, float(tail)


def _attempted(one: RunSummary, reader: RunReader) -> int:
    """Count an evaluation's own attempts, without repetitions."""
    plan = read_plan(reader.store, reader.folder)
    return one.episodes if plan is None else reader.attempts(plan.phase)


def _rate(ended: Sequence[float]) -> float | None:
    """Return episodes per second."""
    took = max(ended) - min(ended) if len(ended) > 1 else 0.0
    return (len(ended) - 1) / took if took else None
