"""Simulated users: the script, the registry, and what a dead one must never be."""

import asyncio
import json

import pytest

from skillwright.core import (
    Act,
    DataError,
    EnvError,
    EpisodeSpec,
    FailureCause,
    ModelError,
    ModelRefused,
    PlainSkill,
    ReplyInvalid,
    RequestRefused,
    Task,
    Usage,
)
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.tau_bench import (
    STOP,
    ScriptedUser,
    UserSimulator,
    make_user,
    register_user,
    user_strategies,
    users,
)
from skillwright.worlds.tau_bench.env import SILENCE
from tau_store import OPENING, make_env, open_env, tool_call, write_store

FREE = 2  # an empty conversation is worth 1.0 in this task
FAULTS = [ModelError("gone"), RequestRefused("too long"), ReplyInvalid("nothing said")]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


class Scripted(UserSimulator):
    """Says what it is given, and raises what is an exception; written for the loop."""

    def __init__(self, *replies):
        super().__init__()
        self.replies = list(replies)
        self.heard = []

    async def areset(self, instruction):
        return await self.astep(instruction)

    async def astep(self, content):
        await asyncio.sleep(0)
        self.heard.append(content)
        self.usage += Usage(calls=1, input_tokens=8, output_tokens=2)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Foreign:
    """A simulator from elsewhere: the blocking pair, and nothing else."""

    def __init__(self, *replies):
        self._user = ScriptedUser(replies)

    def reset(self, instruction):
        return self._user.reset(instruction)

    def step(self, content):
        return self._user.step(content)


def env_with(shop, user, **settings):
    env = make_env(shop, FREE, **settings)
    env.tau_env.user = user
    assert env.user_sim is user
    return env


def test_a_script_is_said_in_order_then_the_marker_for_ever_and_starts_again():
    user = ScriptedUser(["a", "b"])
    assert [user.reset("task"), user.step("x"), user.step("y"), user.step("z")] == [
        "a",
        "b",
        STOP,
        STOP,
    ]
    assert user.reset("task") == "a"
    assert user.usage == Usage()


async def test_the_awaiting_pair_of_a_script_says_the_same():
    user = ScriptedUser(["a"])
    assert [await user.areset("task"), await user.astep("x")] == ["a", STOP]


def test_a_script_needs_an_opening(shop):
    with pytest.raises(DataError, match="user_replies"):
        open_env(shop, replies=[])


def test_an_episode_may_have_a_user_of_its_own(shop):
    env = make_env(shop, extras={"user_replies": ["Mine."]})
    assert env.init([])[0][1]["content"] == "Mine."


def test_a_strategy_is_registered_by_name_and_given_the_episode(shop):
    register_user("test_parrot", f"{__name__}:Parrot")
    try:
        assert "test_parrot" in user_strategies()
        env = make_env(shop, FREE, user_strategy="test_parrot", extras={"seed": 7})
        assert env.init([])[0][1]["content"] == "test 2 7 0.5"
    finally:
        users._strategies.pop("test_parrot")


def Parrot(setting):
    temperature = 0.5 if setting.config.user_sim_temperature == 0.0 else None
    return ScriptedUser([f"{setting.split} {setting.task_index} {setting.seed} {temperature}"])


def test_an_unknown_strategy_names_the_nearest():
    with pytest.raises(DataError, match="Did you mean 'scripted'"):
        make_user("scriped", None)


# Waiting for users


def test_a_user_written_for_the_loop_serves_threads(shop):
    user = Scripted(OPENING, "Yes", STOP)
    env = env_with(shop, user)
    env.init([])
    assert env.step("Hi")["observations"][0]["content"] == "Yes"
    assert env.step(f"Bye {STOP}")["done"]
    assert user.heard == ["You are Ann Ash and want something.", "Hi", "Bye STOP"]
    metrics = env.get_metrics()
    assert (metrics["user_calls"], metrics["user_tokens"]) == (3, 30)


async def test_a_user_written_for_the_loop_is_awaited(shop):
    env = env_with(shop, Scripted(OPENING, STOP))
    assert (await env.ainit([]))[0][1]["content"] == OPENING
    assert (await env.astep(tool_call("think", thought="x")))["reward"] == 0.0
    assert (await env.astep("Bye"))["reward"] == 1.0


