"""When a run with a budget tests its release, and the belief that it plans with."""

from dataclasses import replace

import numpy as np
import pytest

from skillwright.evaluation import Seen
from skillwright.evaluation.gates.belief import Belief, Drawn
from skillwright.evaluation.gates.current import CurrentSkill
from skillwright.evaluation.gates.plan import Spending, held_back, is_time_to_test, proven_gain

TASKS = [f"t{number}" for number in range(40)]


def current(*accepted_rates, base=0.3):
    """Return a current skill whose accepted candidates solved these shares of 20 drawn tasks."""
    rng = np.random.default_rng(0)
    first = Seen({one: (float(rng.random() < base), 1) for one in TASKS})
    later = [
        Seen(
            {one: (float(n < 20 * rate), 1) for n, one in enumerate(TASKS[:20])}, {}, accepted=True
        )
        for rate in accepted_rates
    ]
    return CurrentSkill.of(TASKS, [first, *later])


def test_a_gain_of_many_steps_is_tested_when_little_is_left_to_gain():
    rich, poor = current(0.6, 0.8, 1.0, 1.0), current()
    assert rich.gain.mean > 0.3
    assert poor.gain.mean == 0
    last = Spending(left=100, step=60, step_cost=40)
    assert is_time_to_test(rich, last, is_last=True)
    assert not is_time_to_test(rich, Spending(left=79, step=60, step_cost=40), is_last=True)
    assert not is_time_to_test(poor, Spending(left=900, step=60, step_cost=40), is_last=False)


def test_more_pairs_prove_more_and_few_prove_nothing():
    known = current(0.6, 0.8)
    values = [proven_gain(known, 0.15, pairs) for pairs in (39, 40, 80, 160, 1000)]
    assert values == sorted(values)
    assert values[0] == 0 < values[1]
    assert values[-1] <= 0.15
    assert proven_gain(known, -0.1, 500) == 0
    assert (held_back(20), held_back(40), held_back(5000)) == (40, 80, 100)
    assert [held_back(40, budget) for budget in (200, 400, 800)] == [80, 100, 160]


def test_all_or_no_successes_leave_a_belief_between_0_and_1():
    for reward in (0.0, 1.0):
        belief = Belief.of_draws(Drawn(np.full(40, reward), np.ones(40)))
        assert 0 < belief.mean < 1
        assert abs(belief.mean - reward) < 0.1
        assert np.isfinite(belief.price(40.0))
        weighed = belief.weigh(Drawn(np.full(40, reward), np.ones(40)))
        assert weighed.weights.sum() == pytest.approx(1)


def test_the_more_draws_the_surer_the_belief():
    errors = [
        Belief.of_draws(Drawn(np.full(40, 0.5 * n), np.full(40, float(n)))).error for n in (2, 4, 8)
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("tasks", [1, 5000])
def test_one_task_and_thousands_have_a_belief(tasks):
    belief = Belief.of_draws(Drawn(np.zeros(tasks), np.ones(tasks)))
    worth, more = belief.weigh(Drawn.none(tasks)).worth(belief.price(40.0))
    assert np.isfinite(worth)
    assert more > 0
    after = belief.after(Drawn(np.ones(tasks), np.ones(tasks)), accepted=True)
    assert after.mean > belief.mean
    assert after.gained > 0


def test_a_first_edit_that_mends_everything_is_believed():
    belief = Belief.of_draws(Drawn(np.zeros(40), np.ones(40)))
    drawn = Drawn(np.r_[np.ones(20), np.zeros(20)], np.r_[np.ones(20), np.zeros(20)])
    assert belief.weigh(drawn).gain > 0.5
    assert belief.after(drawn, accepted=True).mean > 0.5


def test_repeated_draws_tell_whether_answers_vary():
    rewards = {one: (float(n % 2), 1) for n, one in enumerate(TASKS)}
    fresh = CurrentSkill.of(TASKS, [Seen(rewards)])
    assert fresh.repeats is None
    same = CurrentSkill.of(
        TASKS, [Seen(rewards), Seen({}, {one: rewards[one] for one in TASKS[:12]})]
    )
    assert same.repeats is True
    other = {**{one: rewards[one] for one in TASKS[:12]}, "t0": (1.0, 1)}
    assert CurrentSkill.of(TASKS, [Seen(rewards), Seen({}, other)]).repeats is False


def test_a_current_skill_that_is_continued_equals_one_that_is_rebuilt():
    rng = np.random.default_rng(1)
    seen = [
        Seen({one: (float(rng.integers(2)), 1) for one in TASKS}, {}, bool(number % 2), (7.0, 20))
        for number in range(6)
    ]
    for number in (2, 4, 6, 3):
        rebuilt = CurrentSkill.of(TASKS, [replace(one) for one in seen[:number]])
        CurrentSkill.of(TASKS, seen[:2])
        continued = CurrentSkill.of(TASKS, seen[:number])
        assert np.array_equal(continued.belief.rates, rebuilt.belief.rates)
        assert (continued.gain, continued.own.total) == (rebuilt.gain, rebuilt.own.total)
    assert CurrentSkill.of(TASKS[:5], seen[:1]).task_ids == tuple(TASKS[:5])
