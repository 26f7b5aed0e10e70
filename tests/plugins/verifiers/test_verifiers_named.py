"""Environments of verifiers by name: as they are, with their faults as failures, and ours there."""

import asyncio
import json
import signal

import pytest

from mock_openai import replies
from playing import ENVS, LIMITS, Acting, Bisecting, builds, played, tasks_of
from served import served
from skillwright.core import (
    Act,
    DataError,
    EpisodeSpec,
    FailureCause,
    PlainSkill,
    StopReason,
    Task,
    ToolCall,
)
from skillwright.envs import check_env, spec
from skillwright.plugins.verifiers import VerifiersEnv
from skillwright.plugins.verifiers.loading import require_verifiers
from skillwright.rollout import Limits, LocalEngine, PromptStyle
from skillwright.rollout.playback import play_back
from tau_store import CANCEL, OPENING, write_store

pytest.importorskip("verifiers", reason="verifiers is not installed (the extra 'verifiers')")
if not hasattr(require_verifiers(), "MultiTurnEnv"):
    pytest.skip("verifiers 0.4 plays tasksets only", allow_module_level=True)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.syspath_prepend(str(ENVS))


# Single turn, with a parser and a rubric of two functions


def test_rows_are_dealt_out_and_the_eval_set_is_the_test():
    train, val, test = tasks_of("verifiers:plus-sums", ratio="3:1:1", train=9)
    assert (len(train), len(val), len(test)) == (9, 10, 10)
    asked = [task.extras["question"] for task in (*train, *val, *test)]
    assert len(set(asked)) == len(asked)
    assert {task.id for task in test} == {f"test-{n}" for n in range(10)}
    assert tasks_of("verifiers:plus-sums", ratio="3:1:1", train=9)[0] == train
    assert tasks_of("verifiers:plus-sums", ratio="3:1:1", train=9, seed=1)[0] != train


def test_arguments_reach_load_environment_and_one_set_is_cut_in_three():
    splits = tasks_of("verifiers:plus-sums", {"num_train": 8, "num_eval": 0}, ratio="2:1:1")
    assert [len(split) for split in splits] == [4, 2, 2]


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ("<think>Twice.</think><answer>{right}</answer>", 1.0),
        ("<think>Twice.</think><answer>no</answer>", 0.2),
        ("no tags", 0.0),
    ],
)
async def test_a_reply_is_scored_by_the_rubric_with_its_weights(reply, reward):
    task = tasks_of("verifiers:plus-sums")[0][0]
    said = reply.format(right=task.extras["answer"])
    agent = Acting(lambda context: said)
    result = await played("verifiers:plus-sums", agent, task)
    assert result.failure is None
    assert result.reward == pytest.approx(reward, abs=0.15)
    assert (result.reward == 1.0) is (reward == 1.0)
    assert "Answer in <think>" in str(agent.shown[0].messages)
    assert "Be quick." in str(agent.shown[0].messages)
    assert result.metrics["right"] == float(reward == 1.0)


async def test_a_reward_above_1_is_cut_and_kept_beside():
    task = tasks_of("verifiers:plus-sums")[0][0]
    said = f"<think>x</think><answer>{task.extras['answer']}</answer>"
    result = await played("verifiers:plus-sums", lambda _: said, task, {"scale": 2.0})
    assert result.reward == 1.0
    assert result.trajectory.turns[-1].metadata["verifiers_score"]["reward"] == pytest.approx(1.8)


# Several turns


async def test_a_conversation_goes_on_until_the_environment_ends_it():
    for task in tasks_of("verifiers:high_low")[0]:
        assert task.task_type == "guessing"
        result = await played("verifiers:high_low", Bisecting(), task)
        assert (result.reward, result.stop_reason) == (1.0, StopReason.DONE)
        hints = [turn.observation for turn in result.trajectory.turns[:-1]]
        assert set(hints) <= {"higher", "lower"}


async def test_clumsy_words_are_an_observation_and_end_without_a_reward():
    task = tasks_of("verifiers:high_low")[0][0]
    result = await played("verifiers:high_low", lambda _: "hm?", task, limits=Limits(retries=0))
    assert (result.reward, result.failure) == (0.0, None)
    assert result.trajectory.turns[0].observation == "Write a number."
    assert len(result.trajectory.turns) == 6  # its own most


