"""Options that answer the statistics of section 7.1: racing, confirmation, and forced modes."""

import re

import pytest
from spec_worlds import Elder, SetDuel, two_epochs

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, look, rule, trained
from skillwright.core.skill import slow_update_field
from skillwright.evaluation import AlphaLedger, Decision, ExploreGate
from skillwright.jobs.run import RunStarted

IDLE = [[], [], [], []]


async def judged(gate, rewards):
    return await gate.judge(SetDuel(rewards), AlphaLedger(0.05, planned=1))


async def test_7_1_01_a_hopeless_candidate_is_given_up_at_the_first_look():
    harm = [(1.0, 0.0)] * 60 + [(1.0, 1.0)] * 40
    racing = await judged(ExploreGate(), harm)
    assert racing.decision is Decision.REJECT
    assert racing.rollouts == 200


async def test_7_1_01_by_default_a_hopeless_candidate_is_drawn_alone_and_a_few_times(tmp_path):
    _, report = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    first, second = report.state.steps
    assert (first.action, second.action) == ("accept", "reject")
    assert second.verdict.rollouts == 5  # the least number, of 24 tasks
    assert (len(second.verdict.seen.candidate), second.verdict.seen.incumbent) == (5, {})


async def test_7_1_01_tasks_that_no_gate_touched_confirm_the_best_skill(tmp_path):
    config = doors_config(tmp_path, evaluation={"confirm_tasks": 8})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    with look(path) as store:
        by_phase = {
            phase: {episode.task_id for episode in store.episodes(phase=phase)}
            for phase in ("train", "gate", "release", "confirm")
        }
    assert by_phase["confirm"] == {f"val-{number}" for number in range(16, 24)}
    judged = by_phase["gate"] | by_phase["release"]
    assert by_phase["confirm"].isdisjoint(judged | by_phase["train"])
    assert len(by_phase["gate"]) == len(by_phase["release"]) == 16
    assert report.state.confirmation.report.tables["best"].overall.success_rate == 1.0


async def test_7_1_01_the_selection_bias_is_reported(tmp_path):
    config = doors_config(tmp_path, evaluation={"confirm_tasks": 8})
    _, report = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    found, confirmed = report.state.confirmation, report.state.confirmation.report.gains["best"]
    assert found.bias.seen == pytest.approx(report.state.final.effect)
    assert found.bias.bias == pytest.approx(found.bias.seen - confirmed.gain)
    assert report.to_dict()["confirmation"]["bias"]["bias"] == found.bias.bias


async def test_7_1_03_a_forced_slow_update_is_an_explicit_choice_and_leaves_the_best(tmp_path):
    paired = {"gate": {"kind": "paired"}}
    config = two_epochs(tmp_path, optimizer={"gate_slow_update": False}, evaluation=paired)
    plan = [[ALL_RULES], [], [], []]
    path, report = await trained(config, Walker(), Elder(plan, ALL_WRONG))
    assert [epoch.action for epoch in report.state.epochs] == ["inject_placeholder", "force_accept"]
    assert slow_update_field(report.final_skill) == ALL_WRONG
    assert report.best_skill == f"{ALL_RULES}\n"
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    rates = {name: table.overall.success_rate for name, table in report.test.tables.items()}
    assert (rates["best"], rates["final"]) == (1.0, 0.0)
    with look(path) as store:  # and nothing was said about it that nobody measured
        assert [verdict.origin for verdict in store.verdicts()] == ["step", "final"]


def budgets(coach):
    told = coach.asked("## Trajectories")
    found = [int(re.search(r"Propose at most (\d+) edits", user)[1]) for user in told]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("coupling", "told"), [("scheduled", [5, 2]), ("initial", [8])])
async def test_7_1_12_the_analysts_budget_follows_the_schedule_unless_told_otherwise(
    tmp_path, coupling, told
):
    linear = {"learning_rate": 8, "min_learning_rate": 2, "lr_scheduler": "linear"}
    config = doors_config(tmp_path, optimizer=linear, gradient={"analyst_budget": coupling})
    coach = Elder([["Be quick."], ["Be slow."]])
    await trained(config, Walker(), coach)
    assert budgets(coach) == told


class Listener:
    def __init__(self):
        self.facts = ()

    def on_event(self, event):
        if isinstance(event, RunStarted):
            self.facts = event.facts


async def test_8_07_parity_takes_the_originals_side_and_the_run_lists_the_differences(tmp_path):
    listener = Listener()
    (tmp_path / "parity").mkdir()
    config = doors_config(tmp_path / "parity", run={"parity": True}, train={"epochs": 2})
    assert config.evaluation.gate.kind == "strict"
    assert config.optimizer.gate_slow_update is False
    assert config.gradient.analyst_budget == "initial"
    config = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 6})})
    coach = Elder([[rule("attic")], [], [], []], ALL_WRONG)
    path, report = await trained(config, Walker(), coach, callback=listener)
    assert report.state.epochs[1].action == "force_accept"
    assert any("parity" in fact for fact in listener.facts)
    with look(path) as store:
        (made,) = [event.payload for event in store.events("made")]
    assert (made["mode"], made["differs_from_skillopt"]) == ("parity", {})


async def test_8_07_the_default_mode_lists_where_it_differs(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([]))
    with look(path) as store:
        (made,) = [event.payload for event in store.events("made")]
    assert made["mode"] == "default"
    differs = made["differs_from_skillopt"]
    assert differs["optimizer.gate_slow_update"] == {"value": True, "original": False}
    assert differs["evaluation.gate.kind"] == {"value": "explore", "original": "strict"}


async def test_1_08_patience_is_an_option(tmp_path):
    impatient = {"epochs": 3, "batch_size": 6, "patience": 2}
    _, report = await trained(doors_config(tmp_path, train=impatient), Walker(), Coach([]))
    assert len(report.state.steps) == 2
    assert report.state.ran_out_of_patience
    assert report.test is not None
    patient = doors_config(tmp_path, run={"name": "patient"}, train={"epochs": 2, "batch_size": 6})
    _, whole = await trained(patient, Walker(), Elder(IDLE))
    assert (len(whole.state.steps), whole.state.ran_out_of_patience) == (4, False)


@pytest.mark.parametrize(("across", "remembered"), [(True, True), (False, False)])
async def test_1_08_what_was_rejected_is_remembered_across_epochs_by_choice(
    tmp_path, across, remembered
):
    config = two_epochs(tmp_path, optimizer={"memory_across_epochs": across})
    coach = Elder([[ALL_WRONG], [], [], []])
    await trained(config, Walker(), coach)
    late = coach.asked("## Optimizer notes\nSay less.") or coach.asked("## Trajectories")[-2:]
    assert ("Step 1: reject" in late[-1]) is remembered
