"""A listing of runs agrees with the state of each run, and imports no learner."""

import subprocess
import sys

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, evaluated, start_run, trained
from skillwright.jobs.inspect import read_run
from skillwright.jobs.listing import listed_runs
from skillwright.jobs.text import EvalPlan


@pytest.mark.parametrize("gate", ["explore", "strict"])
async def test_a_listing_agrees_with_the_state_of_a_training(tmp_path, gate):
    config = doors_config(tmp_path, evaluation={"gate": {"kind": gate}})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES]]))
    (listed,) = listed_runs(tmp_path / "runs")
    state = read_run(path).state
    proven = state.final is not None and state.final.accepted
    judged = sum(one.accepted for one in (*state.steps, *state.epochs))
    assert state.two_levels == (gate == "explore")
    assert listed.is_finished
    assert listed.is_scripted
    assert listed.steps == state.last_step > 0
    assert listed.accepted == judged + (proven and not state.two_levels) > 0
    rates = (report.test.tables[name].overall.success_rate for name in ("initial", "best"))
    assert listed.result == "{:.0%} -> {:.0%} solved".format(*rates)


async def test_evaluations_and_unfinished_runs_are_listed(tmp_path):
    config = doors_config(tmp_path)
    _, report = await evaluated(config, EvalPlan("val", 1), Walker())
    start_run(config, "").close()
    done, begun = listed_runs(tmp_path / "runs")
    assert (done.job, done.is_finished) == ("eval", True)
    assert done.result == f"{report.table.overall.success_rate:.0%} solved"
    assert (begun.job, begun.steps, begun.result) == ("train", 0, "not finished")


def test_a_listing_imports_no_learner_and_parses_no_configuration(tmp_path):
    start_run(doors_config(tmp_path), "").close()
    code = """
import sys
sys.argv = ["skillwright", "runs", "list"]
from skillwright.cli.app import app
app(standalone_mode=False)
heavy = ("numpy", "aiohttp", "skillwright.config", "skillwright.models")
print([name for name in heavy if name in sys.modules])
"""
    words = [sys.executable, "-c", code]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "doors" in said
    assert said.splitlines()[-1] == "[]"
