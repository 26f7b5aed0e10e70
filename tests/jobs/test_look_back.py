"""An epoch's end: what is compared, the outcome, and that it survives an interruption."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    META,
    NOTES,
    SLOW,
    Veteran,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    stored_turns,
    story,
    trained,
)
from samples import heavy, once
from skillwright.core import ModelError, ModelRefused
from skillwright.core.seeds import derive_seed
from skillwright.core.skill import slow_update_field
from skillwright.jobs.run import EpochEnded, StageStarted
from skillwright.rollout import EngineDown

IDLE = [[], [], [], []]


class Notebook:
    """Watches; may cancel a task some events after the first epoch update began."""

    def __init__(self, cancel_after=None):
        self.events = []
        self.task = None
        self._left = cancel_after
        self._counts = False

    def on_event(self, event):
        self.events.append(event)
        self._counts |= isinstance(event, StageStarted) and event.stage == "epoch update"
        if self._counts and self._left is not None:
            if self._left == 0:
                self.task.cancel()
            self._left -= 1

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def two_epochs(folder, epochs=2, gate="explore", **optimizer):
    """Return a run of 2 steps an epoch that compares 5 tasks at the end of each but the first."""
    folder.mkdir(exist_ok=True)
    optimizer = {"slow_update_samples": 5, **optimizer}
    evaluation = {"gate": {"kind": gate}}
    return doors_config(
        folder, train={"epochs": epochs}, optimizer=optimizer, evaluation=evaluation
    )


def compared(path):
    with look(path) as store:
        return [episode for episode in store.episodes() if episode.phase == "slow_update"]


def epoch_events(path):
    with look(path) as store:
        return [event.payload for event in store.events("epoch")]


async def test_the_first_epoch_only_notes_which_skill_it_ended_with(tmp_path):
    coach, notebook = Veteran([[ALL_RULES], []], ALL_RULES), Notebook()
    path, report = await trained(two_epochs(tmp_path, 1), Walker(), coach, callback=notebook)
    (record,) = report.state.epochs
    assert (record.epoch, record.steps_ended_with, record.action) == (1, 1, "")
    assert not coach.asked(SLOW) + coach.asked(META)
    assert not compared(path)
    assert notebook.of(EpochEnded) == [EpochEnded(1, "", None)]
    assert report.state.ledger.planned == 2


async def test_both_skills_are_played_on_the_same_train_tasks_with_the_same_luck(tmp_path):
    coach = Veteran([[rule("cellar")], [], [ALL_RULES], []])
    path, report = await trained(
        doors_config(
            tmp_path,
            train={"epochs": 2},
            optimizer={"slow_update_samples": 5},
            evaluation={"gate": {"kind": "strict"}},
        ),
        Walker(),
        coach,
    )
    first, second = report.state.epochs
    assert (first.steps_ended_with, second.steps_ended_with) == (1, 2)
    played = compared(path)
    assert len(played) == 10
    assert {(e.split, e.draw) for e in played} == {("train", 0)}
    with look(path) as store:
        prompts = {e.id: store.load_episode(e.id).trajectory.turns[0].prompt for e in played}
        old, new = (
            {
                (e.task_id, e.seed)
                for e in played
                if prompts[e.id][0]["content"].rstrip().endswith(store.skill(version).rstrip())
            }
            for version in (1, 2)
        )
        tasks = {e.task_id for e in store.episodes() if e.phase == "train"}
    assert old == new
    assert len(new) == 5
    assert {task for task, _ in new} <= tasks
    assert all(seed == derive_seed("slow_update", 42, 2, task) for task, seed in new)
    (_, details) = epoch_events(path)
    assert [pair["id"] for pair in details["drawn"]] == [
        pair["id"] for pair in details["slow_update"]["pairs"]
    ]
    assert {pair["id"] for pair in details["drawn"]} == {task for task, _ in new}
    assert "mean reward: " in coach.asked(SLOW)[0]


async def test_only_tasks_that_changed_are_looked_at_where_the_policy_says_so(tmp_path):
    config = two_epochs(tmp_path, longitudinal_pair_policy="changed", slow_update_samples=6)
    path, _ = await trained(config, Walker(), Veteran([[], [], [ALL_RULES], []]))
    details = epoch_events(path)[1]
    looked_at = {pair["category"] for pair in details["slow_update"]["pairs"]}
    assert looked_at <= {"improved", "regressed"}
    assert len(details["drawn"]) > len(details["slow_update"]["pairs"]) > 0


async def test_nothing_is_played_to_find_changes_under_one_and_the_same_text(tmp_path):
    config = two_epochs(tmp_path, longitudinal_pair_policy="changed")
    path, _ = await trained(config, Walker(), Veteran(IDLE))
    assert compared(path) == []
    assert epoch_events(path)[1]["action"] == "skip_no_pairs"


async def test_every_episode_that_a_look_back_rests_on_is_found_by_its_key(tmp_path):
    path, _ = await trained(two_epochs(tmp_path), Walker(), Veteran([[ALL_RULES], [], [], []]))
    drawn = epoch_events(path)[1]["drawn"]
    with look(path) as store:
        for pair in drawn:
            assert store.find_episode(pair["prev_key"]).task_id == pair["id"]
            assert store.find_episode(pair["curr_key"]).task_id == pair["id"]
    assert drawn


async def test_a_slow_update_that_helps_passes_the_gate_into_a_region_of_its_own(tmp_path):
    notebook = Notebook()
    path, report = await trained(
        two_epochs(tmp_path), Walker(), Veteran(IDLE, ALL_RULES), callback=notebook
    )
    assert slow_update_field(report.best_skill).strip() == ALL_RULES
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    record = report.state.epochs[1]
    assert (record.action, record.skill_version) == ("accept", 1)
    assert (record.steps_ended_with, report.state.skill_version) == (0, 1)
    with look(path) as store:
        assert [(v.version, v.parent, v.origin, v.step) for v in store.skills()] == [
            (0, None, "initial_skill", 0),
            (1, 0, "slow_update_epoch_02", 4),
        ]
        judged = [(v.step, v.origin, v.body["decision"]) for v in store.verdicts()]
    assert judged == [(4, "release", "accept"), (4, "slow_update", "accept")]
    assert notebook.of(EpochEnded)[1] == EpochEnded(2, "accept", record.verdict, version=1)


async def test_a_slow_update_that_harms_is_rejected_and_leaves_the_skill_as_it_was(tmp_path):
    plan = [[ALL_RULES], [], [], []]
    path, report = await trained(two_epochs(tmp_path), Walker(), Veteran(plan, ALL_WRONG))
    assert [epoch.action for epoch in report.state.epochs] == ["", "reject"]
    assert report.best_skill == f"{ALL_RULES}\n"
    assert (path / "best_skill.md").read_bytes() == report.best_skill.encode()
    with look(path) as store:
        assert [v.origin for v in store.skills()][1:] == ["step_0001", "slow_update_epoch_02"]
        assert ALL_WRONG in store.skill(2)


async def test_a_slow_update_takes_its_share_of_alpha(tmp_path):
    config = two_epochs(tmp_path, 3, gate="paired")
    _, report = await trained(config, Walker(), Veteran(IDLE, ALL_WRONG))
    ledger = report.state.ledger
    assert (ledger.planned, ledger.made) == (6 + 3 - 1, 2)
    assert [e.verdict.alpha for e in report.state.epochs[1:]] == [pytest.approx(0.05 / 8)] * 2


async def test_the_meta_skill_reaches_the_next_epochs_analysts_and_never_the_agent(tmp_path):
    walker, coach = Walker(), Veteran([*IDLE, ["Be quick."], []], ALL_WRONG)
    path, report = await trained(two_epochs(tmp_path, 3), walker, coach)
    told = [user for user in coach.asked("## Trajectories") if NOTES in user]
    assert told
    assert all(f"## Optimizer notes\n{NOTES}" in user for user in told)
    untold = [user for user in coach.asked("## Trajectories") if user not in told]
    assert {user.count("\nStep ") for user in untold} == {0, 1, 2, 3}
    assert {user.count("\nStep ") for user in told} == {4, 5}
    assert [NOTES in user for user in coach.asked(META)] == [False, True]
    assert [epoch.meta_skill for epoch in report.state.epochs] == ["", NOTES, NOTES]
    assert not any(NOTES in said for said, _ in walker.calls)
    assert all(NOTES not in skill for skill in story(path)["skills"])


async def test_what_is_switched_off_does_not_happen(tmp_path):
    coach, notebook = Veteran(IDLE, ALL_RULES), Notebook()
    off = two_epochs(tmp_path, gate="paired", use_slow_update=False, use_meta_skill=False)
    path, report = await trained(off, Walker(), coach, callback=notebook)
    assert (report.state.epochs, report.best_skill) == ((), "")
    assert not epoch_events(path)
    assert not compared(path)
    assert not coach.asked(SLOW) + coach.asked(META)
    assert not notebook.of(EpochEnded)
    assert report.state.ledger.planned == 4


@pytest.mark.parametrize(
    ("switched_off", "silent", "planned"),
    [("use_slow_update", SLOW, 4), ("use_meta_skill", META, 5)],
)
async def test_either_memory_may_be_switched_off_alone(tmp_path, switched_off, silent, planned):
    coach = Veteran(IDLE, ALL_RULES)
    config = two_epochs(tmp_path, gate="paired", **{switched_off: False})
    path, report = await trained(config, Walker(), coach)
    assert (len(coach.asked(SLOW)), len(coach.asked(META))) == (silent != SLOW, silent != META)
    assert report.state.ledger.planned == planned
    assert (report.state.skill_version, report.state.meta_skill) == (
        (0, NOTES) if silent == SLOW else (1, "")
    )
    assert len(compared(path)) == 5  # the skill is the same at both ends, so it is played once


@pytest.mark.parametrize(
    ("heading", "action", "notes"), [(SLOW, "skip_fault", NOTES), (META, "accept", "")]
)
async def test_a_fault_of_the_optimizer_leaves_skill_or_notes_as_they_are(
    tmp_path, heading, action, notes
):
    fault = {heading: ModelError("the gateway is on fire")}
    coach = Veteran(IDLE, ALL_RULES, fault=fault)
    path, report = await trained(two_epochs(tmp_path), Walker(), coach)
    assert [epoch.action for epoch in report.state.epochs] == ["", action]
    assert (report.best_skill == "", report.state.meta_skill) == (heading == SLOW, notes)
    details = epoch_events(path)[1]
    faulty = details["slow_update" if heading == SLOW else "meta_skill_written"]
    assert faulty["fault"]["failure"]["message"] == "the gateway is on fire"


async def test_an_optimizer_that_is_dead_in_a_look_back_stops_the_run_which_then_goes_on(tmp_path):
    error = ModelError("the gateway is on fire")
    dead = Veteran(PLAN, GUIDANCE, fault={SLOW: error, META: error})
    with pytest.raises(EngineDown, match=r"update of epoch 2 .* latest: the gateway is on"):
        await trained(two_epochs(tmp_path, 3), Walker(), dead)
    path = tmp_path / "runs" / "doors"
    assert [event["epoch"] for event in epoch_events(path)] == [1]
    await resumed(path, Walker(), Veteran(PLAN, GUIDANCE))
    assert (story(path), steps_of_calls(path)) == await reference(tmp_path)


PLAN = [[rule("cellar")], [], ["Be quick."], [], [ALL_WRONG], []]
GUIDANCE = ALL_RULES


@once
async def reference(tmp_path):
    path, _ = await trained(
        two_epochs(tmp_path / "reference", 3), Walker(), Veteran(PLAN, GUIDANCE)
    )
    return story(path), steps_of_calls(path)


def steps_of_calls(path):
    with closing(sqlite3.connect(path / "run.sqlite")) as database:
        return sorted(database.execute("SELECT purpose, step FROM calls WHERE error IS NULL"))


@pytest.mark.parametrize("count", [0, 10, 12, 14, 62, *heavy(1, 6, 11, 13, 40, 61, 63)])
async def test_a_run_that_was_stopped_in_a_look_back_goes_on_as_if_it_had_not_been(tmp_path, count):
    config, notebook = two_epochs(tmp_path, 3), Notebook(count)
    notebook.task = asyncio.create_task(
        trained(config, Walker(), Veteran(PLAN, GUIDANCE), callback=notebook)
    )
    with pytest.raises(asyncio.CancelledError):
        await notebook.task
    path = tmp_path / "runs" / "doors"
    known = stored_turns(path)
    with look(path) as store:
        answered = store.counts()["calls"]
    walker, coach = Walker(), Veteran(PLAN, GUIDANCE)
    await resumed(path, walker, coach)
    assert (story(path), steps_of_calls(path)) == await reference(tmp_path)
    assert known.isdisjoint(walker.calls)
    with look(path) as store:
        assert store.counts()["calls"] == answered + len(coach.calls)


async def test_how_many_play_at_once_changes_nothing_in_a_look_back(tmp_path):
    rollout = {"max_concurrent": 1}
    settings = two_epochs(tmp_path, 3).model_dump()
    config = doors_config(
        tmp_path, train=settings["train"], optimizer=settings["optimizer"], rollout=rollout
    )
    path, _ = await trained(config, Walker(), Veteran(PLAN, GUIDANCE))
    assert (story(path), steps_of_calls(path)) == await reference(tmp_path)


@pytest.mark.parametrize("heading", [SLOW, META])
async def test_a_refused_optimizer_stops_the_look_back_which_then_goes_on(tmp_path, heading):
    refused = Veteran(PLAN, GUIDANCE, fault={heading: ModelRefused("401: the key is wrong")})
    with pytest.raises(ModelRefused, match="optimizer was refused: 401: the key is wrong"):
        await trained(two_epochs(tmp_path, 3), Walker(), refused)
    path = tmp_path / "runs" / "doors"
    assert [event["epoch"] for event in epoch_events(path)] == [1]
    coach = Veteran(PLAN, GUIDANCE)
    await resumed(path, Walker(), coach)
    assert (story(path), steps_of_calls(path)) == await reference(tmp_path)
    other = META if heading == SLOW else SLOW
    assert (len(coach.asked(heading)), len(coach.asked(other))) == (2, 1)


@pytest.mark.parametrize("epochs", [1, 2, 3])
async def test_a_run_that_rejects_everything_ends_with_the_initial_skill(tmp_path, epochs):
    skill = "# Doors\n\nKnock first.  \n\n\n- é, \u4e2d"
    plan = [[ALL_WRONG]] * 2 * epochs
    coach = Veteran(plan, ALL_WRONG)
    path, report = await trained(two_epochs(tmp_path, epochs), Walker(), coach, skill=skill)
    assert {step.action for step in report.state.steps} == {"reject"}
    assert [epoch.action for epoch in report.state.epochs[1:]] == ["reject"] * (epochs - 1)
    assert report.best_skill == report.final_skill == skill
    assert (path / "best_skill.md").read_bytes() == skill.encode()
    assert report.state.best_version == report.state.skill_version == 0
