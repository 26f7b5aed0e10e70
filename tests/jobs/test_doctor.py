"""What would stop a run is found, and said with the next move."""

import asyncio
import os
import sys

import pytest

from doors import doors_config
from skillwright.envs import deregister, register
from skillwright.jobs.run import Finding, Health
from skillwright.jobs.text import examine
from skillwright.plugins.skillopt.environment import ignored_variables
from tau_models import shop, tau_config
from tracker_libraries import install


@pytest.fixture
def found(tmp_path):
    def look(config=None):
        return {one.name: one for one in asyncio.run(examine(tmp_path / "not" / "yet", config))}

    return look


def test_a_machine_is_looked_at_without_a_configuration(found, tmp_path, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    findings = found()
    assert list(findings)[:3] == ["python", "disk", "extra train"]
    assert f"free at {str(tmp_path)!r}" in findings["disk"].detail
    assert findings["ALFWorld games"].health is Health.NOTE
    assert findings["env alfworld"].health is Health.OK


def test_an_environment_that_cannot_be_imported_is_bad(found):
    register("broken", "no_such_package.env:Env")
    try:
        finding = found()["env broken"]
    finally:
        deregister("broken")
    assert finding.health is Health.BAD
    assert "No module named 'no_such_package'" in finding.detail


def test_the_folder_of_official_games_is_looked_for(found, tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert found()["ALFWorld games"] == Finding("ALFWorld games", Health.OK, str(tmp_path))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "gone"))
    assert found()["ALFWorld games"].health is Health.BAD


def test_files_and_models_of_a_configuration_are_looked_at(found, tmp_path):
    findings = found(doors_config(tmp_path))
    assert findings["tasks and skill"].detail == "12 train, 24 val, 12 test"
    assert findings["target"].detail == "scripted: household answers"
    lost = {"kind": "split_dir", "path": str(tmp_path / "lost")}
    finding = found(doors_config(tmp_path, env={"data": lost}))["tasks and skill"]
    assert finding.health is Health.BAD
    assert "lost" in finding.detail


def test_a_variable_without_effect_is_named_once_with_the_reason(found, monkeypatch):
    monkeypatch.setenv("CODEX_EXEC_APPROVAL_POLICY", "never")
    monkeypatch.setenv("TARGET_COPILOT_CHAT_TIMEOUT", "9")
    monkeypatch.setenv("CLAUDE_PERMISSION_MODE", " ")
    finding = found()["environment variable"]
    assert finding.health is Health.NOTE
    assert finding.detail.startswith("TARGET_COPILOT_CHAT_TIMEOUT has no effect here: ")
    assert list(ignored_variables(os.environ)) == [
        "CODEX_EXEC_APPROVAL_POLICY",
        "TARGET_COPILOT_CHAT_TIMEOUT",
    ]


def test_a_mind_without_seeds_is_told_of(found, tmp_path):
    silent = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "max_attempts": 1}
    for settings, said in (
        ({"backend": "claude_chat"}, "target (claude_chat) take"),
        ({"backend": "openai_chat", "transport": "responses"}, "target (openai_chat) take"),
        ({"backend": "qwen_chat"}, None),
    ):
        finding = found(doors_config(tmp_path, models={"target": silent | settings})).get("seeds")
        assert (finding is None) is (said is None)
        assert said is None or said in finding.detail


def test_the_endpoint_of_simulated_users_is_asked_too(found, tmp_path):
    data, nowhere = shop(tmp_path / "shop"), "http://127.0.0.1:9/v1"
    served = {"user_strategy": "llm", "user_simulator_endpoint": nowhere, "user_retries": 0}
    finding = found(tau_config(tmp_path, data, **served))["simulated user"]
    assert finding.health is Health.BAD
    assert nowhere in finding.detail
    assert "simulated user" not in found(tau_config(tmp_path, data))


def test_a_file_that_python_cannot_read_is_said_to_be_wrong_not_missing(found, tmp_path):
    path = tmp_path / "adapter.py"
    path.write_text("class Mine(:\n", encoding="utf-8")
    env = {"name": f"{path}:Mine"}
    detail = found(doors_config(tmp_path, env=env))["tasks and skill"].detail
    assert "adapter.py, line 1" in detail
    assert detail.endswith("Correct it there.")


def test_a_tracker_without_its_library_is_bad(found, tmp_path, monkeypatch):
    install(monkeypatch, "wandb")
    config = doors_config(tmp_path, run={"trackers": ["wandb"]})
    assert found(config)["trackers"] == Finding("trackers", Health.OK, "wandb")
    monkeypatch.setitem(sys.modules, "wandb", None)
    missing = found(config)["trackers"]
    assert missing.health is Health.BAD
    assert "pip install wandb" in missing.detail
    assert "trackers" not in found(doors_config(tmp_path))
