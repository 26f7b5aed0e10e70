"""A tau-bench evaluation whose policy and simulated user are two `skillwright serve` processes."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hf_world import write_tiny
from policy.tiny_models import TEMPLATE, tiny_tokenizer
from serving import serve_process
from skillwright.cli.app import app
from skillwright.core import FailureCause
from skillwright.runs import RunStore
from tau_models import shop

pytestmark = pytest.mark.heavy
USER_KEY = "TAU_USER_KEY"
ROOT = Path(__file__).resolve().parents[2]


def write_reader(folder):
    """Write a random model of Qwen2's shape, to which long prompts are few tokens."""
    corpus = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]
    tokenizer = tiny_tokenizer().train_new_from_iterator(corpus, 2_000)
    tokenizer.chat_template = TEMPLATE
    write_tiny(folder, vocab_size=2_048, max_position_embeddings=16_384)
    tokenizer.save_pretrained(folder)
    return folder


def recipe(folder, policy, user, **env):
    """Return the file of an evaluation with both behind addresses."""
    served = {"backend": "openai_chat", "model": "tiny", "base_url": policy.url, "max_tokens": 16}
    settings = {
        "run": {"name": "tau", "root": str(folder / "runs")},
        "env": {
            "name": "tau_bench",
            "config": {
                "user_strategy": "llm",
                "user_simulator_endpoint": user.url,
                "user_simulator_model": "tiny",
                "user_api_key_env": USER_KEY,
                "user_sim_max_tokens": 16,
                **env.pop("config"),
            },
            **env,
        },
        "models": {
            "target": {**served, "api_key": policy.key},
            "optimizer": {"backend": "scripted", "model": "retail_analyst"},
        },
        "rollout": {"max_concurrent": 3, "retries": 0},
    }
    path = folder / "tau.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_every_episode_ends_with_a_reward_or_a_named_failure(tmp_path, monkeypatch):
    weights = write_reader(tmp_path / "tiny")
    data = shop(tmp_path / "shop", count=3)
    with (
        serve_process(weights, "--record", "policy", cwd=tmp_path) as policy,
        serve_process(weights, "--no-record", cwd=tmp_path) as user,
    ):
        monkeypatch.setenv(USER_KEY, user.key)
        path = recipe(tmp_path, policy, user, config={"data_dir": str(data)}, max_turns=3)
        done = CliRunner().invoke(app, ["eval", str(path)], catch_exceptions=False)
        code, said = policy.stop()
    # Whether there is a score is the evaluation's own judgment of what random weights say.
    assert done.exit_code in (0, 1, 2), done.output
    with RunStore.open(tmp_path / "runs" / "tau" / "run.sqlite", read_only=True) as store:
        played = store.episodes()
    assert len(played) == 3
    assert all((one.reward is None) != (one.failure is None) for one in played)
    assert {one.failure.cause for one in played if one.failure} <= set(FailureCause)
    assert sum(one.reward is not None for one in played) >= 1
    assert sum(one.turns for one in played) >= 3
    assert code == 130, said
    # What the policy said is there after Ctrl-C, whole: as many answers as the evaluation got.
    with RunStore.open(tmp_path / "runs" / "policy" / "run.sqlite", read_only=True) as store:
        kept = store.episodes()
    assert {one.failure.cause for one in kept} == {FailureCause.JUDGE}
    assert sum(one.turns for one in kept) >= sum(one.turns for one in played)
