"""Skillwright from Python: train, evaluate, resume and look, with and without a running loop."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import skillwright as sw
from doors import doors_settings
from skillwright.core import ConfigError, RunError
from skillwright.jobs import open_run, start_run

ROOT = Path(__file__).parents[1]


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """A configuration as a mapping: the household that every core install has, few games."""
    monkeypatch.chdir(tmp_path)
    return {
        "models": {
            "target": {"backend": "scripted", "model": "household", "noise": 0.1},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "env": {"name": "alfworld", "max_turns": 8, "data": {"train": 6, "val": 16, "test": 6}},
        "train": {"epochs": 1, "batch_size": 6},
    }


def test_a_run_is_trained_looked_at_and_evaluated(doors, capsys):
    run = sw.train(doors, {"run.name": "first"})
    assert "first  runs/first" in capsys.readouterr().out
    assert run.name == "first"
    assert run.summary.is_finished
    assert run.score.episodes == 6
    assert run.skill == (run.path / "best_skill.md").read_text(encoding="utf-8")
    assert repr(run).startswith("<Run 'first': train, ")
    rows = run.episodes()
    assert [row["episode"] for row in rows] == [f"e{n}" for n in range(1, len(rows) + 1)]
    tested = run.episodes(phase="test")
    assert {row["split"] for row in tested} == {"test"}
    assert all(not row["solved"] for row in run.episodes(lost=True, split="train"))
    assert run.episode(rows[0]["episode"]).turns

    measured = sw.evaluate(doors, run.skill, {"run.name": "measured"}, progress=False)
    assert capsys.readouterr().out == ""
    assert measured.score == measured.summary.evaluation.table.overall
    assert measured.test is None
    assert measured.gain is None
    with pytest.raises(RunError, match="trains no skill document"):
        _ = measured.skill
    assert sw.open("latest").name == "measured"


def test_a_cell_that_runs_twice_makes_two_runs_also_where_a_loop_is_running(doors):
    async def notebook():
        return [sw.evaluate(doors, "", progress=False) for _ in range(2)]

    first, second = asyncio.run(notebook())
    assert (first.name, second.name) == ("run", "run-1")
    assert first.score == second.score


async def test_the_awaited_verbs_do_the_same(doors):
    run = await sw.atrain(doors, progress=False)
    measured = await sw.aevaluate(doors, run.skill, progress=False)
    assert measured.score.episodes == 6


def test_a_run_that_was_stopped_is_resumed(doors):
    config = sw.load(doors)
    with start_run(config, "") as begun:
        path = begun.folder.path
    assert sw.open(path).score is None
    finished = sw.resume(sw.open(path), progress=False)
    assert finished.path == path
    assert finished.summary.is_finished
    with open_run(path):
        pass  # nobody holds it any more


def test_a_file_a_mapping_and_a_loaded_configuration_are_one(tmp_path, doors):
    file = tmp_path / "my.yaml"
    file.write_text(str(doors), encoding="utf-8")
    by_file = sw.load(file, {"train.epochs": 2})
    assert by_file.train.epochs == 2
    assert by_file.run.name == "my"
    assert sw.load(by_file) == by_file
    assert sw.load(doors, {"train.epochs": 2, "run.name": "my"}) == by_file


def test_a_server_of_ones_own_needs_no_key_however_often_its_settings_are_loaded(
    doors, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    target = {"backend": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    config = sw.load(sw.load({**doors, "models": {**doors["models"], "target": target}}))
    assert "api_key_env" not in config.models.target.model_fields_set


def test_what_is_wrong_is_said_with_the_nearest_right_name(doors):
    with pytest.raises(ConfigError, match=r"Did you mean 'train\.epochs'"):
        sw.load(doors, {"train.epoch": 1})
    with pytest.raises(ConfigError, match="Did you mean 'models'"):
        sw.load({"modles": {}})
    with pytest.raises(ConfigError, match="this configuration trains weights"):
        sw.evaluate(ROOT / "examples" / "rl" / "alfworld.yaml", "")
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = sw.trian


def test_a_failure_of_the_adapter_reaches_the_caller(tmp_path):
    settings = doors_settings(tmp_path)
    settings["env"]["data"]["path"] = str(tmp_path / "nowhere")
    with pytest.raises(Exception, match="nowhere"):
        sw.train(settings, progress=False)
    assert not (tmp_path / "runs").exists()


def test_the_package_is_imported_without_its_jobs():
    code = "import sys, skillwright as sw; sw.__version__; print('skillwright.jobs' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
