"""A dead endpoint, and one that is slow now and then."""

import asyncio
import json

import pytest

from mock_openai import error, raw, status
from skillwright.core import Purpose
from skillwright.models import EndpointDown, EndpointFault
from skillwright.models.http.retry import LEAST_FAILURES, Circuit, Retry

HELLO = [{"role": "user", "content": "hello"}]


def ask(chat):
    return chat.complete(HELLO, purpose=Purpose.ROLLOUT)


def dead(clock, failures=LEAST_FAILURES, max_attempts=6):
    circuit = Circuit("http://a/v1", clock, wall_clock=lambda: 43_200.0)
    for _ in range(failures):
        circuit.failed(EndpointFault("http://a/v1 refused the connection."))
    circuit.gave_up(max_attempts)
    return circuit


def test_a_dead_endpoint_is_named_with_the_cause_since_when_and_the_next_probe(clock):
    with pytest.raises(EndpointDown) as caught:
        dead(clock).enter()
    said = str(caught.value)
    assert "since 12:00:00 UTC" in said
    assert f"{LEAST_FAILURES} attempts in a row" in said
    assert "refused the connection" in said
    assert "in 5 s" in said
    assert caught.value.failed_calls == 0


@pytest.mark.parametrize(("failures", "max_attempts"), [(LEAST_FAILURES - 1, 1), (19, 20)])
def test_few_failures_are_not_death(clock, failures, max_attempts):
    dead(clock, failures, max_attempts).enter()


def test_an_answer_to_anybody_starts_the_count_again(clock):
    circuit = Circuit("http://a/v1", clock)
    for _ in range(3):
        for _ in range(LEAST_FAILURES - 1):
            circuit.failed(EndpointFault("down"))
        circuit.answered()
    circuit.gave_up(1)
    assert not circuit.is_open


def test_one_probe_is_let_through_and_an_answer_closes_the_circuit(clock):
    circuit = dead(clock)
    clock.now = 5
    circuit.enter()
    with pytest.raises(EndpointDown, match="again now"):
        circuit.enter()
    circuit.answered()
    circuit.enter()


def test_a_failed_probe_doubles_the_time_to_the_next_up_to_a_minute(clock):
    circuit = dead(clock)
    waits = []
    for _ in range(6):
        before = clock.now
        while True:
            try:
                is_probe = circuit.enter()
                break
            except EndpointDown:
                clock.now += 1
        waits.append(clock.now - before)
        circuit.failed(EndpointFault("still down"), is_probe=is_probe)
    assert waits == [5, 10, 20, 40, 60, 60]


def test_a_cancelled_probe_lets_the_next_one_try(clock):
    circuit = dead(clock)
    clock.now = 5
    circuit.abandoned(is_probe=circuit.enter())
    assert circuit.enter()


def test_what_was_sent_before_it_opened_lets_no_second_probe_in(clock):
    circuit = dead(clock)
    clock.now = 5
    circuit.enter()
    circuit.abandoned()
    circuit.failed(EndpointFault("late"))
    with pytest.raises(EndpointDown):
        circuit.enter()


def test_death_and_recovery_are_said_once_each(clock, caplog):
    circuit = dead(clock)
    for _ in range(3):
        circuit.gave_up(6)
    assert [record.getMessage()[:22] for record in caplog.records] == ["http://a/v1 is taken t"]
    clock.now = 25
    for _ in range(2):
        circuit.answered()
    assert caplog.records[-1].getMessage() == "http://a/v1 answers again, after 25 s."
    assert len(caplog.records) == 2


def returns_at(server, clock, seconds):
    """Let the server be dead until then."""

    async def handler(body):
        del body
        return error(503, "restarting") if clock.now < seconds else "ok"

    server.handler = handler


@pytest.mark.parametrize("outage_s", [1, 12, 25, 300])
async def test_an_outage_costs_a_call_time_and_nothing_else(
    make_chat, mock_openai, clock, outage_s
):
    returns_at(mock_openai, clock, outage_s)
    assert (await ask(make_chat())).text == "ok"
    assert clock.now < 2 * outage_s + 10


class Together:
    """A clock for several who wait at once: it continues when nothing else is left to do."""

    def __init__(self):
        self.now = 0.0
        self._waiting = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._waiting.append((self.now + seconds, len(self._waiting), woken))
        await woken

    async def run(self, *works):
        tasks = [asyncio.ensure_future(work) for work in works]
        while not all(task.done() for task in tasks):
            for _ in range(10):
                await asyncio.sleep(0)
            if self._waiting:
                first = min(self._waiting)
                self._waiting.remove(first)
                self.now = first[0]
                first[2].set_result(None)
        return [task.exception() or task.result() for task in tasks]


