import pytest

from mock_openai import completion
from skillwright.core import ConfigError, ModelRefused, Sampling, ToolCall
from skillwright.models import OpenAIChatConfig, make_model, parse_model_config
from skillwright.models.dialects.chat_completions import is_strict, to_completion
from skillwright.models.dialects.openai_chat import OpenAIChat

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
AZURE = "https://me.openai.azure.com"


def config(**settings):
    return OpenAIChatConfig(**{"model": "m", **settings})


def request(sampling=Sampling(), tools=(), messages=HELLO, **settings):
    return OpenAIChat(config(**settings)).request(messages, tools, sampling)


@pytest.mark.parametrize(
    ("server", "url", "variable"),
    [
        ("openai", "https://api.openai.com/v1/chat/completions", "OPENAI_API_KEY"),
        ("vllm", "http://localhost:8000/v1/chat/completions", "VLLM_API_KEY"),
        ("sglang", "http://localhost:30000/v1/chat/completions", "SGLANG_API_KEY"),
        ("ollama", "http://localhost:11434/v1/chat/completions", "OLLAMA_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1/chat/completions", "OPENROUTER_API_KEY"),
        ("llama_cpp", "http://127.0.0.1:8080/v1/chat/completions", "LLAMA_API_KEY"),
    ],
)
def test_a_named_server_is_found_at_its_usual_address(server, url, variable):
    found = config(server=server)
    assert (found.url, found.api_key_env) == (url, variable)
    assert config(server=server, base_url="http://host/v1").url == "http://host/v1/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "server"),
    [
        ("https://api.openai.com/v1", "openai"),
        (AZURE, "azure"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://localhost:8000/v1", "other"),
    ],
)
def test_a_server_is_known_by_its_host(base_url, server):
    assert config(base_url=base_url).served_by.name == server


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"base_url": AZURE}, f"{AZURE}/openai/v1/chat/completions"),
        ({"base_url": f"{AZURE}/openai/v1/"}, f"{AZURE}/openai/v1/chat/completions"),
        (
            {"base_url": AZURE, "api_version": "2024-10-21"},
            f"{AZURE}/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
        (
            {"server": "azure", "base_url": "https://proxy.corp/x", "transport": "responses"},
            "https://proxy.corp/x/openai/v1/responses",
        ),
    ],
)
def test_azure_is_reached_by_its_resource_and_deployment(settings, url):
    found = config(**settings)
    assert found.url == url
    assert found.api_key_env == "AZURE_OPENAI_API_KEY"
    assert OpenAIChat(found).headers("k") == {"api-key": "k"}


def test_vllm_is_told_all_sampling_so_that_no_file_beside_the_weights_decides():
    told = request(server="vllm")
    assert (told["temperature"], told["top_p"], told["top_k"]) == (1.0, 1.0, -1)
    chosen = request(Sampling(temperature=0.0), server="vllm", top_p=0.9, extra_body={"top_k": 20})
    assert (chosen["temperature"], chosen["top_p"], chosen["top_k"]) == (0.0, 0.9, 20)
    assert not {"temperature", "top_p", "top_k"} & request().keys()


