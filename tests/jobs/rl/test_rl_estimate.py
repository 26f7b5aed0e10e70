"""What a run of the recipe is said to take is what it takes."""

from collections import Counter

import pytest

from rl_world import ROOMS, ObedientMaker, Tutor, lanes_config, recipe
from skillwright.jobs.estimate_rl import estimate_rl
from skillwright.runs import RunStore


def told(estimate):
    return {stage.name: stage for stage in estimate.stages}


@pytest.mark.parametrize("base", [None, {"backend": "scripted", "model": "searcher"}])
async def test_the_episodes_and_requests_of_a_run_are_those_that_were_estimated(tmp_path, base):
    models = {"base": base} if base else {}
    config = lanes_config(tmp_path, models=models, grpo={"keep_rollouts": True})
    tutor = Tutor()
    path, _ = await recipe(config, tutor=tutor, maker=ObedientMaker(config))
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        played = Counter(row.phase for row in store.episodes())
    stages = told(estimate_rl(config))
    assert stages["base"].role == ("base" if base else "policy")
    assert bool(stages["base"].calls) == bool(base)
    phases = {
        "base": "base",
        "cold start": "expert",
        "practice": "grpo",
        "evolution split": "evolution",
    }
    for stage, phase in phases.items():
        assert stages[stage].episodes == played[phase] > 0, stage
    # The same weights with the same skills are measured once, and so there may be fewer.
    assert stages["test"].episodes >= played["test"] > 0
    asked = Counter(system.split(":")[0] for system, _ in tutor.calls)
    # Where every task is won, no category is weak, and nobody is asked.
    assert stages["evolve"].calls >= asked["# Evolve"] > 0
    # Which of its episodes a category wins may take a request more, or one less.
    assert abs(stages["distil"].calls - asked["# Distil"]) <= len(ROOMS)


def test_a_stage_that_is_left_out_takes_nothing(tmp_path):
    config = lanes_config(
        tmp_path, distil=None, cold_start=None, evolve=None, evaluation={"test": False}
    )
    assert list(told(estimate_rl(config))) == ["practice", "val"]


def test_a_turn_of_a_mind_is_a_call_and_a_person_may_know_better(tmp_path):
    config = lanes_config(tmp_path)
    two, five = (told(estimate_rl(config, turns))["cold start"] for turns in (2, 5))
    assert two.episodes == five.episodes
    assert (two.calls, five.calls) == (2 * two.episodes, 5 * five.episodes)


def test_what_is_tested_depends_on_what_is_told(tmp_path):
    def tested(**sections):
        return told(estimate_rl(lanes_config(tmp_path, **sections)))["test"].episodes // 9

    assert tested() == 5  # cold start twice, final, and two controls
    assert tested(evolve=None) == 4
    assert tested(evolve=None, bank={"told": "trajectories"}) == 3
    assert tested(evolve=None, bank={"told": "nothing"}) == 2
    assert tested(evolve=None, evaluation={"controls": []}) == 2


def test_a_model_without_prices_is_named(tmp_path):
    endpoint = {"backend": "openai_chat", "model": "large", "base_url": "http://127.0.0.1:1/v1"}
    found = estimate_rl(lanes_config(tmp_path, models={"teacher": endpoint}))
    assert any("large: prices unknown; set models.teacher.prices" in line for line in found.prices)
    assert found.to_dict()["calls"]["teacher"] == found.calls("teacher") > 2
