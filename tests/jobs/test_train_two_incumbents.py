"""The current skill and the best one: where they part, and what becomes of both."""

from collections import Counter
from dataclasses import replace

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Reminder,
    Veteran,
    Walker,
    doors_config,
    look,
    rule,
    trained,
    write_tasks,
)
from skillwright.core import skill_hash
from skillwright.core.skill import inject_empty_slow_update, slow_update_field
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import EpochEnded, StepDecided
from skillwright.jobs.text import restore

SKILL = "# Doors\n\nKnock first.  \n\n- é, \u4e2d\n"
STRICT = {"gate": {"kind": "strict"}}
PAIRED = {"gate": {"kind": "paired"}}
IDLE = [[], [], [], []]


def forced(folder, epochs=2, gate=STRICT, **optimizer):
    """Return a run whose slow updates enter unmeasured, two steps an epoch."""
    folder.mkdir(exist_ok=True)
    optimizer = {"slow_update_samples": 5, "gate_slow_update": False, **optimizer}
    return doors_config(folder, train={"epochs": epochs}, optimizer=optimizer, evaluation=gate)


def origins(path):
    with look(path) as store:
        return [(v.version, v.parent, v.origin) for v in store.skills()]


def judged(path):
    with look(path) as store:
        return [(v.step, v.origin, v.body["decision"]) for v in store.verdicts()]


async def test_a_slow_update_that_is_let_in_unmeasured_never_touches_the_best_skill(tmp_path):
    path, report = await trained(forced(tmp_path), Walker(), Veteran(IDLE, ALL_WRONG), skill=SKILL)
    assert [e.action for e in report.state.epochs] == ["inject_placeholder", "force_accept"]
    assert [e.verdict for e in report.state.epochs] == [None, None]
    assert origins(path) == [
        (0, None, "initial_skill"),
        (1, 0, "slow_update_placeholder_epoch_01"),
        (2, 1, "slow_update_epoch_02"),
    ]
    assert slow_update_field(report.final_skill).strip() == ALL_WRONG
    assert report.best_skill == report.initial_skill == SKILL
    assert (path / "best_skill.md").read_bytes() == SKILL.encode()
    assert judged(path) == [(4, "final", "reject")]
    rates = {name: table.overall.success_rate for name, table in report.test.tables.items()}
    assert rates["initial"] == rates["best"] > rates["final"] == 0.0


async def test_the_last_skill_becomes_the_best_where_it_beats_it(tmp_path):
    path, report = await trained(forced(tmp_path), Walker(), Veteran(IDLE, ALL_RULES), skill=SKILL)
    assert judged(path) == [(4, "final", "accept")]
    assert report.state.final.accepted
    assert report.best_skill == report.final_skill
    assert slow_update_field(report.best_skill).strip() == ALL_RULES
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    assert [verdict.reason for verdict in report.state.proofs] == [report.state.final.reason]
    assert read_run(path).accepted == 1


async def test_what_beats_the_current_skill_and_not_the_best_is_accepted_and_no_more(tmp_path):
    # Guidance spoils the attic; the rule for the cellar mends less than the attic was worth.
    plan = [[rule("attic"), rule("hall")], [], [], [], [rule("cellar")], []]
    coach = Veteran(plan, rule("attic", 9))
    path, report = await trained(forced(tmp_path, 3), Walker(), coach)
    assert [e.action for e in report.state.epochs][1:] == ["force_accept", "skip_no_change"]
    met = report.state.steps[4]
    assert (met.action, met.verdict.accepted, met.best_verdict.accepted) == ("accept", True, False)
    assert report.state.best_version == 1
    assert report.state.skill_version == met.skill_version
    assert rule("cellar") in report.final_skill
    assert rule("cellar") not in report.best_skill
    assert judged(path) == [
        (1, "step", "accept"),
        (5, "step", "accept"),
        (5, "step_best", "reject"),
    ]
    with look(path) as store:
        draws = {(e.step, e.draw) for e in store.episodes(phase="gate") if e.step}
    # Each accept is followed by other luck, the one between the two questions of a step too.
    assert draws == {(1, 0), (5, 1), (5, 2)}


