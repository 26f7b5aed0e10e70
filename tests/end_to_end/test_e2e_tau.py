"""A retail agent's skill is trained on customers' calls; and a whole evaluation over HTTP."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from doors import Coach, llms
from mock_openai import MockOpenAI, answer_with, status
from served import served
from skillwright.cli.app import app
from skillwright.config.run import validated
from skillwright.core import Completion, Usage
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from tau_models import RULE, Clerk, shop, tau_settings
from tau_store import OPENING


async def test_a_skill_is_learned_from_calls_and_proves_itself_on_others(tmp_path):
    settings = tau_settings(tmp_path, shop(tmp_path / "shop", count=12))
    coach = Coach([[RULE], ["Be quick."]])
    with start_run(validated(settings, "tau"), "") as run:
        report = await run_training(run, NullCallback(), llms(Clerk(), coach))
        best = run.folder.best_skill_path.read_text(encoding="utf-8")
    tables = report.state.report.tables
    assert tables["initial"].overall.success_rate == 0.0
    assert tables["best"].overall.success_rate == 1.0
    assert RULE in best
    read = next(user for user, _ in coach.calls if "## Trajectories" in user)
    for part in (OPENING, "agent to user: Good bye.", "user: ###STOP###", "orders/#W1"):
        assert part in read
    assert "find_user_id_by_email" not in read  # the policy is not told once per call


class Caller:
    """Opens, hears one message, and hangs up."""

    identity = "scripted:caller"

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        del tools, sampling, purpose
        said = sum(message["role"] == "assistant" for message in messages)
        usage = Usage(calls=1, input_tokens=50, output_tokens=5)
        return Completion("###STOP###" if said else OPENING, usage=usage)


@pytest.fixture
def endpoints(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    with served(answer_with(Clerk())) as policy, served(answer_with(Caller())) as user:
        yield policy, user


def recipe(folder, policy: MockOpenAI, user: MockOpenAI, **config):
    settings = tau_settings(folder, shop(folder / "shop", count=5), **config)
    endpoint = {
        "backend": "openai_chat",
        "model": "policy",
        "base_url": policy.base_url,
        "api_key": policy.api_key,
        "prices": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 2.0},
    }
    user_settings = {"prices": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}}
    settings["env"]["config"] |= {
        "user_strategy": "llm",
        "user_simulator_endpoint": user.base_url,
        "user_simulator_model": "customer",
        "user_settings": {**user_settings, **config.get("user_settings", {})},
    }
    settings["models"] = {"target": endpoint, "optimizer": endpoint}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_one_command_evaluates_a_policy_against_a_simulated_user(tmp_path, endpoints):
    path = recipe(tmp_path, *endpoints)
    skill = tmp_path / "skill.md"
    skill.write_text(RULE, encoding="utf-8")
    words = ["eval", str(path), "--trials", "2", "--skill", str(skill)]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["pass_k"] == [1.0, 1.0]
    usage = report["usage"]
    assert usage["rollout"]["calls"] == usage["user"]["calls"] == 20
    assert usage["rollout"]["cost_usd"] > 0
    assert usage["user"]["cost_usd"] > 0
    assert report["environment"]["facts"]["settings"]["user"]["model"] == "customer"
    assert report["environment"]["facts"]["rates"]["failure"] == 0.0
    scored = CliRunner().invoke(app, ["regrade", report["run"]])
    assert scored.exit_code == 0, scored.output


def test_a_user_that_is_down_is_never_a_score(tmp_path, endpoints):
    policy, user = endpoints
    path = recipe(tmp_path, policy, user, user_settings={"max_attempts": 1})
    plan = ["eval", str(path), "--set", "rollout.retries=0", "--json"]
    # The first question is whether it answers; then it opens, and is lost at the first message.
    faults = [_pass, *([_pass] * 4), status(500), *([_pass] * 9)]
    user.next(*faults)
    done = CliRunner().invoke(app, plan, catch_exceptions=False)
    report = json.loads(done.stdout)
    overall = report["table"]["overall"]
    assert (overall["failures"], overall["episodes"]) == (1, 4)
    assert report["environment"]["facts"]["rates"]["user_failure"] == 0.2
    assert overall["success_rate"] == 0.0


async def _pass(request):
    """Let a request through."""


def test_a_user_behind_nothing_is_found_before_the_first_episode(tmp_path, endpoints):
    policy, user = endpoints
    path = recipe(tmp_path, policy, user, user_settings={"max_attempts": 1})
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["env"]["config"]["user_simulator_endpoint"] = "http://127.0.0.1:9/v1"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    done = CliRunner().invoke(app, ["eval", str(path)])
    assert done.exit_code != 0
    assert "127.0.0.1:9" in " ".join(done.output.split())
    assert not (tmp_path / "runs").exists()
