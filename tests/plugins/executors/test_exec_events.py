"""What the command lines print, and what it comes to. Fixtures are ours, in documented shapes."""

import json

import pytest

from skillwright.core import ModelRefused, ReplyInvalid, Usage
from skillwright.models import ContextOverflow, Prices
from skillwright.plugins.executors.claude import read_claude_events
from skillwright.plugins.executors.codex import read_codex_events
from skillwright.plugins.executors.report import (
    ExecFault,
    ExecReport,
    Output,
    fault_of_report,
    fault_of_words,
)


def lines(*events):
    return "\n".join(json.dumps(event) for event in events)


def item(kind, **fields):
    return {"type": "item.completed", "item": {"id": "i", "type": kind, **fields}}


def message(text):
    return item("agent_message", text=text)


DONE = {
    "type": "turn.completed",
    "usage": {
        "input_tokens": 1000,
        "cached_input_tokens": 600,
        "cache_write_input_tokens": 100,
        "output_tokens": 50,
        "reasoning_output_tokens": 30,
        "later_tokens": 9,
    },
}
STARTED = {"type": "turn.started"}
LOST = {"type": "error", "message": "stream disconnected before completion"}
FAILED = {"type": "turn.failed", "error": {"message": "at capacity"}}


def test_codex_the_last_message_is_the_answer_and_usage_is_counted_inclusively():
    report = read_codex_events(
        lines(
            {"type": "thread.started", "thread_id": "t"},
            STARTED,
            item("reasoning", text="hm"),
            item("command_execution", command="ls\n-l", exit_code=1, status="failed"),
            item("file_change", changes=[{"path": "a", "kind": "add"}], status="completed"),
            item("mcp_tool_call", server="s", tool="t", status="completed"),
            item("web_search", query="q"),
            item("error", message="a warning"),
            item("something_new", x=1),
            {"type": "item.updated", "item": {"type": "agent_message", "text": "half"}},
            message("first"),
            message("last"),
            DONE,
        )
    )
    assert (report.answer, report.ended_well, report.reasoning) == ("last", True, "hm")
    assert report.usage == Usage(
        calls=1,
        input_tokens=1000,
        output_tokens=50,
        cached_tokens=600,
        cost_usd=None,
        cache_write_tokens=100,
        reasoning_tokens=30,
    )
    assert report.trace[:2] == ("$ ls -l (exit 1)", "files: add a")
    assert len(report.trace) == 6


@pytest.mark.parametrize(
    ("events", "ended_well", "failure"),
    [
        ([STARTED, LOST, message("4"), DONE], True, ""),
        ([STARTED, message("4"), LOST], False, LOST["message"]),
        ([STARTED, message("4"), DONE, STARTED, FAILED], False, "at capacity"),
        ([STARTED, message("4")], False, ""),
        ([], False, ""),
    ],
)
def test_codex_the_last_event_on_the_turn_decides(events, ended_well, failure):
    report = read_codex_events(lines(*events))
    assert (report.ended_well, report.failure) == (ended_well, failure)


def test_codex_lines_that_are_no_events_are_skipped():
    junk = 'warning: noise\n[1, "x"]\n"text"\n{"type": 5}\n{"type": "item.completed", "item": 3}\n'
    report = read_codex_events(junk + lines(message("4"), DONE) + '\n{"type": "err')
    assert (report.answer, report.ended_well) == ("4", True)


RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "4",
    "stop_reason": "end_turn",
    "total_cost_usd": 0.02,
    "usage": {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3},
    "modelUsage": {
        "big": {
            "inputTokens": 100,
            "outputTokens": 30,
            "thinkingTokens": 20,
            "cacheReadInputTokens": 700,
            "cacheCreationInputTokens": 200,
        },
        "small": {"inputTokens": 50, "outputTokens": 2},
    },
}


def test_claude_all_models_of_a_run_are_counted_and_cached_tokens_are_input():
    report = read_claude_events(json.dumps(RESULT))
    assert (report.answer, report.ended_well) == ("4", True)
    assert report.usage == Usage(
        calls=1,
        input_tokens=1050,
        output_tokens=32,
        cached_tokens=700,
        cost_usd=0.02,
        cache_write_tokens=200,
        reasoning_tokens=20,
    )


def test_claude_a_stream_tells_model_skills_and_what_was_done():
    use = {"type": "tool_use", "name": "Read", "input": {"file": "a"}}
    blocks = [{"type": "thinking", "thinking": "hm"}, use]
    report = read_claude_events(
        lines(
            {"type": "system", "subtype": "init", "model": "claude-x", "skills": ["s"]},
            {"type": "assistant", "message": {"content": blocks}},
            {"type": "system", "subtype": "api_retry", "attempt": 1, "error": "overloaded"},
            {"type": "system", "subtype": "permission_denied", "tool_name": "Bash"},
            {"type": "novelty"},
            {"type": "assistant", "message": {"content": "text"}},
            RESULT,
        )
    )
    assert (report.model, report.skills, report.reasoning) == ("claude-x", ("s",), "hm")
    assert report.trace == ('Read {"file": "a"}', "retry 1: overloaded", "denied: Bash")


