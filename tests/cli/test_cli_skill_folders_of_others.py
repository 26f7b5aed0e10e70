"""Twelve folders in the shapes of public ones go in and out; their other bytes stay as they are."""

import asyncio
import json
import subprocess

import pytest

from doors import ALL_RULES, ROOMS, Coach, Walker, doors_config, rule, trained
from sealed import sealed
from skill_folders import FOLDERS, files_of, head_of, write_folder
from skillwright.core import DataError
from skillwright.core.skill_file import read_skill_file
from skillwright.jobs.inspect import verify_skills

RULE = ALL_RULES.splitlines()[0]


def train(place, folder, rules=ALL_RULES, **sections):
    config = doors_config(place, skill={"init": str(folder)}, **sections)
    skill = read_skill_file(folder).text()
    return asyncio.run(trained(config, Walker(), Coach([[rules]]), skill=skill))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_goes_in_and_out_and_only_its_body_changes(cli, tmp_path, name):
    folder = write_folder(tmp_path / "skills", name)
    (folder / "SKILL.md").chmod(0o640)
    before, head = files_of(folder), head_of(folder)
    run, _ = train(tmp_path, folder)
    with_rules = (run / "best_skill.md").read_text(encoding="utf-8")
    assert "description:" not in with_rules
    shown = cli("skill", "export", run, "--to", folder, "--dry-run").stdout
    assert f"+{RULE}" in shown
    assert files_of(folder) == before
    cli("skill", "export", run, "--to", folder)
    after = files_of(folder)
    assert head_of(folder) == head
    assert RULE.encode() in after["SKILL.md"]
    assert {**after, "SKILL.md": b""} == {**before, "SKILL.md": b""}
    assert (folder / "SKILL.md").stat().st_mode & 0o777 == 0o640
    is_crlf = b"\r\n" in before["SKILL.md"]
    assert (after["SKILL.md"].count(b"\n") == after["SKILL.md"].count(b"\r\n")) is is_crlf
    # A copy has the same files, and the first version comes back byte for byte.
    cli("skill", "export", run, "--output", tmp_path / "copies")
    assert files_of(tmp_path / "copies" / name) == after
    cli("skill", "export", f"{run}@0", "--to", folder)
    assert files_of(folder) == before
    asyncio.run(verify_skills(folder))


def test_the_body_is_trained_on_its_own_evals_from_below_40_to_above_80_percent(cli, tmp_path):
    folder = write_folder(tmp_path / "skills", "scripts")
    rooms = list(ROOMS)
    cases = [
        {
            "id": at,
            "prompt": f"Visit {at}. You are in the {rooms[at % 3]}. There are doors 1 to 6.",
            "assertions": [{"type": "equals", "value": str(ROOMS[rooms[at % 3]])}],
        }
        for at in range(72)
    ]
    (folder / "evals").mkdir()
    (folder / "evals" / "evals.json").write_text(json.dumps({"evals": cases}))
    cli("init", folder, "--offline", "--to", "doors.yaml")
    before, head = files_of(folder), head_of(folder)
    data = {"kind": "table", "path": str(folder / "evals" / "evals.json"), "ratio": "1:1:1"}
    env = {"name": "table", "config": {"scorer": "assertions"}, "data": data}
    run, report = train(tmp_path, folder, env=env)
    rates = {one: table.overall.success_rate for one, table in report.test.tables.items()}
    assert rates["initial"] < 0.4
    assert rates["best"] > 0.8
    shown = cli("skill", "export", run, "--to", folder).stdout
    assert "proven: " in shown
    assert head_of(folder) == head
    assert {**files_of(folder), "SKILL.md": b""} == {**before, "SKILL.md": b""}
    checked = json.loads(cli("verify", folder, "--json").stdout)[0]["checks"]
    assert {one["name"]: one["outcome"] for one in checked}["evidence"] == "pass"


def test_references_that_leave_the_folder_are_refused_and_nothing_is_read(tmp_path):
    (tmp_path / "secret.md").write_text("4711")
    folder = write_folder(tmp_path / "skills", "plain")
    file = folder / "references" / "more.md"
    file.unlink()
    file.symlink_to(tmp_path / "secret.md")
    with pytest.raises(DataError, match="lies outside the skill's folder; put a copy there"):
        read_skill_file(folder)
    file.unlink()
    inner = folder / "references" / "inner.md"
    inner.write_text("Inner.\n")
    file.symlink_to(inner)
    assert read_skill_file(folder).references == {"references/more.md": "Inner.\n"}


def test_a_skill_file_that_is_a_link_is_not_replaced(cli, tmp_path):
    folder = write_folder(tmp_path / "skills", "plain")
    (folder / "SKILL.md").rename(tmp_path / "real.md")
    (folder / "SKILL.md").symlink_to(tmp_path / "real.md")
    before = files_of(folder)
    run, _ = train(tmp_path, folder)
    refused = cli("skill", "export", run, "--to", folder, code=2)
    assert "is a link, which the export would replace" in refused.stderr
    assert (folder / "SKILL.md").is_symlink()
    assert files_of(folder) == before


def git(folder, *words):
    names = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def test_changes_that_git_does_not_hold_are_not_mixed_with_those_of_training(cli, tmp_path):
    folder = write_folder(tmp_path / "skills", "plain")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "other.txt").write_text("not followed by git")
    path = folder / "SKILL.md"
    path.write_text(path.read_text() + "Mine.\n")
    before = (folder / "SKILL.md").read_bytes()
    run, _ = train(tmp_path, folder)
    for more in (["--dry-run"], []):
        refused = cli("skill", "export", run, "--to", folder, *more, code=2)
        assert "has changes of yours that git does not hold" in " ".join(refused.stderr.split())
    assert (folder / "SKILL.md").read_bytes() == before
    git(folder, "commit", "-q", "-a", "-m", "mine")
    cli("skill", "export", run, "--to", folder)
    # Its own change can be taken back, although it is not committed.
    cli("skill", "export", f"{run}@0", "--to", folder)
    assert (folder / "SKILL.md").read_bytes() == before


def test_a_read_only_folder_is_refused_and_stays_whole(tmp_path):
    folder = write_folder(tmp_path / "skills", "plain")
    run, _ = train(tmp_path, folder)
    before = files_of(folder)
    (refused,) = sealed(folder, [("skill", "export", run, "--to", folder)])
    assert refused.code == 2
    assert "cannot be written: [Errno 30] Read-only file system" in refused.stderr
    assert files_of(folder) == before


def test_an_export_that_cannot_be_written_as_a_whole_changes_nothing(cli, tmp_path):
    folder = write_folder(tmp_path / "skills", "tabs")
    (folder / "references").write_text("a file in the place of the evidence's folder")
    run, _ = train(tmp_path, folder)
    before = files_of(folder)
    refused = cli("skill", "export", run, "--to", folder, code=2)
    assert "cannot be written" in refused.stderr
    assert files_of(folder) == before


def test_a_line_that_was_live_before_may_be_edited(cli, tmp_path):
    folder = write_folder(tmp_path / "skills", "plain")
    path = folder / "SKILL.md"
    path.write_text(path.read_text() + "\nPrint ${NAME}.\n")
    edit = {"op": "replace", "target": "Print ${NAME}.", "content": f"{ALL_RULES}\nSay ${{NAME}}."}
    run, _ = train(tmp_path, folder, rules=edit)
    cli("skill", "export", run, "--to", folder)
    assert "Say ${NAME}." in path.read_text()
    assert rule("attic") in path.read_text()
