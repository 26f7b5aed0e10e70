"""Whatever an adapter returns, it has a defined outcome: logged, stored, and never a zero."""

import asyncio
import math
import sys
import threading

import pytest

from doors import ALL_RULES, Coach, Veteran, Walker, look, resumed, trained, write_tasks
from skillwright.config.run import validated
from skillwright.core import ConfigError
from skillwright.jobs.run import Health
from skillwright.jobs.text import examine, preflight
from skillwright.rollout import EngineDown
from somebodys import Chosen, Documented, Seeded, adapter_config, adapter_settings, rollouts

STRICT = {"gate": {"kind": "strict"}}


class Troubled(Chosen):
    """Does what its class attribute says to the rows of the first training batch."""

    trouble = staticmethod(lambda rows: rows)
    where = "steps/step_0001"

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return type(self).trouble(rows) if self.where in out_dir else rows


@pytest.fixture
def troubled(tmp_path, monkeypatch):
    """Train an adapter that does something to its rows, and return the run."""

    async def run(trouble, where="steps/step_0001", **sections):
        monkeypatch.setattr(Troubled, "trouble", staticmethod(trouble))
        monkeypatch.setattr(Troubled, "where", where)
        config = adapter_config(tmp_path, Troubled, **sections)
        return await trained(config, Walker(), Coach([]))

    return run


def batches(path):
    """Return what the store knows of every batch, by folder."""
    with look(path) as store:
        return {event.payload["folder"]: event.payload for event in store.events("adapter_batch")}


def failures(path, phase):
    with look(path) as store:
        return {e.task_id: e.failure.message for e in store.episodes(phase=phase) if e.failure}


async def test_a_missing_row_is_a_stored_failure_and_the_run_goes_on(troubled, caplog):
    path, report = await troubled(lambda rows: rows[1:])
    [(lost, said)] = failures(path, "train").items()
    assert said == "the rollout returned no row for it"
    [note] = batches(path)["steps/step_0001/rollout"]["notes"]
    assert note == f"1 row is missing: '{lost}'"
    assert note in caplog.text
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted


async def test_a_row_that_nobody_asked_for_is_dropped(troubled, caplog):
    path, report = await troubled(lambda rows: [*rows, {"id": "stranger", "hard": 1, "soft": 1}])
    assert "1 row has an id not asked for: 'stranger'" in caplog.text
    with look(path) as store:
        assert not store.episodes(task_id="stranger")
    assert not failures(path, "train")
    assert report.state.finished


async def test_of_two_rows_with_one_id_the_first_counts(troubled, caplog):
    path, _ = await troubled(lambda rows: [*rows, {**rows[0], "soft": 0.9}])
    assert "again; the first one counts" in caplog.text
    with look(path) as store:
        assert {e.reward for e in store.episodes(phase="train", step=1)} == {0.25}


@pytest.mark.parametrize(
    "bad", [{"soft": math.nan}, {"soft": 1.2}, {"hard": -0.5}, {"hard": None}, {"soft": "much"}]
)
async def test_a_score_that_is_none_costs_its_row_only(troubled, bad):
    path, report = await troubled(lambda rows: [{**rows[0], **bad}, *rows[1:]])
    assert len(failures(path, "train")) == 1
    with look(path) as store:
        assert len(store.episodes(phase="train", step=1)) == 6
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted


async def test_a_row_without_hard_costs_its_row_only(troubled):
    def forget(rows):
        return [{k: v for k, v in rows[0].items() if k != "hard"}, *rows[1:]]

    path, _ = await troubled(forget)
    [said] = failures(path, "train").values()
    assert "has no 'hard'" in said


async def test_a_rollout_that_raises_is_tried_again_and_then_reported(troubled, caplog):
    def fail(rows):
        raise OSError("the simulator is gone")

    path, report = await troubled(fail, rollout={"retries": 2})
    assert rollouts().count("steps/step_0001/rollout") == 3
    said = failures(path, "train")
    assert len(said) == 6
    assert set(said.values()) == {"rollout raised OSError: the simulator is gone"}
    assert "attempt 3 at steps/step_0001/rollout failed" in caplog.text
    assert report.state.steps[0].action == "skip_no_patches"
    assert report.state.steps[1].action == "accept"
    assert report.state.final.accepted


async def test_a_rollout_that_raises_once_has_its_scores(troubled):
    tries = []

    def fail_once(rows):
        tries.append(1)
        if len(tries) == 1:
            raise OSError("a hiccup")
        return rows

    path, _ = await troubled(fail_once)
    assert not failures(path, "train")
    with look(path) as store:
        assert {
            store.load_episode(e.id).attempts for e in store.episodes(step=1, phase="train")
        } == {2}


