"""A program is run once, and nothing of it is left behind."""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from skillwright.core import ModelRefused, ModelTimeout
from skillwright.plugins.executors.process import Program, run_program
from skillwright.plugins.executors.report import OutputFlood

# Forks twice, so that the grandchild has a session, a group and a parent of its own.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {before}
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
while not open(sys.argv[1]).read(): time.sleep(0.01)
"""


def program(code, folder, *args, stdin="", timeout_s=30.0, **settings):
    argv = (sys.executable, "-SE", "-c", code, *args)
    env = {"PATH": os.environ["PATH"]}
    return Program(argv, stdin, folder, env, timeout_s=timeout_s, **settings)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


async def test_a_program_reads_its_prompt_from_stdin_and_gives_both_streams(tmp_path):
    code = (
        "import sys; print(sys.stdin.read().upper()); print('note', file=sys.stderr); sys.exit(3)"
    )
    output = await run_program(program(code, tmp_path, stdin="prompt é \ud800"))
    assert output.stdout == "PROMPT É ?\n"
    assert (output.stderr, output.exit_code) == ("note\n", 3)


async def test_a_long_prompt_that_nobody_reads_is_no_fault(tmp_path):
    output = await run_program(program("print('done')", tmp_path, stdin="x" * 5_000_000))
    assert output.stdout == "done\n"


async def test_the_environment_is_the_given_one(tmp_path):
    code = "import os; print(*sorted(os.environ))"
    output = await run_program(program(code, tmp_path))
    assert set(output.stdout.split()) - {"LC_CTYPE"} == {"PATH"}


async def test_a_program_that_hangs_is_killed_and_its_last_words_are_told(tmp_path):
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('waiting for approval', flush=True); time.sleep(600)"
    )
    started = time.monotonic()
    with pytest.raises(ModelTimeout, match=r"raise timeout_s.*waiting for approval"):
        await run_program(program(code, tmp_path, timeout_s=2.0))
    assert time.monotonic() - started < 20


async def test_a_flood_is_cut_and_its_beginning_is_kept(tmp_path):
    code = "import sys\nwhile True: sys.stdout.write('y' * 65536)"
    keep = tmp_path / "kept" / "cli"
    with pytest.raises(OutputFlood, match=r"more than 1 MB .* Tell it to print less"):
        await run_program(program(code, tmp_path, max_output_bytes=1_000_000, keep=keep))
    kept = (tmp_path / "kept" / "cli_raw.txt").read_text()
    assert 800_000 < len(kept) <= 1_000_000


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("before", ["pass", "os.chdir('/')"])
async def test_a_daemon_that_let_go_of_its_parent_is_killed_at_the_end(tmp_path, before):
    note = tmp_path / "pid"
    code = DAEMON.format(before=before)
    output = await run_program(program(code, tmp_path, str(note)))
    assert output.exit_code == 0
    assert not is_alive(int(note.read_text()))


SLEEPS = "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)"
# Leaves group, session, parent, folder and environment behind, and keeps the pipes.
ESCAPES = (
    "os.chdir('/'); os.execve(sys.executable, [sys.executable, '-c', {0!r}, sys.argv[1]], {{}})"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives us orphans to end")
async def test_a_child_that_escaped_and_holds_the_pipe_is_ended_and_takes_no_answer_away(tmp_path):
    code = "print('the whole report', flush=True)" + DAEMON.format(before=ESCAPES.format(SLEEPS))
    output = await run_program(program(code, tmp_path, str(tmp_path / "pid")))
    assert (output.stdout, output.exit_code) == ("the whole report\n", 0)
    assert output.seconds < 20
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_cancelling_the_caller_kills_the_whole_tree(tmp_path):
    note = tmp_path / "pid"
    code = DAEMON.format(before="pass") + "time.sleep(600)"
    running = asyncio.create_task(run_program(program(code, tmp_path, str(note))))
    while not (note.exists() and note.read_text()):  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(int(note.read_text()))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_whoever_merely_stands_in_the_folder_is_not_killed(tmp_path):
    bystander = await asyncio.create_subprocess_exec("sleep", "600", cwd=tmp_path)
    try:
        await run_program(program("print('done')", tmp_path))
        assert is_alive(bystander.pid)
    finally:
        bystander.kill()
        await bystander.wait()


@pytest.mark.parametrize("code", ["exit 0", "sleep 600", "exec 1>&- 2>&- 0<&-; sleep 600"])
async def test_cancelling_while_it_starts_ends_it_and_never_hangs(code, tmp_path):
    complaints = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    for turns in range(1, 12):
        asked = Program(("/bin/sh", "-c", code), "hi", tmp_path, {})
        running = asyncio.create_task(run_program(asked))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=20)
        assert done, f"hangs when it is cancelled after {turns} turns of the loop"
        assert not list(in_folder(tmp_path))
    assert not complaints


def in_folder(folder):
    """Yield the processes that run in a folder."""
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if place.readlink() == folder:
                yield place


async def test_a_program_that_is_not_there_is_refused_with_its_path(tmp_path):
    with pytest.raises(ModelRefused, match=r"'/no/such' cannot be started: No such file.*its path"):
        await run_program(Program(("/no/such",), "", tmp_path, {}))


async def test_a_key_that_is_printed_is_neither_returned_nor_kept(tmp_path):
    code = "import sys; print('key', sys.stdin.read()); print('sk-canary', file=sys.stderr)"
    keep = tmp_path / "cli"
    asked = program(code, tmp_path, stdin="sk-canary", secrets=("sk-canary",), keep=keep)
    output = await run_program(asked)
    assert output.stdout == "key <redacted>\n"
    assert output.stderr == "<redacted>\n"
    assert not [file for file in tmp_path.iterdir() if "canary" in file.read_text()]
