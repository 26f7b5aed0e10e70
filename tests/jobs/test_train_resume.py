"""However a run is stopped, running takes the decisions that it would have taken."""

import asyncio
import json
import signal
import sqlite3
from contextlib import closing

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Reminder,
    Veteran,
    Walker,
    doors_config,
    look,
    resumed,
    stored_turns,
    story,
    trained,
    write_tasks,
)
from samples import heavy, once
from skillwright.core import DataError
from skillwright.jobs.run import CallFinished, EpisodeFinished, StepDecided

PLAN = [[ALL_RULES], [ALL_WRONG]]


class StopAfter:
    """A callback that cancels a task after so many events of some kinds."""

    def __init__(self, kinds, count):
        self.task = None
        self.seen = 0
        self._kinds = kinds
        self._count = count

    def on_event(self, event):
        self.seen += isinstance(event, self._kinds)
        if self.seen == self._count and self.task is not None:
            self.task.cancel()


def ctrl_c_at(wanted):
    """Press Ctrl-C while the call with a given number is being answered."""

    def on_call(number):
        if number == wanted:
            signal.raise_signal(signal.SIGINT)

    return on_call


@pytest.fixture
def config(tmp_path):
    return doors_config(tmp_path)


@once
async def reference(tmp_path):
    """Return the story of the run that nothing interrupts."""
    folder = tmp_path / "reference"
    folder.mkdir()
    path, _ = await trained(doors_config(folder), Walker(), Coach(PLAN))
    return story(path)


async def cancelled(config, callback):
    """Train until the callback stops it; return where, and who was asked what."""
    target, coach = Walker(), Coach(PLAN)
    callback.task = asyncio.create_task(trained(config, target, coach, callback=callback))
    with pytest.raises(asyncio.CancelledError):
        await callback.task
    return target, coach


async def check_resume(path, wanted):
    """Continue with a run: it ends as it should, and asks nothing that has an answer."""
    known = stored_turns(path)
    with look(path) as store:
        answered = store.counts()["calls"]
    target, coach = Walker(), Coach(PLAN)
    await resumed(path, target, coach)
    assert story(path) == wanted
    assert known.isdisjoint(target.calls)
    with look(path) as store:
        assert store.counts()["calls"] == answered + len(coach.calls)


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        (EpisodeFinished, 1),
        (EpisodeFinished, 27),
        (EpisodeFinished, 100),
        *heavy((EpisodeFinished, 24), (EpisodeFinished, 50), (EpisodeFinished, 135)),
        (CallFinished, 1),
        (CallFinished, 4),
        (StepDecided, 1),
        (StepDecided, 2),
    ],
)
async def test_a_cancelled_run_goes_on_as_if_it_had_not_been(config, tmp_path, kinds, count):
    await cancelled(config, StopAfter(kinds, count))
    await check_resume(tmp_path / "runs" / "doors", await reference(tmp_path))


@pytest.mark.heavy
async def test_a_run_may_be_cancelled_after_any_event(tmp_path):
    wanted = await reference(tmp_path)
    everything = StopAfter(object, 0)
    await trained(doors_config(tmp_path), Walker(), Coach(PLAN), callback=everything)
    for count in range(2, everything.seen - 1, 7):
        folder = tmp_path / str(count)
        folder.mkdir()
        await cancelled(doors_config(folder), StopAfter(object, count))
        await check_resume(folder / "runs" / "doors", wanted)