@pytest.mark.parametrize("returned", [None, 3, "rows"])
async def test_what_is_no_list_of_rows_is_not_asked_for_again(troubled, returned):
    path, report = await troubled(lambda rows: returned)
    assert rollouts().count("steps/step_0001/rollout") == 1
    assert len(failures(path, "train")) == 6
    assert report.state.finished


def renamed(rows):
    return [{**row, "id": f"x{row['id']}"} for row in rows]


@pytest.mark.parametrize("trouble", [lambda rows: [], lambda rows: 1 / 0, renamed])
async def test_a_val_split_without_one_score_stops_the_run_and_is_no_zero(
    troubled, tmp_path, trouble, monkeypatch
):
    with pytest.raises(EngineDown, match="gave no score for the val split"):
        await troubled(trouble, where="selection_eval", rollout={"retries": 0})
    path = tmp_path / "runs" / "doors"
    with look(path) as store:
        assert not store.events("baseline")
    monkeypatch.setattr(Troubled, "trouble", staticmethod(lambda rows: rows))
    report = await resumed(path, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted


async def test_rows_under_ids_of_no_item_are_played_again_once_that_is_mended(
    troubled, tmp_path, monkeypatch
):
    with pytest.raises(EngineDown, match="no row has the id of an item: rows 'x"):
        await troubled(renamed, where="")
    path = tmp_path / "runs" / "doors"
    assert {batch["finished"] for batch in batches(path).values()} == {False}
    monkeypatch.setattr(Troubled, "trouble", staticmethod(lambda rows: rows))
    played = rollouts()
    report = await resumed(path, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    assert set(played) <= set(rollouts()[len(played) :])
    assert batches(path)["steps/step_0001/rollout"]["finished"]


async def test_a_seeded_adapter_without_val_rows_stops_the_run(tmp_path):
    class_config = adapter_config(tmp_path, Empty)
    with pytest.raises(EngineDown, match="no rows came back"):
        await trained(class_config, Walker(), Coach([]))


class Empty(Seeded):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return rows if env_manager["split"] == "train" else []


async def test_fewer_rows_than_seeds_asked_for_are_noted(tmp_path, caplog):
    path, report = await trained(adapter_config(tmp_path, Stingy), Walker(), Coach([[ALL_RULES]]))
    assert batches(path)["steps/step_0001/rollout"]["notes"] == [
        "6 episodes were asked for, and 4 came back"
    ]
    assert "6 episodes were asked for, and 4 came back" in caplog.text
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted


class Stingy(Seeded):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return rows[2:] if "steps" in out_dir else rows


async def test_a_text_that_breaks_the_adapter_is_not_accepted_and_stops_nothing(tmp_path):
    path, report = await trained(
        adapter_config(tmp_path, Brittle), Walker(), Coach([["{ Take door 4."], []])
    )
    assert report.state.steps[0].action == "undecided"
    assert report.best_skill == ""
    assert report.state.finished
    assert len(failures(path, "gate")) == 24


class Brittle(Seeded):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return super().rollout(env_manager, skill_content.format(), out_dir, **kwargs)


async def test_an_adapter_that_only_fails_stops_the_run(tmp_path):
    config = adapter_config(tmp_path, Dying, train={"epochs": 3}, rollout={"retries": 0})
    with pytest.raises(EngineDown, match=r"3 batches .* in a row gave no score"):
        await trained(config, Walker(), Coach([]))


class Dying(Chosen):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        if "steps" in out_dir:
            raise ConnectionError("nobody there")
        return super().rollout(env_manager, skill_content, out_dir, **kwargs)


FEW = r"the release test cannot prove a gain on 5 val tasks: at alpha = 0\.03 it takes at least 8"


async def test_a_gate_that_knows_of_noise_is_refused_on_few_val_tasks(tmp_path):
    config = adapter_config(tmp_path, Chosen, evaluation={"val_tasks": 5})
    with pytest.raises(ConfigError, match=FEW):
        await preflight(config)
    # Where the configuration does not say how many there are, the adapter does once it is set up.
    write_tasks(tmp_path / "tasks", val=5)
    unsaid = adapter_config(tmp_path, Chosen)
    with pytest.raises(ConfigError, match=FEW):
        await preflight(unsaid)
    with pytest.raises(ConfigError, match=FEW):
        await trained(unsaid, Walker(), Coach([]))
    assert not rollouts()


async def test_on_few_val_tasks_the_strict_gate_decides(tmp_path):
    strict = {**STRICT, "val_tasks": 1}
    config = adapter_config(tmp_path, Chosen, evaluation=strict)
    await preflight(config)
    _, report = await trained(config, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept_new_best"


async def test_a_reflect_that_raises_is_a_fault_of_its_step(tmp_path, caplog):
    path, report = await trained(adapter_config(tmp_path, Thoughtless), Walker(), Coach([]))
    assert {step.action for step in report.state.steps} == {"skip_analyst_faults"}
    with look(path) as store:
        said = store.patches(1)[0].failure.message
    assert "raised KeyError: 'insight'" in said
    assert "reflect failed for s1" in caplog.text


class Thoughtless(Chosen):
    def reflect(self, results, skill_content, out_dir, **kwargs):
        raise KeyError("insight")


async def test_helpers_that_fail_are_done_without(tmp_path, caplog):
    config = adapter_config(tmp_path, Helpless, train={"epochs": 2})
    _, report = await trained(config, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    for name in ("attach_reference_context", "select_representative_items"):
        assert f"Helpless.{name} failed, and is done without" in caplog.text


class Helpless(Chosen):
    def attach_reference_context(self, results, items):
        raise LookupError("no references today")

    def select_representative_items(self, results, items, **kwargs):
        raise LookupError("all are alike")


async def test_strange_task_types_are_noted(tmp_path):
    path, _ = await trained(adapter_config(tmp_path, Mislabeled), Walker(), Coach([]))
    notes = batches(path)["steps/step_0001/rollout"]["notes"]
    assert any("get_task_types() does not name" in note for note in notes)


class Mislabeled(Chosen):
    def get_task_types(self):
        return ["garden"]


async def test_an_adapter_on_ray_is_refused_where_there_is_none_before_anything_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    config = adapter_config(tmp_path, OnRay)
    with pytest.raises(ConfigError, match=r"needs Ray.*skillwright\[ray\]"):
        await preflight(config)
    assert not (tmp_path / "runs").exists()


class OnRay(Chosen):
    def requires_ray(self):
        return True


async def test_the_doctor_looks_at_an_adapter_too(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    [found] = [
        f for f in await examine(tmp_path, adapter_config(tmp_path, OnRay)) if "skill" in f.name
    ]
    assert (found.health, "Ray" in found.detail) == (Health.BAD, True)
    [found] = [
        f for f in await examine(tmp_path, adapter_config(tmp_path, Chosen)) if "skill" in f.name
    ]
    assert found.health is Health.OK


async def test_settings_of_our_own_episodes_are_said_to_have_no_effect(tmp_path, caplog):
    config = adapter_config(tmp_path, Chosen, rollout={"episode_timeout_s": 3.0})
    await preflight(config)
    await trained(config, Walker(), Coach([]))
    assert caplog.text.count("rollout.episode_timeout_s has no effect") == 1


async def test_nobody_saying_how_long_an_epoch_is_names_the_key(tmp_path):
    settings = adapter_settings(tmp_path, Seeded)
    settings["env"]["data"] = {"kind": "adapter"}
    with pytest.raises(ConfigError, match=r"set env\.data\.train"):
        await trained(validated(settings, "adapter"), Walker(), Coach([]))


async def test_a_train_size_that_the_loader_contradicts_is_refused(tmp_path):
    data = {"kind": "adapter", "train": 5}
    settings = adapter_settings(tmp_path, Documented)
    settings["env"]["data"] = data
    with pytest.raises(ConfigError, match="is 5, and the adapter's data loader has 12"):
        await trained(validated(settings, "adapter"), Walker(), Coach([]))


async def test_ctrl_c_does_not_wait_for_an_adapter_that_blocks(tmp_path):
    Stuck.started.clear()
    Stuck.release.clear()
    work = asyncio.create_task(
        trained(adapter_config(tmp_path, Stuck), Walker(), Coach([[ALL_RULES]]))
    )
    await asyncio.to_thread(Stuck.started.wait, 30)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not Stuck.release.is_set()
    Stuck.release.set()


class Stuck(Chosen):
    started = threading.Event()
    release = threading.Event()

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        self.started.set()
        self.release.wait(30)
        return super().rollout(env_manager, skill_content, out_dir, **kwargs)


class Unsteady(Chosen):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return super().rollout(env_manager, skill_content, out_dir, **kwargs)[-1:]


async def test_an_adapter_that_fails_more_often_than_it_may_stops_the_run(tmp_path):
    train = {"epochs": 3, "batch_size": 4}
    config = adapter_config(tmp_path, Unsteady, train=train, evaluation=STRICT)
    with pytest.raises(EngineDown, match=r"in the last 6 batches .* failed, and at most 50% may"):
        await trained(config, Walker(), Coach([]))
    patient = {
        "run": {"name": "patient", "root": str(tmp_path)},
        "rollout": {"max_failure_share": None},
    }
    config = adapter_config(tmp_path, Unsteady, train=train, evaluation=STRICT, **patient)
    _, report = await trained(config, Walker(), Veteran([]))
    assert report.state.finished
