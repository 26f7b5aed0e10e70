"""A folder with a SKILL.md is trained and written back; only what training changed changes."""

import asyncio
import json

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, trained
from skillwright.core.skill_file import read_skill_file

HEAD = (
    "---\n# ours\nname: doors\ndescription: Opens doors.\nlicense: MIT   # short\n"
    "metadata:\n  a: 'b'\n---\n\n"
)
BODY = "# Doors\n\nKnock first. See [more](references/more.md).\n"


@pytest.fixture
def folder(tmp_path):
    """A skill's folder with a reference, a script and a file of another kind."""
    made = tmp_path / "skills" / "doors"
    (made / "references").mkdir(parents=True)
    (made / "scripts").mkdir()
    (made / "SKILL.md").write_text(HEAD + BODY)
    (made / "references" / "more.md").write_text("More.\n")
    (made / "scripts" / "run.sh").write_bytes(b"exit 1\r\n\xff")
    return made


def train(tmp_path, folder, rules=ALL_RULES, **skill):
    """Train the folder's skill with a coach that knows the rules."""
    config = doors_config(tmp_path, skill={"init": str(folder), **skill})
    text = read_skill_file(folder).text(references="train" in skill)
    path, _ = asyncio.run(trained(config, Walker(), Coach([[rules]]), skill=text))
    return path


def _files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_trained_skill_goes_back_into_its_folder(cli, tmp_path, folder):
    run, before = train(tmp_path, folder), _files(folder)
    prompts = (run / "best_skill.md").read_text()
    assert "name: doors" not in prompts
    shown = cli("skill", "export", run, "--to", folder, "--dry-run")
    assert f"+{ALL_RULES.splitlines()[0]}" in shown.stdout
    assert "Nothing was written" in shown.stderr + shown.stdout
    assert _files(folder) == before
    cli("skill", "export", run, "--to", folder)
    after = _files(folder)
    assert after["SKILL.md"].decode().startswith(HEAD + "# Doors\n")
    assert ALL_RULES.splitlines()[0] in after["SKILL.md"].decode()
    assert json.loads(after.pop("references/evidence.json"))["result"]["decision"] == "accept"
    assert {**after, "SKILL.md": b""} == {**before, "SKILL.md": b""}
    assert "pass    evidence  of these files, recomputed" in cli("verify", folder).stdout
    again = cli("skill", "export", run, "--to", folder)
    assert "nothing changes" in again.stderr + again.stdout
    # An earlier version goes back in the same way.
    cli("skill", "export", f"{run}@0", "--to", folder)
    assert _files(folder) == before


def test_a_client_gets_the_whole_folder_with_its_own_name(cli, tmp_path, folder, monkeypatch):
    run = train(tmp_path, folder)
    monkeypatch.chdir(tmp_path)
    written = json.loads(cli("skill", "export", run, "--to", "claude", "--json").stdout)
    assert written["folder"] == ".claude/skills/doors"
    copied = _files(tmp_path / ".claude" / "skills" / "doors")
    assert copied["SKILL.md"].startswith(HEAD.encode())
    del copied["references/evidence.json"]
    assert {**copied, "SKILL.md": b""} == {**_files(folder), "SKILL.md": b""}


def test_references_are_trained_where_that_is_set(cli, tmp_path, folder):
    run = train(tmp_path, folder, train="body+references")
    assert "<!-- FILE: references/more.md -->" in (run / "best_skill.md").read_text()
    cli("skill", "export", run, "--to", folder)
    assert "FILE:" not in (folder / "SKILL.md").read_text()
    assert (folder / "references" / "more.md").read_text() == "More.\n"


def test_a_folder_that_changed_meanwhile_is_refused(cli, tmp_path, folder):
    run = train(tmp_path, folder)
    (folder / "SKILL.md").write_text(HEAD.replace("Opens", "Shuts") + BODY)
    before = _files(folder)
    refused = cli("skill", "export", run, "--to", folder, code=2)
    assert f"changed since {run.name} began" in refused.stderr
    assert "--output DIR, and merge the two by hand" in refused.stderr
    assert _files(folder) == before
    cli("skill", "export", run, "--output", tmp_path / "new")
    assert (tmp_path / "new" / "doors" / "SKILL.md").read_text().startswith(HEAD + "# Doors")
    assert (tmp_path / "new" / "doors" / "scripts" / "run.sh").is_file()
    folder.rename(tmp_path / "elsewhere")
    gone = cli("skill", "export", run, "--output", tmp_path / "third", code=2)
    assert "whose other files would be copied, is gone; restore it" in gone.stderr
    assert not (tmp_path / "third").exists()


def test_a_line_that_a_client_would_run_is_not_written_into_a_folder(cli, tmp_path, folder):
    live = f"{ALL_RULES}\n- Then !`rm -rf ~`"
    run = train(tmp_path, folder, rules=live)
    before = _files(folder)
    refused = cli("skill", "export", run, "--to", folder, code=2)
    assert "a client would expand or run" in refused.stderr
    assert _files(folder) == before


def test_other_targets_are_refused_with_the_next_move(cli, tmp_path, folder):
    run = train(tmp_path, folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x.txt").write_text("x")
    named = cli("skill", "export", run, "--to", "cladue", code=2).stderr
    assert "there is no skill. Did you mean 'claude'?" in named
    for typo in (tmp_path / "full", tmp_path / "typo"):
        other = cli("skill", "export", run, "--to", typo, code=2)
        assert "Or name the folder of the SKILL.md" in other.stderr
        assert "--output DIR makes a copy in a new folder" in other.stderr
    assert not (tmp_path / "typo").exists()
    (tmp_path / "full" / "doors").mkdir()
    (tmp_path / "full" / "doors" / "x.txt").write_text("x")
    other = cli("skill", "export", run, "--output", tmp_path / "full", code=2)
    assert "holds no skill, and other files" in other.stderr
    coach = Coach([[ALL_RULES]])
    plain, _ = asyncio.run(trained(doors_config(tmp_path / "b"), Walker(), coach))
    no_folder = cli("skill", "export", plain, "--to", folder, code=2)
    assert "did not begin with a SKILL.md" in no_folder.stderr


def test_a_version_that_a_person_restored_is_not_said_to_be_refuted(cli, tmp_path, folder):
    run = train(tmp_path, folder)
    cli("skill", "restore", f"{run}@0")
    shown = cli("skill", "export", run, "--to", folder, "--dry-run").stdout
    assert "no test proved version 0, which was released by hand; version 1 was proven" in shown
    plain, _ = asyncio.run(trained(doors_config(tmp_path / "b"), Walker(), Coach([[ALL_RULES]])))
    cli("skill", "restore", f"{plain}@0")
    empty = cli("skill", "export", plain, "--output", tmp_path / "new", code=2).stderr
    assert f"{plain.name}@1 was proven better: name it" in empty