FORCED = {"slow_update_samples": 5, "gate_slow_update": False}
LONG = [[ALL_RULES], [], ["Be quick."], [], [ALL_WRONG], []]
VARIANTS = {
    "confirmed": ({"evaluation": {"confirm_tasks": 4}}, lambda: Coach(PLAN)),
    "untested": ({"evaluation": {"confirm_tasks": 4, "test": False}}, lambda: Coach(PLAN)),
    "impatient": ({"train": {"epochs": 3, "patience": 2}}, lambda: Veteran(LONG, ALL_RULES)),
    "open": ({"evaluation": {"gate": {"kind": "open"}}}, lambda: Coach(PLAN)),
    "forced": (
        {"train": {"epochs": 3}, "optimizer": FORCED},
        lambda: Veteran(LONG, ALL_WRONG),
    ),
    "accumulated": ({"train": {"batch_size": 3, "accumulation": 2}}, lambda: Coach(PLAN)),
    "reminded": (
        {"optimizer": {"skill_aware": {"gated": False, "consolidate_threshold": 1}}},
        lambda: Reminder(PLAN, "Knock.", "Wait."),
    ),
    "forgetful": (
        {"train": {"epochs": 2}, "optimizer": {"memory_across_epochs": False}},
        lambda: Veteran(PLAN, ALL_RULES),
    ),
}


@pytest.mark.parametrize(
    "parts", [(0.12, 0.5, 0.85), *heavy(((0.02, 0.3, 0.7, 0.97),))], ids=["some", "others"]
)
@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_run_of_any_kind_may_be_stopped_anywhere(tmp_path, variant, parts):
    sections, make_coach = VARIANTS[variant]
    whole = StopAfter(object, 0)
    path, report = await trained(
        doors_config(tmp_path, **sections), Walker(), make_coach(), callback=whole
    )
    wanted = story(path)
    for part in parts:
        folder = tmp_path / str(part)
        folder.mkdir()
        stopper = StopAfter(object, max(2, int(part * whole.seen)))
        work = trained(doors_config(folder, **sections), Walker(), make_coach(), callback=stopper)
        stopper.task = asyncio.create_task(work)
        with pytest.raises(asyncio.CancelledError):
            await stopper.task
        path = folder / "runs" / "doors"
        known, target = stored_turns(path), Walker()
        assert await resumed(path, target, make_coach()) == report
        assert story(path) == wanted
        assert known.isdisjoint(target.calls)


@pytest.mark.parametrize("number", [1, 40, 120])
def test_ctrl_c_in_the_middle_of_a_turn_costs_that_episode_only(config, tmp_path, number):
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(trained(config, Walker(ctrl_c_at(number)), Coach(PLAN)))
    asyncio.run(check_resume(tmp_path / "runs" / "doors", asyncio.run(reference(tmp_path))))


@pytest.mark.parametrize("number", [1, 2, 4])
def test_ctrl_c_in_the_middle_of_an_optimizer_call_costs_that_call_only(config, tmp_path, number):
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(trained(config, Walker(), Coach(PLAN, ctrl_c_at(number))))
    asyncio.run(check_resume(tmp_path / "runs" / "doors", asyncio.run(reference(tmp_path))))


async def test_a_run_may_be_interrupted_again_and_again(config, tmp_path):
    await cancelled(config, StopAfter(EpisodeFinished, 30))
    path = tmp_path / "runs" / "doors"
    for number in (5, 9, 2):
        with pytest.raises(RuntimeError, match="power cut"):
            await resumed(path, Walker(power_cut_at(number)), Coach(PLAN))
    await check_resume(path, await reference(tmp_path))


def power_cut_at(wanted):
    def on_call(number):
        if number == wanted:
            raise RuntimeError("power cut")

    return on_call


async def test_files_that_were_not_written_in_time_are_written_on_resume(config, tmp_path):
    path, _ = await trained(config, Walker(), Coach(PLAN))
    before = story(path)["files"]
    (path / "best_skill.md").unlink()
    (path / "skills" / "skill_v0001.md").unlink()
    await resumed(path, Walker(), Coach(PLAN))
    assert story(path)["files"] == before


@pytest.mark.parametrize("max_concurrent", [1, 7])
async def test_concurrency_changes_nothing_but_the_time(tmp_path, max_concurrent):
    few = tmp_path / "few"
    few.mkdir()
    path, report = await trained(
        doors_config(few, rollout={"max_concurrent": max_concurrent}), Walker(), Coach(PLAN)
    )
    many, other = await trained(
        doors_config(tmp_path, rollout={"max_concurrent": 64}), Walker(), Coach(PLAN)
    )
    assert story(path) == story(many)
    assert report == other


