"""What a configuration says about programs, and what the environment says where it is silent."""

import pytest

from doors import doors_config
from skillwright.core import ConfigError
from skillwright.models import list_backends, parse_model_config


def read(backend="codex_exec", **settings):
    return parse_model_config({"backend": backend, "model": "m", **settings}, "models.target")


def test_the_defaults_are_the_narrowest():
    for backend in ("codex_exec", "claude_code_exec"):
        config = read(backend)
        assert (config.sandbox, config.isolation, config.web_search) == ("read-only", "auto", False)
    assert read().network is False


@pytest.mark.parametrize(
    ("alias", "name"),
    [("codex", "codex_exec"), ("codex_cli", "codex_exec"), ("claude_code", "claude_code_exec")],
)
def test_other_names_are_read_as_ours(alias, name):
    assert read(alias).backend == name


@pytest.mark.parametrize("name", ["copilot", "copilot_exec", "cursor", "cursor_agent"])
def test_what_is_not_supported_says_what_to_use(name):
    with pytest.raises(ConfigError, match=r"is not supported; use .* 'codex_exec'"):
        read(name)


def test_every_executor_is_listed_with_its_roles():
    roles = {backend.name: backend.roles for backend in list_backends() if backend.implemented}
    assert roles["codex_exec"] == ("agent", "optimizer")
    assert roles["claude_code_exec"] == ("agent",)


@pytest.mark.parametrize(
    ("variable", "value", "backend", "field", "read_as"),
    [
        ("CODEX_EXEC_PATH", "/opt/codex", "codex_exec", "path", "/opt/codex"),
        ("CODEX_CLI_BIN", "/opt/codex", "codex_exec", "path", "/opt/codex"),
        ("CODEX_EXEC_SANDBOX", "workspace-write", "codex_exec", "sandbox", "workspace-write"),
        ("CODEX_SANDBOX_MODE", "workspace-write", "codex_exec", "sandbox", "workspace-write"),
        ("CODEX_EXEC_REASONING_EFFORT", "high", "codex_exec", "effort", "high"),
        ("CODEX_EXEC_WEB_SEARCH", "true", "codex_exec", "web_search", True),
        ("EXEC_EMPTY_RESPONSE_RETRIES", "3", "codex_exec", "empty_retries", 3),
        ("CLAUDE_CODE_EXEC_PATH", "/opt/claude", "claude_code_exec", "path", "/opt/claude"),
        ("CLAUDE_CLI_BIN", "/opt/claude", "claude_code_exec", "path", "/opt/claude"),
        ("CLAUDE_CODE_EXEC_EFFORT", "max", "claude_code_exec", "effort", "max"),
    ],
)
def test_the_environment_fills_in_what_is_left_open(
    variable, value, backend, field, read_as, monkeypatch
):
    monkeypatch.setenv(variable, value)
    assert getattr(read(backend), field) == read_as


def test_the_configuration_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("CODEX_EXEC_PATH", "/opt/codex")
    assert read(path="codex").path == "codex"


@pytest.mark.parametrize(
    ("backend", "settings", "environ", "words"),
    [
        ("codex_exec", {"network": True}, {}, "needs sandbox: workspace-write"),
        ("codex_exec", {"sandbox": "none"}, {}, "read-only"),
        ("codex_exec", {"pass_env": ["HOME"]}, {}, "HOME is a fresh folder"),
        ("codex_exec", {"api_key_env": "sk-secret"}, {}, "names an environment variable"),
        ("codex_exec", {}, {"CODEX_EXEC_PROFILE": "p"}, "CODEX_EXEC_PROFILE is set"),
        ("claude_code_exec", {"max_turns": 1}, {}, "2"),
        ("codex_exec", {"timeout": 5}, {}, "Did you mean 'timeout_s'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_move(
    backend, settings, environ, words, monkeypatch
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        read(backend, **settings)
    assert words in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_key_is_never_written_down():
    config = read(api_key="sk-canary-0123")
    assert "canary" not in config.model_dump_json() + repr(config) + str(config.what_matters())


def test_an_agent_with_tools_is_no_optimizer(tmp_path):
    with pytest.raises(ConfigError, match="'claude_code_exec' only acts; as the optimizer use"):
        doors_config(tmp_path, models={"optimizer": {"backend": "claude_code", "model": "m"}})
