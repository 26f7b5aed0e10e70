"""A run is exported as the files that SkillOpt leaves."""

import json

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Veteran,
    Walker,
    doors_config,
    evaluated,
    rule,
    trained,
)
from skillwright.core import RunError
from skillwright.jobs.text import EvalPlan
from skillwright.plugins.skillopt.run_files import export_skillopt

DOCUMENTED = (
    "version config baseline_selection_hard best_selection_hard final_selection_hard "
    "final_selection_soft epoch_stats best_step current_origin "
    "best_origin total_steps total_accepts total_rejects total_skips baseline_test_hard "
    "baseline_test_soft test_hard test_soft final_test_hard final_test_soft test_delta_hard "
    "final_test_delta_hard total_wall_time_s token_summary"
)


def first_step(out):
    return json.loads((out / "steps" / "step_0001" / "step_record.json").read_text())


async def test_where_each_accept_is_a_release_the_best_step_is_known_at_once(tmp_path):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": "paired"}})
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    export_skillopt(path, tmp_path / "theirs")
    told = first_step(tmp_path / "theirs")
    assert (told["action"], told["best_step"], told["best_score"]) == ("accept_new_best", 1, 1.0)
    summary = json.loads((tmp_path / "theirs" / "summary.json").read_text())
    assert (summary["best_step"], summary["best_selection_hard"]) == (1, 1.0)


async def test_a_training_run_is_written_in_their_names(tmp_path):
    config = doors_config(tmp_path)
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], [ALL_WRONG]]))
    out = tmp_path / "theirs"
    written = export_skillopt(path, out)
    assert all(one.is_file() for one in written)
    summary = json.loads((out / "summary.json").read_text())
    assert set(DOCUMENTED.split()) <= summary.keys()
    assert (summary["total_steps"], summary["total_accepts"], summary["best_step"]) == (2, 1, 1)
    assert summary["test_hard"] == 1.0
    assert summary["best_origin"] == "step_0001"
    assert (summary["best_selection_hard"], first_step(out)["best_step"]) == (1.0, 0)
    assert summary["test_delta_hard"] == 1.0 - summary["baseline_test_hard"]
    assert summary["token_summary"]["_total"]["calls"] > 0
    assert summary["config"]["batch_size"] == 6
    assert "In the attic take door 4." in (out / "best_skill.md").read_text()
    assert (out / "skills" / "skill_v0000.md").read_text() == ""
    assert (out / "skills" / "skill_v0002.md").read_text() == (out / "best_skill.md").read_text()
    first, second = json.loads((out / "history.json").read_text())
    assert (first["action"], second["action"]) == ("accept", "reject")
    expected = first["candidate_gate_score"]
    assert first["current_score"] == second["current_score"] == expected
    assert max(summary["baseline_selection_hard"], second["candidate_gate_score"]) < expected < 1
    assert "take door 9" in (out / "steps" / "step_0002" / "candidate_skill.md").read_text()
    state = json.loads((out / "runtime_state.json").read_text())
    assert (state["last_completed_step"], state["best_step"]) == (2, 1)
    with pytest.raises(RunError, match="new folder"):
        export_skillopt(path, out)


async def test_the_last_skills_score_on_val_is_told(tmp_path):
    gate = {"kind": "strict", "fresh_draws": False}
    config = doors_config(
        tmp_path,
        optimizer={"gate_slow_update": False},
        train={"epochs": 2},
        evaluation={"gate": gate},
    )
    path, report = await trained(config, Walker(), Veteran([[], [], [], []], rule("attic")))
    export_skillopt(path, tmp_path / "theirs")
    summary = json.loads((tmp_path / "theirs" / "summary.json").read_text())
    told = report.state.final.candidate_score
    assert told > report.state.baseline.overall.success_rate
    assert summary["final_selection_hard"] == pytest.approx(told)
    assert summary["final_selection_soft"] == pytest.approx(told)


async def test_an_evaluation_has_no_such_files(tmp_path):
    path, _ = await evaluated(doors_config(tmp_path), EvalPlan("test", 1), Walker())
    with pytest.raises(RunError, match="an evaluation"):
        export_skillopt(path, tmp_path / "theirs")
