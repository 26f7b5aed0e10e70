"""Run folders: made once, locked while written, never overwritten."""

import json
import os
import socket
import subprocess
import sys

import pytest
import yaml

from skillwright.core import RunError
from skillwright.runs import Redactor, RunFolder, list_runs, unused_name
from skillwright.runs import folder as folder_module

CONFIG = "seed: 1  # the luck\nmax_tokens: 100\n"

HOLDER = """
import sys
from pathlib import Path
from skillwright.runs import RunFolder

folder = RunFolder.open(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path):
    with RunFolder.create(tmp_path / "runs", "demo", CONFIG) as folder:
        yield folder


@pytest.fixture
def holder(tmp_path):
    RunFolder.create(tmp_path / "runs", "demo", CONFIG).close()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "runs" / "demo")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_a_new_run_has_its_configuration_and_places_for_the_rest(tmp_path, run):
    assert run.path == tmp_path / "runs" / "demo"
    assert run.name == "demo"
    assert (run.path / "config.yaml").read_text(encoding="utf-8") == CONFIG
    assert run.store_path == run.path / "run.sqlite"
    assert run.write_best_skill("- best\r\n").read_bytes() == b"- best\r\n"
    assert run.write_skill_version(3, "- a") == run.path / "skills" / "skill_v0003.md"


def test_a_skill_version_is_never_changed(run):
    path = run.write_skill_version(0, "")
    run.write_skill_version(0, "")  # a resumed run writes it again
    with pytest.raises(RunError, match="versions are never changed"):
        run.write_skill_version(0, "other")
    assert path.read_text(encoding="utf-8") == ""


def test_a_skill_version_with_line_breaks_of_windows_may_be_written_again(run):
    run.write_skill_version(1, "- a\r\n- b\r")
    assert run.write_skill_version(1, "- a\r\n- b\r").read_bytes() == b"- a\r\n- b\r"
    with pytest.raises(RunError, match="versions are never changed"):
        run.write_skill_version(1, "- a\n- b\n")


def test_secrets_do_not_reach_the_configuration(tmp_path):
    config = """\
model:
  name: gpt-x
  api_key: sk-abcdefgh12345678
  api_key_env: OPENAI_API_KEY
  max_tokens: 100
  password: 12345
  proxy: http://me:hunter2@proxy:80
  headers: {x-custom: tr0ub4dor}
