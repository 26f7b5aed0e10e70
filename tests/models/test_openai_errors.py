import pickle

import pytest

from skillwright.core import ModelRefused, RequestRefused
from skillwright.models import ContextOverflow, EndpointFault, OpenAIChatConfig
from skillwright.models.dialects.chat_completions import fault_of_reply, holds_error
from skillwright.models.http.client import HttpReply
from skillwright.models.http.wire import hide_key

CONFIG = OpenAIChatConfig(model="m", base_url="http://host/v1", api_key_env="THE_KEY")


def reply(status, error=None, headers=None, text="", **payload):
    if error is not None:
        payload["error"] = error
    return HttpReply("http://host/v1/chat/completions", status, headers or {}, payload, text)


@pytest.mark.parametrize(
    "code",
    [
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    ],
)
def test_an_empty_account_is_refused_though_its_status_says_too_fast(code):
    error = fault_of_reply(
        reply(429, {"message": "quota", "code": code}, {"retry-after": "1"}), CONFIG
    )
    assert isinstance(error, ModelRefused)
    assert "top it up" in str(error)


@pytest.mark.parametrize(
    "given",
    [
        reply(402, {"message": "insufficient credits"}),
        reply(403, {"message": "x", "code": "insufficient_quota"}),
        reply(200, {"message": "x", "code": "insufficient_quota"}),
    ],
)
def test_an_empty_account_is_known_by_any_status(given):
    error = fault_of_reply(given, CONFIG)
    assert type(error) is ModelRefused
    assert "top it up" in str(error)


def test_a_request_that_is_too_large_is_refused_alone_and_others_may_be_answered():
    error = fault_of_reply(reply(413, {"message": "too large"}), CONFIG)
    assert type(error) is RequestRefused
    assert "shorten it" in str(error)


def test_words_about_limits_without_numbers_are_an_ordinary_rate_limit():
    message = "Over the rate limit, and you requested, well, too much."
    assert isinstance(fault_of_reply(reply(429, {"message": message}), CONFIG), EndpointFault)


def test_a_request_larger_than_the_limit_per_minute_is_refused():
    message = "Rate limit reached on tokens per min. Limit: 30,000, Requested: 41,250."
    error = fault_of_reply(reply(429, {"message": message, "code": "rate_limit_exceeded"}), CONFIG)
    assert isinstance(error, ModelRefused)
    assert "shorten it" in str(error)


def test_an_ordinary_rate_limit_is_a_passing_fault_with_its_wait():
    message = "Rate limit reached. Limit 30000, Used 29000, Requested 4000."
    error = fault_of_reply(reply(429, {"message": message}, {"retry-after-ms": "250"}), CONFIG)
    assert isinstance(error, EndpointFault)
    assert error.retry_after_s == 0.25


@pytest.mark.parametrize(
    "error",
    [
        {"message": "too long", "code": "context_length_exceeded"},
        {"message": "This model's maximum context length is 8192 tokens", "code": 400},
        {"message": "the model's context length is only 4096", "param": "input_tokens"},
        {"message": "x", "type": "exceed_context_size_error", "n_ctx": 4096},
    ],
)
def test_a_conversation_over_the_window_has_its_own_error(error):
    assert isinstance(fault_of_reply(reply(400, error), CONFIG), ContextOverflow)


@pytest.mark.parametrize(("advice", "kind"), [("true", EndpointFault), ("false", RequestRefused)])
def test_the_endpoints_own_advice_about_retrying_is_followed(advice, kind):
    status = 400 if advice == "true" else 500
    error = fault_of_reply(reply(status, {"message": "x"}, {"x-should-retry": advice}), CONFIG)
    assert type(error) is kind


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (reply(200, {"message": "slow down", "code": 429}), "429"),
        (reply(200, {"message": "broken"}), "502"),
        (reply(200, "broken"), "502"),
    ],
)
def test_an_error_inside_a_success_is_read_by_its_code(given, status):
    assert holds_error(given)
    error = fault_of_reply(given, CONFIG)
    assert isinstance(error, EndpointFault)
    assert f"answered {status} " in str(error)


def test_an_answer_beside_an_error_is_none():
    assert not holds_error(reply(200, None, choices=[{}]))
    assert holds_error(reply(200, {"message": "warning"}, choices=[{}]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (reply(422, None, detail=[{"loc": ["body", "seed"], "msg": "extra"}]), "send_seed: false"),
        (reply(400, {"message": "no", "param": "max_tokens"}), "max_tokens_name"),
        (reply(400, {"message": "no", "code": "content_filter"}), "content policy"),
        (reply(400, None, object="error", message="old vLLM", type="BadRequest"), "old vLLM"),
        (reply(400, None, text="plain words"), "plain words"),
        (reply(400), "it gives no reason"),
        (
            reply(307, None, {"location": "https://host/v2?ticket=x"}),
            "redirects to 'https://host/v2': ",
        ),
        (reply(400, {"message": "no"}, {"x-request-id": "req_7"}), "(request req_7)"),
    ],
)
def test_a_refusal_says_what_to_change(given, said):
    error = fault_of_reply(given, CONFIG)
    assert isinstance(error, ModelRefused)
    assert said in str(error)
    assert "http://host/v1" in str(error)


def test_a_refused_key_is_named_by_where_it_came_from():
    unauthorized = reply(401, {"message": "bad key sk-123", "code": "invalid_api_key"})
    by_variable = str(fault_of_reply(unauthorized, CONFIG, "sk-123"))
    assert "the environment variable THE_KEY" in by_variable
    by_setting = CONFIG.model_validate({**CONFIG.model_dump(), "api_key": "sk-123"})
    assert "Check the key in api_key" in str(fault_of_reply(unauthorized, by_setting, "sk-123"))
    assert "No key was sent" in str(fault_of_reply(unauthorized, CONFIG))


def test_a_long_error_page_is_cut():
    assert len(str(fault_of_reply(reply(400, {"message": "x" * 10_000}), CONFIG))) < 1_000


@pytest.mark.parametrize("before", range(460, 500, 7))
def test_no_part_of_the_key_is_left_where_a_message_is_cut(before):
    key = "secret-0123456789"
    refused = reply(400, {"message": f"{'x' * before} bad key {key}"})
    error = fault_of_reply(refused, CONFIG)
    hide_key(error, key)
    assert "secret-0" not in str(error)


def test_errors_survive_pickling_between_processes():
    error = fault_of_reply(reply(503, {"message": "x"}, {"retry-after": "4"}), CONFIG)
    error.failed_calls = 3
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.retry_after_s, copy.failed_calls) == (str(error), 4, 3)
