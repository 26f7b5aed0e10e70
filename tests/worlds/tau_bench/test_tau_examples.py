"""What is in examples/tau_bench is read, and what needs no GPU runs."""

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.config import load_config
from skillwright.jobs import (
    EvalPlan,
    Health,
    NullCallback,
    examine,
    open_run,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.jobs.run.tasks import user_model
from skillwright.worlds.tau_bench import data_dir, departures, upstream_words
from tau_checkout import USER_WORDS, write_checkout
from tau_models import shop

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "tau_bench"


@pytest.mark.parametrize("name", ["eval.yaml", "train.yaml"])
def test_a_recipe_has_the_policy_and_the_user_behind_two_endpoints(name):
    config = load_config(EXAMPLES / name)
    assert config.env.name == "tau_bench"
    assert user_model(config.env).base_url == "http://127.0.0.1:8001/v1"
    assert config.models.target.base_url == "http://127.0.0.1:8000/v1"


async def test_the_offline_recipe_makes_the_agent_better(tmp_path):
    config = load_config(EXAMPLES / "offline.yaml", [f"run.root={tmp_path}"])
    assert user_model(config.env) is None
    with start_run(config, "") as run:
        report = await run_training(run, NullCallback())
    tables = report.test.tables
    assert tables["initial"].overall.success_rate < tables["best"].overall.success_rate


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """Nobody has fetched the data, or says where it is."""
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def small(tmp_path, *more):
    """The offline recipe, as somebody writes it who never heard of the built-in store."""
    return load_config(
        EXAMPLES / "offline.yaml", [f"run.root={tmp_path}", "env.config.data_dir=", *more]
    )


@pytest.mark.parametrize("command", ["eval", "train", "estimate", "rl"])
def test_a_recipe_refuses_the_built_in_store_and_says_how_to_ask_for_it(
    no_data, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    name = "rl/tau_bench.yaml" if command == "rl" else "tau_bench/eval.yaml"
    words = [command, str(EXAMPLES.parent / name)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2
    assert "scores on the small built-in store compare with no published ones" in said
    assert "`skillwright data tau-bench`" in said
    assert "env.config.data_dir=built-in" in said
    assert not (tmp_path / "runs").exists()


async def test_the_doctor_says_that_the_data_is_missing(no_data, tmp_path):
    findings = {one.name: one for one in await examine(tmp_path, small(tmp_path))}
    assert findings["tasks and skill"].health is Health.BAD
    assert "skillwright data tau-bench" in findings["tasks and skill"].detail


async def test_who_asks_for_the_built_in_store_plays_it(no_data, tmp_path):
    config = small(tmp_path, "env.config.data_dir=built-in")
    plan = EvalPlan("test", 1)
    with start_run(config, "", plan) as run:
        report = await run_evaluation(run, plan, NullCallback())
    assert report.environment.facts["data_origin"] == "built-in"


def test_who_names_the_data_is_not_asked_again(no_data, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", str(shop(tmp_path / "shop", count=3)))
    start_run(small(tmp_path), "").close()


async def test_a_run_that_began_on_the_built_in_store_goes_on(no_data, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", data_dir("built-in").path)
    with start_run(small(tmp_path), "", EvalPlan("test", 1)) as run:
        path = run.folder.path
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA")
    with open_run(path) as run:
        report = await run_evaluation(run, run.plan, NullCallback())
    assert report.table.overall.failures == 0


def test_the_recipe_for_published_figures_departs_from_them_in_its_data_alone(
    tmp_path, monkeypatch
):
    words = write_checkout(tmp_path / "checkout")
    digest = hashlib.sha256(USER_WORDS.encode()).hexdigest()
    monkeypatch.setattr(upstream_words, "PUBLISHED", digest)
    config = load_config(
        EXAMPLES / "published.yaml",
        [f"env.config.tau_bench_dir={words}", f"env.config.data_dir={shop(tmp_path / 'shop')}"],
    )
    assert departures(config.env.config) == ["the data is not tau-bench's"]
    assert user_model(config.env).temperature is None
    assert config.env.max_turns == 30
