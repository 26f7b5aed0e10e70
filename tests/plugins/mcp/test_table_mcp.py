"""Rows whose agent has the tools of an MCP server: stdio and HTTP, recorded, and its faults."""

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from skillwright.config import RunConfig
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
from skillwright.envs import check_env
from skillwright.envs.table import TableEnv
from skillwright.jobs.text import look_at_tasks
from skillwright.plugins.mcp import tool_server
from skillwright.plugins.mcp.tool_server import ToolServer, offered_tools
from skillwright.rollout import Limits, LocalEngine, PromptStyle
from skillwright.rollout.playback import RecordedStart, continuing, play_back

pytest.importorskip("mcp", reason="mcp is not installed (the extra 'mcp')")

SHOP = Path(__file__).parents[2] / "mcp_shop.py"
ROW = {"row": {"prompt": "What does a lamp cost?", "answer": "12"}}
LIMITS = Limits(max_turns=9, retries=0)


def shop(**settings):
    return {"command": [sys.executable, str(SHOP)], **settings}


def table(server, **settings):
    return {"mcp": server, "scorer": {"kind": "number"}, **settings}


class Calling:
    """Makes the same calls in every episode, turn by turn; a text is an answer."""

    identity = "scripted:calling"
    takes_tools = True

    def __init__(self, *acts):
        self._acts = acts
        self.shown = []

    async def act_batch(self, contexts):
        self.shown += contexts
        return [self._act(self._acts[one.turn]) for one in contexts]

    @staticmethod
    def _act(act):
        if isinstance(act, str):
            return Act(act)
        calls = [ToolCall(f"call_{n}", *one) for n, one in enumerate(act)]
        return Act("", tool_calls=tuple(calls), finish_reason="tool_calls")


def builds(config):
    return lambda task: TableEnv(config, dict(task.extras))


async def played(config, *acts, agent=None, limits=LIMITS):
    engine = LocalEngine(agent or Calling(*acts), builds(config), limits=limits)
    (result,) = await engine.run([EpisodeSpec(Task("t", "table", ROW), 1)], PlainSkill("Think."))
    return result


def said(result):
    return [message["content"] for turn in result.trajectory.turns for message in turn.messages]


PRICE = [("price", '{"item": "lamp"}')]


async def test_tools_are_offered_called_and_the_answer_is_scored():
    agent = Calling(PRICE, "<answer>12</answer>")
    result = await played(table(shop()), agent=agent)
    assert (result.reward, result.stop_reason) == (1.0, StopReason.DONE)
    names = [tool["function"]["name"] for tool in agent.shown[0].tools]
    assert names == ["add", "die", "hang", "interrupt", "price", "token"]
    assert said(result)[0] == "lamp: 12"
    assert result.metrics == {"score": 1.0, "tries": 1.0}


async def test_every_episode_has_a_server_of_its_own():
    add = [("add", '{"item": "lamp", "count": 2}')]
    for _ in range(2):
        assert said(await played(table(shop()), add, "12"))[0] == "2 in the basket"


@pytest.mark.parametrize("calls", ["tags", "native"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[TOOL_CALLS]price{"item": "lamp"}', "lamp: 12"),
        ("<function=price><parameter=item>lamp</parameter></function>", "lamp: 12"),
        ('<tool_call>{"name": "price", "kwargs": {"item": "lamp"}}</tool_call>', "lamp: 12"),
        (
            '<think>hm</think><tool_call>{"name": "price", "arguments": {"item": "lamp"}}',
            "lamp: 12",
        ),
        ('<tool_call>{"name": "price", "argu', "could not parse tool call (Unterminated string"),
    ],
)
async def test_a_call_in_a_text_is_carried_out_or_refused_and_is_no_answer(calls, text, told):
    result = await played(table(shop(calls=calls)), text, "12")
    assert told in said(result)[0]
    assert (result.reward, result.metrics["tries"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("price", '{"item": 3}'), "arguments.item: 3 is not of type 'string'"),
        (("price", "{}"), "'item' is a required property"),
        (("price", "lamp"), "no JSON object"),
        (("prize", "{}"), "Did you mean 'price'?"),
        (("price", '{"item": "moon"}'), "no moon here"),
    ],
)
async def test_a_clumsy_call_is_an_observation(call, told):
    result = await played(table(shop()), [call], "12")
    assert told in said(result)[0]
    assert result.reward == 1.0


