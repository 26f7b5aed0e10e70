"""Fixtures for the command line: every command runs in an empty folder."""

import json
import sys

import pytest
from typer.testing import CliRunner

from doors import doors_settings
from skillwright.cli.app import app


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Run a command and return its result; ``result.stdout`` and ``result.stderr`` are apart."""
    monkeypatch.chdir(tmp_path)
    # A key of the person who runs the tests must not reach them.
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)

    def run(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def refused(cli, tmp_path, monkeypatch):
    """Run a command that must be refused: exit code 2, one message, nothing written."""
    # Python writes the bytecode of an imported file of the test's own folder next to it.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*words):
        before = sorted(tmp_path.rglob("*"))
        result = cli(*words, code=2)
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.output
        return result.stderr

    return run


@pytest.fixture
def write_config(tmp_path):
    """Write a configuration: the doors, played by scripted models, some keys changed."""

    def write(name="doors.yaml", **sections):
        settings = doors_settings(tmp_path)
        settings["run"] = {}
        for section, values in sections.items():
            settings[section] = {**settings.get(section, {}), **values}
        path = tmp_path / name
        path.write_text(json.dumps(settings), encoding="utf-8")
        return path

    return write
