"""What `doctor` and `estimate` say of a configuration of the recipe, before it is run."""

import importlib.util
import json

import pytest

SCRIPTED = "{backend: scripted, model: %s}"
CONFIG = f"""
run: {{root: runs}}
env: {{data: {{kind: households, train: 48, val: 12, test: 6, homes: 2}}}}
models:
  teacher: {SCRIPTED % "household_teacher"}
  expert: {SCRIPTED % "searcher"}
policy: {{width: 16}}
grpo: {{iterations: 2, tasks_per_iteration: 2, group_size: 2}}
evaluation: {{gate: {{kind: strict}}}}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def findings(result):
    return {one["name"]: one for one in json.loads(result.stdout)}


def test_the_doctor_looks_at_all_that_a_recipe_names(cli, recipe, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    found = findings(cli("doctor", recipe, "--json"))
    assert found["tasks"]["detail"].endswith("12 val, 6 sealed test")
    assert found["bank"]["detail"].startswith("it begins with 0 skills; lexical")
    assert found["policy"]["detail"] == "a command scorer"
    assert found["expert"]["detail"] == "scripted: searcher answers"
    assert {"python", "disk", "budget", "teacher"} <= found.keys()
    assert sorted(tmp_path.rglob("*")) == before
    said = cli("doctor", recipe, "--set", "policy.width=32").stdout
    assert said.splitlines()[-1] == "no problems"


def test_the_doctor_tells_of_everything_that_is_wrong_with_a_recipe(cli, recipe):
    wrong = {
        "bank.start": "nowhere.sqlite",
        "env.config": "{no_such_setting: 1}",
        "models.teacher": "{backend: openai_chat, model: large, base_url: 'http://127.0.0.1:1/v1'}",
        "models.teacher.max_attempts": "1",
        "budget.usd": "1",
    }
    text = recipe.read_text(encoding="utf-8").replace("{width: 16}", "{kind: hf, model: no/model}")
    recipe.write_text(text, encoding="utf-8")
    words = [word for key, value in wrong.items() for word in ("--set", f"{key}={value}")]
    found = findings(cli("doctor", recipe, *words, "--json", code=1))
    bad = {name: one["detail"] for name, one in found.items() if one["health"] == "bad"}
    assert bad.keys() == {"budget", "tasks", "bank", "policy", "teacher"}
    assert "no prices are known for 'large'" in bad["budget"]
    assert "no_such_setting" in bad["tasks"]
    assert "there is no bank 'nowhere.sqlite'" in bad["bank"]
    assert "'no/model' is not on this machine" in bad["policy"]


def test_the_doctor_says_what_to_install_for_a_recipe(cli, recipe, monkeypatch):
    find = importlib.util.find_spec

    def without_torch(name, package=None):
        return None if name == "torch" else find(name, package)

    monkeypatch.setattr("skillwright.jobs.weights.launch.find_spec", without_torch)
    found = findings(cli("doctor", recipe, "--json", code=1))
    assert "pip install 'skillwright[train]'" in found["policy"]["detail"]


def test_a_misspelled_key_of_a_recipe_is_told_with_the_nearest_one(refused, recipe):
    for command in ("doctor", "estimate"):
        said = refused(command, recipe, "--set", "grpo.iteration=3")
        assert "iterations" in said


def test_an_estimate_counts_the_episodes_and_calls_of_a_recipe(cli, recipe):
    report = json.loads(cli("estimate", recipe, "--turns", "4", "--json").stdout)
    stages = {one["name"]: one for one in report["stages"]}
    asked = dict.fromkeys(("calls", "input_tokens", "output_tokens", "cost_usd"), 0)
    assert stages["rollouts"] == {"name": "rollouts", "role": "policy", "episodes": 8, **asked}
    assert stages["cold start"]["calls"] == 4 * stages["cold start"]["episodes"] > 0
    assert report["calls"]["expert"] == stages["cold start"]["calls"]
    said = " ".join(cli("estimate", recipe).stdout.split())
    assert "teacher household_teacher: free" in said
    assert "It rests on:" in said