async def test_our_bound_on_turns_lets_it_score_what_there_is():
    task = tasks_of("verifiers:high_low")[0][0]
    limits = Limits(max_turns=2, retries=0)
    result = await played("verifiers:high_low", lambda _: "hm?", task, limits=limits)
    assert (result.reward, result.stop_reason) == (0.0, StopReason.MAX_TURNS)
    assert result.metrics["num_turns"] == 2


async def test_episodes_side_by_side_do_not_mix():
    tasks = tasks_of("verifiers:high_low")[0]
    results = []
    for _ in range(2):
        agent = Acting(lambda context: str(context.turn * 3))
        engine = LocalEngine(agent, builds("verifiers:high_low"), limits=LIMITS)
        results.append(await engine.run([EpisodeSpec(t, 1) for t in tasks], PlainSkill("")))
    said = [[(r.reward, r.trajectory.turns) for r in one] for one in results]
    assert said[0] == said[1]
    assert {r.reward for r in results[0]} == {0.0, 1.0}


# Tools


def stock_keeper(context):
    if context.turn == 0:
        item = context.messages[-1]["content"].split()[2][:-1]
        return Act("", tool_calls=(ToolCall("a", "in_stock", f'{{"item": "{item}"}}'),))
    return context.messages[-1]["content"]


async def test_tools_are_offered_natively_and_run():
    task = tasks_of("verifiers:stock_room")[0][0]
    agent = Acting(stock_keeper)
    result = await played("verifiers:stock_room", agent, task)
    assert result.reward == 1.0
    (tool,) = agent.shown[0].tools
    assert tool["function"]["name"] == "in_stock"
    assert tool["function"]["parameters"]["required"] == ["item"]


async def test_a_clumsy_call_is_told_to_the_agent():
    def act(context):
        calls = ToolCall("a", "in_stock", "{"), ToolCall("b", "in_stok", '{"item": "lamp"}')
        return Act("", tool_calls=calls) if context.turn == 0 else "4"

    task = tasks_of("verifiers:stock_room")[0][0]
    result = await played("verifiers:stock_room", act, task)
    assert result.failure is None
    first = result.trajectory.turns[0]
    assert [message["tool_call_id"] for message in first.messages] == ["a", "b"]
    assert "in_stok" in first.observation


async def test_a_group_plays_each_row_in_its_own_environment():
    train, _, _ = tasks_of("verifiers:both", ratio="3:1:1")
    kinds = {task.task_type: task for task in train}
    assert set(kinds) == {"sums", "stock"}
    said = f"<think>x</think><answer>{kinds['sums'].extras['answer']}</answer>"
    assert (await played("verifiers:both", lambda _: said, kinds["sums"])).reward == 1.0
    broken = await played("verifiers:both", lambda _: "4", kinds["stock"], {"broken": "rubric"})
    assert "divides by nothing" in broken.failure.message


# Faults


@pytest.mark.parametrize(
    ("broken", "why"),
    [("rubric", "raises() of its rubric raised ZeroDivisionError"), ("none", "no number")],
)
async def test_a_rubric_that_raises_is_a_failure_that_names_the_environment(broken, why):
    task = tasks_of("verifiers:stock_room")[0][0]
    result = await played("verifiers:stock_room", stock_keeper, task, {"broken": broken})
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert why in result.failure.message
    assert "verifiers:stock_room" in result.failure.message


async def test_a_judge_that_cannot_be_reached_is_a_failure_and_one_that_answers_scores():
    task = tasks_of("verifiers:stock_room")[0][0]
    lost = {"judge_url": "http://127.0.0.1:9/v1"}
    result = await played("verifiers:stock_room", stock_keeper, task, lost)
    assert (result.reward, result.failure.cause) == (None, FailureCause.JUDGE)
    with served(replies("yes")) as endpoint:
        config = {"judge_url": endpoint.base_url}
        record = await played("verifiers:stock_room", stock_keeper, task, config)
        assert record.failure is None
        assert record.reward == 1.0
    # Its endpoint is gone, and the record needs none.
    make = builds("verifiers:stock_room", config)
    found = await play_back(record, make, LIMITS, PromptStyle())
    assert (found.differences, found.reward) == ((), 1.0)


