"""What a run will take is known before it begins, and holds against a run that was made."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_config, doors_settings, look, trained
from skillwright.cli.app import app
from skillwright.core import ConfigError
from skillwright.core.jsonio import dumps
from skillwright.jobs.run import Assumptions, Sizes, expected_turns, make_splits
from skillwright.jobs.text import EvalPlan, estimate, estimate_evaluation, expected_episodes
from skillwright.models import HttpClient
from somebodys import Documented, adapter_config
from tau_models import shop, tau_config

PRICES = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 10, "as_of": "spring"}


def stages(found):
    return {stage.name: stage for stage in found.stages}


def paid(tmp_path, prices=PRICES, **sections):
    remote = {"backend": "openai_chat", "base_url": "http://localhost:1/v1", "prices": prices}
    models = {"target": {**remote, "model": "t"}, "optimizer": {**remote, "model": "o"}}
    return doors_config(tmp_path, models=models, **sections)


@pytest.mark.parametrize("gate", ["paired", "explore"])
async def test_episodes_per_stage_are_those_of_a_run_that_was_made(tmp_path, gate):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": gate}})
    found = stages(await estimate(config, ""))
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], ["Be quick."]]))
    with look(path) as store:
        played = Counter(episode.phase for episode in store.episodes())
        asked = Counter(call.purpose.value for call in store.calls())
    assert found["train"].episodes == played["train"]
    # With a release test the current skill may be another than the best one, and was not here.
    assert found["test"].episodes == played["test"] + (12 if gate == "explore" else 0)
    # A clear gain is proven at the first look; two looks are expected.
    assert ("release test" in found) is (gate == "explore")
    if gate == "explore":
        assert found["release test"].episodes == 1.5 * played["release"] == 72
    # Two candidates of which one is accepted: one more than is assumed. Clear ones take few draws.
    judged = found["baseline"].episodes + found["gate"].episodes
    assert judged == pytest.approx(played["gate"], rel=0.5 if gate == "explore" else 0.25)
    assert ("lines" in found) is (gate == "explore")  # up to two draws of each task
    assert found["reflect"].calls == pytest.approx(asked["reflect"], abs=2)


@pytest.mark.parametrize(
    ("skill", "sections"),
    [
        ("", {"train": {"epochs": 1, "batch_size": 5, "accumulation": 2}}),
        ("Be brief.", {"evaluation": {"empty_baseline": True, "confirm_tasks": 4}}),
        ("", {"optimizer": {"gate_slow_update": False}}),
    ],
)
async def test_the_episodes_are_those_that_are_expected_of_a_run(skill, sections, tmp_path):
    config = doors_config(tmp_path, **sections)
    found = stages(await estimate(config, skill))
    splits = make_splits(config)
    sizes = Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test))
    expected = expected_episodes(config, sizes, starts_blank=not skill)
    assert sum(stage.episodes for stage in found.values()) == expected


async def test_longer_training_takes_more_of_what_it_repeats(tmp_path):
    once = stages(await estimate(doors_config(tmp_path), ""))
    thrice = stages(
        await estimate(doors_config(tmp_path, train={"epochs": 3, "batch_size": 6}), "")
    )
    for name in ("train", "reflect", "merge"):
        assert thrice[name].calls == 3 * once[name].calls
    assert thrice["test"] == once["test"]
    assert thrice["epoch update"].episodes == 2 * 12 * 2
    assert thrice["meta skill"].calls == 2
    assert "meta skill" not in once


async def test_the_opening_is_measured_with_the_skill_and_each_turn_adds_to_the_prompt(tmp_path):
    config = doors_config(tmp_path)
    bare, told = await estimate(config, ""), await estimate(config, "x" * 4_000)
    assert told.opening_tokens - bare.opening_tokens == pytest.approx(1_000, abs=10)
    one, two = [await estimate(config, "", turns=turns) for turns in (1, 2)]
    first, second = stages(one)["baseline"], stages(two)["baseline"]
    assert first.input_tokens == 24 * one.opening_tokens
    assert second.input_tokens == 24 * (2 * one.opening_tokens + 150)
    assert (first.calls, second.calls) == (24, 48)


async def test_money_follows_the_prices_and_is_unknown_without_them(tmp_path):
    found = await estimate(paid(tmp_path), "")
    for stage in found.stages:
        expected = (stage.input_tokens + 10 * stage.output_tokens) / 1e6
        assert stage.cost_usd == pytest.approx(expected)
    assert found.total.cost_usd == pytest.approx(sum(stage.cost_usd for stage in found.stages))
    assert "spring" in found.llms[0].line()
    unknown = await estimate(paid(tmp_path, prices=None), "")
    assert unknown.total.cost_usd is None
    assert {stage.cost_usd for stage in unknown.stages} == {None}


async def test_long_prompts_are_charged_as_such(tmp_path):
    tier = {"over_tokens": 60, "input_usd_per_mtok": 1000, "output_usd_per_mtok": 0}
    plain = await estimate(paid(tmp_path), "", turns=5)
    dear = await estimate(paid(tmp_path, prices=PRICES | {"long_prompts": tier}), "", turns=5)
    assert stages(dear)["baseline"].cost_usd > 100 * stages(plain)["baseline"].cost_usd


async def test_it_says_when_a_budget_will_not_do(tmp_path):
    config = paid(tmp_path, budget={"usd": 0.01})
    assert "over budget.usd = 0.01" in (await estimate(config, "")).over_budget(config)
    config = paid(tmp_path, budget={"tokens": 10})
    assert "over budget.tokens = 10" in (await estimate(config, "")).over_budget(config)
    config = paid(tmp_path, budget={"usd": 1_000})
    assert (await estimate(config, "")).over_budget(config) == ""


async def test_nobody_is_asked(tmp_path, monkeypatch):
    async def ask(*about, **more):
        raise AssertionError("a request was sent")

    monkeypatch.setattr(HttpClient, "post_json", ask)
    await estimate(paid(tmp_path), "")


async def test_a_simulated_user_is_not_asked_but_counted(tmp_path, monkeypatch):
    async def ask(*about, **more):
        raise AssertionError("a request was sent")

    monkeypatch.setattr(HttpClient, "post_json", ask)
    data, settings = shop(tmp_path / "shop"), {"prices": PRICES}
    config = tau_config(tmp_path, data, user_strategy="llm", user_settings=settings)
    found = await estimate(config, "", turns=4)
    played = sum(stage.episodes for stage in found.stages)
    user = stages(found)["simulated user"]
    assert (user.role, user.calls) == ("user", 3 * played)
    assert user.cost_usd == pytest.approx((user.input_tokens + 10 * user.output_tokens) / 1e6)
    assert found.llms[-1].role == "user"
    unknown = await estimate(tau_config(tmp_path, data, user_strategy="llm"), "")
    assert unknown.llms[-1].line().endswith("set env.config.user_settings.prices")
    assert "simulated user" not in stages(await estimate(tau_config(tmp_path, data), ""))


async def test_native_tools_are_a_part_of_every_prompt(tmp_path):
    data = shop(tmp_path / "shop")
    tags, native = [
        (await estimate(tau_config(tmp_path, data, tools=tools), "")).opening_tokens
        for tools in ("tags", "native")
    ]
    # The same schemas, in the prompt or beside it; the first has line breaks and how to write tags.
    assert 0.5 * tags < native < tags


async def test_an_adapters_calls_cannot_be_known(tmp_path):
    with pytest.raises(ConfigError, match="asks its models by itself"):
        await estimate(adapter_config(tmp_path, Documented), "")


@pytest.mark.parametrize(("bound", "turns"), [(None, 8), (1, 1), (50, 38)])
def test_turns_follow_the_bound(bound, turns):
    assert expected_turns(bound) == turns


def test_every_assumption_is_told():
    said = " ".join(Assumptions(turns=7).lines())
    for figure in (
        "7 turns",
        "50 tokens",
        "100 of",
        "50%",
        "33%",
        "1,500",
        "1,200",
        "4 characters",
    ):
        assert figure in said


def write(tmp_path, **settings):
    path = tmp_path / "run.yaml"
    path.write_text(dumps(doors_settings(tmp_path) | settings), encoding="utf-8")
    return str(path)


def test_the_command_prints_a_table_with_all_that_it_rests_on(tmp_path):
    said = CliRunner().invoke(app, ["estimate", write(tmp_path)])
    assert said.exit_code == 0, said.output
    for word in ("train", "gate", "total", "Prices:", "It rests on:", "free", "measured on"):
        assert word in said.output
    assert said.output.count("tokens in") == 1  # one table, with an evaluation as its last row
    assert "eval alone" in said.output
    assert "simulated user" not in said.output  # none takes part


def test_the_command_gives_json_to_scripts(tmp_path):
    arguments = ["estimate", write(tmp_path), "--json", "--turns", "1", "--set", "budget.tokens=5"]
    said = CliRunner().invoke(app, arguments)
    told = json.loads(said.stdout)
    assert told["total"]["calls"] == sum(stage["calls"] for stage in told["stages"])
    assert told["assumptions"]["turns"] == 1
    assert told["over_budget"].startswith("over budget.tokens = 5")


@pytest.mark.parametrize(("split", "tasks"), [("train", 12), ("val", 24), ("test", 12)])
async def test_an_evaluation_plays_a_split_as_often_as_planned(tmp_path, split, tasks):
    config = paid(tmp_path)
    found = await estimate_evaluation(config, "", EvalPlan(split, 3), turns=2)
    (stage,) = found.stages
    assert (stage.name, stage.episodes, stage.calls) == ("evaluate", 3 * tasks, 6 * tasks)
    assert stage.input_tokens == 3 * tasks * (2 * found.opening_tokens + 150)
    assert stage.cost_usd == pytest.approx((stage.input_tokens + 10 * stage.output_tokens) / 1e6)
    assert [llm.role for llm in found.llms] == ["target"]


async def test_an_evaluations_simulated_user_is_counted(tmp_path):
    config = tau_config(tmp_path, shop(tmp_path / "shop"), user_strategy="llm")
    found = await estimate_evaluation(config, "", EvalPlan("test", 1), turns=4)
    assert [stage.name for stage in found.stages] == ["evaluate", "simulated user"]
    assert found.stages[1].calls == 3 * found.stages[0].episodes
