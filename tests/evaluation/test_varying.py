"""Which tasks are drawn again, and how far a mean gain is from nothing."""

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Pair
from skillwright.evaluation.gates.judging import doubling, varying_tasks, z_score

WIN, LOSS, TIE, MISS, LOST = (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (None, 1.0)


@pytest.mark.parametrize(
    ("first", "most", "sizes"),
    [
        (1, 6, [1, 1, 2, 2]),
        (1, 1, [1]),
        (1, 8, [1, 1, 2, 4]),
        (2, 16, [2, 2, 4, 8]),
        (2, 1, [1]),
        (2, 3, [2, 1]),
    ],
)
def test_each_look_doubles_the_draws_up_to_the_most(first, most, sizes):
    assert list(doubling(first, most)) == sizes


@given(st.integers(1, 5), st.integers(1, 100))
def test_all_looks_together_take_what_was_allowed_and_each_at_most_what_was_there(first, most):
    sizes = list(doubling(first, most))
    assert sum(sizes) == most
    for look in range(1, len(sizes)):
        assert 1 <= sizes[look] <= sum(sizes[:look])


def test_a_task_is_drawn_again_while_its_results_differ_on_either_side(make_pairs):
    drawn = make_pairs([WIN, LOSS, TIE, MISS, (0.5, 0.5), (0.5, 0.25)])
    names = [f"t{number}" for number in range(6)]
    assert varying_tasks(names, drawn) == ["t0", "t1", "t5"]
    # Ties of which some are solved and some are not vary too, though no gain was seen.
    again = [Pair(make_pairs([TIE], first=3)[0].incumbent, make_pairs([TIE], first=3)[0].candidate)]
    assert varying_tasks(names, [*drawn, *again]) == ["t0", "t1", "t3", "t5"]


def test_a_task_without_a_scored_pair_is_not_drawn_again_and_a_lost_pair_says_nothing(make_pairs):
    names = ["t0", "t1", "t2"]
    drawn = [*make_pairs([LOST, TIE, WIN]), *make_pairs([(0.0, None)], first=1)]
    assert varying_tasks(names, drawn) == ["t2"]


REWARDS = st.none() | st.sampled_from([0.0, 0.5, 1.0])
DRAWN = st.lists(st.tuples(st.integers(0, 5), REWARDS, REWARDS), max_size=30)


@given(DRAWN, st.sets(st.integers(0, 5)))
def test_swapping_the_sides_of_any_task_leaves_what_is_drawn_again_as_it_is(
    make_pairs, drawn, swapped
):
    def pairs(flipped):
        return [
            make_pairs([(new, old) if task in flipped else (old, new)], first=task)[0]
            for task, old, new in drawn
        ]

    names = [f"t{number}" for number in range(6)]
    assert varying_tasks(names, pairs(swapped)) == varying_tasks(names, pairs(set()))


@given(st.lists(st.integers(-4, 4).map(lambda quarters: quarters / 4), min_size=2, max_size=40))
def test_z_is_the_mean_in_units_of_its_standard_error(gains):
    z = z_score({f"t{number}": gain for number, gain in enumerate(gains)})
    if len(set(gains)) == 1:
        assert z == math.copysign(math.inf, gains[0]) if gains[0] else z == 0.0
    else:
        expected = fmean(gains) / (stdev(gains) / math.sqrt(len(gains)))
        assert z == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("gains", "z"), [([], 0.0), ([0.0], 0.0), ([0.25], math.inf), ([-0.25], -math.inf)]
)
def test_without_a_spread_z_is_the_sign_of_the_gain_and_without_bounds(gains, z):
    assert z_score({f"t{number}": gain for number, gain in enumerate(gains)}) == z