"""
    folder = RunFolder.create(tmp_path, "demo", config, Redactor(["tr0ub4dor"]))
    stored = yaml.safe_load((folder.path / "config.yaml").read_text(encoding="utf-8"))
    folder.close()
    assert stored == {
        "model": {
            "name": "gpt-x",
            "api_key": "<redacted>",
            "api_key_env": "OPENAI_API_KEY",
            "max_tokens": 100,
            "password": "<redacted>",
            "proxy": "http://<redacted>@proxy:80",
            "headers": {"x-custom": "<redacted>"},
        }
    }


def test_a_secret_in_a_comment_is_taken_out_and_the_comments_stay(tmp_path):
    folder = RunFolder.create(tmp_path, "demo", "seed: 1  # mine: sk-abcdefgh12345678\n")
    assert (folder.path / "config.yaml").read_text(
        encoding="utf-8"
    ) == "seed: 1  # mine: <redacted>\n"
    folder.close()


def test_a_run_is_never_overwritten(tmp_path, run):
    run.close()
    with pytest.raises(RunError, match=r"is there already.*`skillwright resume .*demo`.*'demo-1'"):
        RunFolder.create(tmp_path / "runs", "demo", "seed: 2")
    assert (run.path / "config.yaml").read_text(encoding="utf-8") == CONFIG


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.md").write_text("precious", encoding="utf-8")
    with pytest.raises(RunError, match=r"not empty \(it holds 'chapter.md'\)"):
        RunFolder.create(tmp_path, "thesis", CONFIG)
    assert [item.name for item in (tmp_path / "thesis").iterdir()] == ["chapter.md"]
    with pytest.raises(RunError, match="is a file; choose another name"):
        RunFolder.create(tmp_path / "thesis", "chapter.md", CONFIG)


def test_an_empty_folder_may_become_a_run(tmp_path):
    (tmp_path / "demo").mkdir()
    RunFolder.create(tmp_path, "demo", CONFIG).close()
    assert (tmp_path / "demo" / "config.yaml").is_file()


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "a\\b", "-x", "a b", "x" * 101])
def test_a_name_that_cannot_name_a_folder_is_refused(tmp_path, name):
    with pytest.raises(RunError, match="cannot name a run"):
        RunFolder.create(tmp_path, name, CONFIG)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be made"):
        RunFolder.create(tmp_path / "file", "demo", CONFIG)


def test_a_second_opening_in_the_same_process_is_refused_with_the_holder(run):
    with pytest.raises(RunError, match="run 'demo' is in use by process") as caught:
        RunFolder.open(run.path)
    message = str(caught.value)
    assert f"process {os.getpid()} on {socket.gethostname()} since 20" in message
    assert f"`skillwright resume {run.path}`" in message
    run.close()
    run.close()
    RunFolder.open(run.path).close()


def test_a_second_process_is_refused_and_may_still_look(tmp_path, holder):
    path = tmp_path / "runs" / "demo"
    with pytest.raises(RunError, match=f"in use by process {holder.pid} on"):
        RunFolder.open(path)
    with pytest.raises(RunError, match="is there already"):
        RunFolder.create(tmp_path / "runs", "demo", CONFIG)
    folder = RunFolder.look(path)
    assert (folder.path / "config.yaml").read_text(encoding="utf-8") == CONFIG
    with pytest.raises(RunError, match="opened to look at"):
        folder.write_best_skill("mine")


def test_a_lock_that_a_dead_process_left_does_not_block(tmp_path, holder):
    path = tmp_path / "runs" / "demo"
    holder.kill()
    holder.communicate()
    assert json.loads((path / "run.lock").read_text())["pid"] == holder.pid
    RunFolder.open(path).close()


def test_a_lock_file_that_says_nothing_still_names_somebody(run):
    (run.path / "run.lock").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="in use by another process"):
        RunFolder.open(run.path)


def test_a_missing_run_names_the_nearest_one(tmp_path, run):
    with pytest.raises(RunError, match=r"does not exist\. Did you mean 'demo'"):
        RunFolder.open(tmp_path / "runs" / "dmo")
    (tmp_path / "runs" / "empty").mkdir()
    with pytest.raises(RunError, match=r"is no run: it has no config\.yaml"):
        RunFolder.look(tmp_path / "runs" / "empty")


def test_runs_are_listed_by_name_also_while_they_are_written(tmp_path, run):
    for name in ("b", "a"):
        RunFolder.create(tmp_path / "runs", name, CONFIG).close()
    (tmp_path / "runs" / "no-run").mkdir()
    assert [found.name for found in list_runs(tmp_path / "runs")] == ["a", "b", "demo"]
    assert list_runs(tmp_path / "nowhere") == []


def test_an_unused_name_is_the_first_that_names_nothing(tmp_path):
    assert unused_name(tmp_path, "demo") == "demo-1"
    (tmp_path / "demo-1").mkdir()
    (tmp_path / "demo-2").write_text("", encoding="utf-8")
    assert unused_name(tmp_path, "demo") == "demo-3"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/full")
def test_a_run_that_no_disk_has_room_for_is_not_begun(tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "run.lock").symlink_to("/dev/full")  # every write to it fails
    with pytest.raises(RunError, match=r"run\.lock' cannot be written: .*Make room"):
        RunFolder.create(tmp_path, "demo", CONFIG)


def test_a_configuration_that_cannot_be_written_is_a_run_error(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "CONFIG_NAME", f"{'x' * 300}.yaml")  # no disk takes this
    with pytest.raises(RunError, match=r"cannot be written: .*Make room"):
        RunFolder.create(tmp_path, "demo", CONFIG)
    monkeypatch.undo()
    RunFolder.create(tmp_path, "demo", CONFIG).close()  # the lock was let go of


def test_a_failed_write_is_told_with_the_next_move(run):
    (run.path / "skills").write_text("a file in the way", encoding="utf-8")
    with pytest.raises(RunError, match=r"cannot be written.*`skillwright resume .*demo`"):
        run.write_skill_version(0, "")