async def test_what_beats_both_becomes_both(tmp_path):
    plan = [[], [], [], [], [ALL_RULES], []]
    path, report = await trained(forced(tmp_path, 3), Walker(), Veteran(plan, "Be bold."))
    met = report.state.steps[4]
    assert (met.action, met.is_best) == ("accept_new_best", True)
    assert met.verdict.accepted
    assert met.best_verdict.accepted
    assert report.state.best_version == report.state.skill_version == met.skill_version
    assert report.state.final is None
    assert report.state.proofs == (met.best_verdict,)
    # It won two duels, and is one candidate.
    assert (report.state.accepts, read_run(path).accepted) == (2, 1)


async def test_the_first_epoch_of_an_unmeasured_run_gets_an_empty_region_only(tmp_path):
    path, report = await trained(
        forced(tmp_path, 1), Walker(), Veteran([[], []], ALL_RULES), skill=SKILL
    )
    assert report.final_skill == inject_empty_slow_update(SKILL)
    assert report.best_skill == SKILL
    assert [e.to_dict()["action"] for e in report.state.epochs] == ["inject_placeholder"]
    again = inject_empty_slow_update(SKILL)
    other = tmp_path / "other"
    _, second = await trained(forced(other, 1), Walker(), Veteran([[], []]), skill=again)
    assert second.final_skill == second.best_skill == again
    assert len(origins(path)) == 2


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_score_that_stands_stands_for_the_text_with_an_empty_region_too(tmp_path, fresh):
    gate = {"gate": {"kind": "strict", "fresh_draws": fresh}}
    llm = Veteran([[], [], ["Be quick."], [ALL_RULES]], ALL_RULES)
    path, report = await trained(forced(tmp_path, 2, gate), Walker(), llm, skill=SKILL)
    with look(path) as store:
        played = Counter(store.load_episode(e.id).skill_version for e in store.episodes())
    hollow = skill_hash(inject_empty_slow_update(SKILL))
    assert [step.action for step in report.state.steps[2:]] == ["reject", "accept_new_best"]
    # With fresh draws it is measured on val like any other text: 24 rollouts, once.
    assert played[hollow] == 12 + 24 * fresh
    first = report.state.steps[2].verdict.incumbent_score
    assert first == report.state.steps[3].verdict.incumbent_score
    assert first == pytest.approx(report.state.baseline.overall.success_rate)


def on_val(path, text):
    with look(path) as store:
        return sum(one.skill_version == skill_hash(text) for one in store.episodes(split="val"))


@pytest.mark.parametrize(("inherits", "rollouts"), [(True, 0), (False, 24)])
async def test_guidance_that_entered_unmeasured_is_played_unless_the_score_before_stands(
    tmp_path, inherits, rollouts
):
    evaluation = {"gate": {"kind": "strict", "fresh_draws": False}, "inherit_scores": inherits}
    llm = Veteran([*IDLE, ["Be quick."], [ALL_RULES]], rule("attic"))
    path, report = await trained(forced(tmp_path, 3, evaluation), Walker(), llm, skill=SKILL)
    with look(path) as store:
        guided = store.skill(2)
    assert slow_update_field(guided).strip() == rule("attic")
    assert on_val(path, guided) == rollouts
    known = report.state.baseline.overall.success_rate
    was = report.state.steps[4].verdict.incumbent_score
    assert was == pytest.approx(known) if inherits else was > known
    assert report.state.steps[5].action == "accept_new_best"


async def test_what_inherits_its_score_is_played_at_the_end(tmp_path):
    evaluation = {"gate": {"kind": "strict", "fresh_draws": False}, "inherit_scores": True}
    config = forced(tmp_path, 2, evaluation)
    path, report = await trained(config, Walker(), Veteran(IDLE, ALL_RULES), skill=SKILL)
    assert judged(path) == [(4, "final", "accept")]
    assert on_val(path, report.final_skill) == 24
    assert report.best_skill == report.final_skill


