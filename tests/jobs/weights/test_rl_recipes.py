"""`policy.recipe`: published losses, what wins over them, and what dynamic sampling costs."""

from dataclasses import replace
from statistics import pstdev

import pytest
from rich.console import Console

from hf_world import write_tiny
from rl_world import (
    Notebook,
    ObedientMaker,
    Stopped,
    lanes_config,
    lanes_settings,
    recipe,
    resumed,
    story,
)
from skillwright.cli.rl_tables import show_rl
from skillwright.config.rl import validated_rl
from skillwright.core import ConfigError
from skillwright.core.policy_settings import RECIPES
from skillwright.jobs.run import RunStarted, StageStarted
from skillwright.jobs.weights.wiring import PolicyMaker, group_settings, grpo_settings
from skillwright.policy import GroupSettings, GrpoObjective, group_advantages

ENGINE = {"kind": "hf", "model": "m", "sampler": "vllm"}


def settings_of(tmp_path, policy, **grpo):
    config = lanes_config(tmp_path, policy=policy, grpo=grpo)
    return config, grpo_settings(config).objective, group_settings(config)


@pytest.mark.parametrize(
    ("name", "objective", "scaled", "rounds"),
    [
        ("skillrl", GrpoObjective(), True, 0),
        ("grpo", GrpoObjective(dual_clip=None, kl_weight=0.04, average="sequences"), True, 0),
        ("dr_grpo", GrpoObjective(dual_clip=None, kl_weight=0, average="constant"), False, 0),
        ("dapo", GrpoObjective(0.2, 0.28, None, kl_weight=0), True, 9),
        (
            "gspo",
            GrpoObjective(3e-4, 4e-4, None, 0, average="sequences", ratio="sequences"),
            True,
            0,
        ),
        ("gigpo", GrpoObjective(), True, 0),
    ],
)
def test_a_recipe_sets_the_known_settings(tmp_path, name, objective, scaled, rounds):
    config, ours, groups = settings_of(tmp_path, {"recipe": name})
    assert ours == objective
    assert groups.advantage.scale_by_std is scaled
    assert config.recipe.dynamic_sampling == rounds
    assert (groups.step_advantage is not None) == (name == "gigpo")


def test_the_default_recipe_is_that_of_the_seed_document(tmp_path):
    config, ours, groups = settings_of(tmp_path, {})
    assert config.policy.recipe == "skillrl"
    assert ours == GrpoObjective()
    assert groups == replace(GroupSettings(), size=groups.size)


def test_the_constant_of_dr_grpo_is_the_longest_answer(tmp_path):
    policy = {"kind": "hf", "model": "m", "max_new_tokens": 40, "recipe": "dr_grpo"}
    assert settings_of(tmp_path, policy)[1].most_tokens == 40
    # An episode has two turns at most.
    assert settings_of(tmp_path, policy, rows="trajectories")[1].most_tokens == 80


def test_own_settings_win_over_the_recipe_and_the_run_says_so(tmp_path):
    grpo = {"clip_low": 0.1, "kl_weight": 0.02, "dynamic_sampling": 1}
    config, ours, _ = settings_of(tmp_path, {"recipe": "dapo"}, **grpo)
    assert (ours.clip_low, ours.clip_high, ours.kl_weight) == (0.1, 0.28, 0.02)
    assert RECIPES["dapo"].dynamic_sampling == 9
    assert config.recipe.dynamic_sampling == 1


async def test_a_run_begins_by_naming_its_loss(tmp_path):
    notes = Notebook()
    config = lanes_config(
        tmp_path, policy={"recipe": "dapo"}, grpo={"iterations": 1, "kl_weight": 0.02}, evolve=None
    )
    await recipe(config, notes, maker=ObedientMaker(config))
    (begun,) = notes.of(RunStarted)
    (said,) = (one for one in begun.facts if one.startswith("loss of recipe dapo"))
    assert "; grpo.kl_weight 0.02 instead of the recipe's; up to 9 extra rounds" in said
    assert any(one.stage == "expert" for one in notes.of(StageStarted))


@pytest.mark.parametrize(
    ("policy", "grpo", "message"),
    [
        ({"recipe": "dpao"}, {}, r"policy\.recipe.*dapo"),
        ({"recipe": "dapo"}, {"clip_high": 0.1}, "clip_low is 0.2 and clip_high 0.1"),
        ({"recipe": "gspo"}, {"clip_low": 0.2}, "Set both or none"),
        ({}, {"clip_low": 1.0}, r"grpo\.clip_low"),
        ({}, {"clip_high": 2.5}, r"grpo\.clip_high"),
        ({}, {"dynamic_sampling": -1}, r"grpo\.dynamic_sampling"),
        ({}, {"tis_cap": 2.0}, "the policy samples by itself"),
        ({"kind": "hf", "model": "m"}, {"tis_cap": 2.0}, "the policy samples by itself"),
        (ENGINE, {"tis_cap": 0.5}, "set at least 1"),
        ({}, {"step_advantage": {}}, r"grpo\.step_advantage"),
    ],
)
def test_contradictory_settings_are_refused_in_a_sentence(tmp_path, policy, grpo, message):
    settings = lanes_settings(tmp_path)
    settings |= {"policy": policy, "grpo": {**settings["grpo"], **grpo}}
    with pytest.raises(ConfigError, match=message):
        validated_rl(settings, "lanes")


