"""Batches: which items, in what order, under which seed."""

import dataclasses

import pytest

from skillwright.core import DataError
from skillwright.datasets import BaseDataLoader, BatchSpec, SplitDataLoader


def rows(*ids):
    return [{"id": str(item_id)} for item_id in ids]


def loaded(*train, val=(), test=()):
    loader = SplitDataLoader()
    loader.train_items, loader.val_items, loader.test_items = rows(*train), rows(*val), rows(*test)
    return loader


def shown(batches):
    return [(batch.seed, [int(item["id"]) for item in batch.payload]) for batch in batches]


class SeedLoader(BaseDataLoader):
    def build_train_batch(self, batch_size, seed, **kwargs):
        return BatchSpec("train", "train", seed, batch_size, metadata=kwargs)

    def build_eval_batch(self, env_num, split, seed, **kwargs):
        return BatchSpec("eval", split, seed, env_num)


def test_a_batch_spec_has_exactly_the_documented_fields_and_defaults():
    fields = [field.name for field in dataclasses.fields(BatchSpec)]
    assert fields == ["phase", "split", "seed", "batch_size", "payload", "metadata"]
    batch = BatchSpec("train", "train", 7, 2)
    assert batch.payload is None
    assert batch.metadata == {}
    batch.batch_size = 3  # mutable, as documented
    with pytest.raises(AttributeError):
        batch.extra = 1  # slotted, as documented


def test_a_base_loader_needs_both_builders():
    with pytest.raises(TypeError, match="abstract"):
        BaseDataLoader()


def test_the_hooks_of_a_base_loader_do_nothing():
    loader = SeedLoader()
    loader.setup({"seed": 1})
    loader.set_out_root("somewhere")
    loader.load_state_dict({"anything": 1})
    assert loader.state_dict() == {}
    assert loader.get_train_size() is None


def test_base_seeds_are_shuffled_in_a_list_of_its_own():
    seeds = BaseDataLoader.make_base_seeds(4, 1, 42)
    assert sorted(BaseDataLoader.shuffle_epoch_seeds(seeds, 1, 42)) == seeds == [43, 44, 45, 46]


def test_a_seed_loader_plans_one_batch_per_shuffled_seed():
    batches = SeedLoader().plan_train_epoch(
        epoch=1, steps_per_epoch=2, accumulation=2, batch_size=8, seed=42, out_root="x"
    )
    assert [batch.seed for batch in batches] == [45, 46, 43, 44]
    assert {batch.batch_size for batch in batches} == {8}
    assert batches[0].metadata == {"out_root": "x"}


def test_train_batches_say_what_they_are():
    loader = loaded(7, 3, 2, 8, 5, 6, 9)
    planned = loader.plan_train_epoch(
        epoch=1, steps_per_epoch=2, accumulation=2, batch_size=2, seed=42
    )
    one = loader.build_train_batch(3, 7)
    assert {(batch.phase, batch.split) for batch in [*planned, one]} == {("train", "train")}
    assert (one.seed, one.batch_size) == (7, 3)


def test_planning_leaves_the_items_in_file_order():
    loader = loaded(7, 3, 2)
    loader.build_train_batch(2, 1)
    loader.plan_train_epoch(epoch=1, steps_per_epoch=3, accumulation=1, batch_size=1, seed=1)
    assert loader.train_items == rows(7, 3, 2)


def test_an_eval_batch_is_the_head_of_the_split_in_file_order_and_0_means_all():
    loader = loaded(1, val=[5, 4, 3], test=[9, 8])
    assert shown([loader.build_eval_batch(2, "valid_seen", 11)]) == [(11, [5, 4])]
    everything = loader.build_eval_batch(0, "valid_unseen", 11)
    assert shown([everything]) == [(11, [9, 8])]
    assert (everything.phase, everything.split, everything.batch_size) == (
        "eval",
        "valid_unseen",  # as it was asked for: adapters look at it
        2,
    )
    assert loader.build_eval_batch(99, "val", 1).batch_size == 3


def test_an_eval_batch_of_an_unknown_split_or_a_negative_size_is_refused():
    loader = loaded(1, val=[2], test=[3])
    with pytest.raises(ValueError, match="no split is called 'vall'"):
        loader.build_eval_batch(1, "vall", 0)
    with pytest.raises(DataError, match="env_num is -1"):
        loader.build_eval_batch(-1, "val", 0)


def test_split_items_are_found_by_every_alias():
    loader = loaded(1, val=[2], test=[3])
    assert loader.get_split_items("train") == rows(1)
    for name in ("val", "valid_seen", "selection"):
        assert loader.get_split_items(name) == rows(2)
    for name in ("test", "valid_unseen"):
        assert loader.get_split_items(name) == rows(3)
    with pytest.raises(DataError, match="no split is called"):
        loader.get_split_items("dev")
