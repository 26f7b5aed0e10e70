"""A run of the recipe in a tracker: its curves, once each, whoever stops it."""

import re
import sys
from pathlib import Path

import pytest

from rl_world import Notebook, ObedientMaker, Stopped, Tutor, lanes_config, recipe, resumed, story
from skillwright.core import ConfigError
from skillwright.jobs.run import ReleaseTested, find_run
from skillwright.jobs.weights import IterationEnded
from skillwright.jobs.weights.preflight import preflight_rl
from tracker_libraries import calls, install

DOCS = Path(__file__).resolve().parents[3] / "docs" / "trackers.md"


@pytest.fixture
def kept(monkeypatch):
    return install(monkeypatch, "tensorboardX")


def followed(folder, **sections):
    config = lanes_config(folder, evaluation={"gate": {"kind": "explore"}}, **sections)
    run = config.run.model_copy(update={"trackers": ["tensorboard"]})
    return config.model_copy(update={"run": run})


def points(kept, tag):
    """Return step and value of every scalar of a name."""
    return [(one["step"], one["value"]) for one in calls(kept, "add_scalar") if one["tag"] == tag]


async def test_every_iteration_and_validation_is_a_point_of_its_curves(tmp_path, kept):
    config, notes = followed(tmp_path), Notebook()
    _, report = await recipe(config, notes, maker=ObedientMaker(config))
    records = report.state.iterations
    assert points(kept, "reward") == [(n, one.reward) for n, one in records.items()]
    assert points(kept, "kl") == [(n, one.kl) for n, one in records.items()]
    shares = [(n, one.zero_variance_share) for n, one in records.items()]
    assert points(kept, "zero_variance_share") == shares
    vals = [(n, one.success) for n, one in report.state.validations.items()]
    assert points(kept, "val/success_rate") == vals
    assert {step for step, _ in points(kept, "success_by_type/attic")} <= set(records)
    assert [step for step, _ in points(kept, "bank/version")] == list(report.state.evolutions)
    assert points(kept, "cold_start/loss")
    (release,) = notes.of(ReleaseTested)
    assert release.verdict == report.state.release
    assert points(kept, "release/gain") == [(4, release.verdict.effect)]


async def test_names_of_the_recipe_are_those_of_the_guide(tmp_path, kept):
    config = followed(tmp_path)
    await recipe(config, maker=ObedientMaker(config))
    known = set(re.findall(r"`([a-z_/*<> ]+)`", DOCS.read_text(encoding="utf-8")))
    patterns = [re.sub(r"<[a-z ]+>", "[^/]+", name) for name in known]
    names = {one["tag"] for one in calls(kept, "add_scalar")}
    assert not [one for one in names if not any(re.fullmatch(p, one) for p in patterns)]


async def test_a_recipe_that_is_stopped_and_resumed_sends_each_iteration_once(tmp_path, kept):
    config = followed(tmp_path, grpo={"iterations": 5, "checkpoint_every": 3})

    class StopAfter(Notebook):
        def on_event(self, event):
            super().on_event(event)
            if isinstance(event, IterationEnded) and event.record.iteration == 4:
                raise Stopped

    with pytest.raises(Stopped):
        await recipe(config, StopAfter(), tutor=Tutor(), maker=ObedientMaker(config))
    path = find_run("lanes", tmp_path / "runs")
    await resumed(path, maker=ObedientMaker(config))
    assert [step for step, _ in points(kept, "reward")] == [1, 2, 3, 4, 5]
    assert len(points(kept, "release/gain")) == 1


async def test_a_recipe_decides_the_same_with_a_tracker_and_without(tmp_path, kept):
    del kept
    paths = []
    for name in ("with", "without"):
        config = followed(tmp_path / name)
        if name == "without":
            run = config.run.model_copy(update={"trackers": []})
            config = config.model_copy(update={"run": run})
        paths.append((await recipe(config, maker=ObedientMaker(config)))[0])
    assert story(paths[0]) == story(paths[1])


async def test_a_missing_library_is_found_before_a_recipe_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match="pip install tensorboardX"):
        await preflight_rl(followed(tmp_path))
