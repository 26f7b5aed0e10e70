"""Missing features and user demands upstream that a training run must answer."""

import json
import re

import pytest
from spec_worlds import STRICT, Elder, SetDuel, world

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Doors,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    trained,
)
from fakes import make_episode
from mock_openai import MockOpenAI
from skillwright.core import ConfigError, Edit, ModelRefused, Pair
from skillwright.evaluation import AlphaLedger, PairedGate, StrictGate
from skillwright.jobs.run import RunStarted
from skillwright.jobs.text import preflight
from skillwright.textopt import EditLimits, Evidence, Proposal, apply_proposals


class Listener:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


async def test_7_3_a_program_trains_with_a_mind_of_its_own_and_callbacks(tmp_path):
    listener = Listener()
    path, report = await trained(
        doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]), callback=listener
    )
    assert report.to_dict()["best_skill"] == (path / "best_skill.md").read_text(encoding="utf-8")
    assert {"RunStarted", "EpisodeFinished", "CallFinished", "StepDecided", "Scored"} <= {
        type(event).__name__ for event in listener.events
    }


@pytest.mark.parametrize("name", [f"{__file__}:OwnDoors", "spec_worlds:Ajar"])
async def test_7_3_an_environment_is_named_by_its_import_path(tmp_path, name):
    data = {"kind": "split_dir", "path": str(tmp_path / "tasks")}
    config = doors_config(tmp_path, env={"name": name, "max_turns": 2, "data": data})
    _, report = await trained(config, Walker(), Coach([]), skill=ALL_RULES)
    assert report.state.baseline.overall.success_rate == 1.0


class OwnDoors(Doors):
    pass