async def test_calls_of_one_turn_are_answered_in_order():
    calls = [*PRICE, ("nothing", ""), ("price", '{"item": "rug"}')]
    result = await played(table(shop()), calls, "1")
    assert [text[:9] for text in said(result)[:3]] == ["lamp: 12", "Error: th", "rug: 30"]
    assert result.reward == 0.0


async def test_turns_without_an_answer_end_with_no_reward():
    result = await played(table(shop()), PRICE, PRICE, limits=Limits(max_turns=2, retries=0))
    assert (result.reward, result.stop_reason) == (0.0, StopReason.MAX_TURNS)


async def test_an_agent_without_native_tools_writes_its_calls():
    class Writing(Calling):
        takes_tools = False

    call = 'Let me see. <tool_call>{"name": "price", "arguments": {"item": "lamp"}}</tool_call>'
    agent = Writing(call, "<answer>12</answer>")
    result = await played(table(shop(calls="tags")), agent=agent)
    assert result.reward == 1.0
    assert "Say what an item costs." in str(agent.shown[0].messages)
    assert said(result)[0] == "lamp: 12"


@pytest.fixture
def variables(monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-value")
    monkeypatch.setenv("SHOP_OTHER", "not for it")


async def test_a_server_sees_the_variables_it_is_named_and_their_values_are_not_told(variables):
    result = await played(table(shop(env=["SHOP_TOKEN"])), [("token", "")], "12")
    assert said(result)[0] == "[SHOP_TOKEN] None"
    assert "s3cret" not in str(result)


def test_a_variable_that_is_not_set_is_named():
    with pytest.raises(DataError, match="'SHOP_NONE', which is not set"):
        offered_tools(ToolServer(**shop(env=["SHOP_NONE"])))


# What a server can do wrong.


@pytest.mark.parametrize(
    ("call", "why", "limit_s"),
    [("die", "'die'", 30), ("hang", "did not answer 'hang' within 1 s", 1)],
)
async def test_a_server_that_dies_or_never_answers_is_a_failure(call, why, limit_s):
    result = await played(table(shop(time_limit_s=limit_s)), [(call, "{}")], "12")
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert why in result.failure.message
    assert "mcp_shop.py" in result.failure.message


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"command": ["no-such-program"]}, "No such file"),
        ({"command": [sys.executable, "-c", "raise SystemExit('no database')"]}, "no database"),
        ({"command": [sys.executable, "-c", "import time; time.sleep(600)"]}, "start within 1 s"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
    ],
)
async def test_a_missing_server_is_refused_before_a_run(tmp_path, monkeypatch, server, why):
    if "start" in why:
        monkeypatch.setattr(tool_server, "STARTS_WITHIN_S", 1.0)
    rows = tmp_path / "rows.csv"
    rows.write_text("prompt,answer\n" + "".join(f"What is {n}?,{n}\n" for n in range(30)))
    config = RunConfig.model_validate(
        {
            "env": {"name": "table", "config": {"mcp": server}, "data": {"path": str(rows)}},
            "models": {
                "target": {"backend": "scripted", "model": "clerk"},
                "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
            },
        }
    )
    assert config.env.max_turns == 20
    with pytest.raises(DataError, match=why):
        await look_at_tasks(config)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({}, "one of them"),
        ({"command": ["x"], "url": "http://x/mcp"}, "one of them"),
        ({"url": "http://me:pw@x/mcp"}, "without a name or password"),
        ({"command": ["x"], "api_key_env": "KEY"}, "name what a command is given in env"),
        ({"comand": ["x"]}, "command"),
    ],
)
def test_wrong_settings_of_a_server_are_refused(server, why):
    with pytest.raises(DataError, match=why):
        TableEnv({"mcp": server}, ROW)


def test_a_changed_program_scores_anew(tmp_path):
    program = tmp_path / "server.py"
    program.write_text("1")
    config = {"mcp": {"command": ["python", str(program)]}}
    before = TableEnv.identity(config)
    program.write_text("2")
    assert TableEnv.identity(config) != before