def test_a_token_of_entra_is_sent_as_a_bearer():
    found = config(base_url=AZURE, key_header="authorization", api_key_env="AZURE_OPENAI_AD_TOKEN")
    assert OpenAIChat(found).headers("k") == {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"server": "azure"}, "needs base_url"),
        ({"api_version": "2024-10-21"}, "belongs to Azure"),
        ({"transport": "responses", "stream": True}, "does not stream here"),
        ({"server": "vlm"}, "Did you mean 'vllm'"),
        ({"base_url": "http://host/v1/responses"}, "leave out '/responses'"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        parse_model_config({"backend": "openai_chat", "model": "m", **settings})


@pytest.mark.parametrize("server", ["openai", "openrouter"])
def test_a_service_without_a_key_is_refused_before_any_request(monkeypatch, client, server):
    found = config(server=server)
    monkeypatch.delenv(found.api_key_env, raising=False)
    with pytest.raises(ConfigError, match=found.api_key_env):
        make_model(found, client)


def test_effort_is_written_as_the_server_wants_it():
    assert request(reasoning_effort="low")["reasoning_effort"] == "low"
    nested = request(reasoning_effort="low", server="openrouter")
    assert nested["reasoning"] == {"effort": "low"}
    assert "reasoning_effort" not in nested


@pytest.mark.parametrize(
    ("model", "effort", "tools", "words"),
    [
        ("gpt-5.4", "low", [TOOL], "leave that out"),
        ("gpt-5.4-mini", None, [TOOL], None),
        ("gpt-5.6-luna", None, [TOOL], "reasoning_effort: none"),
        ("gpt-5.6-luna", "none", [TOOL], None),
        ("gpt-5.6-luna", "low", [], None),
        ("gpt-6.1-sol", "low", [TOOL], "transport: responses"),
        ("gpt-6.1-sol", "low", [], None),
        ("gpt-5.4-pro", None, [], "transport: responses"),
        ("gpt-5-codex", None, [], "transport: responses"),
        ("someones-model", "low", [TOOL], None),
    ],
)
def test_what_a_model_of_openai_refuses_is_known_before_it_is_asked(model, effort, tools, words):
    settings = {"model": model, "reasoning_effort": effort}
    if words is None:
        assert request(tools=tools, **settings)["model"] == model
    else:
        with pytest.raises(ModelRefused, match=f"nothing was sent: .*{words}"):
            request(tools=tools, **settings)
    elsewhere = {**settings, "base_url": "http://localhost:8000/v1"}
    assert request(tools=tools, **elsewhere)["model"] == model


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "string"}}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"anyOf": [CLOSED, {"type": "object"}]}, False),
        ({"type": "string"}, True),
    ],
)
def test_a_schema_is_strict_only_where_openai_takes_it_so(schema, strict):
    assert is_strict(schema) is strict
    form = request(Sampling(json_schema=schema))["response_format"]["json_schema"]
    assert form == {"name": "reply", "schema": schema, "strict": strict}


def test_log_probabilities_are_asked_for_and_read():
    body = request(Sampling(logprobs=2))
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    payload = completion("ok")
    top = [{"token": "ok", "logprob": -0.1}, {"token": "no", "logprob": -3}]
    tokens = [{"token": "ok", "logprob": -0.1, "top_logprobs": top}, {"token": "?"}]
    payload["choices"][0]["logprobs"] = {"content": tokens}
    (only,) = to_completion(payload, config()).logprobs
    assert (only.token, only.logprob) == ("ok", -0.1)
    assert only.top == (("ok", -0.1), ("no", -3.0))


def test_reasoning_goes_back_with_the_calls_under_the_name_that_it_came_by():
    call = ToolCall("c1", "look", "{}").to_dict()
    payload = completion(
        None, tool_calls=[call], reasoning_content="hm", finish_reason="tool_calls"
    )
    answer = to_completion(payload, config())
    sent = request(messages=[*HELLO, answer.message()])["messages"][1]
    expected = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"}
    assert sent == expected
    foreign = {"role": "assistant", "content": "x", "native": {"dialect": "claude_chat"}}
    assert request(messages=[foreign])["messages"] == [{"role": "assistant", "content": "x"}]


def test_all_parts_of_the_usage_are_read():
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    found = to_completion(completion("x", usage=usage), config()).usage
    assert (found.cached_tokens, found.cache_write_tokens, found.reasoning_tokens) == (60, 30, 15)


def test_a_prompt_that_ollama_cut_is_told(caplog):
    dialect = OpenAIChat(config(server="ollama"))
    long = dialect.request([{"role": "user", "content": "word " * 4000}], (), Sampling())
    dialect.completion(completion("x", usage={"prompt_tokens": 5000}), long)
    assert not caplog.records
    dialect.completion(completion("x", usage={"prompt_tokens": 1000}), long)
    assert "it cut the conversation. Raise OLLAMA_CONTEXT_LENGTH" in caplog.text