@pytest.mark.parametrize("settings", [{}, {"extras": {"max_turns": 5}}])
async def test_a_simulator_from_elsewhere_is_served_in_both_ways(shop, settings):
    env = env_with(shop, Foreign(OPENING, "Yes"), **settings)
    await env.ainit([])
    assert (await env.astep("Hi"))["observations"][0]["content"] == "Yes"
    assert env.step("Bye")["reward"] == 1.0
    assert env.get_metrics()["user_calls"] == 3
    assert env.get_metrics()["user_tokens"] == 0


# A user that fails is never a score


@pytest.mark.parametrize("fault", [*FAULTS, OSError("broken pipe"), "", "  ", None, 5])
def test_a_user_that_fails_in_a_turn_ends_a_trainers_episode_unpaid(shop, fault):
    env = env_with(shop, Scripted(OPENING, fault))
    env.init([])
    output = env.step("Bye")
    assert (output["done"], output["reward"], output["observations"]) == (True, 0.0, [])
    assert output["metadata"]["infra_error"] is True
    assert "reward_breakdown" not in output["metadata"]
    metrics = env.get_metrics()
    assert (metrics["user_sim_error"], metrics["success"], metrics["reward"]) == (1, 0, 0)
    assert env.step("Bye")["reward"] == 0.0


@pytest.mark.parametrize("fault", [*FAULTS, OSError("broken pipe"), ""])
def test_a_user_that_fails_at_the_opening_ends_the_first_turn_unpaid(shop, fault):
    env = env_with(shop, Scripted(fault))
    assert env.init([])[0][1]["content"] == SILENCE
    output = env.step("Bye")
    assert (output["done"], output["reward"]) == (True, 0.0)
    assert output["metadata"]["infra_error"] is True
    json.dumps(output)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_user_that_fails_is_a_fault_in_our_engine(shop, fault):
    env = env_with(shop, Scripted(fault))
    with pytest.raises(EnvError, match="simulated user of task 2") as raised:
        await env.ainit([])
    assert raised.value.__cause__ is fault
    env = env_with(shop, Scripted(OPENING, fault))
    await env.ainit([])
    with pytest.raises(EnvError):
        await env.astep("Bye")
    assert env.get_metrics()["user_sim_error"] == 1


class Polite:
    """Says goodbye, whatever happens."""

    identity = "polite"

    async def act_batch(self, contexts):
        return [Act("Goodbye")] * len(contexts)


async def test_the_engine_makes_a_failure_of_it_and_plays_it_again(shop):
    users = [Scripted(OPENING, ModelError("gone")), Scripted(OPENING, STOP)]
    engine = LocalEngine(Polite(), lambda task: env_with(shop, users.pop(0)))
    lone = LocalEngine(
        Polite(),
        lambda task: env_with(shop, Scripted(OPENING, ModelError("gone"))),
        limits=Limits(retries=0),
    )
    specs = [EpisodeSpec(Task("t", "tau_bench"), seed=0)]
    (result,) = await engine.run(specs, PlainSkill(""))
    assert (result.reward, result.attempts) == (1.0, 2)
    (result,) = await lone.run(specs, PlainSkill(""))
    assert result.reward is None
    assert result.failure.cause is FailureCause.USER


async def test_a_wrong_key_is_loud_at_the_opening(shop):
    refusal = ModelRefused("401 from http://x for model y")
    with pytest.raises(ModelRefused, match="401"):
        env_with(shop, Scripted(refusal)).init([])
    with pytest.raises(ModelRefused, match="401"):
        await env_with(shop, Scripted(refusal)).ainit([])


async def test_one_who_hangs_up_at_once_is_rung_a_second_time(shop):
    assert env_with(shop, Scripted(STOP, OPENING)).init([])[0][1]["content"] == OPENING
    env = env_with(shop, Scripted(STOP, f"{STOP} bye"))
    assert env.init([])[0][1]["content"] == SILENCE
    assert env.step("Bye")["metadata"]["infra_error"] is True
    with pytest.raises(EnvError, match="hung up"):
        await env_with(shop, Scripted(STOP, STOP)).ainit([])
    again = await env_with(shop, Scripted(STOP, OPENING)).ainit([])
    assert again[0][1]["content"] == OPENING
