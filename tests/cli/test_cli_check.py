"""`skillwright check`: a changed skill is better, not worse, worse, or undecided."""

import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from clerk_table import EXAMPLES, GOOD, HARM, write_table


@pytest.fixture
def table(tmp_path):
    """A configuration with a scripted clerk, and two skills."""
    return write_table(tmp_path)


def git(folder, *words):
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *map(str, words)], cwd=folder, check=True, capture_output=True)


def commit(folder, message="changed"):
    git(folder, "add", "-A")
    git(folder, "commit", "-m", message)


@pytest.mark.parametrize("new", ["router", "router/SKILL.md"])
def test_without_a_configuration_the_one_of_the_skill_is_named(cli, tmp_path, new):
    (tmp_path / "router").mkdir()
    (tmp_path / "router" / "SKILL.md").write_text("Be brief.", encoding="utf-8")
    for name in ("another.yaml", "router.yaml"):
        (tmp_path / name).touch()
    assert "such as --config router.yaml;" in cli("check", new, code=2).stderr


def test_a_skill_that_helps_is_better_than_none(cli, table):
    found = json.loads(cli("check", "good.md", "--config", table, "--json").stdout)
    assert (found["verdict"]["answer"], found["fine"], found["scripted"]) == ("better", True, True)
    assert found["plan"]["old"] == "no skill"
    costs = found["costs"]
    assert costs["new"]["input_tokens"] > costs["old"]["input_tokens"] > 0
    shown = cli("runs", "list").stdout
    assert "table-check" in shown
    assert "better" in shown
    assert "Better: " in cli("runs", "show", "table-check").stdout
    flipped = cli("runs", "episodes", "table-check", "--flipped").stdout
    assert "flipped on test from old to new" in flipped


