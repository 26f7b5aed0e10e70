import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from skillwright.core import ConfigError
from skillwright.models import (
    HttpClient,
    ModelConfig,
    OpenAIChatConfig,
    ScriptedConfig,
    explain_validation_error,
    list_backends,
    make_model,
    parse_model_config,
)

SECRET = "sk-very-secret-123"

KNOWN = (
    "claude_chat, claude_code_exec, codex_exec, local, minimax_chat, openai_chat, python, "
    "qwen_chat, scripted"
)


def refusal(**settings):
    with pytest.raises(ConfigError) as caught:
        parse_model_config(settings, where="agent")
    return str(caught.value)


def test_backend_chooses_the_kind_of_settings():
    assert isinstance(
        parse_model_config({"backend": "openai_chat", "model": "m"}), OpenAIChatConfig
    )
    assert isinstance(
        parse_model_config({"backend": "scripted", "model": "analyst"}), ScriptedConfig
    )


def test_defaults_are_the_documented_ones():
    config = OpenAIChatConfig(model="m")
    assert config.url == "https://api.openai.com/v1/chat/completions"
    assert config.api_key_env == "OPENAI_API_KEY"
    assert (config.timeout_s, config.max_concurrent, config.max_attempts) == (120, 128, 6)


def test_an_unknown_key_is_refused_with_the_nearest_right_name():
    message = refusal(backend="openai_chat", model="m", temprature=0.5)
    assert message == "unknown key 'agent.temprature'. Did you mean 'temperature'?"


def test_an_unknown_key_deep_inside_is_refused_with_its_path():
    prices = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2, "cached_usd_per_mtok": 1}
    message = refusal(backend="openai_chat", model="m", prices=prices)
    assert message.startswith("unknown key 'agent.prices.cached_usd_per_mtok'. Did you mean ")


def test_every_problem_gets_its_own_line():
    message = refusal(backend="openai_chat", timeout_s=-1, top_p=2)
    assert message.splitlines() == [
        "'agent.model' is missing: Model name at the endpoint.",
        "agent.timeout_s: Input should be greater than 0, not -1",
        "agent.top_p: Input should be less than or equal to 1, not 2",
    ]


def test_a_missing_backend_lists_the_choices():
    assert refusal(model="m") == f"'agent.backend' is missing. Known: {KNOWN}."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai_chatt", "Did you mean 'openai_chat'?"),
        ("azure_openai", "is called 'openai_chat' here"),
        ("anthropic", "is called 'claude_chat' here"),
        ("copilot_chat", "is not supported; use 'openai_chat'"),
        ("cursor_agent", "is not supported; use 'openai_chat'"),
        ("claude_chatt", "Did you mean 'claude_chat'?"),
        ("zzz", f"Known: {KNOWN}."),
    ],
)
def test_a_backend_that_cannot_be_used_is_refused_with_the_next_move(name, said):
    assert said in refusal(backend=name, model="m")


def test_an_installation_without_entry_points_says_to_install_again(monkeypatch):
    monkeypatch.setattr("skillwright.models.scripted.named.entry_points", lambda _: {})
    message = refusal(backend="scripted", model="analyst")
    assert "this installation is older than its code" in message
    assert "`make setup`" in message


def test_a_wrong_scripted_mind_is_refused_with_the_nearest():
    message = refusal(backend="scripted", model="analist")
    assert message == "agent.model: no scripted model 'analist'. Did you mean 'analyst'?"


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("localhost:8000/v1", "is no endpoint"),
        ("ftp://host/v1", "is no endpoint"),
        ("http://user:hunter2@host/v1", "put the key in api_key_env"),
        ("http://host/v1?key=abc", "leave out what follows"),
        ("http://host/v1/chat/completions", "added to the base URL automatically"),
        ("http://host:port/v1", "Port could not be cast"),
    ],
)
def test_a_base_url_that_cannot_work_is_refused(base_url, said):
    message = refusal(backend="openai_chat", model="m", base_url=base_url)
    assert said in message
    assert "hunter2" not in message
    assert "abc" not in message


def test_a_trailing_slash_is_the_same_endpoint():
    config = OpenAIChatConfig(model="m", base_url="http://host:1/v1/")
    assert config.url == "http://host:1/v1/chat/completions"
    assert config.host == "host:1"


def test_a_deadline_shorter_than_an_attempt_is_refused():
    assert "raise deadline_s" in refusal(
        backend="openai_chat", model="m", timeout_s=900, deadline_s=600
    )


