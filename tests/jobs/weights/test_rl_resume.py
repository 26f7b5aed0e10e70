"""A run that is stopped anywhere, and continues, ends as if it had not been."""

import asyncio
import random
import re
from pathlib import Path

import pytest

from rl_world import (
    Notebook,
    Obedient,
    ObedientMaker,
    Stopped,
    Tutor,
    Visitor,
    lanes_config,
    llms,
    recipe,
    resumed,
    story,
)
from skillwright.bank import BankStore
from skillwright.config import load_rl_config
from skillwright.jobs.run import BudgetSpent, RunStarted
from skillwright.jobs.weights import IterationEnded, open_rl, run_rl, start_rl
from skillwright.jobs.weights.validation import Checkpoints
from skillwright.policy import BankVersionGone, CheckpointDamaged
from skillwright.rollout import EngineDown

# A network of its own, an evolution that is accepted, and one that is not.
LATER = (("cellar", "hall"), ("attic",))


def config_of(folder):
    return lanes_config(folder, grpo={"iterations": 5, "checkpoint_every": 3, "harder": True})


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Every run's tasks lie in one folder, so that all runs are the same run."""
    return tmp_path_factory.mktemp("tasks")


def config_in(tasks, root):
    base = config_of(tasks)
    return base.model_copy(update={"run": base.run.model_copy(update={"root": str(root)})})


@pytest.fixture(scope="module")
def undisturbed(tasks, tmp_path_factory):
    """The story of a run that nobody stops, and how many events it has."""
    notes = Notebook()
    config = config_in(tasks, tmp_path_factory.mktemp("whole"))
    path, report = asyncio.run(recipe(config, notes, tutor=Tutor(later=LATER)))
    assert report.state.finished
    return story(path), len(notes.events)


def stops(count, many):
    """Draw moments over a whole run, the first and the last event among them."""
    rng = random.Random(11)
    return sorted({1, many, *rng.sample(range(2, many), count - 2)})


async def stopped_at(tasks, root, moment):
    config = config_in(tasks, root)
    with pytest.raises(Stopped):
        await recipe(config, Notebook(stop_at=moment), tutor=Tutor(later=LATER))
    return root / "lanes"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45, 0.6, 0.8, 0.97])
async def test_a_run_that_is_stopped_once_ends_as_one_that_is_not(
    tasks, undisturbed, tmp_path, share
):
    whole, events = undisturbed
    path = await stopped_at(tasks, tmp_path, 1 + round(share * (events - 1)))
    await resumed(path, tutor=Tutor(later=LATER))
    assert story(path) == whole


@pytest.mark.heavy
async def test_a_run_that_is_stopped_at_any_of_twenty_moments_ends_as_one_that_is_not(
    tasks, undisturbed, tmp_path
):
    whole, events = undisturbed
    for moment in stops(20, events):
        path = await stopped_at(tasks, tmp_path / str(moment), moment)
        await resumed(path, tutor=Tutor(later=LATER))
        assert story(path) == whole, moment


async def test_a_run_that_is_stopped_again_and_again_ends_as_one_that_is_not(
    tasks, undisturbed, tmp_path
):
    path = await stopped_at(tasks, tmp_path, 40)
    for _ in range(100):
        try:
            await resumed(path, Notebook(stop_at=90), tutor=Tutor(later=LATER))
        except Stopped:
            continue
        break
    assert story(path) == undisturbed[0]


async def test_nothing_that_is_stored_is_asked_or_played_again(tasks, tmp_path):
    path = await stopped_at(tasks, tmp_path, 150)
    visitor, tutor = Visitor(), Tutor(later=LATER)
    await resumed(path, visitor=visitor, tutor=tutor)
    assert visitor.calls == []  # base and expert were over
    assert not [call for call in tutor.calls if call[0].startswith("# Distill")]


async def test_a_resumed_run_continues_from_its_latest_checkpoint(tmp_path):
    config = lanes_config(tmp_path, evolve=None, evaluation={"val_every": 100})
    path = await played_until(config, 4)
    notes = Notebook()
    await resumed(path, notes, maker=ObedientMaker(config))
    assert [one.record.iteration for one in notes.of(IterationEnded)] == [4]
    (started,) = notes.of(RunStarted)
    assert started.resumed_at == 4
    assert not any("played again" in fact for fact in started.facts)


async def test_iterations_since_the_latest_checkpoint_are_said_to_be_played_again(tmp_path):
    config = lanes_config(tmp_path, evolve=None, evaluation={"val_every": 100})
    path = await played_until(config, 3)
    notes = Notebook()
    await resumed(path, notes, maker=ObedientMaker(config))
    (started,) = notes.of(RunStarted)
    again = [one.record.iteration for one in notes.of(IterationEnded)]
    assert (started.resumed_at, again) == (1, [1, 2, 3, 4])
    fact = "iterations 1 to 2 are played again: weights were saved after 0"
    assert fact in started.facts