async def test_another_seed_is_another_run(tmp_path):
    path, _ = await trained(doors_config(tmp_path, run={"seed": 7}), Walker(), Coach(PLAN))
    wanted = await reference(tmp_path)
    assert story(path)["events"] != wanted["events"]
    assert story(path)["skills"] == wanted["skills"]


@pytest.mark.parametrize("count", [5, 60, 110])
async def test_what_looks_secret_in_an_edit_is_told_alike_before_and_after_a_resume(
    tmp_path, monkeypatch, count
):
    key = "sk-the-very-key-of-this-run"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    plan = [[f"{ALL_RULES}\nThe password: hunter2secret. The key is {key}."], [ALL_WRONG]]
    endpoint = {"backend": "openai_chat", "model": "household"}

    def config(name):
        models = {"target": endpoint, "optimizer": {"backend": "scripted", "model": "analyst"}}
        return doors_config(tmp_path, run={"name": name}, models=models)

    whole, _ = await trained(config("whole"), Walker(), Coach(plan))
    stopper = StopAfter(EpisodeFinished, count)
    stopper.task = asyncio.create_task(
        trained(config("cut"), Walker(), Coach(plan), callback=stopper)
    )
    with pytest.raises(asyncio.CancelledError):
        await stopper.task
    coach = Coach(plan)
    await resumed(tmp_path / "runs" / "cut", Walker(), coach)
    assert story(tmp_path / "runs" / "cut") == story(whole)
    assert story(whole)["skills"][1].endswith(
        "The password: hunter2secret. The key is <redacted>.\n"
    )
    told = "".join(user for user, _ in coach.calls if "Step 1: accept" in user)
    assert "hunter2secret" not in told.split("## Earlier steps")[-1]


async def test_a_run_whose_tasks_have_changed_is_not_gone_on_with(config, tmp_path):
    await cancelled(config, StopAfter(EpisodeFinished, 30))
    path = tmp_path / "runs" / "doors"
    write_tasks(tmp_path / "tasks", train=13)
    with pytest.raises(DataError, match=r"the train tasks are not those .*\(13 now, 12 then\)"):
        await resumed(path, Walker(), Coach(PLAN))
    write_tasks(tmp_path / "tasks", test=6)
    with pytest.raises(DataError, match="the test tasks are not those"):
        await resumed(path, Walker(), Coach(PLAN))
    write_tasks(tmp_path / "tasks")
    await check_resume(path, await reference(tmp_path))


@pytest.mark.parametrize("split", ["train", "val", "confirm", "test"])
async def test_a_task_that_changed_under_its_id_is_noticed(tmp_path, split):
    changed_config = doors_config(tmp_path, evaluation={"confirm_tasks": 4})
    await cancelled(changed_config, StopAfter(EpisodeFinished, 30))
    path = tmp_path / "runs" / "doors"
    file = tmp_path / "tasks" / {"confirm": "val"}.get(split, split) / "items.json"
    before = file.read_text(encoding="utf-8")
    items = json.loads(before)
    items[0 if split == "val" else -1]["door"] = 5
    file.write_text(json.dumps(items), encoding="utf-8")
    words = f"the {split} tasks are not those .*the same ids, and at least one task with another"
    with pytest.raises(DataError, match=words):
        await resumed(path, Walker(), Coach(PLAN))
    file.write_text(before, encoding="utf-8")
    assert (await resumed(path, Walker(), Coach(PLAN))).state.finished


async def test_a_run_that_wrote_down_less_of_its_tasks_goes_on(config, tmp_path):
    await cancelled(config, StopAfter(EpisodeFinished, 30))
    path = tmp_path / "runs" / "doors"
    with closing(sqlite3.connect(path / "run.sqlite")) as database, database:
        (payload,) = database.execute("SELECT payload FROM events WHERE kind = 'tasks'").fetchone()
        facts = json.loads(payload)
        for about in facts.values():
            del about["content"]
        database.execute("UPDATE events SET payload = ? WHERE kind = 'tasks'", [json.dumps(facts)])
    assert (await resumed(path, Walker(), Coach(PLAN))).state.finished