def test_a_harm_is_red_for_people_and_for_ci(cli, table, tmp_path):
    files = ("--junit", "check.xml", "--markdown", "check.md")
    shown = cli("check", "harm.md", "--against", "good.md", "--config", table, *files, code=1)
    assert "Worse: " in shown.stdout
    assert "old  good.md" in shown.stdout
    suite = ElementTree.parse(tmp_path / "check.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert suite.find("testcase/failure").get("type") == "worse"
    comment = (tmp_path / "check.md").read_text()
    assert comment.startswith("<!-- skillwright check -->\n### ❌ Skill check: worse\n")
    assert "`repair`" in comment
    # Its own files are replaced, another program's are not.
    cli("check", "good.md", "--against", "harm.md", "--config", table, *files)
    assert "✅" in (tmp_path / "check.md").read_text()
    (tmp_path / "check.md").write_text("mine")
    refused = cli("check", "good.md", "--config", table, *files, code=2).stderr
    assert "no check wrote it" in refused
    assert (tmp_path / "check.md").read_text() == "mine"


def test_a_skill_that_did_not_change_is_fine_at_a_small_cost(cli, table):
    found = json.loads(
        cli("check", "good.md", "--against", "good.md", "--config", table, "--json").stdout
    )
    assert (found["same"], found["fine"]) == (True, True)
    assert found["verdict"]["answer"] in ("not worse", "undecided")
    assert found["rollouts"] <= 2 * 2 * 66


def test_too_few_rows_are_undecided_and_say_what_would_decide(cli, table, tmp_path):
    (tmp_path / "new.md").write_text(GOOD + "- Be polite.\n")
    few = ("--set", "evaluation.test_tasks=9", "--draws", "1")
    shown = cli("check", "new.md", "--against", "good.md", "--config", table, *few, code=1)
    assert "Undecided: " in shown.stdout
    assert "would decide" in shown.stdout


def test_a_run_is_compared_on_its_own_configuration(cli, table):
    cli("train", table, "--set", "train.epochs=1", "--set", "evaluation.test=false")
    shown = cli("check", "table@current", "--against", "table@0").stdout
    assert "Better: " in shown
    assert "old  table@0" in shown
    # A file, too, is played on the configuration of the run that it is compared with.
    for old, code in (
        ("table@current", 1),
        ("table@0", 0),
        ("runs/table/skills/skill_v0000.md", 0),
    ):
        shown = cli("check", "harm.md", "--against", old, code=code).stdout
        assert "new  harm.md" in shown


def test_the_committed_version_is_the_old_one(cli, table, tmp_path):
    skill = tmp_path / "skills" / "queue"
    (skill / "references").mkdir(parents=True)
    head = "---\nname: queue\ndescription: Names the queue.\n---\n\n"
    (skill / "SKILL.md").write_text(f"{head}{GOOD}See [more](references/more.md).\n")
    (skill / "references" / "more.md").write_text("More.\n")
    git(tmp_path, "init", "-b", "main")
    commit(tmp_path)
    git(tmp_path, "tag", "v1")
    (skill / "SKILL.md").write_text(head + HARM)
    commit(tmp_path)
    (skill / "SKILL.md").write_text(head + HARM + "\nBe polite.\n")  # not committed
    asked = ("check", skill, "--config", table, "--set", "skill.train=body+references", "--json")
    shown = cli(*asked, "--against", "HEAD~1", code=1)
    found = json.loads(shown.stdout)
    assert found["verdict"]["answer"] == "worse"
    assert "queue at HEAD~1 (" in found["plan"]["old"]
    assert json.loads(cli(*asked, "--against", "HEAD").stdout)["verdict"]["answer"] == "not worse"
    asked = ("check", skill / "SKILL.md", "--config", table, "--against")
    assert "queue/SKILL.md at v1 (" in cli(*asked, "v1", code=1).stdout
    (tmp_path / "new.md").write_text(GOOD)
    unknown = cli("check", "new.md", "--config", table, "--against", "v1", code=2).stderr
    assert "'new.md' is not in revision 'v1'" in unknown
    unknown = cli("check", "new.md", "--config", table, "--against=--help", code=2).stderr
    assert "no revision of the git repository" in unknown


def test_what_puts_a_result_in_doubt_is_said(cli, table, tmp_path):
    cli("train", table, "--set", "train.epochs=1", "--set", "evaluation.test=false")
    other = ("--config", table, "--set", "env.data.seed=7")
    shown = cli("check", "table", "--against", "table@0", *other).stdout
    assert re.search(r"table learned from \d+ of the test tasks, so its score is too high", shown)
    assert "learned from" not in cli("check", "table", "--against", "table@0").stdout
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        head = f"---\nname: {name}\ndescription: Queues.\n---\n\n"
        (tmp_path / name / "SKILL.md").write_text(f"{head}{GOOD}See [more](more.md).\n")
        (tmp_path / name / "more.md").write_text(name)
    shown = cli("check", "b", "--against", "a", "--config", table).stdout
    assert "the old skill is called 'a' and the new one 'b'" in shown
    assert "the agent does not read more.md, which changed too" in shown


def test_a_revision_that_a_shallow_clone_lacks_is_refused_with_the_next_move(cli, table, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "-b", "main")
    for text in (GOOD, HARM):
        (whole / "skill.md").write_text(text)
        commit(whole)
    git(tmp_path, "clone", "--depth", "1", f"file://{whole}", "clone")
    asked = ("check", tmp_path / "clone" / "skill.md", "--config", table, "--against")
    said = cli(*asked, "HEAD~1", code=2).stderr
    assert "the clone is shallow, fetch its history first (fetch-depth: 0)" in said
    assert "Not measured" not in cli(*asked, "HEAD").stdout


def test_without_a_repository_or_git_the_revision_is_refused(refused, cli, table, monkeypatch):
    asked = ("check", "good.md", "--config", table, "--against", "HEAD~1")
    assert "in no git repository" in refused(*asked)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "git, which could read a revision, is not installed" in refused(*asked)


def test_a_skill_for_other_tasks_is_refused(cli, table):
    cli("train", table, "--set", "train.epochs=1", "--set", "evaluation.test=false")
    asked = ("check", "good.md", "--config", EXAMPLES / "alfworld_endpoint.yaml")
    said = cli(*asked, "--against", "table", code=2).stderr
    assert "was made for the environment 'table', and this check plays 'alfworld'" in said


def test_what_is_played_must_be_said(refused, table):
    assert "--config table.yaml" in refused("check", "good.md")
    assert "no run 'nothing.md'" in refused("check", "nothing.md", "--config", table)


@pytest.mark.parametrize("name", ["check.xml", "check.md"])
def test_a_dead_endpoint_exits_with_2_and_is_in_the_files(cli, table, tmp_path, name):
    option = "--junit" if name.endswith("xml") else "--markdown"
    dead = "models.target={backend: openai_chat, model: m, base_url: 'http://127.0.0.1:9/v1', "
    dead += "api_key: k, max_attempts: 1}"
    cli("check", "good.md", "--config", table, "--set", dead, option, name, code=2)
    written = (tmp_path / name).read_text()
    assert "127.0.0.1:9" in written
    assert ("<error" if option == "--junit" else "not made") in written


@pytest.mark.heavy  # test_cli_ablate has the rest of it
def test_the_lines_that_help_another_model_are_kept_and_the_rest_is_proposed(cli, table, tmp_path):
    (tmp_path / "long.md").write_text(f'{GOOD}- When it says "zebra", answer "delivery".\n')
    many = ("--set", "env.data.ratio=1:8:1", "--set", "models.target.noise=0")
    asked = ("check", "long.md", "--config", table, "--model", "clerk", *many, "--margin", "0.3")
    found = json.loads(cli(*asked, "--draws", "1", "--json").stdout)
    # The rows have many near copies, so the lines that help are not proven to.
    assert [one["proposal"] == "delete" for one in found["sections"]] == [False] * 4 + [True]
    assert [one["value"] > 0.1 for one in found["sections"]] == [True] * 4 + [False]
    assert (found["model"], found["success_rate"] > 0.8) == ("clerk", True)
    ablate = ("skill", "ablate", "table-check", "--items", "--margin", "0.3", "--draws", "1")
    cli(*ablate, "--write", "shorter.md")
    assert (tmp_path / "shorter.md").read_text() == GOOD
    said = cli("check", "long.md", "--config", table, "--model", "x", "--against", "y", code=2)
    assert "leave --against" in said.stderr
    assert "no scripted model 'x'" in cli(*asked[:5], "x", code=2).stderr


def test_the_page_shows_what_the_check_of_the_example_prints(cli, tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    page = (EXAMPLES.parent / "docs" / "check.md").read_text(encoding="utf-8")
    command, shown = re.findall(r"^```(?:sh|text)\n(.*?)^```$", page, re.DOTALL | re.M)[:2]
    printed = cli(*command.split()[1:], code=1).stdout
    for line in shown.splitlines():
        assert line.removesuffix(", ...") in printed
