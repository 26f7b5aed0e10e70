"""A run of an adapter continues where it was left: nothing that came back is rolled out again."""

import asyncio
from collections import Counter

import pytest

from doors import ALL_RULES, Coach, Walker, look, resumed, rule, story, trained, write_tasks
from samples import heavy
from skillwright.core import ContractError, DataError
from skillwright.datasets import BaseDataLoader, BatchSpec
from skillwright.jobs.run import EpisodeFinished, StepDecided
from somebodys import CALLS, Awaited, Chosen, Documented, Seeded, adapter_config, rollouts

PLAN = [[rule("attic")], [ALL_RULES], [rule("hall", 1)]]
LONG = {"epochs": 2}


class StopAfter:
    """A callback that cancels a run after so many events."""

    def __init__(self, count, kind=object):
        self.task = None
        self.seen = 0
        self._count = count
        self._kind = kind

    def on_event(self, event):
        self.seen += isinstance(event, self._kind)
        if self.seen == self._count and self.task is not None:
            self.task.cancel()


def folder_of(tmp_path, name):
    """Make the folder of another run over the same data."""
    if not (tmp_path / "tasks").is_dir():
        write_tasks(tmp_path / "tasks")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "tasks").symlink_to(tmp_path / "tasks")
    return folder


async def told(tmp_path, adapter, **sections):
    """Return the story of the run that nothing interrupts, and its rollouts."""
    config = adapter_config(
        folder_of(tmp_path, "reference"), adapter, **{"train": LONG, **sections}
    )
    callback = StopAfter(0)
    path, _ = await trained(config, Walker(), Coach(PLAN), callback=callback)
    return story(path), rollouts(), callback.seen


async def stopped(config, callback):
    """Train until the callback stops it, and return where."""
    callback.task = asyncio.create_task(trained(config, Walker(), Coach(PLAN), callback=callback))
    with pytest.raises(asyncio.CancelledError):
        await callback.task


def finished_batches(path):
    with look(path) as store:
        return [e.payload["folder"] for e in store.events("adapter_batch") if e.payload["finished"]]


@pytest.mark.parametrize("stops", [2, *heavy(6)])
@pytest.mark.parametrize("adapter", [Documented, Chosen, Seeded, Awaited])
async def test_a_run_that_was_stopped_anywhere_tells_the_same_story(tmp_path, adapter, stops):
    wanted, _, events = await told(tmp_path, adapter)
    for count in range(2, events, max(1, events // stops)):
        folder = folder_of(tmp_path, str(count))
        await stopped(adapter_config(folder, adapter, train=LONG), StopAfter(count))
        path = folder / "runs" / "doors"
        known = finished_batches(path)
        CALLS.clear()
        await resumed(path, Walker(), Coach(PLAN))
        assert story(path) == wanted
        again = Counter(rollouts()) & Counter(known)
        assert not again, f"stopped after {count} events, and rolled out again: {again}"


@pytest.mark.parametrize("adapter", [Chosen, Seeded])
async def test_nothing_is_rolled_out_twice_in_a_run(tmp_path, adapter):
    _, played, _ = await told(tmp_path, adapter)
    assert max(Counter(played).values()) == 1
    assert len([folder for folder in played if folder.startswith("steps/")]) == 4


async def test_own_analysts_are_not_asked_again_for_what_they_said(tmp_path):
    config = adapter_config(tmp_path, Chosen)
    # The candidate's first episode on val: the adapter has reflected, and nothing is decided.
    await stopped(config, StopAfter(31, EpisodeFinished))
    assert [method for method, _ in CALLS].count("reflect") == 1
    CALLS.clear()
    path = tmp_path / "runs" / "doors"
    report = await resumed(path, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    reflected = [facts["folder"] for method, facts in CALLS if method == "reflect"]
    assert "steps/step_0001" not in reflected


async def test_a_reused_row_reaches_the_analysts_as_it_was(tmp_path):
    await stopped(adapter_config(tmp_path, Chosen), StopAfter(6, EpisodeFinished))
    first = next(facts for method, facts in CALLS if method == "rollout")
    CALLS.clear()
    await resumed(tmp_path / "runs" / "doors", Walker(), Coach([]))
    [rows] = [f["rows"] for m, f in CALLS if m == "reflect" and f["folder"] == "steps/step_0001"]
    assert first["folder"] not in rollouts()
    assert all(row["reference_text"] == rule(row["room"]) for row in rows)


async def test_data_that_changed_since_the_run_began_is_refused(tmp_path):
    await stopped(adapter_config(tmp_path, Chosen), StopAfter(1, StepDecided))
    items = tmp_path / "tasks" / "train" / "items.json"
    items.write_text(items.read_text(encoding="utf-8").replace('"door": 4', '"door": 5'), "utf-8")
    with pytest.raises(DataError, match="the data changed since"):
        await resumed(tmp_path / "runs" / "doors", Walker(), Coach([]))


class Counting(BaseDataLoader):
    """Deals its items out in turn: what comes next depends on what came before."""

    def __init__(self, items):
        self.items = items
        self.dealt = 0

    def state_dict(self):
        return {"dealt": self.dealt}

    def load_state_dict(self, state):
        self.dealt = state["dealt"]

    def get_train_size(self):
        return 12

    def build_train_batch(self, batch_size, seed, **kwargs):
        first, self.dealt = self.dealt, self.dealt + batch_size
        dealt = [self.items[(first + at) % len(self.items)] for at in range(batch_size)]
        return BatchSpec("train", "train", seed, batch_size, dealt)

    def build_eval_batch(self, env_num, split, seed, **kwargs):
        items = [{**item, "id": f"{split}-{item['id']}"} for item in self.items]
        return BatchSpec("eval", split, seed, len(items), items)


class Dealt(Chosen):
    """Its loader has a state."""

    def __init__(self, split_dir):
        rooms = ("attic", "cellar", "hall")
        self.loader = Counting([{"id": f"t{at}", "room": rooms[at % 3]} for at in range(25)])

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        CALLS.append(("dealt", {"ids": [item["id"] for item in env_manager]}))
        return super().rollout(env_manager, skill_content, out_dir, **kwargs)


async def test_the_state_of_a_loader_survives_a_resume(tmp_path):
    wanted, _, events = await told(tmp_path, Dealt)
    for count in range(3, events, events // 5):
        folder = folder_of(tmp_path, str(count))
        await stopped(adapter_config(folder, Dealt, train=LONG), StopAfter(count))
        path = folder / "runs" / "doors"
        await resumed(path, Walker(), Coach(PLAN))
        assert story(path) == wanted


class Forgetful(Counting):
    def state_dict(self):
        return {"open": object()}


class Kept(Dealt):
    def __init__(self, split_dir):
        super().__init__(split_dir)
        self.loader = Forgetful(self.loader.items)


async def test_a_state_that_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(ContractError, match=r"state_dict\(\) of the loader must hold JSON values"):
        await trained(adapter_config(tmp_path, Kept), Walker(), Coach([]))
