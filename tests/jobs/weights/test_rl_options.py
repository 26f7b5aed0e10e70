"""Every stage can be left out or changed, and the run still ends with numbers."""

import pytest

from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import (
    ROOMS,
    Notebook,
    ObedientMaker,
    Stopped,
    Tutor,
    Visitor,
    lanes_config,
    recipe,
    resumed,
    story,
)
from skillwright.bank import BankStore, save_bank
from skillwright.jobs.run import StageStarted
from skillwright.jobs.weights.preflight import preflight_rl
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.rollout.prompt import SKILL_HEADING

ONE = {"iterations": 1}


async def played(tmp_path, **sections):
    notes = Notebook()
    config = lanes_config(tmp_path, **{"grpo": ONE, "evolve": None, **sections})
    maker = ObedientMaker(config)
    path, report = await recipe(config, notes, maker=maker)
    return path, report, maker.policy, [one.stage for one in notes.of(StageStarted)]


async def test_a_policy_without_skills_has_no_bank_and_no_controls(tmp_path):
    path, report, policy, stages = await played(tmp_path, bank={"inject": "none"})
    assert "base" not in stages
    assert "distill" not in stages
    assert set(policy.skills) == {""}
    assert list(report.test.tables) == ["cold_start", "final"]
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        assert bank.versions() == []


async def test_raw_trajectories_are_injected_in_the_place_of_skills(tmp_path):
    _, report, policy, stages = await played(tmp_path, bank={"inject": "trajectories"})
    assert "distill" not in stages
    assert any(text.startswith("### Earlier episodes") for text in policy.skills)
    assert not any("### General skills" in text for text in policy.skills)
    assert list(report.test.tables) == ["cold_start", "final", "no_skills"]


async def test_an_expert_may_be_given_skills_that_the_policy_does_not_read(tmp_path):
    sections = {"bank": {"inject": "none"}, "evolve": None}
    cold = {"expert_reads": "skills", "without_skills": 0.25}
    visitor, seen = Visitor(), []

    class Watching(PolicyMaker):
        def recipe(self, turns):
            seen.extend(turns)
            return super().recipe(turns)

    config = lanes_config(tmp_path, cold_start=cold, grpo={"iterations": 0}, **sections)
    tutor = Tutor(first=tuple(ROOMS))
    path, report = await recipe(config, visitor=visitor, tutor=tutor, maker=Watching(config))
    told = [text for text in visitor.calls if "take door" in text.partition("quiet")[0]]
    assert 0 < len(told) < len(visitor.calls)  # a share of the demonstrations is without
    assert seen
    assert not any(SKILL_HEADING in str(turn.messages) or turn.skill for turn in seen)
    assert report.state.cold_start["coverage"]["wins"] >= len(told)
    assert list(report.test.tables) == ["cold_start", "final"]
    assert report.iteration == 0
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        assert bank.load().active


async def test_a_bank_without_hierarchy_is_injected_as_one_list(tmp_path):
    _, _, policy, _ = await played(tmp_path, bank={"hierarchy": False})
    assert any(text.startswith("### Skills\n") for text in policy.skills)


async def test_without_a_cold_start_the_untrained_policy_is_the_reference(tmp_path):
    _, report, policy, stages = await played(tmp_path, cold_start=None)
    assert "expert" not in stages
    assert report.state.cold_start["reference"] == policy.reference == "reference of step 0"


async def test_without_distillation_the_run_begins_with_the_bank_that_is_named(tmp_path):
    made, _, _, _ = await played(tmp_path / "first")
    with BankStore.open(made / "bank" / "bank.sqlite", read_only=True) as store:
        bank = store.load()
    save_bank(bank, tmp_path / "export.json")
    for number, start in enumerate((made / "bank" / "bank.sqlite", tmp_path / "export.json")):
        path, report, _, stages = await played(
            tmp_path / str(number), distill=None, bank={"start": str(start)}
        )
        assert "base" not in stages
        assert report.state.bank["digest"] == bank.digest
        assert story(path)["log"][0][3] == f"begun with {start}"


async def test_a_category_that_is_left_out_of_the_first_bank_is_found_again_by_evolution(tmp_path):
    config = lanes_config(tmp_path, bank={"leave_out": ["attic"]})
    _, report = await recipe(config, tutor=Tutor(later=[["attic"]]), maker=ObedientMaker(config))
    assert report.state.bank["left_out"] == 2
    first = report.state.evolutions[2]
    assert first.success["attic"] == (0, 2)
    assert first.action == "accept"
    assert first.growth["attic"] == 1


async def test_growth_is_capped_per_update(tmp_path):
    config = lanes_config(tmp_path, evolve={"per_checkpoint": 0})
    _, report = await recipe(config, maker=ObedientMaker(config))
    first = report.state.evolutions[2]
    assert (len(first.added), first.refused) == (1, 1)


async def test_the_untrained_policy_plays_the_base_trajectories_and_a_model_does_where_one_is_named(
    tmp_path,
):
    _, _, policy, _ = await played(tmp_path / "own")
    assert policy.skills[0] == ""
    base = {"backend": "scripted", "model": "household"}
    teacher = {"backend": "scripted", "model": "household_teacher"}
    _, _, policy, _ = await played(
        tmp_path / "other", models={"base": base, "teacher": teacher, "expert": base}
    )
    assert len([text for text in policy.skills if text == ""]) < 18 + 9


async def test_a_scorer_learns_from_rewards_alone(tmp_path):
    config = lanes_config(
        tmp_path,
        evolve=None,
        distill=None,
        cold_start=None,
        bank={"inject": "none"},
        models={"expert": None, "teacher": None},
        grpo={"iterations": 12, "learning_rate": 0.02, "group_size": 8, "kl_weight": 0.0},
        evaluation={"val_every": 4},
    )
    _, report = await recipe(config)
    rates = [report.test.tables[name].overall.success_rate for name in ("cold_start", "final")]
    assert rates[1] > rates[0]


def hf_config(tmp_path, folder):
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return lanes_config(
        tmp_path,
        policy={"kind": "hf", "model": str(folder), "precision": "float32"},
        cold_start={"steps": 3, "batch_rows": 16, "learning_rate": 0.001, "tasks": 6},
        grpo={
            "iterations": 2,
            "tasks_per_iteration": 2,
            "learning_rate": 0.001,
            "rows": "trajectories",
        },
        distill={"tasks": 6},
        evolve=None,
        evaluation={"val_tasks": 3, "test_tasks": 3},
    )


@pytest.mark.heavy
async def test_a_language_model_goes_through_the_whole_recipe_and_resumes_exactly(tmp_path):
    config = hf_config(tmp_path, tmp_path / "model")
    notes = Notebook()
    maker = await preflight_or_maker(config)
    path, report = await recipe(config, notes, maker=maker)
    assert report.state.finished
    assert report.state.iterations[1].tokens > 0
    whole = story(path)
    for share in (0.4, 0.75):
        root = tmp_path / f"runs{share}"
        again = config.model_copy(update={"run": config.run.model_copy(update={"root": str(root)})})
        stop = Notebook(stop_at=round(share * len(notes.events)))
        with pytest.raises(Stopped):
            await recipe(again, stop, maker=PolicyMaker(again))
        await resumed(root / "lanes")
        assert story(root / "lanes") == whole


async def preflight_or_maker(config):
    """The model that the preflight loaded is the one that is trained."""
    maker = await preflight_rl(config)
    assert maker._ready is not None
    return maker
