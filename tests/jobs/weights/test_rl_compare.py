"""Two tested policies of the recipe, paired by task."""

import pytest

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
