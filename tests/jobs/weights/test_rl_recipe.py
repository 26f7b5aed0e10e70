"""From base trajectories to the sealed test, in order, each stage on its own tasks."""

import json

import pytest

from rl_world import (
    Notebook,
    ObedientMaker,
    Stopped,
    Tutor,
    lanes_config,
    recipe,
    resumed,
    story,
    write_tasks,
)
from skillwright.bank import BankStore
from skillwright.core import Completion, ConfigError, DataError
from skillwright.jobs.run import EpisodeFinished, RunStarted, Scored, StageStarted
from skillwright.jobs.weights import (
    BankEvolved,
    ColdStartEnded,
    FirstBankMade,
    IterationEnded,
    Validated,
    open_rl,
    run_rl,
)
from skillwright.runs import RunStore


def store_of(whole):
    return RunStore.open(whole["path"] / "run.sqlite", read_only=True)


def test_the_stages_come_in_the_order_of_the_recipe(whole):
    stages = [event.stage for event in whole["notes"].of(StageStarted)]
    first = ["base", "distill", "expert", "cold start", "val", "rollouts", "rollouts"]
    assert stages[: len(first)] == first
    assert stages[len(first) :][:4] == ["evolution split", "evolve", "gate", "val"]
    assert stages[-1] == "test"


def test_what_evolves_on_its_own_split_wins_on_test_what_was_lost_before(whole):
    test = whole["report"].test
    rates = {name: table.overall.success_rate for name, table in test.tables.items()}
    assert list(rates) == ["cold_start", "cold_start_last_bank", "final", "no_skills"]
    assert rates["final"] == 1
    assert rates["cold_start"] < 1
    assert rates["no_skills"] < 1
    assert test.gains["final"].gain > 0


def test_a_proposal_goes_through_the_gate_and_its_growth_is_logged(whole):
    first, second = whole["report"].state.evolutions.values()
    assert (first.iteration, first.action, first.before, first.version) == (2, "accept", 1, 2)
    assert first.verdict.accepted
    assert len(first.added) == 2
    assert first.growth == {"": 1, "attic": 2, "cellar": 3, "hall": 3}
    assert first.success["attic"] == (2, 2)
    assert (second.iteration, second.action) == (4, "none_weak")
    with BankStore.open(whole["path"] / "bank" / "bank.sqlite", read_only=True) as bank:
        made, evolved = bank.log()
    assert made.reason == "distilled from 18 base trajectories"
    assert evolved.step == 2
    assert evolved.verdict["decision"] == "accept"


def test_training_and_validation_use_the_same_version_of_the_bank(whole):
    state = whole["report"].state
    assert [one.bank_version for one in state.iterations.values()] == [1, 1, 2, 2]
    assert {n: one.bank_version for n, one in state.validations.items()} == {0: 1, 2: 2, 4: 2}


def test_no_stage_touches_the_tasks_of_another(whole):
    with store_of(whole) as store:
        tasks = {
            phase: {one.task_id for one in store.episodes(phase=phase)}
            for phase in ("base", "expert", "evolution", "val", "gate", "test")
        }
    assert len(tasks["evolution"]) == 6
    assert not tasks["evolution"] & (tasks["base"] | tasks["expert"])
    assert tasks["gate"] == tasks["val"]
    assert {name.split("-")[0] for name in tasks["val"]} == {"val"}
    assert {name.split("-")[0] for name in tasks["test"]} == {"test"}


def test_every_val_task_is_played_exactly_once_per_validation(whole):
    for one in whole["report"].state.validations.values():
        assert (one.table.overall.episodes, one.table.overall.tasks) == (9, 9)


def test_an_iteration_says_what_it_played_and_what_it_learned(whole):
    one = whole["report"].state.iterations[1]
    assert (one.groups, one.episodes) == (6, 24)
    assert sum(of for _, of in one.task_types.values()) == 24
    assert one.skills == sum(one.injected.values()) / 24
    assert one.injected["g001"] == 24
    assert 0 <= one.zero_variance_share <= 1
    assert one.tokens == one.turns
    (seen, *_) = whole["notes"].of(IterationEnded)
    assert seen.record == one
    assert seen.episodes_per_s > 0


def test_the_callback_gets_every_stage_that_ended(whole):
    counts = {kind: len(whole["notes"].of(kind)) for kind in (RunStarted, FirstBankMade)}
    assert counts == {RunStarted: 1, FirstBankMade: 1}
    (cold,) = whole["notes"].of(ColdStartEnded)
    assert cold.wins < cold.episodes == 18
    assert [one.record.action for one in whole["notes"].of(BankEvolved)] == ["accept", "none_weak"]
    assert [one.iteration for one in whole["notes"].of(Validated)] == [0, 2, 4]
    assert whole["notes"].of(Scored)[0].label == "cold_start"
    assert whole["notes"].of(EpisodeFinished)


def test_the_training_episodes_are_counted_for_the_skills_that_they_had(whole):
    totals = story(whole["path"])["totals"]
    assert totals["g001"].episodes == 4 * 24
    assert 0 < totals["g001"].wins <= 4 * 24


