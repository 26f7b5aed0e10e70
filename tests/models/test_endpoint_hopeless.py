"""An endpoint that answers nobody for good, whatever it says meanwhile, is given up."""

import pytest

from mock_openai import raw, reset, status
from skillwright.core import Purpose
from skillwright.models import EndpointDown, EndpointFault
from skillwright.models.http.retry import LEAST_FAILURES, Circuit, Retry

HELLO = [{"role": "user", "content": "hello"}]


def ask(chat):
    return chat.complete(HELLO, purpose=Purpose.ROLLOUT)


ALWAYS = {
    "500": status(500),
    "500, come back": status(500, retry_after="60"),
    "503, come back": status(503, retry_after="60"),
    "429": status(429),
    "429, come back": status(429, retry_after="60"),
    "no answer in it": raw(b"{}"),
    "a reset": reset(),
}


@pytest.mark.parametrize("kind", ALWAYS)
async def test_an_endpoint_that_answers_nobody_is_given_up_for_good(
    make_chat, mock_openai, clock, kind
):
    mock_openai.next(*[ALWAYS[kind]] * 5_000)
    chat = make_chat(max_concurrent=1)
    ended = []
    while not (ended and isinstance(ended[-1], EndpointDown) and ended[-1].for_good):
        with pytest.raises((EndpointFault, EndpointDown)) as caught:
            await ask(chat)
        ended.append(caught.value)
        assert clock.now < 1_300  # twice deadline_s, and a pause that was asked for
    assert clock.now >= 500
    assert "nothing was answered since" in str(ended[-1])
    before = clock.now
    for _ in range(100):
        with pytest.raises((EndpointFault, EndpointDown)):
            await ask(chat)
    assert clock.now - before < 200  # whoever asks again is not kept waiting
    mock_openai.heal()
    clock.now += 60
    assert (await ask(chat)).text == "ok"


async def test_a_success_now_and_then_keeps_an_endpoint_alive(make_chat, mock_openai, clock):
    chat = make_chat(max_concurrent=1)
    for _ in range(20):
        mock_openai.next(*[status(429, retry_after="60")] * 5)
        assert (await ask(chat)).text == "ok"
    assert clock.now > 5_000


async def test_a_failure_long_ago_is_not_counted_with_one_of_now(make_chat, mock_openai, clock):
    chat = make_chat()
    mock_openai.next(*[status(429)] * 6)
    with pytest.raises(EndpointFault, match="after 6 attempts"):
        await ask(chat)
    clock.now += 3_600
    mock_openai.next(status(429))
    assert (await ask(chat)).text == "ok"


@pytest.mark.parametrize(("down_s", "for_good"), [(3, False), (300, False), (599, True)])
async def test_only_an_endpoint_that_was_down_for_a_deadline_is_down_for_good(
    clock, down_s, for_good
):
    circuit = Circuit("http://a/v1", clock)

    async def late(timeout_s):
        clock.now = 599 - down_s  # the call was under way before others found it down
        for _ in range(LEAST_FAILURES):
            circuit.failed(EndpointFault("refused"))
        circuit.gave_up(6)
        clock.now = 599
        raise circuit.down()

    with pytest.raises(EndpointDown) as caught:
        await Retry(circuit=circuit, clock=clock, sleep=clock.sleep).call(late)
    assert caught.value.for_good is for_good
