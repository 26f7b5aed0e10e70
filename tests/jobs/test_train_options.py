"""What a configuration may change about a run: patience, memory, draws, micro-batches, notes."""

import json

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Notebook,
    Reminder,
    Veteran,
    Walker,
    doors_config,
    look,
    resumed,
    story,
    trained,
)
from skillwright.core import ConfigError
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import StageStarted
from skillwright.jobs.text import step_settings
from skillwright.textopt import (
    BudgetControl,
    SkillAware,
    StepSettings,
    UpdateMode,
    appendix_notes,
)

STRICT = {"kind": "strict"}


def six_steps(folder, **train):
    folder.mkdir(exist_ok=True)
    return doors_config(folder, train={"epochs": 3, **train}, optimizer={"use_meta_skill": False})


async def test_a_run_stops_after_so_many_steps_without_an_accepted_change(tmp_path):
    plan = [[ALL_RULES], [ALL_WRONG], [], ["Be quick."], ["Be bold."], []]
    path, report = await trained(six_steps(tmp_path, patience=2), Walker(), Coach(plan))
    assert [s.action for s in report.state.steps] == [
        "accept",
        "reject",
        "skip_no_patches",
    ]
    assert report.state.ran_out_of_patience
    assert report.to_dict()["ran_out_of_patience"] is True
    assert [epoch.epoch for epoch in report.state.epochs] == [1]
    assert report.test.tables["best"].overall.success_rate == 1.0
    target, coach = Walker(), Coach(plan)
    assert await resumed(path, target, coach) == report
    assert not target.calls + coach.calls


