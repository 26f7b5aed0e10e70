"""`skillwright demo`: two halves, each by itself, and what is said where one cannot be shown."""

import json
from pathlib import Path

import pytest
import yaml

from skillwright.config import load_rl_config
from skillwright.jobs.run import demo_file

TINY_WEIGHTS = (
    "--set", "env.data={kind: households, train: 48, val: 12, test: 6, homes: 2}",
    "--set", "policy={kind: scorer, width: 16}",
    "--set", "cold_start={tasks: 12, steps: 3, batch_rows: 32, learning_rate: 0.001}",
    "--set", "grpo.iterations=2",
    "--set", "grpo.tasks_per_iteration=2",
    "--set", "grpo.group_size=2",
    "--set", "evaluation.gate={kind: strict}",
)  # fmt: skip


def test_the_half_of_the_weights_ends_with_the_sealed_test(cli, tmp_path):
    report = json.loads(cli("demo", "--half", "weights", *TINY_WEIGHTS, "--json").stdout)
    assert report["run"] == "runs/demo-weights"
    assert set(report["test"]["tables"]) >= {"cold_start", "final", "no_skills", "other_scope"}
    assert (tmp_path / "runs" / "demo-weights" / "run.sqlite").is_file()


def test_a_setting_without_a_half_is_refused_unless_it_is_the_runs_own(cli):
    said = cli("demo", "--set", "grpo.iterations=2", code=2).stderr
    assert "--half weights" in said


def test_without_torch_the_other_half_is_named_and_not_missed(cli, monkeypatch):
    monkeypatch.setattr("skillwright.jobs.weights.launch.find_spec", lambda name: None)
    monkeypatch.setattr("skillwright.cli.demo._show_text", lambda overrides, as_json: None)
    assert "pip install 'skillwright[train]'" in cli("demo").stdout
    assert "pip install 'skillwright[train]'" in cli("demo", "--half", "weights", code=2).stderr


def test_the_example_of_the_recipe_is_what_the_demo_runs():
    example = Path(__file__).resolve().parents[2] / "examples" / "rl" / "alfworld.yaml"
    with demo_file("weights") as path:
        ours = load_rl_config(path).model_dump(exclude={"run": {"name"}})
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["run"]["name"] == "demo-weights"
    assert ours == load_rl_config(example).model_dump(exclude={"run": {"name"}})


@pytest.mark.parametrize("half", ["text", "weights"])
def test_each_half_is_a_configuration_like_any_other(cli, half):
    with demo_file(half) as path:
        assert "name: demo" in cli("config", "show", path).stdout