@pytest.mark.parametrize(
    ("policy", "given", "cap"),
    [({}, None, None), ({}, 0, None), (ENGINE, None, 2.0), (ENGINE, 0, None), (ENGINE, 3, 3.0)],
)
def test_importance_sampling_is_truncated_where_an_engine_samples(tmp_path, policy, given, cap):
    grpo = {} if given is None else {"tis_cap": given}
    assert settings_of(tmp_path, policy, **grpo)[1].tis_cap == cap


def guessing(tmp_path, rounds, **grpo):
    """Return a run whose policy guesses doors, so that many groups end alike."""
    return lanes_config(
        tmp_path,
        bank={"inject": "none"},
        evolve=None,
        grpo={"iterations": 2, "group_size": 2, "dynamic_sampling": rounds, **grpo},
    )


async def test_dynamic_sampling_replaces_groups_without_variance_and_tells_its_cost(tmp_path):
    config = guessing(tmp_path, rounds=8, tasks_per_iteration=4)
    notes = Notebook()
    _, report = await recipe(config, notes, maker=ObedientMaker(config))
    extra = 0
    for one in report.state.iterations.values():
        rates = one.solved.values()
        assert sum(rate not in (0, 1) for rate in rates) == one.groups - one.zero_variance == 4
        assert one.extra == 2 * (one.groups - 4)
        assert one.episodes == 2 * one.groups == 2 * len(one.solved)
        extra += one.extra
    assert extra > 0
    played = sum(one.episodes for one in notes.of(StageStarted) if one.stage == "rollouts")
    assert played == sum(one.episodes for one in report.state.iterations.values())
    console = Console(width=100, record=True)
    show_rl(console, report.state, None, scripted=False)
    groups = sum(one.groups for one in report.state.iterations.values())
    said = " ".join(console.export_text().split())
    assert f"dynamic sampling: {groups - 8} of {groups} groups thrown away, {extra} extra" in said


async def test_dynamic_sampling_ends_where_rounds_or_tasks_do(tmp_path):
    config = guessing(tmp_path / "rounds", rounds=1, tasks_per_iteration=6)
    _, report = await recipe(config, maker=ObedientMaker(config))
    assert all(one.groups <= 12 for one in report.state.iterations.values())
    config = guessing(tmp_path / "tasks", rounds=8, tasks_per_iteration=24)
    _, report = await recipe(config, maker=ObedientMaker(config))
    assert [(one.groups, one.extra) for one in report.state.iterations.values()] == [(24, 0)] * 2


async def test_a_stopped_run_with_dynamic_sampling_ends_as_one_that_ran_through(tmp_path):
    through = guessing(tmp_path / "through", rounds=8, tasks_per_iteration=4)
    notes = Notebook()
    path, _ = await recipe(through, notes, maker=ObedientMaker(through))
    stages = [type(one) is StageStarted and one.stage == "rollouts" for one in notes.events]
    second = [number for number, is_one in enumerate(stages, start=1) if is_one][1]
    config = guessing(tmp_path / "stopped", rounds=8, tasks_per_iteration=4)
    with pytest.raises(Stopped):
        await recipe(config, Notebook(second), maker=ObedientMaker(config))
    stopped = tmp_path / "stopped" / "runs" / "lanes"
    await resumed(stopped, maker=ObedientMaker(config))
    assert story(stopped) == story(path)


def test_an_adapter_is_put_on_the_layers_that_are_named(tmp_path):
    model = str(write_tiny(tmp_path / "base"))
    lora = {"rank": 2, "targets": ["q_proj", "v_proj"]}
    policy = {"kind": "hf", "model": model, "device": "cpu", "lora": lora}
    maker = PolicyMaker(lanes_config(tmp_path, policy=policy))
    trained = maker.make(maker.recipe([])).weights.trained()
    assert {name.split(".")[-4] for name in trained} == {"q_proj", "v_proj"}
    policy = {**policy, "lora": {"targets": ["q_projj"]}}
    maker = PolicyMaker(lanes_config(tmp_path, policy=policy))
    with pytest.raises(ConfigError, match=r"policy\.lora\.targets names 'q_projj'.*'q_proj'"):
        maker.check()


def test_advantages_of_dr_grpo_are_not_divided_by_the_deviation(tmp_path):
    groups = settings_of(tmp_path, {"recipe": "dr_grpo"})[2]
    rewards = [1.0, 0.0, 0.0, 0.0]
    assert group_advantages(rewards, groups.advantage) == [0.75, -0.25, -0.25, -0.25]
    scaled = group_advantages(rewards, settings_of(tmp_path, {"recipe": "grpo"})[2].advantage)
    assert scaled[0] == pytest.approx(0.75 / (pstdev(rewards) * (4 / 3) ** 0.5), rel=1e-4)