async def test_reminders_that_entered_unmeasured_inherit_too(tmp_path):
    evaluation = {"gate": {"kind": "strict", "fresh_draws": False}, "inherit_scores": True}
    optimizer = {"skill_aware": {"gated": False}, "use_slow_update": False}
    config = doors_config(tmp_path, optimizer=optimizer, evaluation=evaluation)
    llm = Reminder([["Be quick."], [ALL_RULES]], "Knock first.")
    path, report = await trained(config, Walker(), llm, skill=SKILL)
    with look(path) as store:
        [noted] = [store.skill(step.noted_version) for step in report.state.steps[:1]]
    assert on_val(path, noted) == 0
    assert [step.action for step in report.state.steps] == ["reject", "accept_new_best"]


async def test_an_open_gate_lets_every_candidate_in_and_keeps_the_best(tmp_path):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": "open"}})
    path, report = await trained(config, Walker(), Veteran([[ALL_RULES], [ALL_WRONG]]))
    assert [step.action for step in report.state.steps] == ["force_accept"] * 2
    assert [step.verdict for step in report.state.steps] == [None, None]
    assert [step.best_verdict.accepted for step in report.state.steps] == [True, False]
    assert report.best_skill == f"{ALL_RULES}\n"
    assert report.final_skill.endswith(f"{ALL_WRONG}\n")
    assert judged(path) == [(1, "step_best", "accept"), (2, "step_best", "reject")]
    # The last skill met the best one already, on the draws that are due: it is not asked again.
    assert report.state.final == replace(report.state.steps[1].best_verdict, alpha=None)
    assert {name: table.overall.success_rate for name, table in report.test.tables.items()}[
        "best"
    ] == 1.0


async def test_a_paired_run_that_parts_its_skills_plans_alpha_for_every_question(tmp_path):
    _, report = await trained(forced(tmp_path, 2, PAIRED), Walker(), Veteran(IDLE, ALL_RULES))
    ledger = report.state.ledger
    assert (ledger.planned, ledger.made) == (2 * 4 + 1, 1)
    assert report.state.final.alpha == pytest.approx(0.05 / 9)


async def test_two_skills_that_met_on_the_same_draws_are_not_judged_again(tmp_path):
    # In 60 val tasks the paired gate sees the cellar mended, and that the attic was worth more.
    write_tasks(tmp_path / "tasks", val=60)
    plan = [[rule("attic"), rule("hall")], [], [], [], [rule("cellar")], []]
    coach = Veteran(plan, rule("attic", 9))
    paired = {**PAIRED, "alpha": 0.4}
    path, report = await trained(forced(tmp_path, 3, paired), Walker(), coach)
    met = report.state.steps[4]
    assert (met.action, met.best_verdict.decision) == ("accept", "reject")
    assert met.best_verdict.alpha is not None
    assert report.state.ledger.made == 3  # two of step 5, one of step 1, and none at the end
    assert report.state.final == replace(met.best_verdict, alpha=None)
    assert [origin for _, origin, _ in judged(path)] == ["step", "step", "step_best"]
    with look(path) as store:
        assert restore(forced(tmp_path, 3, paired), store) == report.state


async def test_what_was_added_since_is_judged_at_the_end(tmp_path):
    # After the candidate met the best skill, reminders were added to it.
    config = doors_config(
        tmp_path,
        evaluation={"gate": {"kind": "open"}},
        optimizer={"skill_aware": {"gated": False}},
        train={"batch_size": 12},
    )
    path, report = await trained(config, Walker(), Reminder([[ALL_WRONG]], "Knock."))
    assert [origin for _, origin, _ in judged(path)] == ["final", "step_best"]
    assert "Knock." in report.final_skill


async def test_watchers_are_told_of_the_verdict_that_was_made(tmp_path):
    seen = []

    class Notebook:
        def on_event(self, event):
            if isinstance(event, StepDecided | EpochEnded):
                seen.append((event.action, event.verdict and event.verdict.accepted))

    config = doors_config(tmp_path, evaluation={"gate": {"kind": "open"}})
    await trained(config, Walker(), Veteran([[ALL_RULES], []]), callback=Notebook())
    assert seen == [("force_accept", True), ("skip_no_patches", None), ("", None)]