class Line:
    """An endpoint that is dead for a while, and takes a tenth of a second to say anything."""

    def __init__(self, until_s, **settings):
        self.clock = Together()
        self.sent = 0
        self._until_s = until_s
        self._circuit = Circuit("http://a/v1", self.clock)
        self._retry = Retry(
            circuit=self._circuit, sleep=self.clock.sleep, clock=self.clock, **settings
        )

    async def _attempt(self, timeout_s):
        del timeout_s
        is_probe = self._circuit.enter()
        self.sent += 1
        await self.clock.sleep(0.1)
        if self.clock.now < self._until_s:
            fault = EndpointFault("restarting")
            self._circuit.failed(fault, is_probe=is_probe)
            raise fault
        self._circuit.answered()
        return "ok"

    async def ask(self):
        return (await self._retry.call(self._attempt))[0]


@pytest.mark.parametrize("outage_s", [1, 12, 25, 300])
async def test_an_outage_loses_none_of_many_calls_and_is_asked_for_little(outage_s):
    line = Line(outage_s)
    answers = await line.clock.run(*(line.ask() for _ in range(64)))
    assert set(answers) == {"ok"}
    assert line.clock.now < 2 * outage_s + 10
    assert line.sent <= 64 * 6 + 8 + 64  # their attempts, the probes, and the answers


async def test_a_line_that_stays_dead_is_given_up_by_all_within_a_deadline():
    line = Line(float("inf"), deadline_s=120.0)
    ended = await line.clock.run(*(line.ask() for _ in range(64)))
    assert {type(error) for error in ended} <= {EndpointDown, EndpointFault}
    assert 60 < line.clock.now < 121
    # Those who ask again are not kept waiting for another one.
    before = line.clock.now
    ended = await line.clock.run(*(line.ask() for _ in range(64)))
    assert {type(error) for error in ended} <= {EndpointDown, EndpointFault}
    assert line.clock.now < before + 61


async def test_a_server_that_stays_dead_is_waited_for_until_one_deadline_and_no_longer(
    make_chat, mock_openai, clock
):
    returns_at(mock_openai, clock, float("inf"))
    chat = make_chat(deadline_s=300)
    with pytest.raises((EndpointFault, EndpointDown)) as caught:
        await ask(chat)
    assert 200 < clock.now < 300
    assert caught.value.failed_calls == len(mock_openai.bodies)
    for _ in range(20):
        with pytest.raises((EndpointFault, EndpointDown), match=r"down|restarting"):
            await ask(chat)
    assert clock.now < 330  # as nobody waits any more, what asks again ends soon
    clock.now += 60
    mock_openai.handler = None
    returns_at(mock_openai, clock, 0)
    assert (await ask(chat)).text == "ok"


async def test_a_server_that_came_back_is_asked_again(make_chat, mock_openai, clock):
    chat = make_chat()
    mock_openai.next(*[status(500)] * 12)
    assert (await ask(chat)).text == "ok"
    assert not chat._circuit.is_open
    assert clock.now > 5


async def test_one_model_of_a_gateway_may_be_dead_while_another_answers(make_chat, mock_openai):
    async def handler(body):
        return error(503, "no such backend") if body["model"] == "bad" else "ok"

    mock_openai.handler = handler
    bad, good = make_chat(model="bad"), make_chat(model="good")
    with pytest.raises((EndpointFault, EndpointDown)):
        await ask(bad)
    assert bad._circuit.is_open
    assert (await ask(good)).text == "ok"
    assert bad._traffic is good._traffic  # what is admitted at once they share
    assert bad._circuit.is_open


@pytest.mark.parametrize("code", [429, "429"])
async def test_a_rate_limit_inside_a_success_is_no_death_either(make_chat, mock_openai, code):
    limited = raw(json.dumps({"error": {"message": "Rate limited", "code": code}}).encode())
    chat = make_chat()
    mock_openai.next(*[limited] * 12)
    for _ in range(2):
        with pytest.raises(EndpointFault, match="after 6 attempts"):
            await ask(chat)
    assert not chat._circuit.is_open
    assert chat._traffic.limiter.limit < 16


async def test_a_rate_limit_is_no_death(make_chat, mock_openai):
    chat = make_chat()
    mock_openai.next(*[status(429)] * 18)
    for _ in range(3):
        with pytest.raises(EndpointFault):
            await ask(chat)
    assert (await ask(chat)).text == "ok"
