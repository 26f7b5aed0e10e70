"""The published vectors of SkillOpt's planning: budgets, splits, seeds, batches, minibatches.

They were observed by running the original (microsoft/SkillOpt, after v0.2.0); ours match exactly.
"""

import pytest

from fakes import make_episode
from skillwright.datasets import (
    BaseDataLoader,
    SplitDataLoader,
    parse_ratio,
    split_counts,
    split_items,
)
from skillwright.textopt import StepSettings, build_scheduler, plan_minibatches, read_episodes

SEVEN = (7, 3, 2, 8, 5, 6, 9)


def rows(*ids):
    return [{"id": str(item_id)} for item_id in ids]


def ids(items):
    return [int(item["id"]) for item in items]


def loader(*train):
    made = SplitDataLoader()
    made.train_items = rows(*train)
    return made


@pytest.mark.parametrize(
    ("mode", "most", "least", "steps", "budgets"),
    [
        ("cosine", 4, 2, 4, [4, 3, 2, 2]),
        ("cosine", 8, 2, 8, [8, 7, 6, 5, 4, 3, 2, 2]),
        ("cosine", 4, 2, 1, [4]),
        ("cosine", 4, 2, 40, [4] * 13 + [3] * 13 + [2] * 14),
        ("linear", 4, 2, 4, [4, 3, 2, 2]),
        ("linear", 8, 2, 8, [7, 6, 6, 5, 4, 4, 3, 2]),
    ],
)
def test_schedule(mode, most, least, steps, budgets):
    scheduler = build_scheduler(mode, most, least, steps)
    assert [scheduler.step() for _ in range(steps)] == budgets


@pytest.mark.parametrize(
    ("n_items", "counts"),
    [
        (1, (0, 0, 1)),
        (3, (1, 0, 2)),
        (7, (1, 1, 5)),
        (10, (2, 1, 7)),
        (11, (2, 1, 8)),
        (13, (3, 1, 9)),
        (177, (35, 18, 124)),
        (400, (80, 40, 280)),
    ],
)
def test_counts_of_2_1_7(n_items, counts):
    assert split_counts(n_items, parse_ratio("2:1:7")) == counts


@pytest.mark.parametrize(
    ("ratio", "train", "val", "test"),
    [
        ("2:1:7", [7, 3], [2], [8, 5, 6, 9, 4, 0, 1]),
        ("7:2:1", list(SEVEN), [4, 0], [1]),
    ],
)
def test_split_of_ids_0_to_9_at_seed_42(ratio, train, val, test):
    split = split_items(rows(*range(10)), parse_ratio(ratio), 42)
    assert (ids(split.train), ids(split.val), ids(split.test)) == (train, val, test)


def test_base_seeds_of_4_steps_at_seed_42():
    assert BaseDataLoader.make_base_seeds(4, 1, 42) == [43, 44, 45, 46]


@pytest.mark.parametrize(
    ("epoch", "order"), [(1, [45, 46, 43, 44]), (2, [44, 43, 46, 45]), (3, [45, 44, 43, 46])]
)
def test_base_seeds_by_epoch(epoch, order):
    assert BaseDataLoader.shuffle_epoch_seeds([43, 44, 45, 46], epoch, 42) == order


@pytest.mark.parametrize(
    ("train", "batch_size", "epoch", "plan"),
    [
        (SEVEN, 2, 1, {1043: [8, 5], 1044: [6, 7], 1045: [2, 9], 1046: [3]}),
        (SEVEN, 2, 2, {2043: [8, 7], 2044: [6, 3], 2045: [5, 2], 2046: [9]}),
        ((7, 3), 1, 1, {1043: [3], 1044: [7], 1045: [7], 1046: [3]}),
        ((7, 3), 1, 2, {2043: [7], 2044: [3], 2045: [3], 2046: [7]}),
    ],
    ids=["plan-1", "plan-2", "refill-1", "refill-2"],
)
def test_plan_of_an_epoch(train, batch_size, epoch, plan):
    batches = loader(*train).plan_train_epoch(
        epoch=epoch, steps_per_epoch=2, accumulation=2, batch_size=batch_size, seed=42
    )
    assert {batch.seed: ids(batch.payload) for batch in batches} == plan
    assert [batch.batch_size for batch in batches] == [len(items) for items in plan.values()]


def test_build_train_batch_of_3_at_seed_7():
    assert ids(loader(*SEVEN).build_train_batch(3, 7).payload) == [6, 9, 5]


@pytest.mark.parametrize(
    ("reward", "order"),
    [(0.0, [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]), (1.0, [8, 1, 5, 6, 9, 7, 3, 2, 4, 0])],
    ids=["failures", "successes"],
)
def test_reflect_order_of_10_rows_at_seed_42(reward, order):
    read = read_episodes([make_episode(str(number), reward) for number in range(10)])
    minibatches = plan_minibatches(read.rows, StepSettings(), 42)
    assert [int(row.id) for minibatch in minibatches for row in minibatch.rows] == order
