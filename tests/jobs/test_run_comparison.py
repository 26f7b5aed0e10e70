"""What a comparison says: which tasks flipped, what is shown, and which minimum is reached."""

from pathlib import Path

import pytest

from skillwright.evaluation import paired_difference
from skillwright.jobs.inspect import ComparedSide, ComparedTask, RunComparison


def side(attempts=10, failures=0):
    return ComparedSide("r", Path("r"), "eval", "", "", attempts, failures, 0, 0)


def comparison(*scores, metric="hard", failures=0):
    tasks = tuple(ComparedTask(f"t{n}", "", a, b, a, b, 4, 4) for n, (a, b) in enumerate(scores))
    return RunComparison(
        side(), side(failures=failures), metric, tasks, paired_difference(list(scores))
    )


def test_a_task_is_flipped_where_one_side_solved_it_in_at_least_half_of_its_attempts():
    found = comparison((0.0, 0.25), (0.25, 0.5), (0.75, 1.0), (0.0, 0.75), (0.5, 0.25))
    assert [task.id for task in found.now_solved] == ["t3", "t1"]  # the largest change first
    assert [task.id for task in found.no_longer_solved] == ["t4"]


def test_a_minimum_is_reached_by_the_lower_bound_and_not_by_the_estimate():
    found = comparison(*[(0.0, 0.25), (0.25, 0.5), (0.0, 0.0), (0.5, 0.75)] * 10)
    low = found.overall.interval.low
    assert found.overall.effect == pytest.approx(0.1875)
    assert found.shortfall(low) == ""
    assert found.shortfall(-0.05) == ""
    assert found.shortfall(0.18) == (
        f"the lower bound of the 95% interval is {100 * low:+.1f} points, below +18.0 points"
    )


def test_a_few_changed_tasks_among_many_are_no_difference():
    found = comparison(*[(0.0, 1.0)] * 5, *[(1.0, 1.0)] * 95)
    assert found.overall.interval.low > 0  # Student's t alone would say so
    assert found.result == "not shown"
    assert "only 5 of 100 tasks changed" in found.sentence
    assert "only 5 of 100 tasks changed" in found.shortfall(0.0)
    assert found.shortfall(-0.01) == ""  # that B loses less than a point holds all the same


def test_no_loss_beyond_a_margin_can_be_shown():
    found = comparison(*[(0.0, 1.0), (1.0, 0.0)] * 20, *[(1.0, 1.0)] * 160)
    assert found.sentence.startswith("No difference is shown: B - A is +0.0 points (95%: ")
    assert found.shortfall(-0.1) == ""
    assert "lower bound" in found.shortfall(-0.05)


def test_where_a_tenth_of_the_attempts_is_lost_nothing_is_shown():
    scores = [(0.0, 1.0), (0.25, 1.0)] * 10
    assert comparison(*scores, failures=1).result == "better"
    found = comparison(*scores, failures=2)
    assert found.result == "not shown"
    assert "2 of 12 attempts of B ended by a fault, more than 10%" in found.sentence
    assert "2 of 12 attempts" in found.shortfall(-0.9)


def test_where_every_task_changes_by_the_same_amount_that_is_a_difference():
    found = comparison(*[(0.25, 0.5)] * 32)
    assert found.sentence.startswith("B is better than A: B - A is +25.0 points (95%: +11")
    assert found.shortfall(0.1) == ""
    assert "lower bound" in found.shortfall(0.2)


def test_no_change_at_all_rules_out_a_large_loss_only():
    found = comparison(*[(0.25, 0.25)] * 40)
    assert found.sentence.endswith("the interval includes 0.")
    assert found.shortfall(-0.1) == ""
    assert "lower bound" in found.shortfall(-0.05)


def test_rewards_are_told_in_their_own_unit():
    found = comparison((0.0, 0.25), (0.25, 0.5), (0.0, 0.0), (0.5, 0.75), metric="soft")
    assert "+18.8 points" in found.sentence