async def test_7_3_every_line_of_a_skill_is_attributed_to_turns(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    with look(path) as store:
        (edit,) = [edit for edit in store.edits(1) if edit.status]
        played = {e.task_id for e in store.episodes(phase="train", step=1)}
    first, last = edit.lines
    assert "\n".join(report.best_skill.splitlines()[first - 1 : last]) == ALL_RULES
    assert {task for task, _ in edit.evidence} <= played
    assert edit.verdict == "accept"


def test_7_3_the_length_of_a_skill_is_controlled():
    limits = EditLimits(max_skill_chars=60)
    proposals = [
        Proposal(f"e{n}", Edit("append", f"{n}" * 25), "failure", (Evidence("T0", ()),))
        for n in (1, 2, 3)
    ]
    update = apply_proposals("# S\n", proposals, limits)
    assert len(update.candidate) <= 60
    assert [outcome.is_applied for outcome in update.outcomes] == [True, True, False]


async def test_7_3_a_gate_may_veto_what_harms_a_family_of_tasks():
    pairs = [(0.0, 1.0)] * 30
    families = {"kitchen": pairs, "cellar": [(1.0, 0.0)] * 6}
    duel = SetDuel([])
    duel._pairs = {
        f"{family}{n}": Pair(
            make_episode(f"{family}{n}", old, task_type=family),
            make_episode(f"{family}{n}", new, task_type=family),
        )
        for family, both in families.items()
        for n, (old, new) in enumerate(both)
    }
    ledger = AlphaLedger(0.05, planned=1)
    assert (await PairedGate().judge(duel, ledger)).accepted
    verdict = await PairedGate(task_type_veto=0.1).judge(duel, ledger)
    assert not verdict.accepted
    assert "cellar" in verdict.reason


async def test_7_4_20_continuous_rewards_are_judged_by_soft_and_mixed_gates():
    duel = SetDuel([(0.3, 0.6)] * 5)
    ledger = AlphaLedger(0.05, planned=1)
    assert not (await StrictGate(metric="hard").judge(duel, ledger)).accepted
    soft = await StrictGate(metric="soft").judge(duel, ledger)
    mixed = await StrictGate(metric="mixed", mixed_weight=0.5).judge(duel, ledger)
    assert (soft.effect, mixed.effect) == (pytest.approx(0.3), pytest.approx(0.15))


async def test_7_4_20_a_run_learns_from_rewards_that_are_never_whole(tmp_path):
    config = doors_config(
        tmp_path,
        env=world(tmp_path, "Ajar"),
        evaluation={"gate": {"kind": "strict", "metric": "mixed"}},
    )
    _, report = await trained(config, Walker(), Coach([[rule("attic")], []]), skill=ALL_WRONG)
    verdict = report.state.steps[0].verdict
    assert verdict.incumbent_score == pytest.approx(0.15)  # hard 0, soft 0.3
    assert verdict.accepted


async def test_7_4_14_a_run_knows_its_tasks_by_hash_and_refuses_others(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([[], []]))
    with look(path) as store:
        (facts,) = [event.payload for event in store.events("tasks")]
    for split in ("train", "val"):
        assert re.fullmatch(r"[0-9a-f]{64}", facts[split]["sha256"])


async def test_7_4_22_what_a_slow_update_did_is_in_the_record(tmp_path):
    config = doors_config(tmp_path, train={"epochs": 2, "batch_size": 6}, evaluation=STRICT)
    path, _ = await trained(config, Walker(), Elder([[], [], [], []], ALL_RULES))
    with look(path) as store:
        (_, second) = [event.payload for event in store.events("epoch")]
    assert second["action"] == "accept_new_best"
    assert second["verdict"]["pairs"] == 24


async def test_7_4_40_the_resolved_roles_are_told_before_anything_is_played(tmp_path):
    listener = Listener()
    await trained(doors_config(tmp_path), Walker(), Coach([[], []]), callback=listener)
    first = listener.events[0]
    assert isinstance(first, RunStarted)
    assert first.llms == {"target": "scripted:walker", "optimizer": "scripted:coach"}


async def test_7_4_40_every_endpoint_is_asked_a_question_before_a_run_begins(tmp_path):
    async with MockOpenAI() as server:
        llm = {"backend": "openai_chat", "base_url": server.base_url, "model": "m"}
        good, bad = {**llm, "api_key": server.api_key}, {**llm, "api_key": "sk-of-nobody"}
        await preflight(doors_config(tmp_path, models={"target": good, "optimizer": good}))
        assert len(server.bodies) == 1  # two roles of one model are one question
        with pytest.raises(ModelRefused):
            await preflight(doors_config(tmp_path, models={"target": good, "optimizer": bad}))
    assert not (tmp_path / "runs").exists()


async def test_7_4_173_answers_that_cannot_be_read_do_not_look_like_a_rejection(tmp_path):
    class Mumbler(Coach):
        def _answer(self, user):
            return "I would rather not"

    # Where it is not stopped for them.
    config = doors_config(tmp_path, run={"parity": True})
    path, report = await trained(config, Walker(), Mumbler([]))
    assert {step.action for step in report.state.steps} == {"skip_analyst_faults"}
    with look(path) as store:
        faults = [patch.failure for patch in store.patches()]
    assert faults
    assert all("JSON" in fault.message for fault in faults)


async def test_7_4_173_an_edit_that_could_not_be_made_is_told_to_the_next_step(tmp_path):
    lost = {"op": "replace", "target": "- Be bold.", "content": ALL_RULES}
    config = doors_config(tmp_path, optimizer={"repair_anchors": False})
    coach = Elder([[lost], []])
    await trained(config, Walker(), coach, skill="- Be quick.\n")
    told = coach.asked("Step 1: skip_no_change")
    assert told
    assert "Edits that could not be made:" in told[0]
    assert "skipped_replace_target_not_found" in told[0]


def test_7_4_213_a_knob_that_does_not_exist_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="learning_rate"):
        doors_config(tmp_path, optimizer={"meta_learning_rate": 3})


async def test_7_4_gains_are_reported_with_intervals_on_a_sealed_split(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]))
    gain = report.test.gains["best"]
    assert gain.interval.low <= gain.gain <= gain.interval.high
    for table in report.test.tables.values():
        low, high = table.overall.interval
        assert low <= table.overall.success_rate <= high
    again = await resumed(path, Walker(), Coach([]))
    assert json.dumps(again.to_dict()) == json.dumps(report.to_dict())
