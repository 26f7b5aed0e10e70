"""Web pages with status 200, empty bodies, and the comments that servers send while they work."""

import json

import pytest

from mock_openai import completion, raw
from skillwright.core import ModelRefused, Purpose
from skillwright.models import EndpointFault, HttpClient

HELLO = [{"role": "user", "content": "hello"}]
ANSWER = json.dumps(completion("fine")).encode()
EVENT = {"choices": [{"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}]}

NO_ANSWERS = {
    "a page": raw(b"<html><h1>Bad gateway</h1></html>", "text/html"),
    "a page with a character set": raw(b"<!DOCTYPE html><p>Loading", "text/html; charset=utf-8"),
    "a page that is called JSON": raw(b"\n <!doctype HTML><html></html>", "application/json"),
    "a page that is called text": raw(b"\xef\xbb\xbf<HTML lang=en>", "text/plain"),
    "an empty body": raw(b""),
    "an empty page": raw(b"", "text/html"),
    "blank lines": raw(b"\n\n"),
    "a comment alone": raw(b": PROCESSING\n\n"),
    "a text": raw(b"upstream connect error", "text/plain"),
    "half of an answer": raw(ANSWER[:40]),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
async def test_one_reply_without_json_after_good_answers_is_retried(
    mock_openai, make_chat, clock, kind
):
    chat = make_chat()
    await chat.complete(HELLO, purpose=Purpose.CHECK)
    mock_openai.next(NO_ANSWERS[kind])
    answer = await chat.complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls, len(clock.waits)) == ("ok", 1, 1)


async def test_pages_that_persist_are_a_fault_that_says_so(mock_openai, make_chat):
    chat = make_chat(max_attempts=3)
    await chat.complete(HELLO, purpose=Purpose.CHECK)
    mock_openai.next(*[NO_ANSWERS["a page"]] * 3)
    with pytest.raises(
        EndpointFault, match=r"web page, not JSON\. It answered before.*Gave up after 3 attempts"
    ) as caught:
        await chat.complete(HELLO, purpose=Purpose.CHECK)
    assert (caught.value.failed_calls, caught.value.is_busy) == (3, True)


async def test_a_page_is_retried_for_every_model_of_an_endpoint_that_answered(
    mock_openai, make_chat
):
    await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    mock_openai.next(NO_ANSWERS["a page"])
    answer = await make_chat(model="other").complete(HELLO, purpose=Purpose.CHECK)
    assert answer.usage.failed_calls == 1


@pytest.mark.parametrize("kind", ["a page", "a page that is called JSON"])
async def test_a_page_as_the_first_answer_is_a_wrong_address(mock_openai, make_chat, clock, kind):
    mock_openai.next(NO_ANSWERS[kind])
    with pytest.raises(ModelRefused, match="Check base_url"):
        await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    assert clock.waits == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\n\n : OPENROUTER PROCESSING\n\n" + ANSWER, "application/json"),
        (b": PROCESSING\n" + ANSWER, "application/json"),
        (b": PROCESSING\r\n\r\n: PROCESSING\r\n\r\n" + ANSWER, "application/json"),
        (b":\n:\n" + ANSWER, "text/plain"),
        (b"\xef\xbb\xbf: keep-alive\n\n" + ANSWER, "application/json"),
        (b": keep-alive\n\n\xef\xbb\xbf" + ANSWER, "application/json"),
        (b"event: ping\ndata:\n\n" + ANSWER, "application/json"),
        (b"retry: 3000\nid: 7\n\n \t\n" + ANSWER, "application/json"),
        (b": OPENROUTER PROCESSING\n\n" * 2_000 + ANSWER, "application/json"),
        (b": PROCESSING\n\n" + ANSWER, "text/event-stream"),
        (b": PROCESSING\n\ndata: " + json.dumps(EVENT).encode() + b"\n\n", "application/json"),
        (b"data: " + json.dumps(EVENT).encode() + b"\n\ndata: [DONE]\n\n", "text/plain"),
    ],
)
async def test_comments_and_marks_before_an_answer_are_skipped(mock_openai, make_chat, body, kind):
    mock_openai.next(raw(body, kind))
    answer = await make_chat(max_attempts=1).complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls) == ("fine", 0)


async def test_an_error_behind_comments_is_the_error_that_it_is(mock_openai, make_chat):
    error = {"error": {"message": "no such model", "code": 404}}
    mock_openai.next(raw(b": PROCESSING\n\n" + json.dumps(error).encode()))
    with pytest.raises(ModelRefused, match=r"404.*no such model"):
        await make_chat().complete(HELLO, purpose=Purpose.CHECK)


async def test_many_blank_lines_are_read_in_time(mock_openai, make_chat):
    mock_openai.next(raw(b" \n:\n" * 500_000 + ANSWER))
    async with HttpClient():
        answer = await make_chat(max_attempts=1).complete(HELLO, purpose=Purpose.CHECK)
    assert answer.text == "fine"
