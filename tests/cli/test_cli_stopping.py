"""A process that is stopped from outside says how to continue, whenever that happens."""

import json
import os
import signal
import subprocess
import sys

import pytest

from samples import heavy
from served import served
from skillwright import __version__

ENDPOINT = {"backend": "openai_chat", "model": "mock-1", "api_key_env": "MOCK_KEY"}
STOPPED_WHILE_IMPORTING = """
import builtins, sys
real = builtins.__import__
def stop(name, *rest, **more):
    if name == "skillwright.cli.app":
        raise KeyboardInterrupt
    return real(name, *rest, **more)
from skillwright.cli import main
builtins.__import__ = stop
main()
"""

DEAF = """
import os, signal
from skillwright.cli.streams import listen
listen()
os.kill(os.getpid(), signal.SIGINT)
print("still here")
os.kill(os.getpid(), signal.SIGTERM)
"""

# Stops itself inside work that heeds no signal.
STUCK = """
import ctypes, os, signal, subprocess, threading, time
from skillwright.cli import streams
from skillwright.cli.faults import exit_codes
streams._FIRST_S, streams._AGAIN_S = {first_s}, {again_s}
streams.listen()
with exit_codes("skillwright resume runs/stuck"):
    {work}
"""
STOP = "os.kill(os.getpid(), signal.{0});"
WORK = {
    "thread": "threading.Thread(target=threading.Event().wait).start();" + STOP,
    "loop": """
    while True:
        try:
            os.kill(os.getpid(), signal.{0})
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
""",
    # A mutex that is locked twice: the main thread runs no Python code any more.
    "library": "threading.Timer(0.05, os.kill, (os.getpid(), signal.{0})).start();"
    "mutex, lock = ctypes.create_string_buffer(128), ctypes.CDLL(None).pthread_mutex_lock;"
    "lock(mutex); lock(mutex)",
    "exit": "import atexit; atexit.register(threading.Event().wait);" + STOP,
}

COMMAND = [sys.executable, "-m", "skillwright"]

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


@posix
@pytest.mark.parametrize(
    ("numbers", "code", "trap"),
    [
        ([signal.SIGINT], 130, "-"),
        ([signal.SIGTERM], 143, "-"),
        # As a job that a script leaves in the background: Ctrl-C is for others.
        ([signal.SIGINT, signal.SIGTERM], 143, "''"),
    ],
)
def test_a_signal_ends_a_run_with_the_way_on(cli, write_config, tmp_path, numbers, code, trap):
    asked, victims, left = [], [], list(numbers)

    async def until_the_signal(body):
        asked.append(body)
        if len(asked) >= 10 and left:
            victims[0].send_signal(left.pop(0))
        return "1"

    with served(until_the_signal) as server:
        config = write_config(models={"target": {**ENDPOINT, "base_url": server.base_url}})
        process = subprocess.Popen(
            ["sh", "-c", f'trap {trap} INT; exec "$@"', "sh", *COMMAND, "train", str(config)],
            cwd=tmp_path,
            env={**os.environ, "MOCK_KEY": server.api_key},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        victims.append(process)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, left) == (code, []), said
    assert "continue with:  skillwright resume runs/doors" in said
    assert "Traceback" not in said
    assert json.loads(cli("runs", "show", "doors", "--json").stdout)["finished"] is False


@posix
def test_a_job_that_ignores_ctrl_c_goes_on_ignoring_it():
    words = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", DEAF]
    stopped = subprocess.run(words, capture_output=True, text=True, check=False)
    assert stopped.stdout == "still here\n"
    assert stopped.stderr.endswith("KeyboardInterrupt\n")


@posix
@pytest.mark.parametrize(
    ("work", "name", "code"),
    [
        ("thread", "SIGINT", 130),
        ("loop", "SIGTERM", 143),
        *heavy(("library", "SIGINT", 130), ("exit", "SIGINT", 130), ("thread", "SIGTERM", 143)),
    ],
)
def test_what_heeds_no_signal_is_ended_in_time_and_how_to_continue_is_said(work, name, code):
    script = STUCK.format(first_s=0.2, again_s=60, work=WORK[work].format(name))
    ended = begun_alone(script)
    assert ended.returncode == code, ended.stderr
    assert "continue with:  skillwright resume runs/stuck" in ended.stderr


@posix
def test_a_second_ctrl_c_waits_no_longer():
    work = WORK["loop"].format("SIGINT")  # one after the other
    ended = begun_alone(STUCK.format(first_s=60, again_s=0.1, work=work))
    assert ended.returncode == 130, ended.stderr


def begun_alone(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )


def test_whoever_stops_it_while_it_is_being_imported_gets_no_traceback():
    words = [sys.executable, "-c", STOPPED_WHILE_IMPORTING]
    stopped = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "")


def test_it_is_a_module_that_can_be_run():
    words = [sys.executable, "-m", "skillwright", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"skillwright {__version__}\n"
