import pytest

from skillwright.core import ModelRefused, RequestRefused
from skillwright.models import ClaudeChatConfig, ContextOverflow, EndpointFault
from skillwright.models.dialects.claude import fault_of_reply
from skillwright.models.http.client import HttpReply

CONFIG = ClaudeChatConfig(model="claude-m", api_key_env="THE_KEY")


def fault(status, kind="", message="no", headers=None, config=CONFIG, **fields):
    body = {"type": "error", "error": {"type": kind, "message": message, **fields}}
    reply = HttpReply(config.url, status, headers or {}, body, "text")
    return fault_of_reply(reply, config, "sk-secret")


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected", "words"),
    [
        (400, "invalid_request_error", "prompt is too long: 9 > 8", ContextOverflow, "Shorten"),
        (400, "invalid_request_error", "You hit your spend limit", ModelRefused, "used up"),
        (400, "invalid_request_error", "temperature: no", ModelRefused, "leave temperature"),
        (400, "invalid_request_error", "thinking.type: no", ModelRefused, "'adaptive'"),
        (400, "invalid_request_error", "tools: no", ModelRefused, "Correct the model's settings"),
        (401, "authentication_error", "bad sk-secret", ModelRefused, "THE_KEY"),
        (402, "billing_error", "pay", ModelRefused, "used up"),
        (403, "permission_error", "no", ModelRefused, "may use this model"),
        (404, "not_found_error", "no", ModelRefused, "model name 'claude-m'"),
        (413, "request_too_large", "32 MB", RequestRefused, "shorten it"),
        (429, "rate_limit_error", "cap", ModelRefused, "names no time"),
        (500, "api_error", "oops", EndpointFault, "oops"),
        (504, "timeout_error", "late", EndpointFault, "late"),
        (529, "overloaded_error", "busy", EndpointFault, "busy"),
        (200, "overloaded_error", "inside a stream", EndpointFault, "inside"),
        (302, "", "", ModelRefused, "redirects"),
    ],
)
def test_every_error_is_typed_with_its_cause_and_the_next_move(
    status, kind, message, expected, words
):
    error = fault(status, kind, message)
    assert type(error) is expected
    assert words in str(error)
    assert "https://api.anthropic.com/v1/messages" in str(error)


def test_a_rate_limit_with_a_time_is_waited_for():
    error = fault(429, "rate_limit_error", headers={"retry-after": "7"})
    assert isinstance(error, EndpointFault)
    assert error.retry_after_s == 7


def test_everybodys_overload_is_waited_out_longer():
    assert fault(529, "overloaded_error").retry_after_s == 5


@pytest.mark.parametrize(
    ("code", "kind"),
    [("ramp_limit_exceeded", EndpointFault), ("enforced_spend_limit_reached", ModelRefused)],
)
def test_the_code_of_the_details_tells_a_ramp_from_a_cap(code, kind):
    details = {"error_code": code}
    assert type(fault(429, "rate_limit_error", details=details)) is kind


def test_a_gateway_that_forgets_to_name_a_time_is_asked_again():
    config = CONFIG.model_copy(update={"base_url": "http://gateway/anthropic"})
    assert isinstance(fault(429, "rate_limit_error", config=config), EndpointFault)


def test_a_limit_without_a_time_is_no_cap_where_the_api_advises_to_try_again():
    headers = {"x-should-retry": "true"}
    assert isinstance(fault(429, "rate_limit_error", headers=headers), EndpointFault)


@pytest.mark.parametrize(("advice", "kind"), [("true", EndpointFault), ("false", RequestRefused)])
def test_the_advice_of_the_api_is_taken(advice, kind):
    assert type(fault(500, "api_error", headers={"x-should-retry": advice})) is kind


def test_the_request_is_named_for_who_asks_support():
    assert "(request req_9)" in str(fault(500, "api_error", headers={"request-id": "req_9"}))


def test_an_answer_is_no_error():
    reply = HttpReply(CONFIG.url, 200, {}, {"type": "message", "content": []})
    assert fault_of_reply(reply, CONFIG) is None