def test_a_cancelled_run_leaves_no_server_behind(tmp_path):
    pids = tmp_path / "pids"
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio, os, sys
        from skillwright.core import ToolCall
        from skillwright.envs.table import TableEnv

        command = [sys.executable, {str(SHOP)!r}, "stdio", str(os.getpid())]
        server = {{"command": command, "env": ["SHOP_PIDS"]}}

        async def main():
            env = TableEnv({{"mcp": server}}, {ROW!r})
            await env.ainit([])
            await env.astep_native("", [ToolCall("a", "price", '{{"item": "lamp"}}')])
            await env.astep_native("", [ToolCall("a", "interrupt", "")])

        asyncio.run(main())
        """)
    )
    found = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "SHOP_PIDS": str(pids)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "KeyboardInterrupt" in found.stderr
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2  # one was asked for its tools, one played
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


HANGS = """
import asyncio, sys
from skillwright.core import ToolCall
from skillwright.envs.table import TableEnv

async def main():
    env = TableEnv({"mcp": {"command": [sys.executable, sys.argv[1]], "env": ["SHOP_PIDS"]}}, ROW)
    await env.ainit([])
    print("playing", flush=True)
    await env.astep_native("", [ToolCall("a", "hang", "")])

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes as Linux does")
def test_no_server_outlives_a_run_that_was_killed_inside_a_call(tmp_path):
    pids = tmp_path / "pids"
    run = subprocess.Popen(
        [sys.executable, "-c", HANGS.replace("ROW", repr(ROW)), str(SHOP)],
        env={**os.environ, "SHOP_PIDS": str(pids)},
        stdout=subprocess.PIPE,
    )
    assert run.stdout.readline() == b"playing\n"
    while len(pids.read_text().split()) < 2:  # the second one plays
        assert run.poll() is None
    run.kill()
    run.communicate()
    for pid in map(int, pids.read_text().split()):
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([process], [], [], 30)[0], f"server {pid} lives"


# A record needs no server.


GONE = table({"command": ["no-such-program"]})


async def test_a_record_is_played_back_without_the_server():
    result = await played(table(shop()), [*PRICE, ("prize", "{}")], PRICE, "<answer>12</answer>")
    found = await play_back(result, builds(GONE), LIMITS, PromptStyle())
    assert found.differences == ()
    assert found.reward == 1.0


async def test_a_fork_brings_a_fresh_server_to_where_the_record_was():
    add = [("add", '{"item": "lamp"}')]
    record = await played(table(shop()), add, add, "11")
    config = table(shop())
    agent = RecordedStart(Calling(None, None, add, "12"), record, 2)
    engine = LocalEngine(agent, continuing(builds(config), record.trajectory, 2), limits=LIMITS)
    (result,) = await engine.run([record.spec], PlainSkill("Think."))
    assert [text for text in said(result) if "basket" in text][-1] == "3 in the basket"
    assert result.reward == 1.0


async def test_a_fork_fails_where_the_server_answers_otherwise():
    record = await played(table(shop()), PRICE, "11")
    (first, last) = record.trajectory.turns
    lied = replace(first, metadata={**first.metadata, "answers": ["lamp: 13"]})
    messages = tuple({**one, "content": "lamp: 13"} for one in first.messages)
    record = replace(
        record,
        trajectory=replace(record.trajectory, turns=(replace(lied, messages=messages), last)),
    )
    agent = RecordedStart(Calling(None, PRICE, "12"), record, 1)
    make = continuing(builds(table(shop())), record.trajectory, 1)
    (result,) = await LocalEngine(agent, make, limits=LIMITS).run(
        [record.spec], PlainSkill("Think.")
    )
    assert result.reward is None
    assert "does not answer as it is recorded" in result.failure.message


# Over HTTP, and the environment's contract.


@pytest.fixture
def listening(variables):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SHOP), "http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        for line in server.stderr:
            if "running on" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


async def test_a_server_behind_a_url_that_is_lost_in_an_episode_is_a_failure(listening):
    config = table({"url": listening, "time_limit_s": 3})
    result = await played(config, PRICE, [("die", "{}")], PRICE, "12")
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert listening in result.failure.message
    with pytest.raises(DataError, match="cannot be reached"):
        offered_tools(ToolServer(url=listening, time_limit_s=29))


async def test_a_server_behind_a_url_is_called(listening):
    config = table({"url": listening, "api_key_env": "SHOP_TOKEN"})
    result = await played(config, PRICE, "<answer>12</answer>")
    assert result.reward == 1.0
    assert said(result)[0] == "lamp: 12"


@pytest.mark.heavy
def test_a_table_with_tools_keeps_the_contract():
    rows = [{**ROW, "max_turns": 3}]
    report = check_env("table", extras_list=rows, env_config=table(shop()), fuzz=20)
    assert [check for check in report.checks if not check.ok] == []