@pytest.mark.parametrize(
    ("changes", "trusts_cost"),
    [
        ({}, False),
        ({"total_cost_usd": None}, True),
        ({"modelUsage": {"m": {"inputTokens": 5, "costBasis": "unknown"}}}, True),
        ({"modelUsage": {}, "usage": {}}, True),
    ],
)
def test_claude_a_cost_that_is_guessed_is_unknown(changes, trusts_cost):
    report = read_claude_events(json.dumps({**RESULT, **changes}), trusts_cost=trusts_cost)
    assert report.usage.cost_usd is None


def test_claude_without_a_table_of_models_the_main_loop_is_counted():
    report = read_claude_events(json.dumps({**RESULT, "modelUsage": None}))
    assert (report.usage.input_tokens, report.usage.cached_tokens) == (3, 2)


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"is_error": True, "result": "API Error: 529"}, "API Error: 529"),
        ({"subtype": "error_max_turns", "result": None}, "error_max_turns"),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "a: b"),
    ],
)
def test_claude_success_that_is_an_error_is_a_failure(changes, failure):
    report = read_claude_events(json.dumps({**RESULT, **changes}))
    assert not report.ended_well
    assert failure in report.failure
    assert report.answer == ""


def test_claude_structured_output_is_the_answer():
    report = read_claude_events(json.dumps({**RESULT, "structured_output": {"a": [1]}}))
    assert json.loads(report.answer) == {"a": [1]}


def test_given_prices_take_the_place_of_a_cost_and_no_tokens_cost_nothing_known():
    prices = Prices(input_usd_per_mtok=1, output_usd_per_mtok=10, cached_input_usd_per_mtok=0)
    report = read_codex_events(lines(message("4"), DONE)).priced(prices)
    assert report.usage.cost_usd == pytest.approx((400 + 500) / 1e6)
    silent = read_codex_events(lines(message("4"), {"type": "turn.completed"})).priced(prices)
    assert silent.usage.cost_usd is None


@pytest.mark.parametrize(
    ("words", "kind", "move"),
    [
        ("Prompt is too long", ContextOverflow, "Shorten"),
        ("ran out of room in the model's context window", ContextOverflow, "Shorten"),
        ("You've hit your usage limit.", ModelRefused, "used up"),
        ("billing_error", ModelRefused, "used up"),
        ("401 Unauthorized", ModelRefused, "Sign in"),
        ("Not logged in · Please run /login", ModelRefused, "Sign in"),
        ("The model `x` does not exist", ModelRefused, "model's name"),
        ("error: unexpected argument '--ephemeral' found", ModelRefused, "update it"),
        ("panicked at src/main.rs:401", ExecFault, ""),
        ("error_max_budget_usd", ReplyInvalid, "raise max_budget_usd"),
        ("at capacity", ExecFault, ""),
        ("rate limit reached", ExecFault, ""),
        ("stream disconnected", ExecFault, ""),
        ("", ExecFault, "it said nothing"),
    ],
)
def test_words_tell_what_may_be_tried_again(words, kind, move):
    fault = fault_of_words(words, "codex", "exit code 1")
    assert type(fault) is kind
    assert move in str(fault)


REFUSED = {
    "model's name": [
        'API Error: 404 {"type":"error","error":{"type":"not_found_error","message":"model: m-9"}}',
        "unexpected status 404 Not Found: , url: https://api.example.com/v1/responses",
        "status 404: There's an issue with the selected model (m-9). It may not exist or you may "
        "not have access to it. Run --model to pick a different model.",
        "The 'm-9' model is not supported when using Codex with a ChatGPT account.",
        'http 404: {"error":{"code":"DeploymentNotFound","message":"The API deployment for this '
        'resource does not exist."}}',
        "404 models/m-9 is not found for API version v1beta",
        "No endpoints found for m-9.",
        "400 m-9 is not a valid model ID",
        'model "m-9" not found, try pulling it first',
        '{"error": {"code": 404, "message": "Requested entity was not found."}}',
        "403 Forbidden: Project proj_x does not have access to model m-9: model_not_found",
        "Unknown model: m-9",
        "Model m-9 is not available in your region.",
        "HTTP/1.1 404 Not Found",
        "The model `m-9` doesn't exist or you do not have access to it.",
    ],
    "Sign in": [
        'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":'
        '"invalid x-api-key"}}',
        "Incorrect API key provided: sk-***.",
        "403 Forbidden",
        'API Error: 403 {"error":{"type":"permission_error","message":"Your account does not have '
        'permission to use Claude Code"}}',
        "OAuth token has expired. Please obtain a new token or refresh your existing token.",
        "Your access token could not be refreshed because it was revoked. Run codex login again.",
        "error code: 401 - missing bearer",
        "This organization has been disabled.",
        "status code: 403, unsupported_country_region_territory",
    ],
    "used up": [
        "Credit balance is too low",
        'API Error: 400 {"error":{"message":"Your credit balance is too low to access the API."}}',
        "429 You exceeded your current quota, please check your plan and billing details.",
        '{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}',
        "402 Payment Required",
        "error 402: This request requires more credits",
        "You've hit your usage limit. Upgrade to Pro, or try again in 43 minutes.",
        "Claude AI usage limit reached|1760000000",
        "Monthly spend limit reached",
        "Insufficient balance",
    ],
}
TRIED_AGAIN = [
    "429 Too Many Requests",
    'API Error: 429 {"error":{"type":"rate_limit_error","message":"This request would exceed the '
    'rate limit for your organization of 30,000 input tokens per minute."}}',
    "Rate limit reached for m-1 on tokens per min (TPM): Limit 10000. Please try again in 6ms. You "
    "can increase your rate limit at https://platform.example.com/account/billing.",
    "429 RESOURCE_EXHAUSTED: You exceeded your current quota, please check your plan and billing "
    "details. Please retry in 32.5s.",
    'API Error: 529 {"error":{"type":"overloaded_error","message":"Overloaded"}}',
    "unexpected status 503 Service Unavailable",
    "API Error: 500 Internal server error",
    "error sending request: connection reset by peer",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "502 Bad Gateway",
    "model.py: file not found",
    "wrote 404 lines",
    "panicked at src/main.rs:404",
    "Request timed out.",
    "The model m-1 is temporarily not available. Please try again later.",
    "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "thread 'main' panicked: invalid token at line 3",
]


