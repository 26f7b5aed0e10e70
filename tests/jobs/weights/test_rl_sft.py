"""Supervised training by itself: judged against what it began with, and begun from there again."""

import pytest

from rl_world import (
    Notebook,
    ObedientMaker,
    lanes_config,
    recipe,
    resumed,
    story,
)
from skillwright.core import ConfigError
from skillwright.jobs.weights import START, supervised
from skillwright.jobs.weights.starting_weights import run_weights

TAUGHT = {"cold_start": {"steps": 40, "batch_rows": 16, "learning_rate": 0.02}}


def config_of(folder, **sections):
    folder.mkdir(exist_ok=True)
    both = {"evaluation": {"gate": {"kind": "explore"}}, **TAUGHT, **sections}
    return supervised(lanes_config(folder, **both))


async def test_supervised_training_is_proven_against_the_weights_that_it_began_with(tmp_path):
    notes = Notebook()
    path, report = await recipe(config_of(tmp_path), notes)
    state = report.state
    assert state.iterations == {}
    assert state.evolutions == {}
    assert sorted(state.validations) == [START, 0]
    assert state.validations[START].policy != state.validations[0].policy
    assert state.release is not None
    assert list(state.test.tables)[:2] == ["start", "final"]
    assert report.released == (0 if state.release.accepted else START)
    names = {file.name for file in (path / "checkpoints").iterdir()}
    assert names == {"start.ckpt", "iteration_00000.ckpt"}


async def test_what_is_not_proven_is_not_released(tmp_path):
    config = config_of(tmp_path)
    path, report = await recipe(config, maker=ObedientMaker(config))
    # It follows its skills before it learns anything, so nothing can be better afterwards.
    assert not report.state.release.accepted
    assert report.released == START
    assert run_weights(path).iteration == START
    assert run_weights(path, which="final").iteration == 0


@pytest.mark.parametrize("moment", [3, 8, 15, 20])
async def test_a_stopped_training_ends_as_one_that_was_not_stopped(tmp_path, moment):
    whole, _ = await recipe(config_of(tmp_path / "whole"))
    config = config_of(tmp_path / "stopped")
    with pytest.raises(BaseException) as stopped:  # noqa: PT011 - it may come in a group
        await recipe(config, Notebook(stop_at=moment))
    assert "Stopped" in repr(stopped.value)
    path = tmp_path / "stopped" / "runs" / "lanes"
    await resumed(path)
    assert story(path)["events"] == story(whole)["events"]


async def test_there_has_to_be_something_to_learn_from(tmp_path):
    with pytest.raises(ConfigError, match="cold_start is null"):
        supervised(lanes_config(tmp_path, cold_start=None))


async def test_a_run_begins_with_what_another_released(tmp_path):
    first, report = await recipe(config_of(tmp_path))
    began = run_weights(first, which="final")
    second = lanes_config(
        tmp_path,
        run={"name": "second"},
        policy={"width": 16, "start": str(first)},
        cold_start=None,
        evaluation={"baseline": "start"},
        grpo={"iterations": 1},
        evolve=None,
    )
    path, _ = await recipe(second)
    state = run_weights(path, which="final").state
    released = report.state.validations[report.released]
    assert state.validations[START].policy == released.policy
    assert state.policy["words"] == began.state.policy["words"]
    assert state.policy["start"]["weights"] == released.policy


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"start": "nowhere"}, "neither a folder of weights"),
        ({"start": "lanes", "width": 32}, "do not fit this policy: .*width"),
    ],
)
async def test_weights_that_do_not_fit_are_refused_before_a_run_begins(tmp_path, changed, says):
    await recipe(config_of(tmp_path))
    policy = {"width": 16, **changed}
    config = lanes_config(tmp_path, run={"name": "second"}, policy=policy)
    from skillwright.jobs.weights.wiring import PolicyMaker

    with pytest.raises(ConfigError, match=says):
        PolicyMaker(config).check()


async def test_weights_that_have_changed_since_a_run_began_are_noticed(tmp_path):
    await recipe(config_of(tmp_path))
    from skillwright.jobs.weights.wiring import PolicyMaker

    config = lanes_config(tmp_path, policy={"width": 16, "start": "lanes"})
    maker = PolicyMaker(config)
    begun = dict(maker.recipe([]))
    begun["start"] = {**begun["start"], "weights": "scorer:other"}
    with pytest.raises(ConfigError, match="not those that the run began with"):
        maker.make(begun)
