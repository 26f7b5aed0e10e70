"""Tasksets of verifiers by name, with their Envs, harnesses, tools and faults."""

import os
from pathlib import Path

import pytest

from playing import ENVS, LIMITS, Acting, Bisecting, builds, played, tasks_of
from skillwright.core import Act, DataError, FailureCause, StopReason, ToolCall
from skillwright.envs import check_env, spec
from skillwright.plugins.verifiers import as_taskset
from skillwright.rollout import Limits, PromptStyle
from skillwright.rollout.playback import play_back

pytest.importorskip("verifiers.v1", reason="verifiers is not installed (the extra 'verifiers')")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that verifiers uses


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.syspath_prepend(str(ENVS))
    monkeypatch.setenv("PYTHONPATH", f"{ENVS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


def test_tasks_are_dealt_out_and_settings_reach_the_taskset():
    splits = tasks_of("verifiers:capitals", {"copies": 2}, ratio="2:1:1")
    assert [len(split) for split in splits] == [4, 2, 2]
    nested = tasks_of("verifiers:capitals", {"taskset": {"copies": 2}}, ratio="2:1:1")
    assert nested == splits
    assert "traveler" in splits[0][0].description


async def test_a_reply_is_scored_by_the_rewards_with_their_weights():
    task = tasks_of("verifiers:capitals")[0][0]
    agent = Acting(lambda _: task.extras["info"]["answer"])
    result = await played("verifiers:capitals", agent, task)
    assert (result.reward, result.failure) == (1.0, None)
    assert result.metrics["right"] == 1.0
    assert result.metrics["letters"] == len(task.extras["info"]["answer"])
    assert "Answer with a name." in str(agent.shown[0].messages)
    assert "Be quick." in str(agent.shown[0].messages)
    broken = await played("verifiers:capitals", lambda _: "Rome\udd67", task)
    assert (broken.reward, broken.failure) == (pytest.approx(0.2), None)
    wrong = await played("verifiers:capitals", lambda _: "Rome", task)
    assert wrong.reward == pytest.approx(0.2)


async def test_an_env_of_its_own_answers_each_turn():
    for task in tasks_of("verifiers:higher_lower", train=2, val=1, test=1)[0]:
        result = await played("verifiers:higher_lower", Bisecting(), task)
        assert (result.reward, result.stop_reason) == (1.0, StopReason.DONE)
        hints = [turn.observation for turn in result.trajectory.turns[:-1]]
        assert set(hints) <= {"higher", "lower"}
        found = await play_back(result, builds("verifiers:higher_lower"), LIMITS, PromptStyle())
        assert (found.differences, found.reward) == ((), 1.0)


async def test_our_bound_on_turns_ends_the_episode_there():
    task = tasks_of("verifiers:higher_lower", train=2, val=1, test=1)[0][0]
    limits = Limits(max_turns=2, retries=0)
    result = await played("verifiers:higher_lower", lambda _: "99", task, limits=limits)
    assert (result.reward, result.stop_reason) == (0.0, StopReason.MAX_TURNS)
    assert len(result.trajectory.turns) == 2


async def test_tools_of_a_server_are_offered_natively_and_run():
    def act(context):
        if context.turn == 0:
            bad = ToolCall("b", "shelf_in_stok", "{}"), ToolCall("c", "shelf_in_stock", "{")
            call = ToolCall("a", "shelf_in_stock", f'{{"item": "{item}"}}')
            return Act("", tool_calls=(call, *bad))
        return context.messages[-3]["content"]

    task = tasks_of("verifiers:shelf")[0][0]
    item = task.extras["info"]["item"]
    agent = Acting(act)
    result = await played("verifiers:shelf", agent, task)
    assert (result.reward, result.failure) == (1.0, None)
    (tool,) = agent.shown[0].tools
    assert tool["function"]["name"] == "shelf_in_stock"
    assert tool["function"]["parameters"]["required"] == ["item"]
    assert "unknown tool 'shelf_in_stok'" in result.trajectory.turns[0].observation


@pytest.mark.parametrize(("broken", "why"), [("raises", "divides by nothing"), ("nan", "nan")])
async def test_a_reward_that_goes_wrong_is_a_failure(broken, why):
    task = tasks_of("verifiers:capitals", {"broken": broken})[0][0]
    result = await played("verifiers:capitals", lambda _: "Rome", task, {"broken": broken})
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert why in result.failure.message
    assert "verifiers:capitals" in result.failure.message


async def test_an_env_that_plays_twice_has_no_one_score():
    config = {"plays": 2}
    task = tasks_of("verifiers:higher_lower", config, train=2, val=1, test=1)[0][0]
    result = await played("verifiers:higher_lower", Bisecting(), task, config)
    assert result.reward is None
    assert "rewrites" in result.failure.message or "shortens" in result.failure.message


@pytest.mark.parametrize(
    ("name", "config", "why"),
    [
        ("verifiers:capitals", {"copy": 2}, "copy"),
        ("verifiers:capitals", {"id": "user-sim"}, "seats assistant, user"),
        ("verifiers:capitals", {"agent": {"harness": {"id": "no_such"}}}, "no_such"),
        ("verifiers:capitals", {"harness": {"id": "codex"}}, "agent.harness"),
    ],
)
def test_settings_that_verifiers_refuses_say_why(name, config, why):
    with pytest.raises(DataError, match=why):
        tasks_of(name, config)


def test_a_missing_dependency_is_named_with_the_command(tmp_path, monkeypatch):
    (tmp_path / "lacking.py").write_text("import no_such_library\n")
    info = tmp_path / "lacking-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: lacking\nVersion: 1.0\n"
        "Requires-Dist: no-such-library>=2\nRequires-Dist: pytest\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DataError, match="pip install 'no-such-library>=2'"):
        tasks_of("verifiers:lacking")


def test_a_row_of_another_kind_is_refused():
    with pytest.raises(DataError, match="needs a row of its taskset"):
        spec("verifiers:capitals").load()({}, {"prompt": [{"role": "user", "content": "?"}]})


def test_a_taskset_keeps_the_contract():
    report = check_env("verifiers:capitals", fuzz=20)
    assert [check for check in report.checks if not check.ok] == []


def test_a_file_is_named_in_the_place_of_a_package():
    train, _, _ = tasks_of(f"verifiers:{ENVS / 'capitals.py'}")
    assert train[0].extras["info"]["answer"]


# Ours as one of theirs, and played by us again through their eyes


async def test_the_example_shows_our_houses_to_verifiers():
    name = f"verifiers:{Path(__file__).parents[3] / 'examples' / 'verifiers_houses.py'}"
    assert [len(one) for one in tasks_of(name)] == [4, 4, 4]
    train, val, test = tasks_of(name, {"split": "eval"})
    assert [len(one) for one in (train, val, test)] == [2, 2, 2]
    agent = Acting(lambda _: "look")
    result = await played(name, agent, test[0], {"split": "eval"})
    assert (result.reward, result.failure) == (0.0, None)
    assert "you see" in str(result) or "Nothing happens" in str(result)
    assert result.stop_reason is StopReason.MAX_TURNS


async def test_a_reward_of_ours_is_theirs_and_a_fault_of_ours_their_error(tmp_path):
    scorer = tmp_path / "scorer.py"
    scorer.write_text("def score(row, reply):\n    return float(reply.strip() == row['answer'])\n")
    package = tmp_path / "doubles.py"
    package.write_text(DOUBLES.format(scorer=f"{scorer}:score"))
    task = tasks_of(f"verifiers:{package}")[0][0]
    number = task.description.split()[0]
    right = await played(f"verifiers:{package}", lambda _: str(2 * int(number)), task)
    wrong = await played(f"verifiers:{package}", lambda _: "-1", task)
    assert (right.reward, wrong.reward, right.failure) == (1.0, 0.0, None)
    broken = tmp_path / "broken.py"
    broken.write_text("def score(row, reply):\n    raise KeyError('no such column')\n")
    package = tmp_path / "tripled.py"
    package.write_text(DOUBLES.format(scorer=f"{broken}:score"))
    result = await played(f"verifiers:{package}", lambda _: "1", task)
    assert result.reward is None
    assert "no such column" in result.failure.message


DOUBLES = """
from skillwright.core import Task
from skillwright.plugins.verifiers import as_taskset

rows = [{{"prompt": f"{{n}} + {{n}}?", "answer": str(2 * n)}} for n in range(12)]
tasks = [Task(row["answer"], "table", {{"row": row}}, description=row["prompt"]) for row in rows]
scored = {{"scorer": {{"kind": "function", "function": "{scorer}"}}}}
Doubles, DoublesEnv = as_taskset("table", tasks, env_config=scored)
__all__ = ["Doubles", "DoublesEnv"]
"""


def test_what_cannot_be_exported_says_why():
    with pytest.raises(DataError, match="no tasks"):
        as_taskset("table", [])
