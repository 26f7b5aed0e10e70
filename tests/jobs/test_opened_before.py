"""A test split that another run opened before: the later run says so, and its report carries it."""

import pytest
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_config, trained, write_tasks
from skillwright.cli.app import app
from skillwright.dashboard.report import markdown_report
from skillwright.evaluation import SplitReport
from skillwright.jobs.inspect import read_run

PLAN = [[ALL_RULES], []]


async def train(tmp_path, name, **sections):
    config = doors_config(tmp_path, **sections)
    named = config.model_copy(update={"run": config.run.model_copy(update={"name": name})})
    return await trained(named, Walker(), Coach(PLAN))


async def test_the_second_run_on_the_same_test_tasks_names_the_first(tmp_path):
    write_tasks(tmp_path / "tasks")
    _, first = await train(tmp_path, "first")
    path, second = await train(tmp_path, "second")
    assert first.test.opened_before == ()
    assert second.test.opened_before == ("first",)
    summary = read_run(path)
    assert "opened before, by first" in markdown_report(path)
    (said,) = [one for one in summary.caveats if "opened before" in one]
    assert "by first: choices made since then may fit them" in said
    assert summary.to_dict()["test"]["opened_before"] == ["first"]
    shown = CliRunner().invoke(app, ["runs", "show", str(path)], env={"COLUMNS": "80"})
    assert "opened before, by first" in " ".join(shown.output.split())


async def test_other_tasks_or_an_unopened_test_are_not_named(tmp_path):
    write_tasks(tmp_path / "tasks")
    await train(tmp_path, "sealed", evaluation={"test": False})
    _, alone = await train(tmp_path, "alone")
    assert alone.test.opened_before == ()
    write_tasks(tmp_path / "tasks", test=9)
    _, others = await train(tmp_path, "others")
    assert others.test.opened_before == ()


async def test_a_run_that_cannot_be_read_is_passed_over(tmp_path):
    write_tasks(tmp_path / "tasks")
    path, _ = await train(tmp_path, "broken")
    for file in path.glob("*.sqlite*"):
        file.write_bytes(b"no database")
    _, later = await train(tmp_path, "later")
    assert later.test.opened_before == ()


@pytest.mark.parametrize("count", [1, 5])
def test_many_earlier_runs_are_counted(count):
    names = tuple(f"r{number}" for number in range(count))
    said = SplitReport("test", 1.0, {}, {}, opened_before=names).caveat
    assert ("and 2 more runs" in said) == (count == 5)
