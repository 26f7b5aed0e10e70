"""The small parts that an adapter's run is made of: settings, seeds, conversations."""

import json
from collections import Counter

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, look, resumed, trained
from skillwright.jobs.run import make_splits
from skillwright.jobs.text import (
    AdapterMemory,
    AdapterPlanner,
    flat_settings,
    preflight,
    trajectory_of,
)
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.runs import RunStore
from skillwright.textopt import read_episodes, read_rows
from somebodys import CALLS, Awaited, Chosen, Documented, Seeded, adapter_config


@pytest.fixture
def memory(tmp_path):
    with RunStore.open(tmp_path / "run.sqlite") as store:
        yield AdapterMemory(store, "adapter:test")


def planner(memory, accumulation=1):
    return AdapterPlanner(ForeignAdapter(Seeded()), None, memory, 42, "out", accumulation)


@pytest.mark.parametrize(
    ("epoch", "seeds"), [(1, [45, 46, 43, 44]), (2, [44, 43, 46, 45]), (3, [45, 44, 43, 46])]
)
async def test_without_a_loader_an_epoch_has_the_documented_seeds(memory, epoch, seeds):
    batches = await planner(memory).epoch(epoch, count=4, size=8)
    assert [batch.seed for batch in batches] == seeds
    assert {(batch.phase, batch.split, batch.batch_size) for batch in batches} == {
        ("train", "train", 8)
    }


async def test_seeds_build_their_environments_by_the_documented_names(memory):
    plan = planner(memory)
    [batch] = await plan.epoch(1, count=1, size=2)
    assert (await plan.builder(batch)())["split"] == "train"
    held = await plan.held_out("val", 3)
    built = await plan.builder(plan.held_out_batch("val", held))()
    assert built["split"] == "valid_seen"
    assert (held.size, len(built["rooms"])) == (3, 3)


def test_settings_have_the_names_of_the_documented_file(tmp_path):
    train = {"epochs": 3, "batch_size": 5, "accumulation": 2}
    optimizer = {"learning_rate": 7, "gate_slow_update": True}
    settings = flat_settings(
        adapter_config(tmp_path, Documented, train=train, optimizer=optimizer), tmp_path / "out"
    )
    wanted = {"num_epochs": 3, "batch_size": 5, "accumulation": 2, "edit_budget": 7, "seed": 42}
    wanted |= {"slow_update_gate_with_selection": True, "env": "Documented", "workers": 64}
    wanted |= {"out_root": str(tmp_path / "out"), "sel_env_num": 0, "use_gate": True}
    wanted |= {"optimizer_model": "analyst", "target_model": "household", "minibatch_size": 3}
    assert settings.items() >= wanted.items()
    assert settings["split_dir"].endswith("tasks")
    json.dumps(settings)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({"kind": "split_dir", "path": "d"}, {"split_mode": "split_dir", "split_dir": "d"}),
        (
            {"kind": "ratio", "path": "d", "ratio": "1:1:1", "seed": 3},
            {"split_mode": "ratio", "data_path": "d", "split_ratio": "1:1:1", "split_seed": 3},
        ),
        (
            {"kind": "adapter", "train": 9, "val": 4, "test": 5},
            {"train_size": 9, "sel_env_num": 4, "test_env_num": 5},
        ),
    ],
)
def test_data_reaches_a_loader_under_its_own_names(tmp_path, data, wanted):
    config = adapter_config(tmp_path, Documented, env={"data": data, "config": {}})
    assert flat_settings(config, tmp_path).items() >= wanted.items()


@pytest.mark.parametrize(
    ("said", "opening", "turns"),
    [
        (
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Sum 2 and 3."},
                {"role": "assistant", "content": "5"},
                {"role": "user", "content": "Right."},
            ],
            "Be brief.\nSum 2 and 3.",
            [("5", "Right.")],
        ),
        (
            [
                {"type": "tool_call", "cmd": "ls", "obs": "a b"},
                {"type": "tool_call", "cmd": "cat a"},
            ],
            "",
            [("ls", "a b"), ("cat a", "")],
        ),
        (
            [{"step": 0, "action": "go", "env_feedback": "dark", "reasoning": "why not"}],
            "",
            [("<think>why not</think><action>go</action>", "dark")],
        ),
        ([{"role": "user", "content": "Nobody answers."}], "Nobody answers.", []),
    ],
)
def test_a_saved_conversation_becomes_a_trajectory(tmp_path, said, opening, turns):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
    [row] = read_rows([{"id": "a", "hard": 1, "soft": 1}], tmp_path).rows
    found = trajectory_of(row)
    assert found.opening == opening
    assert [(turn.act.text, turn.observation) for turn in found.turns] == turns


