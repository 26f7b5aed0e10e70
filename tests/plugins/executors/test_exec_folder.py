"""A run's folder goes with the run, and what a killed one left behind is cleared up later."""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from exec_fixtures import MESSAGES, fakes

from skillwright.core import Purpose
from skillwright.plugins.executors.workspace import (
    Fence,
    return_login,
    run_folder,
    sweep,
    why_no_fence,
)

__all__ = ["fakes"]

NO_FENCE = why_no_fence(nested=False)
# Holds a folder, and is killed.
KILLED = """
import os, signal
from skillwright.plugins.executors.workspace import run_folder
with run_folder() as root:
    print(root, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def test_the_folder_of_a_killed_run_is_removed_by_the_next():
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    root = Path(done.stdout.strip())
    assert root.is_dir()
    sweep()
    assert not root.exists()


def test_a_folder_that_is_in_use_or_is_somebody_else_s_stays(tmp_path, own_temporary_folder):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").touch()
    (own_temporary_folder / "skillwright-exec-link").symlink_to(precious)
    with run_folder() as root:
        sweep()
        assert root.is_dir()
    assert not root.exists()
    assert precious.is_dir()


async def test_an_executor_sweeps_before_it_is_used(fakes, own_temporary_folder):
    left = own_temporary_folder / "skillwright-exec-left"
    left.mkdir()
    (left / "lock").touch()
    fakes.make("codex_exec")
    assert not left.exists()


RENEWS = """#!/bin/sh
[ "$1" = --version ] && echo 1 && exit
echo '{"token": "renewed"}' > "$HOME/.codex/new"
mv "$HOME/.codex/new" "$HOME/.codex/auth.json"
echo '{"type": "item.completed", "item": {"type": "agent_message", "text": "4"}}'
echo '{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}'
"""


@pytest.mark.parametrize("isolation", ["none", pytest.param("bwrap", id="fenced")])
async def test_a_login_that_is_renewed_by_a_rename_reaches_the_person(
    isolation, fakes, tmp_path, monkeypatch
):
    if isolation == "bwrap" and NO_FENCE:
        pytest.skip(f"no bubblewrap: {NO_FENCE}")
    monkeypatch.delenv("CODEX_API_KEY")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    login = tmp_path / "codex" / "auth.json"
    login.parent.mkdir()
    login.write_text('{"token": "old"}')
    program = tmp_path / "renews"
    program.write_text(RENEWS)
    program.chmod(0o755)
    llm = fakes.make(
        "codex_exec", path=str(program), isolation=isolation, sandbox="danger-full-access"
    )
    await llm.complete(MESSAGES, purpose=Purpose.ROLLOUT)
    assert json.loads(login.read_text()) == {"token": "renewed"}
    assert login.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", ["", "half {", "[]"])
def test_a_login_that_was_destroyed_is_not_handed_on(left, tmp_path):
    place, login = tmp_path / "home.json", tmp_path / "login.json"
    place.write_text(left)
    login.write_text('{"token": "old"}')
    return_login(place, login)
    assert login.read_text() == '{"token": "old"}'


@pytest.mark.skipif(bool(NO_FENCE), reason=f"no bubblewrap: {NO_FENCE}")
def test_a_fenced_program_sees_no_credentials_and_nothing_that_is_hidden(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        home, run = Path(outside, "home"), Path(outside, "run")
        secrets = (
            *(".netrc", ".git-credentials", ".codex/auth.json", ".claude.json", ".aws/credentials"),
            *(".config/gcloud/x.json", ".claude/.credentials.json", ".ssh/id", "elsewhere/key"),
        )
        for file in (*(home / name for name in secrets), run / "run.db", home / "notes"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("canary")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "elsewhere/key"))
        with run_folder() as root:
            (root / "work").mkdir()
            (root / "tmp").mkdir()
            script = f"cat {run}/run.db {' '.join(str(home / name) for name in secrets)}"
            fence = Fence(root, Path("/bin/sh"), hidden=(run,))
            argv = fence.wrap(["/bin/sh", "-c", f"{script} {home}/notes; true"])
            seen = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert seen == "canary"  # the notes, which are no secret


@pytest.mark.skipif(bool(NO_FENCE), reason=f"no bubblewrap: {NO_FENCE}")
def test_a_program_that_is_installed_where_keys_lie_still_runs(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        program = Path(home, ".claude", "local", "claude")
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho runs\n")
        program.chmod(0o755)
        monkeypatch.setenv("HOME", home)
        with run_folder() as root:
            (root / "work").mkdir()
            (root / "tmp").mkdir()
            argv = Fence(root, program).wrap([str(program)])
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("runs\n", "")
