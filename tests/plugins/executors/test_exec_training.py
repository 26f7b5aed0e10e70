"""A whole training run with command lines as its models, offline."""

import json

import pytest

from doors import ALL_RULES, doors_config, look, write_tasks
from fake_clis import install
from skillwright.core import ConfigError
from skillwright.datasets import cache_dir
from skillwright.jobs import NullCallback, open_run, run_training, start_run
from skillwright.rollout import EngineDown

KEYS = {
    "CODEX_API_KEY": "canary-codex-0123456789",
    "ANTHROPIC_API_KEY": "canary-anthropic-0123456789",
    "OPENAI_API_KEY": "canary-openai-0123456789",
}
OPTIMIZER = {"backend": "codex", "model": "analyst"}


def config(folder, target, **optimizer):
    write_tasks(folder / "tasks", train=3, val=3, test=3)
    fakes = {name: str(install(name, folder / "bin", **FAKE)) for name in ("codex", "claude")}
    program = fakes["claude" if target["backend"] == "claude_code" else "codex"]
    fast = {"max_concurrent": 2, "timeout_s": 60}
    return doors_config(
        folder,
        env={"max_turns": 1},
        models={
            "target": {"model": "m", "path": program, **fast, **target},
            "optimizer": {**OPTIMIZER, "path": fakes["codex"], **fast, **optimizer},
        },
        train={"epochs": 1, "batch_size": 3},
        evaluation={"gate": {"kind": "strict"}},
    )


FAKE = {"FAKE_EDITS": json.dumps([[ALL_RULES]])}


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("backend", ["codex", "claude_code"])
async def test_a_skill_is_trained_for_an_agent_at_a_command_line(backend, tmp_path):
    with start_run(config(tmp_path, {"backend": backend}), "# Doors\n") as run:
        path = run.folder.path
        report = await run_training(run, NullCallback())
    assert ALL_RULES in (path / "best_skill.md").read_text()
    assert report.best_skill.startswith(report.initial_skill.strip())
    with look(path) as store:
        usage = [episode.usage for episode in store.episodes()]
        assert all(each.input_tokens and each.cached_tokens for each in usage)
    for file in path.rglob("*"):
        if file.is_file():
            held = file.read_bytes()
            assert not [key for key in KEYS.values() if key.encode() in held]
    assert list((path / "exec").iterdir()) == []  # nothing failed, so nothing has to be looked at
    # A finished run asks nobody.
    with open_run(path) as run:
        assert (await run_training(run, NullCallback())).best_skill == report.best_skill


async def test_a_target_that_fails_at_every_run_is_a_failure_and_never_a_score(tmp_path):
    target = {"backend": "codex", "max_attempts": 1}
    bad = config(tmp_path, target)
    broken = install("codex", tmp_path / "broken", FAKE_BEHAVIOR="fails_quietly")
    settings = bad.models.target.model_copy(update={"path": str(broken)})
    bad = bad.model_copy(update={"models": bad.models.model_copy(update={"target": settings})})
    with start_run(bad, "# Doors\n") as run:
        path = run.folder.path
        with pytest.raises(EngineDown, match="at capacity"):
            await run_training(run, NullCallback())
    with look(path) as store:
        episodes = list(store.episodes())
        assert episodes
        assert 1 <= len(list((path / "exec").glob("codex-*/codex_prompt.txt"))) <= 20
        assert not [episode for episode in episodes if episode.reward is not None]


async def test_a_fenced_program_is_shown_neither_the_run_nor_its_data(tmp_path, monkeypatch):
    monkeypatch.delenv("SKILLWRIGHT_REFERENCE_DATA", raising=False)  # it would be hidden too
    made = []

    def make(llm, client):
        del client
        made.append(llm)
        raise ConfigError("enough")

    with start_run(config(tmp_path, {"backend": "codex", "hidden": ["~/notes"]}), "") as run:
        with pytest.raises(ConfigError, match="enough"):
            await run_training(run, NullCallback(), make)
        data = run.config.env.data.path
        assert made[0].hidden == ("~/notes", *map(str, (run.folder.path, data, cache_dir())))
