"""Standard output is ours: what adapters and environments print goes to standard error."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillwright.cli.streams import others_to_stderr
from skillwright.cli.words import make_console

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ADAPTER = """
import subprocess
import sys
import threading

sys.path.insert(0, "examples")
from tickets_adapter import Tickets

print("NOISE of the import")


class Noisy(Tickets):
    def __init__(self, split_dir, workers=4):
        print("NOISE of the constructor")
        super().__init__(split_dir, workers)

    def rollout(self, *given, **named):
        print("NOISE of the rollout")
        thread = threading.Thread(target=print, args=("NOISE of a thread",))
        thread.start()
        thread.join()
        subprocess.run([sys.executable, "-c", "print('NOISE of a child')"], check=True)
        sys.stdout.write("NOISE without an end")
        return super().rollout(*given, **named)
"""
ENVIRONMENT = """
from doors import Doors

print("NOISE of the import")


class Noisy(Doors):
    def step(self, action):
        print("NOISE of a step")
        return super().step(action)
"""


@pytest.fixture
def noisy(tmp_path):
    """The example of an adapter, which prints."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "examples" / "noisy.py").write_text(ADAPTER, encoding="utf-8")
    return ("examples/tickets.yaml", "--adapter", "examples/noisy.py:Noisy")


@pytest.fixture
def noisy_env(tmp_path, write_config):
    (tmp_path / "noisy.py").write_text(ENVIRONMENT, encoding="utf-8")
    return write_config(env={"name": f"{tmp_path / 'noisy.py'}:Noisy"})


@pytest.mark.parametrize("command", ["train", "eval"])
def test_what_an_adapter_prints_does_not_spoil_json(cli, noisy, command):
    result = cli(command, *noisy, "--json")
    assert json.loads(result.stdout)["run"] == "runs/tickets"
    for what in ("import", "constructor", "rollout", "thread"):
        assert f"NOISE of {'the' if what != 'thread' else 'a'} {what}" in result.stderr
    again = cli("resume", "tickets", "--json")
    assert json.loads(again.stdout)["run"] == "runs/tickets"


@pytest.mark.parametrize("command", ["train", "eval"])
def test_what_an_adapter_prints_does_not_stand_in_a_table(cli, noisy, command):
    result = cli(command, *noisy)
    assert "NOISE" not in result.stdout
    assert "solved" in result.stdout
    assert "NOISE of the rollout" in result.stderr


def test_what_an_environment_prints_does_not_spoil_json(cli, noisy_env, tmp_path):
    for words in (("eval", noisy_env), ("train", noisy_env), ("estimate", noisy_env)):
        result = cli(*words, "--json")
        json.loads(result.stdout)
    assert "NOISE of a step" in cli("eval", noisy_env, "--json").stderr
    name = f"{tmp_path / 'noisy.py'}:Noisy"
    items = tmp_path / "tasks" / "train" / "items.json"
    checked = cli("env", "check", name, "--items", items, "--json")
    assert json.loads(checked.stdout)
    assert "NOISE of a step" in checked.stderr


def test_an_adapter_that_is_checked_does_not_spoil_json(cli, noisy):
    result = cli("env", "check", *noisy[1:], "--json")
    assert json.loads(result.stdout)
    assert "NOISE of the import" in result.stderr
    assert json.loads(cli("doctor", "examples/tickets.yaml", "--json").stdout)


def test_what_the_children_of_an_adapter_print_does_not_spoil_json(noisy, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "skillwright", "eval", *noisy, "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["run"] == "runs/tickets"
    assert "NOISE of a child" in done.stderr
    assert "NOISE of the rollout" in done.stderr


def test_our_consoles_write_where_they_did(capsys):
    out = make_console()
    with others_to_stderr(), others_to_stderr():
        sys.stdout.write("theirs\n")
        out.print("ours")
        sys.stdout.write("theirs again\n")
    sys.stdout.write("ours at last\n")
    said = capsys.readouterr()
    assert said.out == "ours\nours at last\n"
    assert said.err == "theirs\ntheirs again\n"


def test_an_error_inside_gives_the_stream_back(capsys):
    with pytest.raises(ValueError, match="no"), others_to_stderr():
        raise ValueError("no")
    sys.stdout.write("ours\n")
    assert capsys.readouterr().out == "ours\n"