async def test_a_record_is_played_back_equal():
    task = tasks_of("verifiers:high_low")[0][0]
    record = await played("verifiers:high_low", Bisecting(), task)
    found = await play_back(record, builds("verifiers:high_low"), LIMITS, PromptStyle())
    assert (found.differences, found.reward) == ((), 1.0)


async def test_an_episode_that_is_given_up_leaves_no_rollout_behind():
    task = tasks_of("verifiers:high_low")[0][0]
    env = builds("verifiers:high_low")(task)
    await env.ainit([])
    env.close()
    env.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(others)
    assert all(task.cancelled() for task in others)
    assert others


@pytest.mark.parametrize(
    ("name", "config", "why"),
    [
        ("verifiers:no_such_env", {}, "no package 'no_such_env'"),
        ("verifiers:plus-sums", {"scal": 2}, "scal"),
        ("verifiers:mock_openai", {}, "nor a load_environment"),
        ("verifiers:json.tool", {}, "nor a load_environment"),
        ("verifiers:no_such_env.inner", {}, "No module named 'no_such_env'"),
    ],
)
def test_what_cannot_be_loaded_says_why(name, config, why):
    with pytest.raises(DataError, match=why):
        tasks_of(name, config)


def test_rows_that_are_too_few_are_refused():
    with pytest.raises(DataError, match="1 rows, and none is left for"):
        tasks_of("verifiers:plus-sums", {"num_train": 1, "num_eval": 0})


def test_a_row_without_a_prompt_is_refused():
    with pytest.raises(DataError, match="needs a row with a prompt"):
        spec("verifiers:plus-sums").load()({}, {"answer": "1"})


def test_loading_leaves_ctrl_c_to_the_run():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    tasks_of("verifiers:plus-sums", {"num_train": 5})
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_file_is_named_in_the_place_of_a_package():
    name = f"verifiers:{ENVS / 'high_low.py'}"
    train, val, test = tasks_of(name)
    assert (len(train), len(val), len(test)) == (10, 10, 10)
    found = spec(name).load()
    assert issubclass(found, VerifiersEnv)
    assert "file" in found.identity()


def test_a_named_environment_keeps_the_contract():
    report = check_env("verifiers:high_low", fuzz=300)
    assert [check for check in report.checks if not check.ok] == []


# Ours as one of theirs, and played by us again through their eyes


async def test_an_environment_of_ours_is_one_of_theirs():
    task = tasks_of("verifiers:round_trip")[0][0]
    prompt = task.description
    row = Task("t", "verifiers:round_trip", task.extras)
    sums = {f"t{n}": str(2 * n) for n in range(12)}
    right = sums[prompt]
    assert (await played("verifiers:round_trip", lambda _: right, row)).reward == 1.0
    assert (await played("verifiers:round_trip", lambda _: "-1", row)).reward == 0.0


async def test_a_fault_of_ours_is_an_error_there(tmp_path):
    scorer = tmp_path / "scorer.py"
    scorer.write_text("def score(row, reply):\n    raise KeyError('no such column')\n")
    config = {"config": {"scorer": {"kind": "function", "function": f"{scorer}:score"}}}
    task = tasks_of("verifiers:round_trip", config)[0][0]
    result = await played("verifiers:round_trip", lambda _: "1", task, config)
    assert result.reward is None
    assert "no such column" in result.failure.message


async def test_native_tools_of_ours_are_offered_there(tmp_path):
    shop = write_store(tmp_path / "shop")
    config = {
        "data_dir": str(shop),
        "user_strategy": "scripted",
        "user_replies": [OPENING],
        "tools": "native",
    }
    rows = [{"task_index": n, "task_split": "test"} for n in (0, 1, 2)]
    arguments = {"env": "tau_bench", "config": config, "rows": rows}
    tasks = [one for split in tasks_of("verifiers:round_trip", arguments) for one in split]
    task = next(one for one in tasks if one.description == "t0")
    name, given = CANCEL

    def act(context):
        call = ToolCall("a", name, json.dumps(given))
        return Act("", tool_calls=(call,)) if context.turn == 0 else "It is cancelled."

    result = await played("verifiers:round_trip", act, task, arguments)
    assert result.reward == 1.0
