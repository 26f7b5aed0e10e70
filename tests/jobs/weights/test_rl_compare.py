"""Two tested policies of the recipe, paired by task."""

import json
import shutil
import sqlite3

import pytest

from skillwright.core import RunError
from skillwright.jobs.inspect import compare_runs


@pytest.mark.parametrize("name", ["cold_start_last_bank", "final", "no_skills"])
def test_every_tested_policy_is_found_by_its_name(whole, name):
    report = whole["report"].test
    found = compare_runs(whole["path"], whole["path"], skill_a="cold_start", skill_b=name)
    assert (found.a.job, len(found.tasks)) == ("rl", 9)
    assert found.overall.first == report.tables["cold_start"].overall.success_rate
    assert found.overall.second == report.tables[name].overall.success_rate
    assert found.overall.effect == pytest.approx(report.gains[name].gain)


def test_a_training_brings_the_policy_that_it_ended_with(whole):
    found = compare_runs(whole["path"], whole["path"], skill_a="no_skills")
    assert (found.b.skill, found.overall.second) == ("final", 1.0)


def test_a_run_that_did_not_record_whose_the_episodes_are_is_refused(whole, tmp_path):
    older = tmp_path / "older"
    shutil.copytree(whole["path"], older)
    database = sqlite3.connect(older / "run.sqlite")
    where = "FROM events WHERE kind = 'rl_test'"
    [(payload,)] = database.execute(f"SELECT payload {where}").fetchall()
    report = json.loads(payload)
    del report["episodes"]
    database.execute("UPDATE events SET payload = ? WHERE kind = 'rl_test'", (json.dumps(report),))
    database.commit()
    database.close()
    with pytest.raises(RunError, match="'older' has no scores to compare: an earlier version"):
        compare_runs(whole["path"], older)
