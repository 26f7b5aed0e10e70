"""What settings let through to an endpoint, and what of a secret is never shown."""

import traceback

import pytest

from skillwright.core import ConfigError, ModelError, Purpose
from skillwright.models import (
    ClaudeChatConfig,
    HttpClient,
    OpenAIChatConfig,
    make_model,
    parse_model_config,
)
from skillwright.models.dialects.chat_completions import fault_of_reply
from skillwright.models.dialects.claude import fault_of_reply as claude_fault
from skillwright.models.http.client import HttpReply, without_secrets
from skillwright.models.http.endpoint import identity_of

HELLO = [{"role": "user", "content": "hello"}]
SECRET = "canary-5f3e"


def settings(**more):
    return {"backend": "openai_chat", "model": "m", "base_url": "http://host/v1", **more}


@pytest.mark.parametrize(
    "headers",
    [
        *({"X-A": "a\nb: c"}, {"X-A": "a\r"}, {"X-A": "é"}, {"X-A": "\x7f"}),
        *({"X A": "a"}, {"X:": "a"}, {"": "a"}, {"Content-Length": "3"}, {"host": "other"}),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_before_a_run(headers):
    with pytest.raises(ConfigError, match="headers"):
        parse_model_config(settings(headers=headers))


def test_a_header_may_choose_the_model_and_so_tells_models_apart():
    plain, cheap, dear = (
        identity_of(OpenAIChatConfig(model="m", base_url="http://h/v1", headers=headers))
        for headers in ({}, {"X-Route": "cheap"}, {"X-Route": "dear"})
    )
    assert len({plain, cheap, dear}) == 3


def test_blanks_around_a_base_url_are_left_out():
    assert parse_model_config(settings(base_url=" http://host/v1/ \n")).base_url == "http://host/v1"


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://user:{SECRET}@host/v1", f"user:{SECRET}@host/v1", f"http://u:{SECRET}/x@host"),
        *("http://host/v1?", "http://host/v1#", f"http://host/v1?key={SECRET}", "http://ho st/v1"),
    ],
)
def test_a_base_url_with_more_than_an_address_is_refused_without_its_secret(url):
    with pytest.raises(ConfigError, match="base_url") as caught:
        parse_model_config(settings(base_url=url))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["http://u:{0}@other/v1?k={0}", "/v2/x?k={0}#{0}"])
def test_a_redirect_shows_its_place_without_a_secret(place):
    reply = HttpReply("http://host/v1", 307, {"location": place.format(SECRET)}, None)
    for fault in (
        fault_of_reply(reply, OpenAIChatConfig(model="m", base_url="http://host/v1")),
        claude_fault(reply, ClaudeChatConfig(model="m", base_url="http://host")),
    ):
        assert SECRET not in str(fault)
        assert without_secrets(place.format(SECRET)) in str(fault)


@pytest.mark.parametrize("proxy", ["http://u:{}@127.0.0.1:9", "http://u:{}@host:notaport"])
async def test_a_proxy_s_password_is_in_no_traceback(proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", proxy.format(SECRET))
    monkeypatch.setenv("https_proxy", proxy.format(SECRET))
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    async with HttpClient() as client:
        config = settings(base_url="https://example.invalid/v1", max_attempts=1, api_key="k")
        model = make_model(parse_model_config(config), client)
        with pytest.raises(ModelError) as caught:
            await model.complete(HELLO, purpose=Purpose.ROLLOUT)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
