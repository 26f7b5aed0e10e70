"""Azure without a key: a token of azure-identity, renewed, and sent to Azure alone."""

import sys
import types
from typing import ClassVar

import pytest

from skillwright.core import ConfigError, ModelRefused, Purpose
from skillwright.models.config import parse_model_config
from skillwright.models.dialects.openai_chat import OpenAIChat
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint import EndpointModel
from skillwright.models.http.traffic import EndpointLimits

AZURE = {
    "backend": "openai_chat",
    "model": "my-gpt",
    "base_url": "https://me.openai.azure.com",
    "key_header": "managed_identity",
}


class Credential:
    """Stands in for a credential of azure-identity: hands out tokens, and counts them."""

    made: ClassVar[list["Credential"]] = []
    ends_at = 2**40

    def __init__(self, **given):
        self.given = given
        self.asked = []
        type(self).made.append(self)

    def get_token(self, scope):
        self.asked.append(scope)
        if self.given.get("client_id") == "nobody":
            raise RuntimeError("no managed identity endpoint found")
        return types.SimpleNamespace(token=f"token-{len(self.asked)}", expires_on=self.ends_at)


class Posts:
    """Answers every request, and keeps its headers."""

    limits = EndpointLimits()

    def __init__(self):
        self.headers = []

    async def post_json(self, url, body, *, headers, timeout_s):
        del body, timeout_s
        self.headers.append(headers)
        message = {"role": "assistant", "content": "Yes."}
        payload = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
        return HttpReply(url, 200, {}, payload)


@pytest.fixture
def azure(monkeypatch):
    kind = type("Fresh", (Credential,), {"made": []})
    module = types.ModuleType("azure.identity")
    module.ManagedIdentityCredential = module.AzureCliCredential = kind
    monkeypatch.setitem(sys.modules, "azure", types.ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", module)
    monkeypatch.delenv("AZURE_CLIENT_ID", raising=False)
    return kind


def model_of(posts, **changes):
    return EndpointModel(OpenAIChat(parse_model_config({**AZURE, **changes})), posts)


async def ask(model):
    return await model.complete([{"role": "user", "content": "?"}], purpose=Purpose.ROLLOUT)


async def test_a_token_is_sent_and_kept_until_it_ends(azure):
    posts = Posts()
    model = model_of(posts)
    assert [(await ask(model)).text for _ in range(2)] == ["Yes.", "Yes."]
    assert [one["Authorization"] for one in posts.headers] == ["Bearer token-1"] * 2
    assert azure.made[0].asked == ["https://cognitiveservices.azure.com/.default"]
    azure.ends_at = 0
    ending = model_of(posts)
    await ask(ending)
    await ask(ending)
    assert posts.headers[-1]["Authorization"] == "Bearer token-2"


async def test_the_identity_is_chosen_by_its_usual_variable(azure, monkeypatch):
    monkeypatch.setenv("AZURE_CLIENT_ID", "nobody")
    model = model_of(Posts())
    with pytest.raises(ModelRefused, match=r"no managed identity endpoint found.*Next: run it on"):
        await ask(model)
    assert azure.made[0].given == {"client_id": "nobody"}


@pytest.mark.parametrize(
    "url",
    [
        "http://me.openai.azure.com",
        "https://me.openai.azure.com.evil.example",
        "https://api.example.com/v1",
    ],
)
def test_no_other_host_gets_a_token(url):
    with pytest.raises(ConfigError, match="gets no token of Azure"):
        parse_model_config({**AZURE, "server": "azure", "base_url": url})


def test_a_missing_library_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(ConfigError, match=r"pip install 'skillwright\[azure\]'"):
        model_of(Posts())