def test_training_rollouts_stay_out_of_the_store_unless_they_are_asked_for(whole):
    with store_of(whole) as store:
        assert not store.episodes(phase="grpo")


async def test_training_rollouts_are_kept_where_they_are_asked_for(tmp_path):
    config = lanes_config(tmp_path, grpo={"iterations": 1, "keep_rollouts": True}, evolve=None)
    path, _ = await recipe(config, maker=ObedientMaker(config))
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        assert len(store.episodes(phase="grpo")) == 24


def test_only_the_reference_the_best_and_the_latest_checkpoint_are_kept(whole):
    names = sorted(file.name for file in (whole["path"] / "checkpoints").iterdir())
    assert names == ["iteration_00000.ckpt", "iteration_00004.ckpt"]


def test_the_report_is_json_and_the_bank_is_there_to_read(whole):
    report = json.loads(json.dumps(whole["report"].to_dict()))
    assert report["job"] == "rl"
    assert report["finished"] is True
    assert len(report["iterations"]) == 4
    assert report["bank"]["compression"]["ratios"]["raw"] > 0
    assert "In the hall take door 1." in (whole["path"] / "bank" / "skills.md").read_text()


async def test_a_finished_run_returns_its_report_and_without_models(whole):
    with open_rl(whole["path"]) as run:
        report = await run_rl(run, Notebook(), make=None)
    assert report.to_dict() == whole["report"].to_dict()


async def test_the_same_seed_gives_the_same_run_and_another_seed_another_one(tmp_path, whole):
    again = lanes_config(tmp_path / "again")
    path, _ = await recipe(again, maker=ObedientMaker(again))
    other = lanes_config(tmp_path / "other", run={"seed": 7})
    elsewhere, _ = await recipe(other, maker=ObedientMaker(other))
    assert decided(path) == decided(whole["path"])
    assert decided(elsewhere) != decided(whole["path"])


def decided(path):
    """What a run decided; the tasks of another folder have other settings, so other keys."""
    return [event for event in story(path)["events"] if event[0] != "tasks"]


async def test_a_rejected_proposal_is_logged_and_shown_to_the_teacher_later(tmp_path):
    tutor = Tutor(later=[["attic"], ["hall"]], first=())
    config = lanes_config(tmp_path, evaluation={"gate": {"kind": "strict", "margin": 1.0}})
    path, report = await recipe(config, tutor=tutor, maker=ObedientMaker(config))
    first, second = report.state.evolutions.values()
    assert [first.action, second.action] == ["reject", "reject"]
    assert first.version == second.version == 1
    *_, (_, asked) = [call for call in tutor.calls if call[0] == "# Evolve"]
    assert "reject: add" in asked
    assert "In the attic take door 4." in asked.partition("## Earlier changes")[2]
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        assert [str(one.event) for one in bank.log()] == ["changed", "rejected", "rejected"]


async def test_a_run_that_finds_other_tasks_than_it_began_with_is_refused(tmp_path):
    config = lanes_config(tmp_path)
    with pytest.raises(Stopped):
        await recipe(config, Notebook(stop_at=60), maker=ObedientMaker(config))
    write_tasks(tmp_path / "tasks", val=6)
    (tmp_path / "tasks" / "val" / "items.json").write_text(
        json.dumps([{"id": "val-x", "task_type": "hall", "room": "hall"}])
    )
    with pytest.raises(DataError, match="the val tasks are not those"):
        await resumed(tmp_path / "runs" / "lanes", maker=ObedientMaker(config))


async def test_the_last_weights_are_tested_where_the_configuration_says_so(tmp_path):
    config = lanes_config(tmp_path, evaluation={"select": "last", "val_every": 100}, evolve=None)
    _, report = await recipe(config, maker=ObedientMaker(config))
    assert report.iteration == 4
    assert sorted(report.state.validations) == [0, 4]


async def test_a_group_plays_in_one_world_with_one_text_of_skills(tmp_path):
    kept = {"iterations": 1, "keep_rollouts": True}
    config = lanes_config(tmp_path, evolve=None, grpo=kept)
    path, _ = await recipe(config, maker=ObedientMaker(config))
    groups = {}
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        for one in store.episodes(phase="grpo"):
            episode = store.load_episode(one.id)
            shown = episode.trajectory.turns[0].prompt[0]["content"]
            world = episode.spec.task.extras["seed"]
            groups.setdefault(one.task_id, []).append((shown, world, episode.spec.seed))
    assert len(groups) == 6
    for members in groups.values():
        assert len(members) == 4
        assert len({shown for shown, _, _ in members}) == 1
        assert len({world for _, world, _ in members}) == 1
        assert len({rng for _, _, rng in members}) == 4


async def test_the_expert_that_wins_nothing_stops_the_run_with_the_next_move(tmp_path):
    config = lanes_config(tmp_path, env={"max_turns": 1})
    with pytest.raises(ConfigError, match="the teacher solved no episode"):
        await recipe(config, visitor=Loser(), maker=ObedientMaker(config))


class Loser:
    identity = "scripted:loser"

    async def complete(self, messages, **_):
        return Completion("take no door")
