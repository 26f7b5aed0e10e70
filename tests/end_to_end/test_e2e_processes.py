"""The installed command as a process: signals, and a wheel in an empty folder."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from doors import story

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("skillwright")
LATE = "initial skill on val"
TINY = (
    "--half", "text",
    "--set", "env.data={train: 12, val: 24, test: 12}",
    "--set", "train.batch_size=6",
    "--set", "train.epochs=1",
)  # fmt: skip


def run(*words, cwd, command=COMMAND, env=None):
    return subprocess.run(
        [command, *map(str, words)], cwd=cwd, capture_output=True, text=True, env=env, check=False
    )


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """The story of the run that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    assert run("demo", *TINY, cwd=folder).returncode == 0
    return story(folder / "runs" / "demo")


def stop(folder, line, how):
    """Start the demo, and stop it after a line that begins so."""
    process = subprocess.Popen(
        [COMMAND, "demo", *TINY],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for said in process.stdout:
        if said.startswith(line):
            break
    process.send_signal(how)
    _, errors = process.communicate()
    return process.returncode, errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to another process")
@pytest.mark.parametrize("line", ["demo", LATE, "step 1"])
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, wanted, line):
    code, errors = stop(tmp_path, line, signal.SIGINT)
    assert code == 130
    assert errors == (
        "Stopped.\n"
        "Everything that finished is saved; continue with:  skillwright resume runs/demo\n"
    )
    done = run("resume", "runs/demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(runs/demo/best_skill.md)" in done.stdout
    assert story(tmp_path / "runs" / "demo") == wanted


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_run_goes_on_where_it_was(tmp_path, wanted):
    code, _ = stop(tmp_path, LATE, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert run("resume", "demo", cwd=tmp_path).returncode == 0
    assert story(tmp_path / "runs" / "demo") == wanted


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The command of a wheel, installed where the sources are not."""
    folder = tmp_path_factory.mktemp("wheel")
    build = run("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT,
                command=sys.executable, cwd=folder)  # fmt: skip
    assert build.returncode == 0, build.stdout + build.stderr
    (wheel,) = folder.glob("*.whl")
    venv = folder / "venv"
    made = run("-m", "venv", "--without-pip", venv, command=sys.executable, cwd=folder)
    assert made.returncode == 0, made.stdout + made.stderr
    put = run("-m", "pip", "--python", venv / "bin" / "python", "install", "--no-deps",
              "--no-index", wheel, command=sys.executable, cwd=folder)  # fmt: skip
    assert put.returncode == 0, put.stdout + put.stderr
    # Its dependencies are those that the tests run with. A folder that a .pth file names is
    # searched last, and its own .pth files, the sources' among them, are not read.
    (site,) = venv.glob("lib/python*/site-packages")
    here = Path(pytest.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{here}\n", encoding="utf-8")
    return venv / "bin"


@pytest.mark.skipif(sys.platform == "win32", reason="other folders in a virtual environment")
def test_an_installed_wheel_runs_the_demo_in_an_empty_folder(installed, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = run("-c", "import skillwright; print(skillwright.__file__)",
                command=installed / "python", cwd=tmp_path, env=env)  # fmt: skip
    assert Path(where.stdout).is_relative_to(installed.parent), where.stdout + where.stderr
    done = run("demo", *TINY, "--json", cwd=tmp_path, command=installed / "skillwright", env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report["test"]["tables"]) == {"initial", "best", "final", "placebo"}
    assert (tmp_path / "runs" / "demo" / "best_skill.md").is_file()
    checked = run("env", "check", "alfworld", cwd=tmp_path, command=installed / "skillwright",
                  env=env)  # fmt: skip
    assert checked.returncode == 0, checked.stdout
