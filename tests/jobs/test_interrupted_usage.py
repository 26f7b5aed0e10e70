"""What interrupted episodes consumed counts: finished turns, calls in flight, and lost answers."""

import asyncio

import pytest

from mock_openai import MockOpenAI, completion, status
from skillwright.config.run import validated
from skillwright.core import Purpose
from skillwright.core.chat import INTERRUPTED
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, open_run, run_evaluation, start_run
from skillwright.models import HttpClient, OpenAIChatConfig, Prices, make_model
from tau_models import shop, tau_settings

ONCE = EvalPlan("test", 1)
HELLO = [{"role": "user", "content": "hello"}]


class Talk:
    """Answers, and holds some requests until it is let go."""

    def __init__(self, held, answer):
        self.asked = 0
        self.holds_all = asyncio.Event()
        self._held = set(held)
        self._answer = answer
        self._go = asyncio.Event()

    async def __call__(self, body):
        self.asked += 1
        if self.asked in self._held:
            self._held.remove(self.asked)
            if not self._held:
                self.holds_all.set()
            await self._go.wait()
        return completion(self._answer(body))


def reply(body):
    """Hang up at the third message of the agent."""
    said = sum(one["role"] == "assistant" for one in body["messages"])
    return "###STOP###" if said > 2 else "It is order #W1."


async def test_an_evaluation_that_was_stopped_and_resumed_reports_every_paid_call(tmp_path):
    agent, user = Talk({7, 9}, lambda body: "Which order?"), Talk({9, 10}, reply)
    async with MockOpenAI(agent, None) as agents, MockOpenAI(user, None) as users:
        settings = tau_settings(
            tmp_path,
            shop(tmp_path / "shop", count=4),
            user_strategy="llm",
            user_simulator_endpoint=users.base_url,
            user_simulator_model="u",
        )
        target = {"backend": "openai_chat", "model": "m", "base_url": agents.base_url}
        prices = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
        settings["models"]["target"] = {**target, "prices": prices}
        config = validated(settings, "here")
        with start_run(config, "", ONCE) as run:
            path = run.folder.path
            work = asyncio.create_task(run_evaluation(run, ONCE, NullCallback()))
            async with asyncio.timeout(20):
                await agent.holds_all.wait()
                await user.holds_all.wait()
            asked = agent.asked, user.asked
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            spent = run.store.usage_by_purpose()
        assert (spent["rollout"].calls, spent["user"].calls) == asked
        assert spent["rollout"].input_tokens > 0
        assert spent["rollout"].cost_usd > 0
        with open_run(path) as run:
            await run_evaluation(run, run.plan, NullCallback())
            spent = run.store.usage_by_purpose()
        assert (spent["rollout"].calls, spent["user"].calls) == (agent.asked, user.asked)


@pytest.fixture
def recorded():
    """What cancelled calls consumed, by purpose."""
    found = []
    token = INTERRUPTED.set(lambda purpose, usage: found.append((purpose, usage)))
    yield found
    INTERRUPTED.reset(token)


def model_on(server, client, **settings):
    prices = Prices(input_usd_per_mtok=1_000_000, output_usd_per_mtok=1_000_000)
    known = {"model": "m", "base_url": server.base_url, "api_key": "k", "prices": prices}
    return make_model(OpenAIChatConfig(**known, **settings), client)


async def cancelled(call):
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_in_flight_is_counted_by_an_estimate(recorded):
    talk = Talk({2}, lambda body: "three short words")
    async with MockOpenAI(talk, None) as server, HttpClient() as client:
        chat = model_on(server, client)
        await chat.complete(HELLO, purpose=Purpose.ROLLOUT)
        assert recorded == []
        call = asyncio.create_task(chat.complete(HELLO, purpose=Purpose.USER))
        await server.until(lambda one: one.in_flight == 1)
        await cancelled(call)
    ((purpose, usage),) = recorded
    assert (purpose, usage.calls, usage.failed_calls, usage.output_tokens) == ("user", 1, 0, 3)
    assert 10 < usage.input_tokens < 40
    assert usage.cost_usd == usage.input_tokens + usage.output_tokens


async def test_failed_attempts_before_it_count_too(recorded):
    talk = Talk({1}, lambda body: "ok")
    async with MockOpenAI(talk, None) as server, HttpClient() as client:
        server.next(status(500), status(500))
        call = asyncio.create_task(model_on(server, client).complete(HELLO, purpose=Purpose.RANK))
        await talk.holds_all.wait()
        await cancelled(call)
    ((purpose, usage),) = recorded
    assert (purpose, usage.calls, usage.failed_calls) == ("rank", 1, 2)


async def test_a_call_that_waits_for_its_place_was_not_sent(recorded):
    async with MockOpenAI(Talk({1}, lambda body: "ok"), None) as server, HttpClient() as client:
        chat = model_on(server, client, max_concurrent=1)
        calls = [
            asyncio.create_task(chat.complete(HELLO, purpose=Purpose.ROLLOUT)) for _ in range(2)
        ]
        await server.until(lambda one: one.in_flight == 1)
        for call in reversed(calls):
            await cancelled(call)
    assert [usage.calls for _, usage in recorded] == [1]


async def test_without_a_run_nothing_is_recorded():
    assert INTERRUPTED.get() is None
    async with MockOpenAI(Talk({1}, lambda body: "ok"), None) as server, HttpClient() as client:
        call = asyncio.create_task(model_on(server, client).complete(HELLO, purpose=Purpose.RANK))
        await server.until(lambda one: one.in_flight == 1)
        await cancelled(call)
