"""Whoever waits is told for what, how long so far, and what comes next."""

import io
import os
import subprocess
import sys

import pytest

from served import served
from shown import pipe, screen
from skillwright.cli import waits as shown_waits
from skillwright.cli.waits import Watch, hand_over, waits_shown
from skillwright.core.waits import waiting, waits

ASKED = "asking openai_chat m at http://127.0.0.1:9 whether it answers"


class Clock:
    """The monotonic clock, moved on by hand."""

    def __init__(self):
        self.ahead_s = 0.0

    def __call__(self):
        return shown_waits.time.monotonic() + self.ahead_s


@pytest.fixture
def watch(monkeypatch):
    """A watch that looks only when it is told to, and its clock."""
    monkeypatch.setattr(Watch, "_run", lambda self: None)
    made = []

    def make(console):
        clock = Clock()
        made.append(Watch(console, clock))
        return made[-1], clock

    yield make
    for one in made:
        one.close()


def test_a_log_is_told_now_and_then_what_is_waited_for(watch):
    console = pipe()
    seen, clock = watch(console)
    with waiting(ASKED, "the run begins"):
        for clock.ahead_s in (0.5, 2.0, 3.0, 11.0, 29.0, 31.0, 65.0):
            seen.look()
    assert console.file.getvalue().splitlines() == [
        f"{ASKED}: {so_far} so far; then the run begins"
        for so_far in ("0:02", "0:11", "0:31", "1:05")
    ]


def test_what_is_quick_is_not_mentioned(watch):
    console = pipe()
    seen, clock = watch(console)
    with waiting("reading the tasks"):
        clock.ahead_s = 1.0
        seen.look()
    clock.ahead_s = 100.0
    seen.look()
    assert console.file.getvalue() == ""


def test_a_terminal_shows_every_wait_in_place_and_is_left_as_it_was(watch):
    console = screen(60)
    seen, clock = watch(console)
    with waiting(ASKED), waiting("loading torch", "the tasks are read"):
        clock.ahead_s = 2.0
        seen.look()
        said = console.file.getvalue()
        assert "loading torch: 0:02 so far; then the tasks are read" in said
        assert "asking openai_chat m" in said
    clock.ahead_s = 3.0
    seen.look()
    said = console.file.getvalue()
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 1  # the cursor is back
    assert said.count("\x1b[2K") == 3  # and the three lines are gone


def test_the_display_of_a_run_takes_the_terminal_over(watch, monkeypatch):
    console = screen(60)
    seen, clock = watch(console)
    monkeypatch.setattr(shown_waits, "_watches", [seen])
    hand_over()
    with waiting("loading torch"):
        clock.ahead_s = 5.0
        seen.look()
    assert console.file.getvalue() == ""


def test_text_in_memory_is_told_nothing():
    with waits_shown(pipe()):
        assert shown_waits._watches == []


def test_a_wait_ends_with_what_it_is_for_even_when_that_breaks():
    seen = []

    def divide():
        with waiting("dividing"):
            seen.extend(one.what for one in waits())
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        divide()
    assert seen == ["dividing"]
    assert waits() == ()


def test_a_slow_endpoint_is_named_while_a_command_waits_for_it(write_config, tmp_path):
    read = io.StringIO()

    async def until_it_is_mentioned(body):
        while "so far" not in read.getvalue():
            line = process.stderr.readline()
            if not line:
                break
            read.write(line)
        return "ready"

    with served(until_it_is_mentioned) as server:
        endpoint = {"backend": "openai_chat", "model": "mock-1", "api_key_env": "MOCK_KEY"}
        config = write_config(models={"target": {**endpoint, "base_url": server.base_url}})
        process = subprocess.Popen(
            [sys.executable, "-m", "skillwright", "eval", str(config)],
            cwd=tmp_path,
            env={**os.environ, "MOCK_KEY": server.api_key},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stderr.reconfigure(line_buffering=True)
        code = process.wait(timeout=60)
        process.stderr.close()
    assert code == 0
    said = read.getvalue()
    assert f"asking openai_chat mock-1 at {server.base_url} whether it answers: 0:0" in said
    assert "so far; then the run begins" in said
