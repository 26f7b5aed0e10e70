"""What a supervised program started ends with it, and with the process that started it."""

import signal
import subprocess
import sys

import pytest

from samples import heavy
from skillwright.core.supervised import NOT_STARTED, end_supervised, supervised

# Starts ``sleep`` in each of the ways that have escaped from somebody, and lets it keep stdout.
KEPT = """
import os, signal, subprocess, sys
def sleep():
    os.execvp("sleep", ["sleep", "600"])
def forked(work):
    if os.fork() == 0:
        work()
        os._exit(0)
"""
WAYS = {
    "child": "subprocess.Popen(['sleep', '600'])",
    "fork": "forked(sleep)",
    "session": "forked(lambda: (os.setsid(), sleep()))",
    "group": "forked(lambda: (os.setpgid(0, 0), sleep()))",
    "daemon": "forked(lambda: (os.setsid(), forked(sleep)))",
    "shell": "subprocess.Popen(['sh', '-c', 'nohup setsid sleep 600 & exit 0'])",
    "deaf": "forked(lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), os.setsid(), sleep()))",
    "bare": "forked(lambda: (os.setsid(), os.chdir('/'), "
    "os.execve('/bin/sleep', ['sleep', '600'], {})))",
    "many": "[forked(lambda: (os.setsid(), sleep())) for _ in range(30)]",
    "stopped": "forked(lambda: (os.setsid(), os.kill(os.getpid(), signal.SIGSTOP)))",
}
STAYS = "\nprint('started', flush=True)\nsignal.pause()"
PARENT = """
import subprocess, sys
from skillwright.core.supervised import supervised
subprocess.Popen(supervised([sys.executable, "-c", sys.argv[1]]), start_new_session=True)
sys.stdin.read()
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans come to us on Linux alone")


def begun(argv, **more):
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, **more)


@linux
@pytest.mark.parametrize("way", ["daemon", *heavy(*sorted(WAYS.keys() - {"daemon"}))])
def test_nothing_outlives_a_parent_that_was_killed(way):
    parent = begun([sys.executable, "-c", PARENT, KEPT + WAYS[way] + STAYS])
    assert parent.stdout.readline() == "started\n"
    parent.kill()
    # Reading ends when the last process that holds the pipe does.
    assert parent.communicate(timeout=30)[0] == ""


@linux
@pytest.mark.parametrize("way", ["session", *heavy(*sorted(WAYS.keys() - {"session"}))])
def test_nothing_outlives_the_program_itself(way):
    words = supervised([sys.executable, "-c", KEPT + WAYS[way] + "\nos._exit(3)"])
    program = begun(words, start_new_session=True)
    assert program.communicate(timeout=30)[0] == ""
    assert program.returncode == 3


@linux
def test_sigterm_ends_a_program_that_ignores_it_with_all_that_it_started():
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code = KEPT + deaf + "\n".join(WAYS.values()) + STAYS
    program = begun(supervised([sys.executable, "-c", code]), start_new_session=True)
    assert program.stdout.readline() == "started\n"
    end_supervised(program)
    assert program.communicate(timeout=30)[0] == ""
    assert program.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no supervisor")
@pytest.mark.parametrize(
    ("code", "expected"),
    [("exit 0", 0), ("exit 7", 7), ("kill -USR1 $$", -signal.SIGUSR1), ("kill -9 $$", -9)],
)
def test_streams_and_exit_codes_are_the_programs(code, expected):
    words = supervised(["sh", "-c", f"cat; echo note >&2; {code}"])
    done = subprocess.run(
        words, input="said é", capture_output=True, text=True, check=False, start_new_session=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("said é", "note\n", expected)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no supervisor")
def test_a_program_that_cannot_be_started_says_why(tmp_path):
    (tmp_path / "text").write_text("no program")
    for name, why in (("no-such", "No such file"), (str(tmp_path / "text"), "Permission denied")):
        done = subprocess.run(supervised([name]), capture_output=True, text=True, check=False)
        assert done.returncode == NOT_STARTED
        assert f"{name!r} cannot be started: {why}" in done.stderr
