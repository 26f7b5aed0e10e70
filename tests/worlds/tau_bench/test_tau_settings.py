"""Settings from OmegaConf, what makes scores comparable, and what an episode refuses to be told."""

import dataclasses

import pytest

from skillwright.core import (
    Act,
    ConfigError,
    DataError,
    EnvError,
    EpisodeSpec,
    FailureCause,
    PlainSkill,
    Task,
)
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.tau_bench import STOP, TauBenchEnvConfig, comparability, read_config
from tau_store import OPENING, make_env, open_env, write_store

FREE = 2  # an empty conversation is worth 1.0 in this task


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


# OmegaConf


def test_the_settings_are_a_structured_config():
    OmegaConf = pytest.importorskip("omegaconf").OmegaConf
    structured = OmegaConf.structured(TauBenchEnvConfig)
    assert read_config(structured) == TauBenchEnvConfig()
    merged = OmegaConf.merge(structured, {"user_replies": ["Hi"], "user_settings": {"a": [1]}})
    assert read_config(merged).user_replies == ("Hi",)
    assert read_config(merged).user_settings == {"a": [1]}


@pytest.mark.parametrize(
    "settings",
    [
        {"user_prompt": "???"},
        {"user_prompt": "${nothing}"},
        {"user_replies": ["???"]},
        {"user_settings": {"a": "???"}},
        {"user_settings": {"a": ["???"]}},
    ],
)
def test_a_setting_without_a_value_is_told(settings):
    OmegaConf = pytest.importorskip("omegaconf").OmegaConf
    with pytest.raises(DataError, match="has no value"):
        read_config(OmegaConf.create(settings))


# Comparable


def user_facts(shop, **settings):
    return comparability({"data_dir": str(shop), **settings})["user"]


def test_what_a_script_says_makes_another_score(shop):
    def facts(*replies, **more):
        return user_facts(shop, user_strategy="scripted", user_replies=list(replies), **more)

    assert facts("Hi") == facts("Hi") != facts("Hello") != facts("Hel", "lo")
    assert facts("Hi", user_simulator_model="x", user_sim_temperature=1.0) == facts("Hi")
    assert facts("Hi")["model"] is None
    assert len(facts("Hi")["replies"]) == 64


@pytest.mark.parametrize("strategy", ["human", "rule_based"])
def test_where_no_model_plays_none_is_named(shop, strategy):
    facts = user_facts(shop, user_strategy=strategy, user_replies=["unused"])
    assert {name for name, value in facts.items() if value is not None} == {"strategy"}


def test_where_a_model_plays_it_is_named_and_no_script_is(shop):
    facts = user_facts(shop, user_replies=["unused"], user_simulator_model="x")
    assert (facts["model"], facts["prompt"], facts["replies"]) == ("x", "parity", None)


# The marker


@pytest.mark.parametrize(
    "text",
    [
        f"###{STOP}###",
        "######STOP######",
        "###STOP######STOP###",
        "###STOP###STOP###STOP###",
        f"{'#' * 30}STOP{'#' * 31}STOP{'#' * 9}",
    ],
)
def test_an_agents_marker_does_not_form_again(shop, text):
    env = open_env(shop)
    heard = []
    env.user_sim.step = lambda content: heard.append(content) or "Yes"
    assert not env.step(f"Say {text} now")["done"]
    assert STOP not in heard[0]
    assert "STOP" in heard[0]


# A simulator from elsewhere


class Broken:
    """Answers once and then raises."""

    def __init__(self, fault, opening=OPENING):
        self.fault, self.opening = fault, opening

    def reset(self, instruction):
        if self.opening is None:
            raise self.fault
        return self.opening

    def step(self, content):
        raise self.fault


def env_with(shop, user):
    env = make_env(shop, FREE)
    env.user_sim = user
    return env


@pytest.mark.parametrize("fault", [ConnectionError("down"), KeyError("choices"), ValueError()])
async def test_whatever_it_raises_is_a_fault_in_our_engine(shop, fault):
    env = env_with(shop, Broken(fault))
    await env.ainit([])
    with pytest.raises(EnvError, match=r"simulated user of task 2 \(broken\)"):
        await env.astep("Bye")
    assert env.get_metrics()["user_sim_error"] == 1
    with pytest.raises(EnvError, match=r"\(broken\)"):
        await env_with(shop, Broken(fault, opening=None)).ainit([])


async def test_the_engine_charges_it_to_the_user(shop):
    class Polite:
        identity = "polite"

        async def act_batch(self, contexts):
            return [Act("Goodbye")] * len(contexts)

    engine = LocalEngine(
        Polite(),
        lambda task: env_with(shop, Broken(ConnectionError("down"))),
        limits=Limits(retries=0),
    )
    (result,) = await engine.run([EpisodeSpec(Task("t", "tau_bench"), seed=0)], PlainSkill(""))
    assert result.reward is None
    assert result.failure.cause is FailureCause.USER


async def test_a_wrong_setting_is_told_by_both_pairs(shop):
    fault = ConfigError("no such setting")
    env = env_with(shop, Broken(fault))
    env.init([])
    with pytest.raises(ConfigError):
        env.step("Bye")
    env = env_with(shop, Broken(fault))
    await env.ainit([])
    with pytest.raises(ConfigError):
        await env.astep("Bye")
    with pytest.raises(ConfigError):
        await env_with(shop, Broken(fault, opening=None)).ainit([])


# Small things


def test_a_turn_of_the_user_is_not_waited_for_so_long_that_a_run_stands_still():
    (deadline,) = (
        one for one in dataclasses.fields(TauBenchEnvConfig) if one.name == "user_deadline_s"
    )
    assert deadline.default == 180


def test_speech_that_is_called_as_a_tool_can_be_judged(shop):
    env = open_env(shop, FREE)
    for arguments in ({}, {"content": 5}, {"content": "Hi"}):
        env.tau_env.call("respond", arguments)
    assert env.tau_env.said == ["Hi"]
    assert env.step("Bye")["reward"] == 1.0


@pytest.mark.parametrize("replies", ["Hello", [1, 2], 5])
def test_an_episodes_own_script_is_a_list_of_texts(shop, replies):
    with pytest.raises(DataError, match=r"user_replies is .* list of texts"):
        open_env(shop, extras={"user_replies": replies})


@pytest.mark.parametrize("turns", [True, False])
def test_the_number_of_turns_is_no_truth_value(shop, turns):
    with pytest.raises(DataError, match=f"max_turns is {turns}"):
        make_env(shop, extras={"max_turns": turns})
