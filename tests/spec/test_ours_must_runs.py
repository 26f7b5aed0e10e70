"""What the rest of the specification marks as ours, about whole runs and what they leave behind."""

import json

import pytest
from spec_worlds import CutAt, Elder, PowerCut, two_epochs

from doors import (
    ALL_RULES,
    Coach,
    NullCallback,
    Walker,
    doors_config,
    llms,
    look,
    resumed,
    rule,
    trained,
)
from skillwright.core import DataError
from skillwright.jobs.inspect import run_study, start_study
from skillwright.jobs.run import read_initial_skill


def test_1_00_an_empty_path_is_a_blank_skill_and_a_missing_file_an_error(tmp_path):
    assert read_initial_skill(doors_config(tmp_path)) == ""
    named = doors_config(tmp_path, skill={"init": str(tmp_path / "no_such_skill.md")})
    with pytest.raises(DataError, match="no such file"):
        read_initial_skill(named)


async def test_1_07_a_rewrite_is_told_what_the_optimizer_noted(tmp_path):
    class Rewriter(Elder):
        def _answer(self, user):
            if "## Suggestions\n" in user:
                texts = [
                    one["instruction"] for one in json.loads(user.split("## Suggestions\n")[1])
                ]
                return {"new_skill": "\n".join(texts), "change_summary": ["anew"]}
            answer = super()._answer(user)
            if "patch" in answer:
                edits = answer["patch"]["edits"]
                changes = [{"type": "add_rule", "instruction": e["content"]} for e in edits]
                return {"patch": {"revise_suggestions": changes}}
            return answer

    rewriting = {"skill_update_mode": "rewrite_from_suggestions"}
    config = two_epochs(
        tmp_path, 3, optimizer=rewriting, gradient={"minibatch_size": 40, "failure_only": True}
    )
    coach = Rewriter([[], [], [], [], ["Take the first door."], []], notes="Doors are numbers.")
    await trained(config, Walker(), coach)
    (asked,) = coach.asked("## Suggestions\n")
    assert "## Optimizer notes\nDoors are numbers." in asked


async def test_1_14_counters_outlive_a_resume_and_count_failed_attempts(tmp_path):
    plan = [[ALL_RULES], []]
    whole, _ = await trained(doors_config(tmp_path, run={"name": "whole"}), Walker(), Elder(plan))
    with pytest.raises(PowerCut):
        await trained(doors_config(tmp_path), Walker(), CutAt(plan, "Step 1:"))
    cut = tmp_path / "runs" / "doors"
    await resumed(cut, Walker(), Elder(plan))
    with look(whole) as one, look(cut) as other:
        assert one.usage_by_purpose() == other.usage_by_purpose()


async def test_1_09_a_run_may_be_moved(tmp_path):
    plan = [[ALL_RULES], []]
    with pytest.raises(PowerCut):
        await trained(doors_config(tmp_path), Walker(), CutAt(plan, "Step 1:"))
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    (tmp_path / "runs" / "doors").rename(moved)
    report = await resumed(moved, Walker(), Elder(plan))
    assert report.best_skill == f"{ALL_RULES}\n"
    assert (moved / "best_skill.md").is_file()


async def test_1_11_the_meta_skill_acts_in_later_epochs_and_never_in_the_skill(tmp_path):
    coach = Elder([[rule("attic"), rule("hall")]], notes="Doors are numbers.")
    _, report = await trained(two_epochs(tmp_path, 3), Walker(), coach)
    told = ["Doors are numbers." in user for user in coach.asked("## Trajectories")]
    assert told == sorted(told)
    assert any(told)
    assert not all(told)
    assert "Doors are numbers." not in report.final_skill


async def test_7_3_several_seeds_give_an_interval(tmp_path):
    config = doors_config(tmp_path)
    make = llms(Walker(), Coach([[ALL_RULES], []]))

    class Watch:
        def __enter__(self):
            return NullCallback()

        def __exit__(self, *exc):
            pass

    with start_study(config, "", 3) as study:
        summary = await run_study(study, Watch, make)
    assert [one.seed for one in summary.seeds] == [42, 43, 44]
    assert len(set(summary.gains)) > 1
    assert summary.interval.low < summary.mean_gain < summary.interval.high
    written = json.loads((study.path / "summary.json").read_text(encoding="utf-8"))
    assert written["mean_gain"] == summary.mean_gain
