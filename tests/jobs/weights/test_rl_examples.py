"""Every configuration of the recipe that is checked in is read, and what needs no GPU runs."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from rl_world import Notebook
from skillwright.config import RlConfig, dump_rl_config, is_rl_config, load_config, load_rl_config
from skillwright.config.rl import (
    HfPolicyConfig,
    ScorerPolicyConfig,
)
from skillwright.core import ConfigError
from skillwright.jobs.weights import run_rl, start_rl
from skillwright.jobs.weights.preflight import preflight_rl
from skillwright.jobs.weights.wiring import group_settings, grpo_settings
from skillwright.policy import GroupSettings, GrpoSettings
from skillwright.policy.hf import HfSettings
from skillwright.policy.scorer import Architecture

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples" / "rl").glob("*.yaml"))


def test_there_are_examples_for_every_kind_of_policy_and_environment():
    names = {(config.policy.kind, config.env.name) for config in map(load_rl_config, EXAMPLES)}
    assert names == {
        ("scorer", "alfworld"),
        ("scorer", "webshop"),
        ("hf", "tau_bench"),
        ("hf", "alfworld"),
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_and_read_back_as_it_was_written(path, tmp_path):
    config = load_rl_config(path)
    assert config.run.name == path.stem
    again = tmp_path / "config.yaml"
    again.write_text(dump_rl_config(config), encoding="utf-8")
    assert load_rl_config(again) == config


def test_a_configuration_of_the_recipe_is_distinguished_from_that_of_a_training():
    assert all(map(is_rl_config, EXAMPLES))
    assert not is_rl_config(ROOT / "examples" / "guess.yaml")


def test_the_scorer_of_a_configuration_is_the_one_that_the_policy_builds_by_default():
    ours, theirs = ScorerPolicyConfig(), Architecture()
    names = ("width",)
    assert {n: getattr(ours, n) for n in names} == {n: getattr(theirs, n) for n in names}


def test_a_default_of_the_recipe_is_the_default_of_what_it_sets():
    recipe = RlConfig(distill=None, cold_start=None, evolve=None)
    assert grpo_settings(recipe) == GrpoSettings()
    assert group_settings(recipe) == GroupSettings()
    assert HfSettings.of(HfPolicyConfig(model="m")) == HfSettings()


SMALL = (
    "grpo.iterations=1",
    "grpo.tasks_per_iteration=2",
    "grpo.group_size=2",
    "policy.width=16",
)


@pytest.mark.parametrize(
    ("name", "smaller"),
    [
        (
            "webshop",
            ("env.data.val=12", "env.data.test=2", "env.data.train=12", "cold_start.steps=2"),
        ),
        (
            "coevolve",
            (
                "env.data.train=48",
                "env.data.val=12",
                "env.data.test=6",
                "distill.tasks=12",
                "cold_start.steps=2",
                "cold_start.tasks=12",
                "evolve.every=1",
                "evolve.trigger_accuracy=1",
                "internalize.steps=2",
                "internalize.margin=0.6",
            ),
        ),
        (
            "alfworld",
            (
                "env.data.train=48",
                "env.data.homes=2",
                "env.data.val=12",
                "env.data.test=6",
                "cold_start.steps=2",
                "cold_start.tasks=12",
                "evolve.every=1",
                "evolve.trigger_accuracy=1",
            ),
        ),
    ],
)
async def test_an_example_without_a_gpu_runs_to_its_end(tmp_path, name, smaller):
    path = ROOT / "examples" / "rl" / f"{name}.yaml"
    config = load_rl_config(path, [*SMALL, *smaller, f"run.root={tmp_path}"])
    maker = await preflight_rl(config)
    with start_rl(config) as run:
        report = await run_rl(run, Notebook(), maker=maker)
    assert report.state.finished
    assert report.test.tables["final"].overall.episodes == config.env.data.test


def test_a_file_of_the_recipe_is_no_file_of_a_training():
    with pytest.raises(ConfigError):
        load_config(EXAMPLES[0])


def leaves(model, path=""):
    """Every key below a model that is no section itself, dotted."""
    for name, field in model.model_fields.items():
        kinds, todo = [], [field.annotation]
        while todo:
            one = todo.pop()
            if isinstance(one, type) and issubclass(one, BaseModel):
                kinds.append(one)
            todo += getattr(one, "__args__", ())
        for kind in kinds:
            yield from leaves(kind, f"{path}{name}.")
        if not kinds:
            yield f"{path}{name}"


def test_every_key_of_the_recipe_is_read_somewhere():
    shared = ("env.", "models.", "budget.", "evaluation.gate.", "distill.", "evolve.")
    own = {key for key in leaves(RlConfig) if not key.startswith(shared)} - {"policy.kind"}
    own |= {"evolve.every", "distill.max_turns", "distill.tasks"}
    source = ROOT / "src" / "skillwright"
    schema = source / "config"
    files = [*(source / "jobs" / "weights").glob("*.py"), schema / "rl.py", schema / "bank.py"]
    files.append(source / "jobs/run/bench.py")  # the engine maker of every job
    # A section that is handed on whole is read by its learner or the engine.
    files += [
        file
        for name in ("policy", "rollout", "bank", "plugins/ray")
        for file in (source / name).rglob("*.py")
    ]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    unread = {key for key in own if not re.search(rf"\.{key.rpartition('.')[2]}\b", text)}
    handed_on_whole = ("grpo.schedule.", "cold_start.schedule.")
    handed_on_whole += ("internalize.schedule.",)
    assert {key for key in unread if not key.startswith(handed_on_whole)} == set()
