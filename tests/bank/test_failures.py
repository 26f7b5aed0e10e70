"""Which failures a teacher is shown: weak categories first, wherever the failures stand."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import CategorySuccess, EvolutionResults, sample_failures, success_by_category
from skillwright.bank.teaching.evolve import budgets, by_severity, weakest_of
from skillwright.bank.teaching.teacher import read_evidence
from skillwright.core import (
    Act,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.datasets import EvolutionTasks, Splits, StudyTasks


def result(task_id, category, reward, *, draw=0, stop=StopReason.DONE, turns=2):
    told = tuple(Turn(n, (), Act("look"), "You see nothing.", 0.0) for n in range(turns))
    return EpisodeResult(
        EpisodeSpec(Task(task_id, "alfworld", task_type=category), seed=1, draw=draw),
        reward=reward,
        stop_reason=stop,
        trajectory=Trajectory("Your task is to: look.", told),
        key=f"key {task_id} {draw}",
    )


def read(results):
    return read_evidence(results, lambda task: task.task_type, lambda task: "", 1.0)[0]


def test_failures_are_found_behind_rows_of_successes():
    rows = [result(f"won{n}", "heat", 1.0) for n in range(40)]
    rows += [result(f"lost{n}", "heat", 0.0) for n in range(3)]
    evidence = read(rows)
    found = sample_failures(evidence, success_by_category(evidence), 10)
    assert [one.id for one in found] == ["lost0", "lost1", "lost2"]


def test_weak_categories_are_shown_more_and_first_and_by_turns():
    rows = [result(f"h{n}", "heat", float(n >= 9)) for n in range(10)]  # 10%
    rows += [result(f"c{n}", "cool", float(n >= 3)) for n in range(10)]  # 70%
    evidence = read(rows)
    success = success_by_category(evidence)
    assert weakest_of(success) == "heat"
    found = sample_failures(evidence, success, 8)
    # 0.9 and 0.3 of 8 seats.
    assert [one.category for one in found] == ["heat", "cool", "heat", "cool", *["heat"] * 4]


def test_the_severest_come_first_and_a_task_is_shown_again_only_after_all_others():
    rows = [
        result("partly", "", 0.5),
        result("cut off", "", 0.0, stop=StopReason.MAX_TURNS),
        result("lost", "", 0.0),
        result("lost", "", 0.0, draw=1),
        result("long", "", 0.0, turns=9),
    ]
    names = [one.id for one in by_severity(read(rows))]
    assert names == ["long", "lost", "cut off", "partly", "lost#1"]


def test_faults_are_neither_success_nor_failure():
    fault = EpisodeResult(
        EpisodeSpec(Task("sick", "alfworld", task_type="heat"), 1),
        failure=Failure(FailureCause.MODEL, "down"),
    )
    evidence = read([fault, result("won", "heat", 1.0)])
    assert success_by_category(evidence) == (CategorySuccess("heat", 1, 1),)
    assert weakest_of(()) is None


counts = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6)


@given(counts, st.integers(1, 30))
def test_budgets_spend_what_there_is_and_never_give_a_weaker_category_less(pairs, most):
    pairs = [(wins, lost) for wins, lost in pairs if wins + lost]
    success = [CategorySuccess(f"c{n}", wins, wins + lost) for n, (wins, lost) in enumerate(pairs)]
    failures = {one.category: one.episodes - one.wins for one in success}
    seats = budgets(success, failures, most)
    assert sum(seats.values()) == min(most, sum(failures.values()))
    assert all(seats[name] <= failures[name] for name in seats)
    for weak in success:
        for strong in success:
            if weak.accuracy < strong.accuracy and seats[weak.category] < failures[weak.category]:
                assert seats[weak.category] >= seats[strong.category]


@given(st.integers(0, 1_000))
def test_the_order_of_the_episodes_makes_no_difference(seed):
    rows = [result(f"{c}{n}", c, float(n % 3 == 0)) for c in ("heat", "cool") for n in range(9)]
    shuffled = rows.copy()
    random.Random(seed).shuffle(shuffled)
    chosen = [
        [one.id for one in sample_failures(read(r), success_by_category(read(r)), 7)]
        for r in (rows, shuffled)
    ]
    assert chosen[0] == chosen[1]


def tasks(*ids, task_type=""):
    return [Task(task_id, "alfworld", task_type=task_type) for task_id in ids]


def test_an_evolution_split_is_a_part_of_what_may_be_studied_and_of_nothing_else():
    splits = Splits.of(tasks("a", "b", "c"), val=tasks("v"), test=tasks("t"))
    split = EvolutionTasks(splits.train, ("b",))
    assert [task.id for task in split.tasks] == ["b"]
    assert [task.id for task in split.training.tasks] == ["a", "c"]
    for reported in ("v", "t"):
        with pytest.raises(DataError, match="no bank may evolve on it"):
            EvolutionTasks(splits.train, (reported,))
        with pytest.raises(DataError, match="outside of the evolution split"):
            EvolutionResults(split, (result(reported, "", 0.0),))
    assert EvolutionResults(split, (result("b", "", 0.0),)).results


@pytest.mark.parametrize("ids", [(), ("a", "a")])
def test_an_evolution_split_names_each_task_once_and_at_least_one(ids):
    with pytest.raises(DataError, match="at least one"):
        EvolutionTasks(StudyTasks(tuple(tasks("a"))), ids)


def test_every_family_has_its_share_of_the_evolution_split():
    study = StudyTasks(
        tuple(Task(f"t{n}", "alfworld", task_type=f"task type {n % 6}") for n in range(24))
    )
    split = EvolutionTasks.every(study, 4)
    assert {task.task_type for task in split.tasks} == {f"task type {n}" for n in range(6)}
    assert len(split.tasks) == 6
    with pytest.raises(DataError, match="give 1 or more"):
        EvolutionTasks.every(study, 0)
