"""The line to a user's server: every way in which it can fail, and what becomes of the episode."""

import asyncio
import json
import subprocess
import sys
import textwrap

import pytest

from mock_openai import (
    MockOpenAI,
    completion,
    empty_choices,
    hold,
    raw,
    replies,
    reset,
    status,
    truncated,
)
from skillwright.core import (
    Act,
    EnvError,
    EpisodeSpec,
    FailureCause,
    ModelRefused,
    PlainSkill,
    Task,
    Usage,
    UsageError,
)
from skillwright.core.concurrency import together
from skillwright.models import HttpClient
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.tau_bench import STOP, TauBenchEnv, UserSetting
from skillwright.worlds.tau_bench.env import SILENCE
from skillwright.worlds.tau_bench.user_model import ModelUser, open_model, user_endpoint
from tau_store import OPENING, write_store

FREE = 2  # an empty conversation is worth 1.0 in this task
OVERFLOW = status(400, "too long", code="context_length_exceeded")
NO_TEXT = raw(json.dumps(completion(None)).encode())
TOOLS_ONLY = raw(
    json.dumps(
        completion(None, tool_calls=[{"id": "1", "function": {"name": "x", "arguments": "{}"}}])
    ).encode()
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    async with MockOpenAI() as server:
        yield server


@pytest.fixture
async def client():
    async with HttpClient() as client:
        yield client


async def at_once(seconds):
    await asyncio.sleep(0)


def make_env(shop, server, *, extras=None, **settings):
    settings = {"data_dir": str(shop), "user_simulator_endpoint": server.base_url, **settings}
    return TauBenchEnv(settings, {"task_index": FREE, **(extras or {})})


def patient_env(shop, server, client, **settings):
    """Build an episode whose user waits for nothing between its attempts."""
    env = make_env(shop, server, **settings)
    model = open_model(user_endpoint(env.config), client, at_once)
    env.user_sim = ModelUser(UserSetting(env.config, "test", FREE, seed=1), model)
    return env


async def ends_unpaid(env, reason):
    """Open an episode in vain; return the message of the fault."""
    with pytest.raises(EnvError, match=rf"simulated user of task 2 \({reason}\)") as raised:
        await env.ainit([])
    metrics = env.get_metrics()
    assert (metrics["user_sim_error"], metrics["reward"], metrics["success"]) == (1, 0, 0)
    return str(raised.value)


PASSING = {
    "reset": reset(),
    "half an answer": truncated(),
    "408": status(408),
    "429": status(429),
    "500": status(500),
    "503": status(503),
}


@pytest.mark.parametrize("name", PASSING)
async def test_what_passes_is_tried_again(shop, server, client, name):  # U1
    env = patient_env(shop, server, client, user_retries=2)
    server.next(PASSING[name], PASSING[name])
    assert (await env.ainit([]))[0][1]["content"] == "ok"
    assert len(server.bodies) == 3
    assert env.get_metrics()["user_calls"] == 3


@pytest.mark.parametrize("name", PASSING)
async def test_what_does_not_pass_is_given_up_and_never_paid(shop, server, client, name):  # U1, U7
    env = patient_env(shop, server, client, user_retries=2)
    server.handler = replies(OPENING)
    server.next(*[PASSING[name]] * 3)
    message = await ends_unpaid(env, "unreachable")
    assert "3 attempts" in message
    assert len(server.bodies) == 3
    env = patient_env(shop, server, client, user_retries=2)
    await env.ainit([])
    server.next(*[PASSING[name]] * 3)
    with pytest.raises(EnvError):
        await env.astep("Bye")
    assert env.get_metrics()["reward"] == 0


async def test_a_server_that_never_answers_is_given_up_at_the_deadline(shop, server, client):  # U1
    never = asyncio.Event()
    server.next(hold(never), hold(never))
    env = patient_env(shop, server, client, user_deadline_s=0.05, request_timeout=120)
    await ends_unpaid(env, "timeout")
    never.set()


async def test_a_dead_server_is_no_pass_for_a_trainer_either(shop, client):  # U7
    async with MockOpenAI() as gone:
        pass
    env = patient_env(shop, gone, client, user_retries=1)
    with pytest.raises(EnvError, match="refused the connection"):
        await env.ainit([])
    env = make_env(shop, gone, user_retries=0)
    messages, _ = await asyncio.to_thread(env.init, [])
    assert messages[1]["content"] == SILENCE
    output = env.step("Bye")
    assert (output["done"], output["reward"], output["observations"]) == (True, 0.0, [])
    assert output["metadata"]["infra_error"] is True
    assert output["metadata"]["infra_reason"] == "unreachable"
    assert env.get_metrics()["user_sim_error"] == 1


async def test_a_conversation_that_is_too_long_is_not_sent_again(shop, server, client):  # U2
    server.next(OVERFLOW)
    await ends_unpaid(patient_env(shop, server, client), "context")
    assert len(server.bodies) == 1
    env = make_env(shop, server)
    await asyncio.to_thread(env.init, [])
    server.next(OVERFLOW)
    output = await asyncio.to_thread(env.step, "Bye")
    assert (output["reward"], output["metadata"]["infra_reason"]) == (0.0, "context")


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
async def test_a_refusal_of_everything_stops_the_run(shop, server, client, code):  # U3
    server.next(status(code, "not here"), status(code, "not here"))
    told = rf"{server.base_url}/chat/completions answered {code} to model 'Qwen"
    with pytest.raises(ModelRefused, match=told):
        await patient_env(shop, server, client).ainit([])
    with pytest.raises(ModelRefused, match=told):
        await asyncio.to_thread(make_env(shop, server).init, [])
    assert len(server.bodies) == 2


async def test_a_wrong_key_is_told_by_the_name_of_its_variable(shop, server, monkeypatch):  # U3
    monkeypatch.setenv("CUSTOMER_KEY", "sk-other")
    with pytest.raises(ModelRefused, match="CUSTOMER_KEY") as raised:
        await make_env(shop, server, user_api_key_env="CUSTOMER_KEY").ainit([])
    assert "sk-other" not in str(raised.value)


async def test_a_missing_key_is_told_before_anything_is_sent(shop, server, monkeypatch):
    monkeypatch.delenv("CUSTOMER_KEY", raising=False)
    settings = {"server": "openai"}
    env = make_env(shop, server, user_api_key_env="CUSTOMER_KEY", user_settings=settings)
    with pytest.raises(UsageError, match="CUSTOMER_KEY"):
        await env.ainit([])
    assert server.bodies == []


GARBLED = {
    "broken JSON": (raw(b"{no"), "unreachable"),
    "no choices": (empty_choices(), "unreachable"),
    "null": (NO_TEXT, "reply"),
    "tool calls only": (TOOLS_ONLY, "reply"),
    "blank": (raw(json.dumps(completion(" \n")).encode()), "reply"),
    "all thought": (raw(json.dumps(completion("<think>a</think>")).encode()), "reply"),
}


@pytest.mark.parametrize("name", GARBLED)
async def test_what_is_no_reply_is_asked_for_again_once(shop, server, client, name):  # U4, U5, U6
    fault, reason = GARBLED[name]
    env = patient_env(shop, server, client, user_retries=5)
    server.next(fault)
    await env.ainit([])
    assert len(server.bodies) == 2
    server.next(fault, fault)
    with pytest.raises(EnvError, match=reason):
        await env.astep("Bye")
    assert len(server.bodies) == 4


async def test_one_who_hangs_up_at_once_is_rung_a_second_time(shop, server, client):  # U8
    server.handler = replies(STOP, OPENING)
    env = patient_env(shop, server, client)
    assert (await env.ainit([]))[0][1]["content"] == OPENING
    first, second = server.bodies
    assert first["messages"] == second["messages"]
    assert first["seed"] != second["seed"]
    server.handler = replies(STOP, f"{STOP} Hi", OPENING)
    await ends_unpaid(patient_env(shop, server, client), "reply")


async def test_what_is_sent_is_what_the_settings_say(shop, server):
    settings = {"user_simulator_model": "m", "user_sim_max_tokens": 9, "user_sim_temperature": 0.5}
    await make_env(shop, server, extras={"seed": 7}, **settings).ainit([])
    await make_env(shop, server, user_settings={"temperature": None, "top_p": 0.9}).ainit([])
    first, second = server.bodies
    assert (first["model"], first["max_tokens"], first["temperature"]) == ("m", 9, 0.5)
    assert isinstance(first["seed"], int)
    assert second["top_p"] == 0.9
    assert not {"seed", "temperature"} & second.keys()


async def test_users_on_one_loop_share_one_pool(shop, server):  # U10
    everybody = asyncio.Event()
    server.next(*[hold(everybody)] * 40)
    envs = [make_env(shop, server) for _ in range(40)]
    playing = asyncio.create_task(together(env.ainit([]) for env in envs))
    await server.until(lambda one: one.in_flight == 40)
    everybody.set()
    await playing
    connections = len(server.connections)
    await together(env.astep("Bye") for env in envs)
    assert len(server.connections) == connections == 40


async def test_threads_share_one_pool_too(shop, server):  # U10
    everybody = asyncio.Event()
    server.next(*[hold(everybody)] * 4)
    envs = [make_env(shop, server) for _ in range(4)]
    playing = asyncio.create_task(together(asyncio.to_thread(env.init, []) for env in envs))
    await server.until(lambda one: one.in_flight == 4)
    everybody.set()
    await playing
    connections = len(server.connections)
    for env in envs:
        await asyncio.to_thread(env.step, "Bye")
    assert len(server.connections) == connections == 4


async def test_calls_tokens_and_time_are_counted(shop, server, client):  # U12
    server.handler = replies("Hi there", STOP)
    env = patient_env(shop, server, client)
    await env.ainit([])
    output = await env.astep("Bye")
    assert output["reward"] == 1.0
    spent = output["metadata"]["user_simulator"]["usage"]
    counts = {"calls": 1, "input_tokens": 10, "output_tokens": 1, "failed_calls": 0}
    assert spent == {**counts, "cost_usd": None}  # an unknown price is not zero
    metrics = env.get_metrics()
    assert (metrics["user_calls"], metrics["user_tokens"]) == (2, 23)
    assert metrics["user_time_s"] > 0
    assert env.get_usage()["user"] == Usage(2, 20, 3, cost_usd=None)


class Polite:
    """Says goodbye, whatever happens."""

    identity = "polite"

    async def act_batch(self, contexts):
        return [Act("Goodbye")] * len(contexts)


async def played(shop, server, **settings):
    engine = LocalEngine(
        Polite(),
        lambda task: make_env(shop, server, extras=task.extras, **settings),
        limits=Limits(retries=0),
    )
    specs = [EpisodeSpec(Task(str(seed), "tau_bench"), seed) for seed in range(3)]
    return await engine.run(specs, PlainSkill(""))


async def test_our_engine_counts_the_user_of_each_episode(shop, server):
    async def customer(body):
        return OPENING if len(body["messages"]) == 2 else STOP

    server.handler = customer
    results = await played(shop, server)
    assert [result.reward for result in results] == [1.0] * 3
    assert [result.side_usage["user"].calls for result in results] == [2] * 3
    assert len({body["seed"] for body in server.bodies}) == 6


async def test_our_engine_makes_failures_of_a_dead_server(shop):
    async with MockOpenAI() as gone:
        pass
    results = await played(shop, gone, user_retries=0)
    assert [result.reward for result in results] == [None] * 3
    assert {result.failure.cause for result in results} == {FailureCause.USER}
    assert [result.side_usage["user"].failed_calls for result in results] == [1] * 3


SCRIPT = """
    import sys, warnings
    warnings.simplefilter("error")
    from skillwright.worlds.tau_bench import TauBenchEnv
    folder, endpoint = sys.argv[1:]
    env = TauBenchEnv(
        {"data_dir": folder, "user_simulator_endpoint": endpoint}, {"task_index": 2}
    )
    print(env.init([])[0][1]["content"], env.step("Bye")["observations"][0]["content"])
"""


async def test_a_trainer_process_ends_without_a_stray_connection(shop, server):
    run = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(shop), server.base_url]
    ended = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("ok ok\n", "")