def test_a_trajectory_reads_to_analysts_as_the_conversation_did(tmp_path):
    from dataclasses import replace

    from skillwright.rollout.foreign_rows import RowsAbout, read_batch

    said = [{"step": 0, "action": "go", "env_feedback": "dark", "reasoning": "why not"}]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
    given = [{"id": "a", "hard": 1, "soft": 0.5}]
    [row] = read_rows(given, tmp_path).rows
    about = RowsAbout("e", "val", "gate", 1, "v", key=str)
    [result] = read_batch(given, about).results
    [again] = read_episodes([replace(result, trajectory=trajectory_of(row))]).rows
    assert again.lines == row.lines
    assert again.reward == row.reward == 1.0


async def test_an_adapter_is_set_up_once_by_a_check_and_once_by_a_training(tmp_path):
    config = adapter_config(tmp_path, Chosen)
    await preflight(config)
    assert counted() == {"init": 1, "setup": 1}
    CALLS.clear()
    path, _ = await trained(config, Walker(), Coach([]))
    assert counted() == {"init": 1, "setup": 1}
    CALLS.clear()
    await resumed(path, Walker(), Coach([]))
    assert counted() == {}  # it is finished


def counted():
    return Counter(method for method, _ in CALLS if method in ("init", "setup"))


async def test_tasks_are_found_once_by_a_check_and_once_by_a_training(tmp_path, monkeypatch):
    found = []

    def counted(config):
        found.append(config)
        return make_splits(config)

    monkeypatch.setattr("skillwright.jobs.run.preflight.make_splits", counted)
    monkeypatch.setattr("skillwright.jobs.run.bench.make_splits", counted)
    config = doors_config(tmp_path)
    await preflight(config)
    assert len(found) == 1
    await trained(config, Walker(), Coach([]))
    assert len(found) == 2


async def batches_of_a_release(tmp_path, adapter):
    gate = {"gate": {"kind": "explore"}, "test": False}
    config = adapter_config(tmp_path, adapter, evaluation=gate)
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES]]))
    with look(path) as store:
        phase = {one.key: one.phase for one in store.episodes()}
        found = [event.payload for event in store.events("adapter_batch")]
    return [one for one in found if phase[one["keys"][0]] == "release"]


async def test_an_adapter_that_blocks_plays_both_sides_of_a_release_in_blocks(tmp_path):
    released = await batches_of_a_release(tmp_path, Chosen)
    first = [one for one in released if one["draw"] == released[0]["draw"]]
    assert [one["block"] for one in first] == [
        f"{at} of 4" for at in (1, 2, 3, 4) for _side in range(2)
    ]
    assert all(len(one["ids"]) <= 6 for one in first)
    texts = [one["folder"].split("/")[1] for one in first]
    orders = list(zip(texts[::2], texts[1::2], strict=True))
    assert all(one != other for one, other in orders)
    everything = [one["folder"].split("/")[1] for one in released]
    assert len(set(zip(everything[::2], everything[1::2], strict=True))) == 2  # either side first


@pytest.mark.parametrize("adapter", [Seeded, Awaited])
async def test_an_adapter_that_cannot_part_a_split_or_overlaps_plays_it_whole(tmp_path, adapter):
    assert all("block" not in one for one in await batches_of_a_release(tmp_path, adapter))


@pytest.mark.parametrize("adapter", [Seeded, Chosen])
@pytest.mark.parametrize("rollouts", [150, 215])
async def test_no_batch_of_an_adapter_exceeds_a_budget_of_rollouts(tmp_path, adapter, rollouts):
    gate = {"gate": {"kind": "explore"}}
    bounds = {"rollouts": rollouts}
    config = adapter_config(tmp_path, adapter, evaluation=gate, train={"epochs": 20}, budget=bounds)
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], *[["Be quick."]] * 39]))
    with look(path) as store:
        counts = store.counts()
    assert counts["episodes"] + counts["failures"] <= rollouts
    assert report.state.finished
    assert report.state.cut_by_budget
