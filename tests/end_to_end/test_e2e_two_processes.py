"""Two processes at one bank or one run: one waits or is refused in words, and nothing is lost."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from bank_doors import Timid, bank_file
from doors import ALL_RULES, Coach, Walker, doors_config, story
from killing import behind
from mock_openai import answer_with
from served import served
from skillwright.bank import BankStore
from skillwright.cli.app import app
from skillwright.config import dump_config
from skillwright.config.run import validated

KEY = "DOORS_KEY"


class Holding:
    """Models behind an endpoint; from a question on they hold everybody up, until they are let.

    Attributes:
        reached: Somebody is being held up.
        let: Nobody is, any more.
    """

    def __init__(self, llms):
        self._answer = answer_with(llms)
        self.let = threading.Event()
        self.hold(0)

    def hold(self, at):
        """Let those go who wait, and hold up from the ``at``-th question on; with 0 nobody."""
        self.let.set()
        self._left, self.reached, self.let = at or None, threading.Event(), threading.Event()

    async def __call__(self, body):
        if len(body["messages"]) == 1:
            return "ready"
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                let = self.let
                self.reached.set()
                await asyncio.to_thread(let.wait)
        return await self._answer(body)


@contextmanager
def endpoint(llms):
    holding = Holding(llms)
    with served(holding) as server:
        try:
            yield server, holding
        finally:
            holding.hold(0)


@contextmanager
def started(folder, *commands):
    """Start commands in a folder, all at once; none outlives the block."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), KEY: "sk-mock"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "skillwright", *map(str, words)],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def ended(process):
    """Wait for a command; return its exit code, and what it had to say against it."""
    _, said = process.communicate(timeout=240)
    return process.returncode, " ".join(said.split())


def here(*words):
    """Run a command in this process, while others are at work; return the same."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    return done.exit_code, " ".join(done.stderr.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY, "sk-mock")
    return tmp_path


def write_config(folder, server, **sections):
    """Write a configuration of doors whose models are the server's."""
    folder.mkdir(exist_ok=True)
    settings = behind(server, doors_config(folder)).model_dump(mode="json") | sections
    settings["models"]["teacher"] = settings["models"]["optimizer"]
    (folder / "own.yaml").write_text(dump_config(validated(settings, "own")), encoding="utf-8")


@pytest.mark.heavy
def test_who_would_change_a_bank_under_an_evolution_is_refused_and_nothing_is_lost(folder):
    bank = bank_file(folder / "bank.sqlite", ["attic"])
    (folder / "more.md").write_text("# Skills\n\n## Sober\n- Look at the sign.\n")
    with endpoint({"walker": Timid(), "coach": Coach([])}) as (server, holding):
        write_config(folder, server, evolve={"nth": 2, "trigger_accuracy": 0.0})
        holding.hold(3)
        with started(folder, ("bank", "evolve", "own.yaml")) as (process,):
            assert holding.reached.wait(120)
            for words in (
                ("evolve", "own.yaml"),
                ("distill", "own.yaml"),
                ("import", "more.md"),
                ("rollback", 0, "--reason", "x"),
                ("approve", "--without-gate", "x"),
            ):
                code, said = here("bank", *words)
                assert code == 2, said
                assert f"'bank.sqlite' is being worked on by process {process.pid}" in said
                assert "Wait for it or end it, and try again" in said
            assert here("bank", "log") == (0, "")  # to look is allowed
            holding.let.set()
            assert ended(process) == (0, "")
    assert here("bank", "import", "more.md") == (0, "")
    with BankStore.open(bank, read_only=True) as store:
        assert [one.principle for one in store.load().skills][1:] == ["Look at the sign."]
        assert [entry.step for entry in store.log()] == [None, 1, None]


@pytest.mark.heavy
def test_those_who_import_at_once_wait_for_one_another(folder):
    bank = bank_file(folder / "bank.sqlite", ["attic"])
    names = ["left", "right", "upper", "lower"]
    for name in names:
        text = f"# Skills\n\n## {name.title()} signs\n- Read every {name} sign aloud.\n"
        (folder / f"{name}.md").write_text(text)
    with started(folder, *(("bank", "import", f"{name}.md") for name in names)) as processes:
        assert [ended(process) for process in processes] == [(0, "")] * len(names)
    with BankStore.open(bank, read_only=True) as store:
        kept = [one.principle for one in store.load().skills][1:]
        assert sorted(kept) == sorted(f"Read every {name} sign aloud." for name in names)
        assert store.versions() == list(range(1, len(names) + 2))


def trained(folder, server, holding, meanwhile):
    """Train in a process; half way, do something else, which says who ends the run."""
    write_config(folder, server)
    path = folder / "runs" / "doors"
    holding.hold(30)
    with started(folder, ("train", "own.yaml")) as (process,):
        assert holding.reached.wait(120)
        meanwhile(path, process)
        holding.hold(0)
        if process.returncode is None:
            assert ended(process) == (0, "")
    return path


def leave(path, process):
    """Leave a process alone."""


def test_two_that_go_on_with_one_run_never_do_so_together(folder):
    with endpoint({"walker": Walker(), "coach": Coach([[ALL_RULES]])}) as (server, holding):

        def meddle(path, process):
            for words in (("resume", path), ("resume", path, "--set", "budget.usd=5")):
                code, said = here(*words)
                assert code == 2
                assert f"is in use by process {process.pid} on" in said
                assert "`skillwright runs show" in said
            assert here("runs", "show", path) == (0, "")  # to look is allowed

        def die(path, process):
            process.kill()
            process.wait()
            holding.hold(20)
            with started(folder, ("resume", path), ("resume", path)) as both:
                assert holding.reached.wait(120)
                holder = json.loads((path / "run.lock").read_text(encoding="utf-8"))["pid"]
                winner, loser = sorted(both, key=lambda one: one.pid != holder)
                code, said = ended(loser)
                assert code == 2
                assert f"is in use by process {holder} on" in said
                holding.hold(0)
                assert ended(winner) == (0, "")

        alone = trained(folder / "alone", server, holding, leave)
        disturbed = trained(folder / "disturbed", server, holding, meddle)
        killed = trained(folder / "killed", server, holding, die)
        assert story(disturbed) == story(alone)
        assert story(killed) == story(alone)
