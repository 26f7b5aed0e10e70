"""What a run of the recipe is said to take is what it takes."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rl_world import ROOMS, ObedientMaker, Tutor, lanes_config, recipe
from skillwright.cli.app import app
from skillwright.config import dump_rl_config, load_rl_config
from skillwright.jobs.weights import estimate_rl
from skillwright.runs import RunStore

VAL = TEST = 9  # tasks of the tiny world


def stages_of(estimate):
    return {stage.name: stage for stage in estimate.stages}


async def ran(config, tutor):
    """Run the recipe; count its episodes by phase, and those of each duel."""
    path, _ = await recipe(config, tutor=tutor, maker=ObedientMaker(config))
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        played = Counter(row.phase for row in store.episodes())
        return played, [one.body["rollouts"] for one in store.verdicts()]


@pytest.mark.parametrize("base", [None, {"backend": "scripted", "model": "searcher"}])
async def test_the_episodes_and_requests_of_a_run_are_those_that_were_estimated(tmp_path, base):
    models = {"base": base} if base else {}
    # Every task would get new skills, each proposal goes to the gate, and none is accepted.
    config = lanes_config(
        tmp_path,
        models=models,
        grpo={"keep_rollouts": True},
        evaluation={"gate": {"kind": "paired"}, "alpha": 0.01, "select": "last"},
    )
    tutor = Tutor(first=(), later=(tuple(ROOMS), tuple(ROOMS)))
    played, duels = await ran(config, tutor)
    stages = stages_of(await estimate_rl(config))
    assert stages["base"].role == ("base" if base else "policy")
    assert bool(stages["base"].calls) == bool(base)
    phases = {
        "base": "base",
        "cold start": "expert",
        "rollouts": "grpo",
        "evolution split": "evolution",
        "gate": "gate",
        "val": "val",
    }
    for stage, phase in phases.items():
        assert stages[stage].episodes == played[phase] > 0, stage
    assert duels == [stages["gate"].episodes // config.evolutions] * config.evolutions
    # The bank is the first one still, and there is no other place: two of five are left out.
    assert stages["test"].episodes == 5 * TEST
    assert played["test"] == 3 * TEST
    asked = Counter(system.split(":")[0] for system, _ in tutor.calls)
    assert stages["evolve"].calls == asked["# Evolve"] == config.evolutions
    # Which of its episodes a category wins may take a request more, or one less.
    assert abs(stages["distill"].calls - asked["# Distill"]) <= len(ROOMS)


async def test_what_is_known_already_is_not_played_again_so_there_may_be_less(tmp_path):
    config = lanes_config(tmp_path)
    tutor = Tutor()
    played, duels = await ran(config, tutor)
    stages = stages_of(await estimate_rl(config))
    # Nothing is weak after the change is accepted, and so there is one proposal of two.
    asked = sum(system.startswith("# Evolve") for system, _ in tutor.calls)
    assert (asked, stages["evolve"].calls) == (1, 2)
    assert duels == [stages["gate"].episodes // 2]
    # Tasks that the change tells nothing new are played once for both banks.
    assert VAL <= played["gate"] <= duels[0]
    # The same weights with the same skills are measured once.
    assert VAL < played["val"] <= stages["val"].episodes
    assert 2 * TEST < played["test"] <= stages["test"].episodes


async def test_a_simulated_user_hears_half_of_a_base_episode_however_long_that_is():
    example = Path(__file__).parents[3] / "examples" / "rl" / "tau_bench.yaml"
    usual, longer = [
        await estimate_rl(load_rl_config(example, [f"distill.max_turns={turns}"]))
        for turns in (40, 80)
    ]
    assert longer.turns == usual.turns
    more = (longer.base_turns - usual.base_turns) // 2
    assert (
        longer.calls("user") - usual.calls("user") == more * stages_of(usual)["base"].episodes > 0
    )


async def test_a_stage_that_is_left_out_takes_nothing(tmp_path):
    config = lanes_config(
        tmp_path, distill=None, cold_start=None, evolve=None, evaluation={"test": False}
    )
    assert list(stages_of(await estimate_rl(config))) == ["rollouts", "val"]


async def test_a_turn_of_a_model_is_a_call_and_a_person_may_know_better(tmp_path):
    config = lanes_config(tmp_path)
    two, five = [stages_of(await estimate_rl(config, turns))["cold start"] for turns in (2, 5)]
    assert two.episodes == five.episodes
    assert (two.calls, five.calls) == (2 * two.episodes, 5 * five.episodes)


async def test_what_is_tested_depends_on_what_is_injected(tmp_path):
    async def tested(**sections):
        return (
            stages_of(await estimate_rl(lanes_config(tmp_path, **sections)))["test"].episodes // 9
        )

    assert await tested() == 5  # cold start twice, final, and two controls
    assert await tested(evolve=None) == 4
    assert await tested(evolve=None, bank={"inject": "trajectories"}) == 3
    assert await tested(evolve=None, bank={"inject": "none"}) == 2


async def test_a_model_without_prices_is_named(tmp_path):
    endpoint = {"backend": "openai_chat", "model": "large", "base_url": "http://127.0.0.1:1/v1"}
    found = await estimate_rl(lanes_config(tmp_path, models={"teacher": endpoint}))
    assert any(
        "large: prices unknown; set models.teacher.prices" in line
        for line in found.to_dict()["prices"]
    )
    assert found.to_dict()["calls"]["teacher"] == found.calls("teacher") > 2


async def test_what_models_are_asked_has_tokens_and_money(tmp_path):
    prices = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 10}
    endpoint = {"backend": "openai_chat", "model": "large", "base_url": "http://127.0.0.1:1/v1"}
    models = {"expert": endpoint | {"prices": prices}}
    found = await estimate_rl(lanes_config(tmp_path, models=models), turns=2)
    cold = stages_of(found)["cold start"]
    assert cold.cost_usd == pytest.approx((cold.input_tokens + 10 * cold.output_tokens) / 1e6)
    assert cold.input_tokens > cold.calls * found.opening_tokens > 0
    assert stages_of(found)["rollouts"].input_tokens == 0  # the policy plays on this machine
    assert found.total.input_tokens == sum(stage.input_tokens for stage in found.stages)


def test_the_cold_start_alone_is_priced_too(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_rl_config(lanes_config(tmp_path)), encoding="utf-8")
    said = CliRunner().invoke(app, ["estimate", str(path), "--json"], catch_exceptions=False)
    found = json.loads(said.output)
    names = {one["name"] for one in found["sft"]["stages"]}
    assert "rollouts" in {one["name"] for one in found["stages"]}
    assert "rollouts" not in names
    assert found["sft"]["total"]["episodes"] < found["total"]["episodes"]
    shown = CliRunner().invoke(app, ["estimate", str(path)], catch_exceptions=False).output
    assert "On demonstrations alone (skillwright sft)" in shown