async def test_a_damaged_checkpoint_is_passed_over_and_played_again(tmp_path):
    config = lanes_config(tmp_path, evolve=None, evaluation={"val_every": 100})
    path = await played_until(config, 4)
    latest = path / "checkpoints" / "iteration_00003.ckpt"
    latest.write_bytes(latest.read_bytes()[:-3])
    notes = Notebook()
    await resumed(path, notes, maker=ObedientMaker(config))
    assert [one.record.iteration for one in notes.of(IterationEnded)] == [1, 2, 3, 4]


async def test_checkpoints_that_are_gone_are_said_to_be(tmp_path):
    config = lanes_config(tmp_path, evolve=None)
    path = await played_until(config, 3)
    for file in (path / "checkpoints").iterdir():
        file.unlink()
    with pytest.raises(CheckpointDamaged, match="there is no checkpoint in"):
        await resumed(path, maker=ObedientMaker(config))


async def test_a_bank_that_is_gone_is_not_taken_for_an_empty_one(tmp_path):
    config = lanes_config(tmp_path)
    path = await played_until(config, 4)
    for file in (path / "bank").iterdir():
        file.unlink()
    with pytest.raises(BankVersionGone, match="restore the bank's file"):
        await resumed(path, maker=ObedientMaker(config))


async def test_another_bank_in_the_place_of_the_runs_own_is_noticed(tmp_path):
    config = lanes_config(tmp_path, evolve=None)
    path = await played_until(config, 4)
    others = lanes_config(tmp_path / "other", evolve=None)
    theirs, _ = await recipe(others, tutor=Tutor(first=["hall"]), maker=ObedientMaker(others))
    for name in ("bank.sqlite",):
        for file in (path / "bank").iterdir():
            file.unlink()
        (path / "bank" / name).write_bytes((theirs / "bank" / name).read_bytes())
    with pytest.raises(BankVersionGone, match="another version 1 of the skill bank"):
        await resumed(path, maker=ObedientMaker(config))


async def played_until(config, iteration):
    """Play until an iteration is over, and stop."""

    class Until(Notebook):
        def on_event(self, event):
            super().on_event(event)
            if isinstance(event, IterationEnded) and event.record.iteration == iteration:
                raise Stopped

    with pytest.raises(Stopped):
        await recipe(config, Until(), maker=ObedientMaker(config))
    return tmp_root(config)


def tmp_root(config):
    return Path(config.run.root) / config.run.name


async def test_a_spent_budget_stops_the_run_and_a_larger_one_lets_it_resume(tmp_path):
    config = lanes_config(tmp_path, budget={"minutes": 1e-6})
    with pytest.raises(BudgetSpent, match="Resume with a larger one"):
        await recipe(config, maker=ObedientMaker(config))
    with open_rl(tmp_root(config), overrides=["budget.minutes=60"]) as run:
        report = await run_rl(run, Notebook(), llms(), ObedientMaker(config))
    assert report.state.finished


def test_the_configuration_of_a_run_is_read_back_as_it_was(tmp_path, tasks):
    config = config_in(tasks, tmp_path)
    with start_rl(config) as run:
        assert load_rl_config(run.folder.path / "config.yaml") == config


async def test_what_a_kill_left_half_written_is_swept_away(tmp_path):
    config = lanes_config(tmp_path, evolve=None)
    path = await played_until(config, 3)
    half = path / "checkpoints" / ".iteration_00003.ckpt.999"
    half.write_bytes(b"half")
    await resumed(path, maker=ObedientMaker(config))
    assert not half.exists()


def test_a_checkpoint_holds_policy_and_bank_version(tmp_path):
    with BankStore.open(tmp_path / "bank.sqlite") as bank:
        checkpoints, policy = Checkpoints(tmp_path / "checkpoints", bank), Obedient()
        policy.steps = 7
        checkpoints.save(policy, 3, 0)
        other = Obedient()
        kept = checkpoints.load(other, 3)
    assert (kept.iteration, kept.bank_version, other.steps) == (3, 0, 7)
    assert kept.policy == {"steps": 7, "reference": ""}


async def test_a_test_without_a_score_is_no_result_and_is_played_again(tmp_path):
    rollout = {"give_up_after": None, "max_failure_share": None, "retries": 0}
    config = lanes_config(tmp_path, grpo={"iterations": 1}, rollout=rollout)
    file = tmp_path / "tasks" / "test" / "items.json"
    whole = file.read_text("utf-8")
    file.write_text(re.sub(r'"room": "\w+"', '"room": "ruin"', whole), encoding="utf-8")
    with pytest.raises(EngineDown, match="episodes failed, so there is no score"):
        await recipe(config)
    with open_rl(tmp_path / "runs" / "lanes") as run:
        assert not run.state.finished
        assert run.state.test is None
