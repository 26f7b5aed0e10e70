"""Scorers of one's own: what they return is checked, and what goes wrong is never a score."""

import asyncio
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from samples import heavy
from skillwright.core import DataError, EnvError
from skillwright.core.found_code import keep_code
from skillwright.envs.table import TableEnv

SCORERS = """
import os

def half(row, reply):
    return 0.5, f"{row['answer']} is what {reply!r} should be."

def whole(row, reply):
    print("noise on standard output")
    return reply == row["answer"]

def raises(row, reply):
    raise KeyError("colum")

def nan(row, reply):
    return float("nan")

def over(row, reply):
    return 1.0000000000000002

def under(row, reply):
    return 0.1 + 0.2 + 0.7 - 1e-9

def below(row, reply):
    return -1e-17

def large(row, reply):
    return 7

def text(row, reply):
    return "good"

def endless(row, reply):
    while True:
        pass

def leaves(row, reply):
    os._exit(3)

def forks(row, reply):
    os.fork()
    while True:
        pass

def started(row, reply, *, end):
    import subprocess
    sleep = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("pid", "w").write(str(sleep.pid))
    return end()

def leaves_one(row, reply):
    return started(row, reply, end=lambda: os._exit(3))

def hangs_with_one(row, reply):
    return started(row, reply, end=lambda: endless(row, reply))

def hides_one(row, reply):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("pid", "w").write(str(os.getpid()))
            endless(row, reply)
        os._exit(0)
    os.wait()
    while True:
        pass

async def waits(row, reply):
    return 0.5

number = 1
"""


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """Score a reply by a function of ``scorers.py``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")

    async def score(name, reply="right", **more):
        config = {"scorer": {"kind": "function", "function": f"scorers.py:{name}", **more}}
        env = TableEnv(config, {"row": {"prompt": "What?", "answer": "right"}, "max_turns": 1})
        env.init([])
        return await env.astep(reply)

    return score


async def test_a_function_gives_a_number_and_its_feedback_reaches_whoever_learns(scored):
    step = await scored("half", "wrong")
    assert step["reward"] == 0.5
    assert step["metadata"]["observation"] == "right is what 'wrong' should be."


@pytest.mark.parametrize(("name", "score"), [("over", 1.0), ("under", 1.0), ("below", 0.0)])
async def test_a_score_within_a_millionth_of_1_or_0_is_that(scored, name, score):
    assert (await scored(name))["reward"] == score


async def test_a_function_may_print_and_may_return_a_boolean(scored):
    assert (await scored("whole"))["reward"] == 1.0
    assert (await scored("whole", "<think>right</think>wrong"))["reward"] == 0.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", r"scorers.py:raises gave no score: KeyError: 'colum' \(line 12 of scorers.py\)"),
        ("nan", "scorers.py:nan gave no score: ValueError: it returned nan"),
        ("large", "a score is a number from 0 to 1"),
        ("text", "it returned 'good'"),
        ("leaves", "ended its process, with exit code 3"),
        ("missing", "cannot be used: DataError"),
        ("number", "is a int, not a function"),
    ],
)
async def test_a_function_that_gives_no_score_is_a_fault_of_the_environment(scored, name, said):
    with pytest.raises(EnvError, match=said):
        await scored(name)


async def test_a_function_that_does_not_end_is_stopped_and_the_next_reply_is_scored(scored):
    with pytest.raises(EnvError, match=r"took longer than 0.2 s for a reply and was stopped"):
        await scored("endless", time_limit_s=0.2)
    assert (await scored("half"))["reward"] == 0.5


async def test_what_a_function_started_is_stopped_with_it(scored):
    with pytest.raises(EnvError, match=r"took longer than 0.2 s for a reply and was stopped"):
        await scored("forks", time_limit_s=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to us on Linux alone")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hides_one", "took longer than 1 s"),
        *heavy(("leaves_one", "exit code 3"), ("hangs_with_one", "took longer than 1 s")),
    ],
)
async def test_what_left_the_scorers_session_is_ended_with_it(scored, name, why):
    with pytest.raises(EnvError, match=why):
        await scored(name, time_limit_s=1)
    assert ended(Path("pid"))
    assert (await scored("half"))["reward"] == 0.5


KILLED = """
import asyncio
from skillwright.envs.table import TableEnv
config = {"scorer": {"kind": "function", "function": "scorers.py:hides_one", "time_limit_s": 600}}
env = TableEnv(config, {"row": {"prompt": "What?", "answer": "right"}, "max_turns": 1})
env.init([])
asyncio.run(env.astep("right"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to us on Linux alone")
def test_no_scorer_outlives_a_run_that_was_killed(scored):
    run = subprocess.Popen([sys.executable, "-c", KILLED], stderr=subprocess.PIPE, text=True)
    while not (Path("pid").exists() and Path("pid").read_text()):
        assert run.poll() is None, run.stderr.read()
    run.kill()
    run.communicate(timeout=30)  # the scorer and what it started hold its standard error
    assert ended(Path("pid"))


def ended(file):
    """Wait until the process whose id is in a file has ended."""
    try:
        process = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return True
    return bool(select.select([process], [], [], 30)[0])


async def test_an_async_function_is_awaited(scored):
    assert (await scored("waits"))["reward"] == 0.5


async def test_a_function_is_stopped_where_nobody_waits_any_more(scored):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await scored("endless", time_limit_s=600)
    assert (await scored("half"))["reward"] == 0.5


async def test_a_regular_expression_that_does_not_end_is_stopped():
    row = {"prompt": "?", "answer": "^(a+)+$"}
    env = TableEnv({"scorer": {"kind": "regex", "time_limit_s": 0.2}}, {"row": row})
    env.init([])
    with pytest.raises(EnvError, match="the regular expression took longer"):
        await env.astep("a" * 60 + "!")


async def test_a_changed_function_scores_anew(scored, tmp_path):
    config = {"scorer": "scorers.py:half"}
    before = TableEnv.identity(config)
    assert (await scored("half"))["reward"] == 0.5
    (tmp_path / "scorers.py").write_text("def half(row, reply):\n    return 1\n", encoding="utf-8")
    assert (await scored("half"))["reward"] == 1.0
    assert TableEnv.identity(config) != before


def test_functions_of_a_session_that_never_end_hold_up_no_other_and_not_the_end():
    def never(row, reply):
        return threading.Event().wait() if reply == "wait" else 0.5

    scorer = {"kind": "function", "function": keep_code(never), "time_limit_s": 0.2}

    async def score(reply):
        env = TableEnv({"scorer": scorer}, {"row": {"prompt": "?"}})
        env.init([])
        return await env.astep(reply)

    async def scored():
        waiting = [asyncio.ensure_future(score("wait")) for _ in range(80)]
        for one in waiting:
            with pytest.raises(EnvError, match=r"took longer than 0\.2 s"):
                await one
        return await score("go")

    assert asyncio.run(scored())["reward"] == 0.5


def test_a_file_that_is_not_there_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"scorer 'none.py' cannot be read"):
        TableEnv.identity({"scorer": "none.py:score"})


def test_the_blocking_step_waits_for_a_function_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def score(row, reply):\n    return 1\n", encoding="utf-8")
    env = TableEnv({"scorer": "own.py:score"}, {"row": {"prompt": "?"}})
    env.init([])
    assert env.step("anything")["reward"] == 1.0
