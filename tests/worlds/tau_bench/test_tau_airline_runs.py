"""Runs on tau-bench's airline by its name: evaluated as it is, trained on where it is cut."""

import random

import pytest

from doors import llms
from skillwright.config.run import validated
from skillwright.core import Completion, ConfigError, DataError, Usage
from skillwright.jobs.run import NullCallback, make_splits
from skillwright.jobs.text import (
    EvalPlan,
    estimate,
    estimate_evaluation,
    preflight,
    run_evaluation,
    start_run,
)
from skillwright.worlds.tau_bench import (
    STOP,
    departures,
    expected_tokens,
    open_store,
    register_user,
    tau_bench_rows,
    tau_tasks,
)
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER
from skillwright.worlds.tau_bench.users import InstantUser
from tau_airline import CANCEL, task, write_airline
from tau_models import tau_settings
from tau_store import tool_call

ONCE = EvalPlan("test", 1)


class Frank(InstantUser):
    """Opens with its instruction, and hangs up at the first answer."""

    def __init__(self, setting):
        super().__init__()
        del setting

    def reset(self, instruction):
        return instruction

    def step(self, content):
        del content
        return STOP


@pytest.fixture(autouse=True)
def frank_users():
    register_user("frank", f"{__name__}:Frank")


class Expert:
    """Carries out the gold actions of whoever calls; with noise it also does what nobody wants."""

    identity = "scripted:expert"

    def __init__(self, store, noise=0.0):
        self._turns = {
            one.instruction: [
                *(tool_call(a.name, **a.kwargs) for a in one.actions if a.name != TRANSFER),
                f"That is done. {' '.join(one.outputs)}".strip(),
            ]
            for one in store.tasks("test")
        }
        self._noise = noise
        self._rng = random.Random(0)

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        del tools, sampling, purpose
        said = [one["content"] for one in messages if one["role"] != "system"]
        taken = [one["content"] for one in messages if one["role"] == "assistant"]
        turns = next((of for told, of in self._turns.items() if told in said[0]), ["ready"])
        text = turns[min(sum(one in turns for one in taken), len(turns) - 1)]
        if self._rng.random() < self._noise:
            odd = tool_call("cancel_reservation", reservation_id=None)
            text = self._rng.choice(("<tool_call>{", odd, "Goodbye."))
        return Completion(text, usage=Usage(calls=1, input_tokens=10, output_tokens=1))


def config_of(folder, data, **data_section):
    settings = tau_settings(folder, data, domain="airline", user_strategy="frank", user_replies=[])
    settings["env"]["data"] = data_section
    return validated(settings, "tau")


async def evaluated(config, target):
    with start_run(config, "", ONCE) as run:
        return await run_evaluation(run, ONCE, NullCallback(), llms(target))


async def test_an_expert_wins_all_tasks_of_the_original_and_a_noisy_one_some(
    reference_data, tmp_path
):
    data = reference_data / "tau_airline"
    if not data.is_dir():
        pytest.skip(f"no data of tau-bench airline at {data}")
    store = open_store(data, "airline")
    report = await evaluated(config_of(tmp_path / "a", data), Expert(store))
    assert (report.table.overall.tasks, report.pass_k[0]) == (50, 1.0)
    assert report.environment.facts["settings"]["benchmark"] == "tau-bench airline, original 50"
    assert report.environment.scores["no_op"].tasks == 20
    assert set(report.table.task_types) <= set(store.domain.all_task_types)
    assert "the data is not tau-bench's" not in departures({"domain": "airline", "data_dir": data})
    noisy = await evaluated(config_of(tmp_path / "b", data), Expert(store, noise=0.3))
    assert 0.1 < noisy.pass_k[0] < 0.9
    assert noisy.table.overall.failures == 0


def customers(count):
    return [task(CANCEL, user_id=f"u{index // 2}") for index in range(count)]


async def test_data_with_nothing_but_test_is_evaluated_and_not_trained_on(tmp_path):
    data = write_airline(tmp_path / "air", tasks_test=customers(10))
    config = config_of(tmp_path, data)
    splits = make_splits(config)
    sizes = (len(splits.train.tasks), len(splits.val.tasks), len(splits.test))
    assert sizes == (0, 0, 10)
    await preflight(config, ONCE)
    assert (await estimate_evaluation(config, "", ONCE)).stages[0].calls
    with pytest.raises(ConfigError, match=r"no val tasks to evaluate \(0 train, 0 val, 10 test\)"):
        await preflight(config, EvalPlan("val", 1))
    told = "0 train and 0 val tasks, and a training needs both.*env.data.train and env.data.val"
    with pytest.raises(ConfigError, match=told):
        await preflight(config)
    with pytest.raises(ConfigError, match=told):
        await estimate(config, "")


async def test_it_is_cut_where_train_and_val_say_how_many(tmp_path):
    data = write_airline(tmp_path / "air", tasks_test=customers(20))
    config = config_of(tmp_path, data, train=8, val=6)
    splits = make_splits(config)
    cut = [splits.train.tasks, splits.val.tasks, splits.test.open()]
    assert [len(tasks) for tasks in cut] == [8, 6, 6]
    callers = [{one.description for one in tasks} for tasks in cut]
    assert sum(map(len, callers)) == len(set.union(*callers)) == 10  # each with both of its tasks
    assert [{one.split for one in tasks} for tasks in cut] == [{"train"}, {"val"}, {"test"}]
    expert = Expert(open_store(data, "airline"))
    report = await evaluated(config, expert)
    assert "tasks of test were cut off to train on" in report.environment.facts["departures"]
    whole = await evaluated(config_of(tmp_path / "whole", data), expert)
    assert not any("cut off" in why for why in whole.environment.facts["departures"])


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"train": 5}, r"set both env\.data\.train and env\.data\.val \(now 5 and None\)"),
        ({"train": 18, "val": 4}, "leave no task for test"),
        ({"train": 1, "val": 4}, "leave no task for train"),
    ],
)
def test_a_cut_that_leaves_a_split_empty_is_refused(tmp_path, section, told):
    data = write_airline(tmp_path / "air", tasks_test=customers(20))
    with pytest.raises(DataError, match=told):
        make_splits(config_of(tmp_path, data, **section))


def test_its_tasks_and_rows_are_had_by_the_same_names(tmp_path):
    config = {"domain": "airline", "data_dir": str(write_airline(tmp_path))}
    tasks = tau_tasks("test", config)
    assert [one.task_type for one in tasks] == ["cancel", "book", "certificate", "read_only"]
    assert tasks[0].description == "a customer of the airline calls (ann)"
    rows = tau_bench_rows("test", config)
    assert [row["task_index"] for row in rows] == [0, 1, 2, 3]
    assert {row["env_class"] for row in rows} == {"tau_bench"}
    assert expected_tokens(config, 30) > expected_tokens(config, 1) > 0