@pytest.mark.parametrize("extra", [{"stream": True}, {"messages": []}])
def test_extra_body_may_not_replace_what_the_caller_sets(extra):
    assert "take it out of extra_body" in refusal(
        backend="openai_chat", model="m", extra_body=extra
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key_env": SECRET},
        {"api_key": {"value": SECRET}},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"headers": {"X-Api-Key": SECRET}},
        {"api_key": SECRET, "timeout_s": -1},
    ],
)
def test_a_secret_is_never_part_of_an_error(settings):
    config = {"backend": "openai_chat", "model": "m", **settings}
    with pytest.raises(ValidationError) as raw:
        OpenAIChatConfig(**config)
    assert SECRET not in str(raw.value)
    assert SECRET not in refusal(**config)


def test_ordinary_headers_are_allowed():
    headers = {"X-Title": "t", "X-Author": "me", "OpenAI-Organization": "org"}
    assert OpenAIChatConfig(model="m", headers=headers).headers == headers


def test_the_key_is_neither_shown_nor_dumped():
    config = OpenAIChatConfig(model="m", api_key=SECRET)
    assert config.api_key.get_secret_value() == SECRET
    shown = f"{config!r} {config} {config.model_dump()} {config.model_dump_json()}"
    assert SECRET not in shown
    assert "api_key" not in config.model_dump()


def test_settings_survive_a_round_trip_and_cannot_be_changed():
    config = OpenAIChatConfig(model="m", temperature=0.2, extra_body={"top_k": 20})
    assert parse_model_config(config.model_dump(mode="json")) == config
    with pytest.raises(ValidationError):
        config.model = "other"


class Job(BaseModel):
    model_config = ConfigDict(extra="forbid")
    agent: ModelConfig
    judges: list[ModelConfig] = []
    note: int | str | None = None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"agent": {"backend": "openai_chat", "modle": "m"}},
            "unknown key 'agent.modle'. Did you mean 'model'?",
        ),
        (
            {"agent": {"backend": "scripted", "model": "analyst"}, "judges": [{"backend": "x"}]},
            f"judges[0]: no backend 'x'. Known: {KNOWN}.",
        ),
        ({"agnet": {}}, "unknown key 'agnet'. Did you mean 'agent'?"),
        (
            {"agent": {"backend": "scripted", "model": "analyst"}, "note": []},
            "note: Input should be a valid string, not a list",
        ),
    ],
)
def test_problems_inside_a_larger_document_are_told_with_their_path(settings, said):
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(settings)
    assert said in explain_validation_error(caught.value, Job).splitlines()


def test_every_documented_backend_is_listed_with_what_it_needs():
    backends = {backend.name: backend for backend in list_backends()}
    documented = {"openai_chat", "claude_chat", "qwen_chat", "minimax_chat"}
    documented |= {"codex_exec", "claude_code_exec"}
    assert documented | {"scripted", "python", "local"} == set(backends)
    assert all(backend.needs and backend.roles for backend in backends.values())


@pytest.mark.parametrize("name", ["openai_compatible", "openai_compatible_chat", "compat"])
def test_another_name_for_chat_completions_is_an_alias(name):
    given = parse_model_config({"backend": name, "model": "m", "base_url": "http://host/v1"})
    assert given == OpenAIChatConfig(model="m", base_url="http://host/v1")


async def test_models_are_made_by_their_settings():
    async with HttpClient() as client:
        chat = make_model(OpenAIChatConfig(model="m", base_url="http://localhost:1/v1"), client)
        household = make_model(ScriptedConfig(model="household"), client)
        analyst = make_model(ScriptedConfig(model="analyst"), client)
    assert chat.identity.startswith("openai_chat:m@localhost:1#")
    assert [household.identity, analyst.identity] == ["scripted:household", "scripted:analyst"]


async def test_noise_of_the_scripted_household_reaches_the_agent_and_its_name():
    async with HttpClient() as client:
        settings = {"backend": "scripted", "model": "household", "noise": 0.1}
        noisy = make_model(parse_model_config(settings), client)
        quiet = make_model(parse_model_config({**settings, "noise": 0}), client)
    assert noisy.identity == "scripted:household noise=0.1"
    assert quiet.identity == "scripted:household"


@pytest.mark.parametrize("noise", [-0.1, 1, 1.5, "much"])
def test_noise_is_a_share_below_one(noise):
    assert "agent.noise: Input should be" in refusal(
        backend="scripted", model="household", noise=noise
    )


@pytest.mark.parametrize("model", ["analyst", "searcher", "retail", "household_teacher"])
def test_other_scripted_models_refuse_noise(model):
    assert refusal(backend="scripted", model=model, noise=0.1) == (
        f"agent: the scripted {model!r} takes no noise. Leave 'noise' out here"
    )
    # A saved configuration lists every default.
    assert parse_model_config({"backend": "scripted", "model": model, "noise": 0.0})
