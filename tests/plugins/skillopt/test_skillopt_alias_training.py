"""Adapters that import from `skillopt` alone are trained and evaluated by the command line."""

import sys
from pathlib import Path

import pytest
import yaml
from skillopt_runs import ADAPTERS, DOCUMENTED, LATER, told, usage, written
from typer.testing import CliRunner

from doors import ALL_RULES
from skillwright.cli.app import app


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def run(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture(autouse=True)
def clean():
    yield
    assert not [name for name in sys.modules if name.partition(".")[0] in ("skillopt", "scripts")]


def passed(report):
    """Return the share of test episodes that the best skill passed."""
    return list(report["test"]["tables"].values())[-1]["overall"]["success_rate"]


@pytest.mark.parametrize("adapter", [DOCUMENTED, LATER], ids=["documented", "later"])
def test_an_adapter_is_trained_end_to_end(cli, tmp_path, adapter):
    with written(tmp_path) as (config, server):
        report = told(cli("train", config, "--adapter", adapter, "--compat", "skillopt", "--json"))
    assert passed(report) == 1.0
    spent = usage(report["run"])
    assert spent["rollout"].calls > 40
    assert spent["reflect"].calls >= 1
    asked = [body["model"] for body in server.bodies]
    # The two checks before the run are in nobody's bill.
    billed = sum(one.calls for one in spent.values())
    assert billed == len(asked) - 2
    root = Path(report["run"]) / "adapter"
    assert list(root.glob("steps/step_0001/rollout/predictions/*/conversation.json"))
    assert "take door" in (Path(report["run"]) / "best_skill.md").read_text(encoding="utf-8")


def test_a_skill_is_evaluated(cli, tmp_path):
    skill = tmp_path / "skill.md"
    skill.write_text(ALL_RULES, encoding="utf-8")
    with written(tmp_path) as (config, _):
        words = ("eval", config, "--adapter", DOCUMENTED, "--compat", "skillopt", "--json")
        report = told(cli(*words, "--skill", skill))
    assert report["table"]["overall"]["success_rate"] == 1.0


def test_the_yaml_says_the_same(cli, tmp_path):
    env = {"name": LATER, "compat": "skillopt"}
    with written(tmp_path, env=env) as (config, _):
        report = told(cli("train", config, "--json"))
    assert passed(report) == 1.0


def test_a_file_of_skillopts_trains_its_adapter(cli, tmp_path):
    with written(tmp_path) as (_, server):
        theirs = {
            "model": {
                "optimizer": "doorman",
                "target": "walker",
                "azure_openai_endpoint": server.base_url,
                "azure_openai_auth_mode": "openai_compatible",
                "azure_openai_api_key": server.api_key,
            },
            "train": {"num_epochs": 1, "batch_size": 6},
            "optimizer": {"use_slow_update": False, "use_meta_skill": False},
            "env": {"name": "rooms", "out_root": str(tmp_path / "runs" / "theirs")},
        }
        # The adapter's own default names the data, as some do.
        copy = (ADAPTERS / "documented.py").read_text(encoding="utf-8")
        adapter = tmp_path / "own_data.py"
        folder = str(tmp_path / "tasks")
        adapter.write_text(copy.replace('split_dir: str = ""', f"split_dir: str = {folder!r}", 1))
        config = tmp_path / "theirs.yaml"
        config.write_text(yaml.safe_dump(theirs), encoding="utf-8")
        name = f"{adapter}:RoomsAdapter"
        report = told(cli("train", config, "--adapter", name, "--compat", "skillopt", "--json"))
    assert passed(report) == 1.0


def test_without_compat_the_missing_package_is_named(cli, tmp_path):
    fresh = tmp_path / "fresh.py"  # another test may have loaded the file itself
    fresh.write_bytes((ADAPTERS / "later.py").read_bytes())
    with written(tmp_path, env={"data": {"kind": "adapter"}}) as (config, _):
        said = cli("train", config, "--adapter", f"{fresh}:RoomsAdapter", code=2).stderr
    assert "skillopt" in said
    assert "--compat skillopt" in said


def test_an_environment_and_an_adapter_are_one_too_many(cli, tmp_path):
    with written(tmp_path) as (config, _):
        said = cli("train", config, "--adapter", LATER, "--env", "qa", code=2).stderr
    assert "give one of them" in said


def test_a_class_is_checked_without_its_data(cli, tmp_path):
    said = cli("env", "check", "--adapter", LATER, "--compat", "skillopt").stdout
    assert "by our analysts" in said
    assert "split_dir" in said
    broken = tmp_path / "broken.py"
    broken.write_text("from skillopt.envs.base import EnvAdapter\nclass Half(EnvAdapter): pass\n")
    said = cli("env", "check", f"{broken}:Half", "--compat", "skillopt", code=1).stdout
    assert "build_train_env" in said


def test_a_budget_bounds_what_an_adapter_asks(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")  # a run's folder has no keys
    with written(tmp_path) as (config, _):
        words = ("--adapter", DOCUMENTED, "--compat", "skillopt", "--json")
        said = cli("train", config, *words, "--set", "budget.tokens=300", code=3).stderr
        assert "budget of 300 tokens is spent" in " ".join(said.split())
        assert "skillopt.model" in " ".join(said.split())
        report = told(cli("resume", "rooms", "--set", "budget.tokens=100000", "--json"))
    assert passed(report) == 1.0


def test_several_seeds_are_trained_one_after_another(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    with written(tmp_path) as (config, _):
        words = ("--adapter", LATER, "--compat", "skillopt", "--seeds", "2", "--json")
        assert told(cli("train", config, *words))