@pytest.mark.parametrize(
    ("move", "words"), [(move, words) for move, many in REFUSED.items() for words in many]
)
def test_what_no_repetition_mends_is_refused_with_the_next_move(move, words):
    fault = fault_of_words(words, "claude", "exit code 1")
    assert type(fault) is ModelRefused
    assert move in str(fault)


@pytest.mark.parametrize("words", TRIED_AGAIN)
def test_what_passes_by_itself_is_tried_again(words):
    assert type(fault_of_words(words, "claude", "exit code 1")) is ExecFault


def test_a_404_that_claude_reports_is_a_refusal():
    event = {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 404}
    report = read_claude_events(lines(event))
    assert report.is_whole
    assert type(fault_of_report(report, Output(1, "", "", 0.0), "claude")) is ModelRefused


@pytest.mark.parametrize(
    ("events", "is_whole"),
    [
        ([{"type": "turn.completed"}], True),
        ([{"type": "turn.failed", "error": {"message": "no"}}], True),
        ([message("4")], False),
        ([{"type": "error", "message": "Reconnecting"}], False),
        ([{"type": "turn.completed"}, {"type": "turn.started"}], False),
    ],
)
def test_codex_a_turn_is_whole_once_its_end_is_printed(events, is_whole):
    assert read_codex_events(lines({"type": "turn.started"}, *events)).is_whole is is_whole


def test_claude_a_run_is_whole_once_its_result_is_printed():
    result = json.dumps({"type": "result", "subtype": "success", "result": "4"})
    assert not read_claude_events(lines({"type": "system", "subtype": "init"})).is_whole
    assert not read_claude_events(result[:-1]).is_whole
    assert read_claude_events(result).is_whole


def test_a_long_complaint_is_cut():
    assert len(str(fault_of_words("x" * 9999, "codex", "exit code 1"))) < 500


@pytest.mark.parametrize(
    ("report", "printed", "words"),
    [
        (ExecReport(ended_well=True), "", "how a plan that is used up looks"),
        (ExecReport(failure="at capacity"), "", "exit code 0): at capacity"),
        (ExecReport(), '{"half', "its report breaks off"),
        # What the agent printed is no word of the program's own.
        (ExecReport(), '{"output": "You have hit your usage limit"}', "it said nothing"),
    ],
)
def test_an_exit_code_of_0_is_no_success(report, printed, words):
    fault = fault_of_report(report, Output(0, printed, "", 0.0), "codex")
    assert isinstance(fault, ExecFault)
    assert words in str(fault)


def test_an_exit_code_of_1_behind_a_completed_turn_is_no_failure():
    report = ExecReport(answer="4", ended_well=True)
    assert fault_of_report(report, Output(1, "", "network noise", 0.0), "codex") is None


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_a_line_break_of_another_kind_inside_an_answer_ends_no_line(mark):
    said = f"two{mark}lines"
    tokens = {"m": {"inputTokens": 1, "outputTokens": 1}}
    event = {"type": "result", "subtype": "success", "result": said, "modelUsage": tokens}
    line = json.dumps(event, ensure_ascii=False) + "\n"
    assert read_claude_events(line).answer == said
    item = {"type": "agent_message", "text": said}
    line = json.dumps({"type": "item.completed", "item": item}, ensure_ascii=False) + "\n"
    assert read_codex_events(line).answer == said
    assert Output(0, line, "", 0.0).tail == ""
