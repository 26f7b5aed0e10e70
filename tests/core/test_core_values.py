"""Usage, seeds, tasks and trajectories."""

from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Act, Completion, EpisodeSpec, Task, Trajectory, Turn, Usage
from skillwright.core.seeds import SEED_BITS, derive_seed, evaluation_seed, training_seed

COUNTS = st.integers(0, 10**9)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | st.integers(0, 1000))


@given(USAGES, USAGES, USAGES)
def test_usage_adds_in_any_order_and_an_unknown_price_stays_unknown(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a
    assert ((a + b).cost_usd is None) == (a.cost_usd is None or b.cost_usd is None)


@given(USAGES)
def test_usage_reads_back_what_it_wrote(usage):
    assert Usage(**usage.to_dict()) == usage


def test_a_completion_counts_as_one_call_unless_it_says_otherwise():
    assert Completion("hi").usage == Usage(calls=1)


def test_a_trajectory_uses_what_its_turns_used():
    turns = tuple(
        Turn(i, (), Act("go", usage=Usage(1, 10, 2, cost_usd=cost)), "seen", 0.0)
        for i, cost in enumerate((0.25, 0.5))
    )
    assert Trajectory("start", turns).usage == Usage(2, 20, 4, cost_usd=0.75)
    assert Trajectory("start").usage == Usage()


def test_a_task_and_an_attempt_at_it_have_plain_defaults():
    task = Task("t", "guess")
    assert (dict(task.extras), task.task_type, task.description, task.split) == ({}, "", "", "")
    assert (EpisodeSpec(task, seed=1).draw, EpisodeSpec(task, seed=1).phase) == (0, "")


PARTS = st.lists(st.text() | st.integers(), min_size=1, max_size=4)


@given(PARTS)
def test_a_seed_is_a_function_of_its_parts_within_its_range(parts):
    assert 0 <= derive_seed(*parts) < 2**SEED_BITS
    assert derive_seed(*parts) == derive_seed(*parts)


def test_seeds_tell_numbers_from_texts_order_and_grouping():
    seeds = [
        derive_seed(1, 2),
        derive_seed("1", 2),
        derive_seed(2, 1),
        derive_seed(12),
        derive_seed("12"),
        derive_seed("1", "2"),
        derive_seed("a", ""),
        derive_seed("a"),
    ]
    assert len(set(seeds)) == len(seeds)


def test_seeds_are_equal_in_every_process_and_release():
    assert evaluation_seed(42, "t", 0) == 1043570897
    assert training_seed(42, 1, 0, "t") == 489710110


def test_every_visit_of_training_is_a_fresh_one_and_no_evaluation():
    seeds = {
        evaluation_seed(42, "t", 0),
        evaluation_seed(42, "t", 1),
        evaluation_seed(42, "u", 0),
        evaluation_seed(43, "t", 0),
        training_seed(42, 1, 0, "t"),
        training_seed(42, 1, 1, "t"),
        training_seed(42, 2, 0, "t"),
        training_seed(42, 1, 0, "t", draw=1),
    }
    assert len(seeds) == 8
