"""Structured logs on request: standard error is one JSON object a line."""

import json
import logging
from pathlib import Path
from typing import get_args

import pytest

from skillwright.cli.json_log import JsonFormatter
from skillwright.cli.live import JsonLog, event_name
from skillwright.core import EpisodeResult, EpisodeSpec, Task, Trajectory
from skillwright.jobs.run import EpisodeFinished, Scored
from skillwright.jobs.weights import ColdStartStep, RlEvent

DOCS = Path(__file__).resolve().parents[2] / "docs" / "trackers.md"


@pytest.fixture
def json_log(monkeypatch):
    monkeypatch.setenv("SKILLWRIGHT_LOG", "json")


def lines(text):
    """Read every line; one that is no object is an error."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_training_writes_every_event_as_a_line_and_its_result_as_before(
    cli, write_config, json_log
):
    result = cli("train", write_config(), "--json")
    events = lines(result.stderr)
    assert events[0]["event"] == "run_started"
    steps = [one for one in events if one["event"] == "step_decided"]
    report = json.loads(result.stdout)
    assert [one["action"] for one in steps] == [one["action"] for one in report["steps"]]
    played = [one for one in events if one["event"] == "episode_finished"]
    assert played
    assert all("trajectory" not in one and one["task_id"] for one in played)
    assert all(one["time"].endswith("+00:00") for one in events)


def test_an_error_is_a_line_too(cli, json_log):
    (said,) = lines(cli("train", "nowhere.yaml", code=2).stderr)
    assert said["event"] == "message"
    assert "nowhere.yaml" in said["text"]


def test_a_word_that_names_no_log_is_refused(cli, monkeypatch):
    monkeypatch.setenv("SKILLWRIGHT_LOG", "xml")
    assert "SKILLWRIGHT_LOG is 'xml'; set it to json" in cli("runs", "list", code=2).stderr


def test_without_the_variable_nothing_is_json(cli, write_config, monkeypatch):
    monkeypatch.delenv("SKILLWRIGHT_LOG", raising=False)
    assert "{" not in cli("train", write_config(), "--json").stderr


def test_an_episode_is_logged_without_what_was_said_in_it(capsys):
    spec = EpisodeSpec(Task("t-1", "maze", task_type="reset_password"), seed=1, phase="gate")
    played = EpisodeResult(spec, 0.5, trajectory=Trajectory("the words of others"), key="k")
    JsonLog().on_event(EpisodeFinished(played))
    (line,) = lines(capsys.readouterr().err)
    assert (line["event"], line["reward"]) == ("episode_finished", 0.5)
    assert line["task_type"] == "reset_password"
    assert "words of others" not in json.dumps(line)


def test_a_number_that_json_has_no_word_for_is_null(capsys):
    JsonLog().on_event(ColdStartStep(1, 2, 0.5, float("inf")))
    (line,) = lines(capsys.readouterr().err)
    assert line["grad_norm"] is None


def test_text_of_others_can_say_nothing_to_a_terminal_and_holds_no_key(capsys):
    hostile = "\x1b]0;title\x07 sk-abcdefgh12345678 \u202e"
    JsonLog().on_event(Scored(hostile, "val", None))
    written = capsys.readouterr().err
    assert written.isascii()
    assert "\x1b" not in written
    assert "sk-abc" not in written
    assert len(written.splitlines()) == 1


def test_a_warning_is_a_line():
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "tracker %s", ("wandb",), None)
    assert json.loads(JsonFormatter().format(record))["text"] == "tracker wandb"


def test_the_guide_names_every_event():
    page = DOCS.read_text(encoding="utf-8")
    names = [event_name(kind) for kind in get_args(RlEvent)]
    assert len(names) == 17
    assert not [name for name in names if f"`{name}`" not in page]
