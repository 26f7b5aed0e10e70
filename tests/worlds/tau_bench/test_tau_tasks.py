"""Which tasks of tau-bench are played, what they are called, and what a wrong name says."""

from collections import Counter

import pytest

from skillwright.config.run import validated
from skillwright.core import ConfigError
from skillwright.jobs.run import make_splits
from skillwright.worlds.tau_bench import configured_store, is_free, is_no_op, tau_tasks
from tau_models import TRANSFER, shop, tau_settings
from tau_store import CANCEL, RETURN, task, write_store


def splits_of(folder, data, **data_section):
    settings = tau_settings(folder, data)
    settings["env"]["data"] = data_section
    return make_splits(validated(settings, "tau"))


def test_the_splits_of_the_data_are_those_of_a_run(tmp_path):
    splits = splits_of(tmp_path, shop(tmp_path / "shop"), train=5)
    assert [one.id for one in splits.train.tasks] == [f"train-{i:03d}" for i in range(5)]
    assert {one.split for one in splits.val.tasks} == {"val"}
    assert len(splits.test) == 12


def test_original_data_has_no_val_and_its_dev_decides(tmp_path):
    tasks = {f"tasks_{split}": [task(CANCEL)] for split in ("train", "dev", "test")}
    splits = splits_of(tmp_path, write_store(tmp_path / "shop", **tasks))
    assert [one.id for one in splits.val.tasks] == ["dev-000"]


def test_a_type_is_the_one_kind_of_write_that_a_task_wants(tmp_path):
    read = ("get_order_details", {"order_id": "#W1"})
    wanted = [task(read, CANCEL), task(CANCEL, RETURN), task(TRANSFER), task(RETURN)]
    data = write_store(tmp_path / "shop", tasks_test=wanted)
    tasks = tau_tasks("test", {"data_dir": str(data)})
    assert [one.task_type for one in tasks] == ["cancel", "several_kinds", "read_only", "return"]


def test_tasks_over_other_data_are_other_tasks(tmp_path):
    one, other = (
        tau_tasks("test", {"data_dir": str(folder)})[0]
        for folder in (shop(tmp_path / "a"), shop(tmp_path / "b", rules=["Be quick."]))
    )
    assert one.id == other.id
    assert one.extras != other.extras


def test_what_hanging_up_wins_is_known(tmp_path):
    failing = ("cancel_pending_order", {"order_id": "#W2", "reason": "no longer needed"})
    wanted = [task(CANCEL), task(failing), task(failing, outputs=["7"]), task()]
    data = {"data_dir": str(write_store(tmp_path / "shop", tasks_test=wanted))}
    store = configured_store(data)
    assert [is_no_op(store, "test", i) for i in range(4)] == [False, True, True, True]
    assert [is_free(store, "test", i) for i in range(4)] == [False, True, False, True]


def test_the_reference_tasks_have_the_documented_types_and_exceptions(reference_data):
    data = {"data_dir": str(reference_data / "tau_retail")}
    types = Counter(one.task_type for one in tau_tasks("test", data))
    assert sum(types.values()) == 115
    assert types["read_only"] == 9
    store = configured_store(data)
    no_op = [i for i in range(115) if is_no_op(store, "test", i)]
    free = [i for i in range(115) if is_free(store, "test", i)]
    assert no_op == [10, 12, 24, 25, 50, 57, 62, 65, 67, 68, 106]
    assert free == [10, 12, 25, 50, 57, 65, 106]
    assert [i for i in range(500) if is_no_op(store, "train", i)] == [161, 214, 229, 288, 349]


def test_defaults_are_those_of_tau_bench_where_it_is_played(tmp_path):
    settings = tau_settings(tmp_path, tmp_path)
    env = validated(settings, "tau").env
    assert (env.data.kind, env.max_turns) == ("tau_bench", 30)
    settings["env"] |= {"max_turns": 7, "data": {"kind": "ratio", "path": "items.json"}}
    env = validated(settings, "tau").env
    assert (env.data.kind, env.max_turns) == ("ratio", 7)
    assert validated({**settings, "env": {}}, "games").env.max_turns == 50


def test_its_data_is_no_other_environments(tmp_path):
    settings = tau_settings(tmp_path, tmp_path)
    settings["env"] = {"name": "alfworld", "data": {"kind": "tau_bench"}}
    with pytest.raises(ConfigError, match="customers of 'tau_bench'"):
        validated(settings, "games")
