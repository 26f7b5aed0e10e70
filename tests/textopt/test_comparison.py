"""Two skills are compared on the same tasks, in an order that no speed can change."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import make_episode
from skillwright.core import ConfigError, ContractError, Task
from skillwright.textopt import (
    Category,
    Comparison,
    PairPolicy,
    comparison_specs,
    estimate_tokens,
    parse_pair_policy,
    render_comparison,
)

TASKS = [Task(f"T{number}", "fake") for number in range(12)]


def plan(wanted=4, policy=PairPolicy.MIXED, tasks=TASKS, **more):
    return Comparison.plan(tasks, wanted=wanted, seed=42, epoch=2, policy=policy, **more)


def played(comparison, rewards):
    """Play all that is to do; ``rewards`` gives (previous, current) by task id."""
    rounds = 0
    while todo := comparison.todo:
        sides = [[make_episode(t.id, rewards[t.id][side]) for t in todo] for side in (0, 1)]
        comparison = comparison.add(*sides)
        rounds += 1
    return comparison, rounds


def names(pairs):
    return [pair.task_id for pair in pairs]


def test_a_sample_is_the_head_of_the_epochs_shuffle():
    pool = list(TASKS)
    random.Random(42 + 2 * 2000).shuffle(pool)
    assert plan().todo == tuple(pool[:4])


def test_pairs_fall_into_four_categories_by_a_threshold():
    rewards = {"T0": (0.2, 0.9), "T1": (0.9, 0.2), "T2": (0.4, 0.4), "T3": (0.9, 0.9)}
    compared, rounds = played(plan(tasks=TASKS[:4], success_threshold=0.5), rewards)
    assert {p.task_id: p.category for p in compared.pairs} == {
        "T0": Category.IMPROVED,
        "T1": Category.REGRESSED,
        "T2": Category.PERSISTENT_FAIL,
        "T3": Category.STABLE_SUCCESS,
    }
    assert rounds == 1
    assert compared.means == pytest.approx((0.6, 0.6))
    assert compared.counts["improved"] == 1


def test_a_fault_on_either_side_loses_the_pair_and_is_no_zero():
    rewards = {"T0": (None, 1.0), "T1": (1.0, None), "T2": (None, None), "T3": (0.0, 1.0)}
    compared, _ = played(plan(tasks=TASKS[:4]), rewards)
    assert names(compared.pairs) == ["T3"]
    assert compared.means == (0.0, 1.0)
    reasons = {lost.id: lost.reason for lost in compared.lost}
    assert reasons["T0"].endswith("the previous skill")
    assert reasons["T2"].endswith("the previous and the current skill")
    assert plan().means is None


rewards_of_all = st.fixed_dictionaries(
    {
        task.id: st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from([0.0, 1.0]))
        for task in TASKS
    }
)


@given(
    rewards_of_all, st.integers(1, 14), st.sampled_from([PairPolicy.CHANGED, PairPolicy.UNCHANGED])
)
def test_topping_up_in_batches_gives_the_pairs_of_topping_up_one_by_one(rewards, wanted, policy):
    start = plan(wanted, policy)
    sample = list(start.todo)
    taken = {task.id for task in sample}
    others = list(TASKS)
    random.Random(42).shuffle(others)
    expected = []
    for place, task in enumerate([*sample, *(t for t in others if t.id not in taken)]):
        if place >= len(sample) and len(expected) >= wanted:
            break
        before, after = rewards[task.id]
        if before is not None and (before != after) == (policy is PairPolicy.CHANGED):
            expected.append(task.id)
    compared, _ = played(start, rewards)
    assert names(compared.pairs) == expected[:wanted]


def test_a_mixed_sample_is_not_topped_up():
    compared, rounds = played(plan(4), dict.fromkeys((t.id for t in TASKS), (None, 1.0)))
    assert (rounds, compared.pairs, len(compared.lost)) == (1, (), 4)


def test_a_pool_smaller_than_the_sample_is_played_once():
    compared, rounds = played(plan(40, PairPolicy.CHANGED), {t.id: (1.0, 1.0) for t in TASKS})
    assert (rounds, compared.pairs) == (1, ())


def test_both_skills_meet_the_same_luck_and_epochs_another():
    one, other = comparison_specs(TASKS, seed=1, epoch=2), comparison_specs(TASKS, seed=1, epoch=3)
    assert one == comparison_specs(TASKS, seed=1, epoch=2)
    assert {s.seed for s in one}.isdisjoint(s.seed for s in other)
    assert {s.phase for s in one} == {"slow_update"}


@pytest.mark.parametrize("ids", [[], ["T1"], ["T9", "T8"]])
def test_results_of_other_tasks_are_refused(ids):
    wrong = [make_episode(name) for name in ids]
    with pytest.raises(ContractError, match="not theirs"):
        plan(2).add(wrong, wrong)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("mixed", PairPolicy.MIXED),
        (" Delta", PairPolicy.CHANGED),
        ("10_01", PairPolicy.CHANGED),
        ("01_10", PairPolicy.CHANGED),
        ("change", PairPolicy.CHANGED),
        ("stable", PairPolicy.UNCHANGED),
        ("same", PairPolicy.UNCHANGED),
        ("00_11", PairPolicy.UNCHANGED),
    ],
)
def test_a_pair_policy_has_aliases(name, policy):
    assert parse_pair_policy(name) is policy


def test_an_unknown_policy_and_an_empty_sample_are_refused():
    with pytest.raises(ConfigError, match="Did you mean 'changed'"):
        parse_pair_policy("chnged")
    with pytest.raises(ConfigError, match="at least 1"):
        plan(0)


def long_games(prefix):
    return tuple((f"go to {prefix} {n}", "You see nothing. " * 20) for n in range(30))


def test_a_comparison_shows_both_sides_of_all_but_stable_successes_within_its_budget():
    todo = plan(4, tasks=TASKS[:4]).todo
    rewards = [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    sides = [
        [
            make_episode(task.id, pair[side], long_games("shelf"))
            for task, pair in zip(todo, rewards, strict=True)
        ]
        for side in (0, 1)
    ]
    compared = plan(4, tasks=TASKS[:4]).add(*sides)
    whole = render_comparison(compared, 100_000)
    assert whole.cuts == ()
    assert whole.text.count("<trajectory ") == 6
    assert whole.text.index("### regressed: 1") < whole.text.index("### persistent_fail: 1")
    assert whole.text.endswith(f"### stable_success: 1\n{todo[3].id}")
    assert f'id="{todo[0].id} (previous)"' in whole.text
    short = render_comparison(compared, 3_000)
    assert estimate_tokens(short.text) <= 3_000
    assert len(short.cuts) == 6
