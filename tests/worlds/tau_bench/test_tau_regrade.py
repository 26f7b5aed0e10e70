"""Stored episodes are scored again: nobody is asked, and nothing is overwritten."""

import json

import pytest
from typer.testing import CliRunner

from doors import Walker, doors_config, evaluated, look
from skillwright.cli.app import app
from skillwright.jobs.inspect import regrade
from skillwright.jobs.run import REGRADED, seconds_worked
from skillwright.jobs.text import EvalPlan
from skillwright.worlds.tau_bench import open_store
from tau_models import RULE, Clerk, shop, tau_config, tau_evaluated
from tau_store import CANCEL, task, tool_call, write_store

ONCE = EvalPlan("test", 1)


@pytest.fixture
async def run(tmp_path):
    """A finished run whose four episodes were won."""
    data = shop(tmp_path / "shop", count=4)
    path, report = await tau_evaluated(tau_config(tmp_path, data), ONCE, Clerk(), RULE)
    assert report.pass_k == (1.0,)
    return path


def rewritten(tmp_path, **files):
    """Write the shop anew in its place, as another process would find it."""
    data = tmp_path / "shop"
    for path in data.iterdir():
        path.unlink()
    tasks = {f"tasks_{split}": [task(CANCEL)] * 4 for split in ("train", "val", "test")}
    write_store(data, **{**tasks, **files})
    open_store(data).__init__(data)


def regraded(path):
    with look(path) as store:
        return [event.payload for event in store.events(REGRADED)]


def test_scores_stand_where_nothing_changed(run):
    before = rewards(run)
    report = regrade(run)
    assert report.stands
    assert (report.unchanged, report.failures, report.changed, report.lost) == (4, 0, (), ())
    assert report.other_data == 0
    assert report.before == report.after
    assert regraded(run) == [report.to_dict()]
    assert rewards(run) == before


def test_scoring_again_is_no_work_on_the_run(run):
    with look(run) as store:
        before = seconds_worked(store)
    regrade(run)
    with look(run) as store:
        assert seconds_worked(store) == before


def rewards(path):
    with look(path) as store:
        return [(one.id, one.reward, one.metrics) for one in store.episodes()]


def test_a_changed_grading_changes_scores_and_says_which(run, tmp_path):
    rewritten(tmp_path, tasks_test=[task(CANCEL)] * 3 + [task(CANCEL, outputs=["42"])])
    before = rewards(run)
    report = regrade(run)
    (changed,) = report.changed
    assert (changed.task_id, changed.before, changed.after) == ("test-003", 1.0, 0.0)
    assert "outputs_missing" in changed.why
    assert (report.before.success_rate, report.after.success_rate) == (1.0, 0.75)
    assert report.other_data == 4
    assert rewards(run) == before


def test_an_episode_that_would_have_gone_another_way_is_not_scored(run, monkeypatch):
    from skillwright.worlds.tau_bench import env

    parse = env.parse

    def later(action, mode, tools):
        return parse(
            action.replace("<tool_call>", "I call ").replace("</tool_call>", ""), mode, tools
        )

    monkeypatch.setattr(env, "parse", later)
    report = regrade(run)
    assert len(report.lost) == 4
    assert all("speak to the user" in one.why for one in report.lost)
    assert report.after == report.before
    assert not report.stands


async def test_all_kinds_of_ends_are_scored_as_they_were(tmp_path):
    ends = {
        "transfer": [tool_call("transfer_to_human_agents", summary="x")],
        "truncated": [tool_call("think", thought="?")] * 40,
        "garbage": ["<tool_call>{", "", tool_call("nothing"), "Bye."],
        "thinks": ["<think>Hm.</think> Bye."],
    }
    for name, turns in ends.items():
        data = shop(tmp_path / name, count=2)
        config = tau_config(tmp_path, data)
        path, _ = await tau_evaluated(config, ONCE, Clerk(turns=turns))
        report = regrade(path)
        assert (name, report.unchanged, report.stands) == (name, 2, True)


async def test_every_environment_of_ours_can_be_scored_again(tmp_path):
    path, _ = await evaluated(doors_config(tmp_path), ONCE, Walker())
    report = regrade(path)
    assert (report.unchanged, report.other_data, report.stands) == (12, 0, True)


def test_the_command_says_whether_scores_stand(run, tmp_path):
    done = CliRunner().invoke(app, ["regrade", str(run)])
    assert done.exit_code == 0, done.output
    assert "scored again: 4 episodes, 4 as before" in " ".join(done.output.split())
    rewritten(tmp_path, rules=["Be quick."])
    told = json.loads(CliRunner().invoke(app, ["regrade", str(run), "--json"]).output)
    assert (told["unchanged"], told["other_data"]) == (4, 4)
    assert CliRunner().invoke(app, ["regrade", "nowhere"]).exit_code == 2
