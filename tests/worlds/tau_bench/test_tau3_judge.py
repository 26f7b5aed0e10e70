"""Sentences about an episode, judged by a model: votes, cost, and no score without a verdict."""

import json

import pytest

from mock_openai import MockOpenAI, status
from skillwright.core import JudgeError, ModelRefused
from skillwright.worlds.tau_bench import TauBenchEnv
from tau3_store import CANCEL, tau3_data, tau3_env
from tau_store import OPENING, tool_call


def verdicts(*met):
    return json.dumps({"results": [{"reasoning": "so", "met": one} for one in met]})


@pytest.fixture
def data(tmp_path):
    return tau3_data(tmp_path, "retail")


async def played(data, server, *turns, index=1, **settings):
    judge = {"user_simulator_endpoint": server.base_url, "user_retries": 0, "judge_votes": 1}
    env = tau3_env(data, index, [OPENING, "Yes."], **{**judge, **settings})
    output = None
    for turn in turns or (tool_call(CANCEL[0], **CANCEL[1]), "Is it well?", "It is $20.10."):
        output = await env.astep(turn)
    return env, output


def judge(*replies):
    left = list(replies)

    async def handler(body):
        return left.pop(0) if len(left) > 1 else left[0]

    return MockOpenAI(handler, api_key=None)


async def test_a_won_state_is_paid_if_every_sentence_holds(data):
    for met, reward in ((True, True), 1.0), ((True, False), 0.0):
        async with judge(verdicts(*met)) as server:
            env, output = await played(data, server)
        assert output["reward"] == env.get_metrics()["reward"] == reward
        assert output["metadata"]["reward_breakdown"]["r_assertions"] == reward
        assert [one[0]["met"] for one in output["metadata"]["judge"]] == [*met]
        assert env.get_metrics()["judged"] == 1.0
        assert env.get_usage().keys() == {"judge"}


async def test_the_judge_reads_the_conversation_with_calls_and_the_numbered_sentences(data):
    async with judge(verdicts(True, True)) as server:
        await played(data, server)
    asked = server.bodies[0]["messages"][-1]["content"]
    assert "agent calls cancel_pending_order" in asked
    assert "agent: It is $20.10." in asked
    assert f"user: {OPENING}" in asked
    assert asked.endswith("1. The agent is polite.\n2. It says the price.")


async def test_most_votes_decide_about_each_sentence(data):
    async with judge(verdicts(True, True), verdicts(True, False), verdicts(False, True)) as server:
        _, output = await played(data, server, judge_votes=3)
    assert output["reward"] == 1.0
    assert [sum(one["met"] for one in votes) for votes in output["metadata"]["judge"]] == [2, 2]
    assert len(server.bodies) == 3


async def test_a_state_that_is_lost_already_asks_no_judge(data):
    async with judge(verdicts(True, True)) as server:
        env, output = await played(data, server, "Hello.", "Good bye.")
    assert (output["reward"], len(server.bodies)) == (0.0, 0)
    assert env.get_metrics()["judged"] == 0.0


@pytest.mark.parametrize(
    ("said", "settings", "told"),
    [
        ("I like turtles.", {}, "the judge gave no verdict"),
        (verdicts(True), {}, "the judge gave no verdict"),
        (verdicts(True, True), {"judge_max_tokens": 1}, "judge_max_tokens is 1"),
    ],
)
async def test_without_a_verdict_there_is_no_score(data, said, settings, told):
    async with judge(said) as server:
        with pytest.raises(JudgeError, match=told):
            await played(data, server, **settings)


async def test_a_judge_that_cannot_be_reached_is_its_failure_and_a_wrong_key_ends_the_run(data):
    async with judge("x") as server:
        server.next(status(500))
        with pytest.raises(JudgeError, match="no verdict"):
            await played(data, server)
        server.next(status(401))
        with pytest.raises(ModelRefused):
            await played(data, server)


async def test_a_lost_episode_may_be_judged_for_its_user(data):
    async with judge(verdicts(True, False)) as server:
        env, output = await played(
            data, server, "Hello.", "Good bye.", index=0, judge_failures=True
        )
    assert (output["reward"], env.get_metrics()["user_off_role"]) == (0.0, 1.0)
    assert "The user's instruction: You want help." in server.bodies[0]["messages"][-1]["content"]


def test_a_blocking_trainer_gets_an_end_without_a_score(data):
    dead = {"user_simulator_endpoint": "http://127.0.0.1:9/v1", "user_retries": 0}
    env = tau3_env(data, 1, [OPENING], judge_votes=1, **dead)
    env.step(tool_call(CANCEL[0], **CANCEL[1]))
    output = env.step("Good bye.")
    assert output["metadata"]["infra_error"] is True
    assert (output["reward"], output["done"]) == (0.0, True)


def test_the_judges_model_is_priced_and_may_differ_from_the_users(data):
    config = {"judge_votes": 3, "judge_settings": {"model": "wise"}}
    judging = TauBenchEnv.judging(config)
    assert (judging.votes, judging.model.model) == (3, "wise")
    assert TauBenchEnv.judging({}) is None
