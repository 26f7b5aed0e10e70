import pytest

from skillwright.config import dump_config, load_config
from skillwright.core import ConfigError
from skillwright.models import OpenAIChatConfig, parse_model_config
from skillwright.plugins.skillopt.environment import settings_from_environment

SECRET = "sk-very-secret"


def fill(settings, role="target", **environ):
    return settings_from_environment(settings, role, environ)


def test_a_role_has_its_own_variables_before_the_shared_ones():
    environ = {
        "QWEN_CHAT_BASE_URL": "http://shared/v1",
        "TARGET_QWEN_CHAT_BASE_URL": "http://mine/v1",
        "OPTIMIZER_QWEN_CHAT_MODEL": "theirs",
        "QWEN_CHAT_MODEL": "shared",
    }
    mine = fill({"backend": "qwen_chat"}, **environ)
    assert (mine["base_url"], mine["model"]) == ("http://mine/v1", "shared")
    theirs = fill({"backend": "qwen_chat"}, "optimizer", **environ)
    assert (theirs["base_url"], theirs["model"]) == ("http://shared/v1", "theirs")
    judge = fill({"backend": "qwen_chat"}, "judge", **environ)
    assert (judge["base_url"], judge["model"]) == ("http://shared/v1", "shared")


def test_the_configuration_wins_and_a_blank_variable_is_silent():
    given = {"backend": "qwen_chat", "model": "m", "temperature": 0.1}
    assert fill(given, QWEN_CHAT_TEMPERATURE="0.9", QWEN_CHAT_BASE_URL=" ") == given
    assert given == {"backend": "qwen_chat", "model": "m", "temperature": 0.1}


def test_of_a_key_only_the_name_is_taken():
    filled = fill({"backend": "minimax_chat", "model": "m"}, TARGET_MINIMAX_API_KEY=SECRET)
    assert filled["api_key_env"] == "TARGET_MINIMAX_API_KEY"
    assert SECRET not in repr(filled)
    own = {"backend": "minimax_chat", "model": "m", "api_key": "mine"}
    assert fill(own, MINIMAX_API_KEY=SECRET) == own


def test_every_compatible_variable_is_read():
    filled = fill(
        {"backend": "openai_compatible"},
        OPENAI_COMPATIBLE_BASE_URL="http://host/v1",
        OPENAI_COMPATIBLE_MODEL="m",
        OPENAI_COMPATIBLE_API_KEY=SECRET,
        OPENAI_COMPATIBLE_TIMEOUT_SECONDS="900",
        OPENAI_COMPATIBLE_MAX_TOKENS="8000",
        OPENAI_COMPATIBLE_TEMPERATURE="0.5",
    )
    assert parse_model_config(filled) == OpenAIChatConfig(
        model="m",
        base_url="http://host/v1",
        api_key_env="OPENAI_COMPATIBLE_API_KEY",
        timeout_s=900,
        deadline_s=900,
        max_tokens=8000,
        temperature=0.5,
    )


def test_plain_openai_is_left_alone_by_the_variables_of_others():
    given = {"backend": "openai_chat", "model": "m"}
    environ = {"OPENAI_COMPATIBLE_BASE_URL": "http://x/v1", "AZURE_OPENAI_ENDPOINT": "http://y"}
    assert fill(given, **environ) == given


def test_azure_is_filled_in():
    filled = fill(
        {"backend": "openai_chat", "server": "azure"},
        AZURE_OPENAI_ENDPOINT="https://shared.openai.azure.com",
        TARGET_AZURE_OPENAI_ENDPOINT="https://me.openai.azure.com/",
        AZURE_OPENAI_API_VERSION="2024-10-21",
        TARGET_DEPLOYMENT="my-gpt",
        AZURE_OPENAI_API_KEY=SECRET,
    )
    config = parse_model_config(filled)
    assert config.url == (
        "https://me.openai.azure.com/openai/deployments/my-gpt/chat/completions"
        "?api-version=2024-10-21"
    )
    assert config.api_key_env == "AZURE_OPENAI_API_KEY"


def test_azure_is_signed_in_to_as_the_environment_says():
    filled = fill({"backend": "openai_chat", "server": "azure"}, AZURE_OPENAI_AUTH_MODE="azure_cli")
    assert filled["key_header"] == "azure_cli"


def test_a_role_may_get_its_backend_and_model_from_the_environment():
    filled = fill({}, TARGET_BACKEND="openai_chat", TARGET_DEPLOYMENT="m")
    assert filled == {"backend": "openai_chat", "model": "m"}
    assert fill({}, "judge", JUDGE_BACKEND="openai_chat") == {}


@pytest.mark.parametrize(
    ("backend", "name", "value", "filled"),
    [
        ("qwen_chat", "QWEN_CHAT_THINKING_MODE", "disabled", {"thinking": "disabled"}),
        ("qwen_chat", "QWEN_CHAT_ENABLE_THINKING", "true", {"thinking": "enabled"}),
        ("qwen_chat", "QWEN_CHAT_ENABLE_THINKING", "0", {"thinking": "disabled"}),
        (
            "qwen_chat",
            "QWEN_CHAT_USE_MAX_COMPLETION_TOKENS",
            "yes",
            {"max_tokens_name": "max_completion_tokens"},
        ),
        ("minimax_chat", "MINIMAX_ENABLE_THINKING", "no", {"thinking": "disabled"}),
        ("minimax_chat", "MINIMAX_REGION", "cn_zh", {"region": "cn_zh"}),
    ],
)
def test_switches_are_read(backend, name, value, filled):
    assert fill({"backend": backend}, **{name: value}) == {"backend": backend, **filled}


def test_a_switch_that_is_neither_yes_nor_no_is_refused():
    with pytest.raises(ConfigError, match="QWEN_CHAT_ENABLE_THINKING is 'maybe'"):
        fill({"backend": "qwen_chat"}, QWEN_CHAT_ENABLE_THINKING="maybe")


def test_a_configuration_file_is_filled_in_and_stays_so_when_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TARGET_QWEN_CHAT_BASE_URL", "http://mine/v1")
    monkeypatch.setenv("QWEN_CHAT_API_KEY", SECRET)
    file = tmp_path / "my.yaml"
    file.write_text(
        "env: {name: alfworld}\n"
        "models:\n"
        "  target: {backend: qwen_chat, model: m}\n"
        "  optimizer: {backend: scripted, model: analyst}\n"
    )
    config = load_config(file)
    assert config.models.target.base_url == "http://mine/v1"
    written = dump_config(config)
    assert SECRET not in written
    file.write_text(written)
    monkeypatch.setenv("TARGET_QWEN_CHAT_TOP_P", "0.1")
    monkeypatch.setenv("TARGET_QWEN_CHAT_BASE_URL", "http://other/v1")
    assert load_config(file) == config


def test_a_time_out_that_is_no_number_is_left_to_the_validation():
    filled = fill({"backend": "qwen_chat", "model": "m"}, QWEN_CHAT_TIMEOUT_SECONDS="soon")
    with pytest.raises(ConfigError, match="timeout_s"):
        parse_model_config(filled)