@pytest.mark.parametrize(("guidance", "steps"), [(ALL_RULES, 6), ("Be bold.", 4)])
async def test_an_epoch_whose_last_step_used_the_patience_up_is_still_looked_back_on(
    tmp_path, guidance, steps
):
    config = doors_config(tmp_path, train={"epochs": 3, "patience": 4})
    path, report = await trained(config, Walker(), Veteran([], guidance))
    assert [epoch.epoch for epoch in report.state.epochs] == [1, 2, 3][: steps // 2]
    # Guidance that is accepted renews the patience, and training continues.
    assert report.state.epochs[1].accepted is (steps == 6)
    assert len(report.state.steps) == steps
    assert report.state.ran_out_of_patience is (steps == 4)
    assert (await resumed(path, Walker(), Veteran([]))) == report


async def test_patience_that_ends_with_the_run_cut_nothing_short(tmp_path):
    config = doors_config(tmp_path, train={"patience": 2})
    _, report = await trained(config, Walker(), Coach([]))
    assert (len(report.state.steps), report.state.ran_out_of_patience) == (2, False)


async def test_patience_that_is_not_used_up_changes_nothing(tmp_path):
    plan = [[], [ALL_RULES], [], ["Be quick."], [], []]
    few, _ = await trained(six_steps(tmp_path / "few", patience=5), Walker(), Coach(plan))
    never, report = await trained(six_steps(tmp_path / "never"), Walker(), Coach(plan))
    assert story(few) == story(never)
    assert len(report.state.steps) == 6
    assert not report.state.ran_out_of_patience


@pytest.mark.parametrize(("across", "told"), [(True, [0, 1, 2, 3]), (False, [0, 1, 0, 1])])
async def test_a_new_epoch_is_told_of_the_old_ones_steps_only_if_they_are_kept(
    tmp_path, across, told
):
    coach = Coach([])
    optimizer = {"use_meta_skill": False, "use_slow_update": False, "memory_across_epochs": across}
    config = doors_config(tmp_path, train={"epochs": 2}, optimizer=optimizer)
    await trained(config, Walker(), coach)
    seen = [user.count("\nStep ") for user, _ in coach.calls]
    assert list(dict.fromkeys(zip(seen, seen, strict=True))) == [
        (n, n) for n in dict.fromkeys(told)
    ]
    assert [n for at, n in enumerate(seen) if at == 0 or seen[at - 1] != n] == told


async def test_without_fresh_draws_a_text_that_was_judged_before_costs_nothing(tmp_path):
    plan = [[ALL_RULES], [ALL_WRONG], [ALL_WRONG], []]
    evaluation = {"gate": {**STRICT, "fresh_draws": False}}
    config = doors_config(
        tmp_path,
        train={"epochs": 2},
        evaluation=evaluation,
        optimizer={"use_meta_skill": False, "use_slow_update": False},
    )
    path, report = await trained(config, Walker(), Coach(plan))
    assert [s.action for s in report.state.steps[:3]] == ["accept_new_best", "reject", "reject"]
    with look(path) as store:
        gate = store.episodes(phase="gate")
    assert {e.draw for e in gate} == {0}
    assert [len([e for e in gate if e.step == step]) for step in (None, 1, 2, 3)] == [24, 24, 24, 0]
    assert report.state.steps[2].verdict == report.state.steps[1].verdict


async def test_the_baseline_is_played_beside_the_first_steps_learning(tmp_path):
    notebook, coach = Notebook(), Coach([[ALL_RULES], []])
    path, _ = await trained(doors_config(tmp_path), Walker(), coach, callback=notebook)
    stages = [event.stage for event in notebook.of(StageStarted)]
    assert stages[:4] == ["rollout", "baseline", "reflect", "gate"]
    with look(path) as store:
        kinds = [event.kind for event in store.events()]
    assert kinds.index("baseline") < kinds.index("step")


async def test_the_gate_of_the_first_step_waits_for_the_baseline(tmp_path):
    seen = []

    class Witness:
        def on_event(self, event):
            seen.append(type(event).__name__ + getattr(event, "stage", ""))

    config = doors_config(tmp_path, rollout={"max_concurrent": 1})
    await trained(config, Walker(), Coach([[ALL_RULES], []]), callback=Witness())
    assert seen.index("Scored") < seen.index("StageStartedgate")


async def test_the_first_batch_goes_before_the_baseline_because_analysts_wait_for_it(tmp_path):
    config = doors_config(tmp_path, rollout={"max_concurrent": 2})
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    with look(path) as store:
        phases = [e.phase for e in sorted(store.episodes(), key=lambda e: e.id)]
    assert phases[:4] == ["train"] * 4  # of six, two at a time
    assert phases.index("gate") < 8


async def test_all_micro_batches_of_a_step_are_read_apart_and_judged_together(tmp_path):
    config = doors_config(tmp_path, train={"batch_size": 3, "accumulation": 4})
    coach = Coach([[ALL_RULES]])
    path, report = await trained(config, Walker(), coach)
    assert [step.action for step in report.state.steps] == ["accept"]
    assert report.state.final.accepted
    with look(path) as store:
        named = {patch.id.rpartition(".")[0] for patch in store.patches() if patch.level == 0}
        assert len(store.episodes(phase="train", step=1)) == 12
    assert {f"s1.b{index}" for index in range(4)} <= named
    one = tmp_path / "one"
    one.mkdir()
    alone = doors_config(
        one, train={"batch_size": 3, "accumulation": 4}, rollout={"max_concurrent": 1}
    )
    other, _ = await trained(alone, Walker(), Coach([[ALL_RULES]]))
    assert story(path) == story(other)


def test_every_setting_of_the_learner_reaches_it(tmp_path):
    aware = {"appendix_source": "failure_only", "consolidate_threshold": 7, "gated": False}
    config = doors_config(
        tmp_path,
        gradient={
            "merge_batch_size": 5,
            "failure_only": True,
            "success_threshold": 0.5,
            "analyst_budget": "initial",
            "analyst_workers": 3,
        },
        optimizer={
            "learning_rate": 6,
            "lr_control_mode": "autonomous",
            "skill_update_mode": "rewrite_from_suggestions",
            "rewrite_max_tokens": 777,
            "repair_anchors": False,
            "insert_after_fallback": True,
            "skill_aware": aware,
        },
    )
    assert step_settings(config) == StepSettings(
        minibatch_size=3,
        merge_batch_size=5,
        success_threshold=0.5,
        failure_only=True,
        analyst_workers=3,
        analyst_budget=6,
        update_mode=UpdateMode.REWRITE,
        rewrite_max_tokens=777,
        budget_control=BudgetControl.AUTONOMOUS,
        skill_aware=SkillAware(
            appendix_source="failure_only", consolidate_threshold=7, gated=False
        ),
        repair_anchors=False,
        insert_after_fallback=True,
    )


def test_what_is_shown_as_a_success_is_what_the_run_counts_as_one_unless_it_is_said(tmp_path):
    settings = step_settings(doors_config(tmp_path, env={"success_threshold": 0.75}))
    assert (settings.success_threshold, settings.skill_aware) == (0.75, None)


@pytest.mark.parametrize(("budget", "caps"), [("scheduled", {4, 2}), ("initial", {4})])
async def test_analysts_are_capped_by_the_schedule_or_by_its_start(tmp_path, budget, caps):
    coach = Coach([])
    config = doors_config(
        tmp_path,
        gradient={"analyst_budget": budget},
        optimizer={"learning_rate": 4, "min_learning_rate": 2, "lr_scheduler": "linear"},
    )
    await trained(config, Walker(), coach)
    said = {
        number
        for user, _ in coach.calls
        for number in caps | {2, 3, 4}
        if f"at most {number} " in user
    }
    assert said == ({3, 2} if budget == "scheduled" else {4})


async def test_reminders_that_are_not_gated_stay_where_everything_else_is_rejected(tmp_path):
    config = doors_config(tmp_path, optimizer={"skill_aware": {"gated": False}})
    path, report = await trained(
        config, Walker(), Reminder([[ALL_WRONG], []], "Knock."), skill="Be kind.\n"
    )
    assert [step.action for step in report.state.steps] == ["reject", "skip_no_patches"]
    assert report.best_skill == "Be kind.\n"
    assert (path / "best_skill.md").read_bytes() == b"Be kind.\n"
    assert appendix_notes(report.final_skill) == ["Knock."]


async def test_reminders_are_judged_with_the_candidate(tmp_path):
    config = doors_config(tmp_path, optimizer={"skill_aware": {}})
    path, report = await trained(config, Walker(), Reminder([[ALL_RULES], []], "Knock."))
    assert [step.action for step in report.state.steps] == ["accept", "skip_no_patches"]
    assert appendix_notes(report.best_skill) == ["Knock."]
    with look(path) as store:
        assert [v.origin for v in store.skills()] == ["initial_skill", "step_0001"]
        (noted,) = [patch for patch in store.patches() if patch.id == "s1.notes"]
        stored = [event.payload for event in store.events("step")]
    assert noted.details["n_appendix_notes_added"] == 1
    assert stored[0]["appendix"]["appendix_after"] == ["Knock."]


async def test_reminders_alone_are_a_candidate_too(tmp_path):
    config = doors_config(tmp_path, optimizer={"skill_aware": {}})
    _, report = await trained(config, Walker(), Reminder([[], []], "Knock."))
    assert [step.action for step in report.state.steps] == ["reject", "reject"]
    assert report.best_skill == report.final_skill == ""


async def test_reminders_that_are_not_gated_enter_the_current_skill_and_not_the_best(tmp_path):
    aware = {"skill_aware": {"gated": False}}
    paired = {"gate": {"kind": "paired"}}
    config = doors_config(tmp_path, optimizer=aware, evaluation=paired)
    path, report = await trained(config, Walker(), Reminder([[ALL_RULES], []], "Knock."))
    assert [step.action for step in report.state.steps] == ["accept_new_best", "skip_no_patches"]
    assert report.best_skill == f"{ALL_RULES}\n"
    assert appendix_notes(report.final_skill) == ["Knock."]
    assert [step.noted_version for step in report.state.steps] == [2, None]
    with look(path) as store:
        assert [(v.parent, v.origin) for v in store.skills()] == [
            (None, "initial_skill"),
            (0, "step_0001"),
            (1, "appendix_step_0001"),
        ]
    assert not report.state.final.accepted


async def test_kept_val_tasks_confirm_the_best_skill_once_and_no_gate_sees_them(tmp_path):
    config = doors_config(tmp_path, evaluation={"confirm_tasks": 6})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    kept = {f"val-{number}" for number in range(18, 24)}
    with look(path) as store:
        gate = [*store.episodes(phase="gate"), *store.episodes(phase="release")]
        confirmed = store.episodes(phase="confirm")
        (event,) = store.events("confirmed")
        (facts,) = store.events("tasks")
    assert {e.task_id for e in confirmed} == kept
    assert kept.isdisjoint(e.task_id for e in gate)
    assert len(confirmed) == 12
    assert json.loads(json.dumps(event.payload)) == report.state.confirmation.to_dict()
    assert facts.payload["confirm"]["tasks"] == 6
    found = report.state.confirmation
    assert list(found.report.tables) == ["initial", "best"]
    assert found.bias.seen == report.state.final.effect
    assert found.bias.bias == pytest.approx(found.bias.seen - found.report.gains["best"].gain)
    assert read_run(path).state.confirmation == found


async def test_a_run_that_does_not_test_may_still_confirm(tmp_path):
    config = doors_config(tmp_path, evaluation={"confirm_tasks": 6, "test": False})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    assert report.test is None
    assert report.state.confirmation is not None
    with look(path) as store:
        assert not store.episodes(phase="test")


async def test_val_tasks_may_not_all_be_kept(tmp_path):
    config = doors_config(tmp_path, evaluation={"confirm_tasks": 24})
    with pytest.raises(ConfigError, match="confirm_tasks = 24 keeps all of 24 val tasks"):
        await trained(config, Walker(), Coach([]))


@pytest.mark.parametrize("metric", ["hard", "soft", "mixed"])
@pytest.mark.parametrize("kind", ["explore", "paired", "strict", "open"])
async def test_every_gate_lets_through_what_helps_by_every_metric(tmp_path, kind, metric):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": kind, "metric": metric}})
    _, report = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    assert report.best_skill == f"{ALL_RULES}\n"
    assert report.state.best_version == 1
