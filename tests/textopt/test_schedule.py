"""The edit budget follows its schedule; tests/spec has the published values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.textopt import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    build_scheduler,
)


def taken(mode, max_lr, min_lr, total_steps, steps=None):
    scheduler = build_scheduler(mode, max_lr, min_lr, total_steps)
    return [scheduler.step() for _ in range(steps or total_steps)]


@pytest.mark.parametrize(
    ("mode", "max_lr", "min_lr", "total_steps", "budgets"),
    [
        ("linear", 4, 2, 1, [4]),
        ("constant", 8, 2, 3, [8, 8, 8]),
        ("autonomous", 8, 2, 2, [999, 999]),
    ],
)
def test_a_schedule_without_room_to_decay_stays_where_it_is(
    mode, max_lr, min_lr, total_steps, budgets
):
    assert taken(mode, max_lr, min_lr, total_steps) == budgets


@pytest.mark.parametrize("mode", ["cosine", "linear"])
def test_a_decayed_budget_stays_at_its_floor(mode):
    assert taken(mode, 8, 2, 4, steps=7)[3:] == [2, 2, 2, 2]


def test_a_scheduler_of_no_steps_does_not_decay():
    assert build_scheduler("cosine", 8, 2, 0).get_lr(3) == 8


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("constant", ConstantScheduler),
        ("linear", LinearScheduler),
        ("cosine", CosineScheduler),
        ("autonomous", AutonomousScheduler),
    ],
)
def test_each_mode_builds_its_class_with_the_documented_attributes(mode, kind):
    scheduler = build_scheduler(mode, max_lr=5, min_lr=1, total_steps=9)
    assert type(scheduler) is kind
    assert (scheduler.max_lr, scheduler.min_lr, scheduler.total_steps) == (5, 1, 9)
    assert scheduler._current_step == 0


def test_the_default_is_a_constant_budget_of_eight():
    scheduler = build_scheduler()
    assert type(scheduler) is ConstantScheduler
    assert (scheduler.step(), scheduler.min_lr, scheduler.total_steps) == (8, 2, 8)


def test_the_abstract_scheduler_cannot_be_built():
    with pytest.raises(TypeError):
        LRScheduler()


def test_an_unknown_mode_is_refused_with_the_nearest_name():
    with pytest.raises(
        ValueError, match=r"^Unknown scheduler mode 'cosin'\. Did you mean 'cosine'"
    ):
        build_scheduler("cosin")


def test_state_travels_and_a_missing_count_is_the_start():
    first = build_scheduler("cosine", 8, 2, 8)
    before = [first.step() for _ in range(3)]
    second = build_scheduler("cosine", 8, 2, 8)
    second.load_state_dict(first.state_dict())
    assert first.state_dict() == {"current_step": 3}
    assert before + [second.step() for _ in range(5)] == [8, 7, 6, 5, 4, 3, 2, 2]
    second.load_state_dict({})
    assert second.step() == 8


@given(
    st.sampled_from(["constant", "linear", "cosine", "autonomous"]),
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(1, 50),
)
def test_asking_by_step_number_equals_stepping_and_never_rises(mode, max_lr, drop, total_steps):
    min_lr = max(1, max_lr - drop)
    budgets = taken(mode, max_lr, min_lr, total_steps)
    scheduler = build_scheduler(mode, max_lr, min_lr, total_steps)
    assert budgets == [scheduler.get_lr(step) for step in range(1, total_steps + 1)]
    assert budgets == sorted(budgets, reverse=True)
    assert mode == "autonomous" or all(min_lr <= budget <= max_lr for budget in budgets)
