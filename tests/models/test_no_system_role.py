"""Chat templates without a system role: the refusal is recognized, and ``system: merge`` helps."""

import pytest

from mock_openai import completion, error, raw
from skillwright.core import ModelRefused, Purpose
from skillwright.models import EndpointFault, make_model, parse_model_config
from skillwright.models.http.endpoint import identity_of

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello."},
]

REFUSALS = [
    (400, "System role not supported System role not supported"),
    (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    (500, "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."),
    (422, "Template error: System role not supported (in <string>:1)"),
    (400, "After the optional system message, conversation roles must alternate user/assistant"),
    (400, "Only user and assistant roles are supported!"),
    (400, "Only user, assistant and tool roles are supported"),
    (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    (400, "This model doesn't support system messages."),
    (400, "The model does not support a system prompt"),
    (400, "Unexpected role 'system' after role 'user'"),
    (400, "Invalid role: system"),
    (400, "unknown role: system"),
    (400, "'system' is not one of ['user', 'assistant'] - 'messages.0.role'"),
    (422, "Input should be 'user' or 'assistant'"),
    (400, "Role 'system' is not allowed."),
    (400, "System messages are not supported by this template"),
    (400, "System message must be at the beginning."),
    (400, "A conversation must start with a user message. Try again."),
    (400, "Expected last role User or Tool for serving but got system"),
    (400, "No user query found in messages."),
    (400, "messages 参数非法: 不支持 system 角色"),
    (500, f"{'While executing CallExpression in source: ... ' * 20}System role not supported"),
]
OTHERS = [
    (400, "temperature must be at most 1"),
    (400, "The system fingerprint is unknown"),
    (400, "Invalid value for 'top_p'"),
]


def refused(status, message):
    async def handler(body):
        if any(one["role"] == "system" for one in body["messages"]):
            return error(status, message)
        return completion("fine")

    return handler


@pytest.mark.parametrize(("status", "message"), REFUSALS)
async def test_the_refusal_of_a_system_message_names_the_setting_and_the_setting_helps(
    mock_openai, make_chat, clock, status, message
):
    mock_openai.handler = refused(status, message)
    with pytest.raises(ModelRefused, match="system: merge"):
        await make_chat().complete(TALK, purpose=Purpose.CHECK)
    assert clock.waits == []
    answer = await make_chat(system="merge").complete(TALK, purpose=Purpose.CHECK)
    assert answer.text == "fine"


async def test_a_refusal_at_the_top_level_of_the_reply_is_recognized(mock_openai, make_chat):
    body = b'{"object": "error", "message": "System role not supported", "code": 400}'
    mock_openai.next(raw(body, "application/json", 400))
    with pytest.raises(ModelRefused, match="system: merge"):
        await make_chat().complete(TALK, purpose=Purpose.CHECK)


@pytest.mark.parametrize(("status", "message"), OTHERS)
async def test_other_refusals_do_not_name_it(mock_openai, make_chat, status, message):
    mock_openai.handler = refused(status, message)
    with pytest.raises(ModelRefused) as caught:
        await make_chat().complete(TALK, purpose=Purpose.CHECK)
    assert "system: merge" not in str(caught.value)


async def test_where_it_is_set_already_it_is_not_named(mock_openai, make_chat):
    mock_openai.next(lambda request: _refuse(), lambda request: _refuse())
    with pytest.raises((ModelRefused, EndpointFault)) as caught:
        await make_chat(system="merge", max_attempts=2).complete(TALK, purpose=Purpose.CHECK)
    assert "Set system" not in str(caught.value)


async def _refuse():
    return error(400, "Conversation roles must alternate")


@pytest.mark.parametrize(
    ("talk", "sent"),
    [
        (TALK, [("user", "Be brief.\n\nHello.")]),
        (TALK[1:], [("user", "Hello.")]),
        (TALK[:1], [("user", "Be brief.")]),
        ([TALK[0], TALK[0], TALK[1]], [("user", "Be brief.\n\nBe brief.\n\nHello.")]),
        ([{"role": "system", "content": ""}, TALK[1]], [("user", "Hello.")]),
        (
            [*TALK, {"role": "assistant", "content": "Hi."}, TALK[1], TALK[1]],
            [("user", "Be brief.\n\nHello."), ("assistant", "Hi."), ("user", "Hello.\n\nHello.")],
        ),
    ],
)
async def test_the_system_text_comes_before_the_user_message_and_roles_alternate(
    mock_openai, make_chat, talk, sent
):
    await make_chat(system="merge").complete(talk, purpose=Purpose.CHECK)
    messages = mock_openai.bodies[0]["messages"]
    assert [(one["role"], one["content"]) for one in messages] == sent


async def test_every_endpoint_takes_the_setting(mock_openai, client, clock):
    settings = {"model": "m", "base_url": mock_openai.base_url, "api_key": mock_openai.api_key}
    for backend in ("openai_chat", "qwen_chat", "minimax_chat"):
        config = parse_model_config({**settings, "backend": backend, "system": "merge"})
        await make_model(config, client, sleep=clock.sleep).complete(TALK, purpose=Purpose.CHECK)
        assert [one["role"] for one in mock_openai.bodies[-1]["messages"]] == ["user"]


def test_the_setting_is_part_of_the_identity_only_where_it_is_used():
    plain = {"backend": "openai_chat", "model": "m", "base_url": "http://host/v1"}
    identities = [
        identity_of(parse_model_config({**plain, **settings}))
        for settings in ({}, {"system": "message"}, {"system": "merge"})
    ]
    assert identities[0] == identities[1] != identities[2]
