"""An endpoint whose level moves is found by draws of equal tasks with equal skills."""

import random

import pytest

from skillwright.evaluation import Timed, drift_line


def draws(seed, level, *, tasks=40, rounds=(0, 400, 800, 1200)):
    """Draw each task in every round, in its order, with a rate of its own around a level."""
    rng = random.Random(seed)
    easier = [rng.uniform(-0.2, 0.2) for _ in range(tasks)]
    return [
        Timed(task, first + task, float(rng.random() < level(first + task) + easier[task]))
        for first in rounds
        for task in range(tasks)
    ]


LEVELS = {
    "rising": lambda at: 0.25 + 0.5 * at / 1240,
    "falling": lambda at: 0.75 - 0.5 * at / 1240,
    "switching": lambda at: 0.7 if (at // 150) % 2 else 0.3,
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_moves_is_said(level):
    said = [drift_line(draws(seed, LEVELS[level]), seed) for seed in range(6)]
    assert sum(map(bool, said)) >= 5
    assert next(filter(None, said)).startswith("The endpoint's level moved during the run: draws")


def test_a_level_that_stays_is_not():
    alarms = sum(bool(drift_line(draws(seed, lambda at: 0.5), seed)) for seed in range(60))
    assert alarms <= 1


def test_draws_without_repetition_or_variance_say_nothing():
    once = [Timed(task, task, 0.5) for task in range(40)]
    assert drift_line(once, 0) == drift_line([], 0) == ""
    alike = [Timed(task, first + task, task % 2) for first in (0, 400) for task in range(40)]
    assert drift_line(alike, 0) == ""
