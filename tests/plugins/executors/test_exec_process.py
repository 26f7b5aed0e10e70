"""A program is run once, and nothing of it is left behind."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from skillwright.core import ModelRefused, ModelTimeout
from skillwright.models import OutputFlood
from skillwright.plugins.executors.process import Program, run_program

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


async def test_the_environment_is_the_given_one_and_a_mark(tmp_path):
    code = "import os; print(*sorted(os.environ))"
    output = await run_program(program(code, tmp_path))
    assert set(output.stdout.split()) - {"LC_CTYPE"} == {"PATH", "SKILLWRIGHT_EXEC"}


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


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_a_child_that_dropped_the_mark_is_known_by_its_folder(tmp_path):
    note = tmp_path / "pid"
    run = "os.execve(sys.executable, [sys.executable, '-SE', '-c', SLEEP, sys.argv[1]], {})"
    sleep = "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)"
    code = f"SLEEP = {sleep!r}\n" + DAEMON.format(before=run)
    await run_program(program(code, tmp_path, str(note)))
    assert not is_alive(int(note.read_text()))


SLEEPS = "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)"
# Leaves group, parent, mark and folder behind, and keeps the pipes.
ESCAPES = (
    "os.chdir('/'); os.execve(sys.executable, [sys.executable, '-c', {0!r}, sys.argv[1]], {{}})"
)


def escaping(folder, **settings):
    """Return a program that answers and exits, and whose child nothing tells to be one of its."""
    code = "print('the whole report', flush=True)" + DAEMON.format(before=ESCAPES.format(SLEEPS))
    return program(code, folder, str(folder / "pid"), **settings)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_a_child_that_escaped_and_holds_the_pipe_takes_no_answer_away(tmp_path, caplog):
    output = await run_program(escaping(tmp_path, drain_s=0.1))
    assert (output.stdout, output.exit_code) == ("the whole report\n", 0)
    assert output.seconds < 20
    pid = int((tmp_path / "pid").read_text())
    assert not is_alive(pid)
    assert f"process {pid} (" in caplog.text
    assert "time.sleep(600)" in caplog.text


async def test_an_orphan_that_cannot_be_found_takes_no_answer_away_either(
    tmp_path, caplog, monkeypatch
):
    (tmp_path / "nothing").mkdir()
    monkeypatch.setattr("skillwright.plugins.executors.process._PROC", tmp_path / "nothing")
    try:
        output = await run_program(escaping(tmp_path, drain_s=0.1))
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert output.stdout == "the whole report\n"
    assert output.seconds < 20
    assert "a process that could not be found" in caplog.text


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
        assert _is_gone(asked.mark)
    assert not complaints


def _is_gone(mark):
    """Whether nothing bears the mark; what was killed may need a moment to die."""
    return any(not _bearing(mark) for _ in range(500))


def _bearing(mark):
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in place.read_bytes():
                found.append(place)
    return found


async def test_a_program_that_is_not_there_is_refused_with_its_path(tmp_path):
    with pytest.raises(ModelRefused, match=r"No such file.*'/no/such'.*correct its path"):
        await run_program(Program(("/no/such",), "", tmp_path, {}))


async def test_a_key_that_is_printed_is_neither_returned_nor_kept(tmp_path):
    code = "import sys; print('key', sys.stdin.read()); print('sk-canary', file=sys.stderr)"
    keep = tmp_path / "cli"
    asked = program(code, tmp_path, stdin="sk-canary", secrets=("sk-canary",), keep=keep)
    output = await run_program(asked)
    assert output.stdout == "key <redacted>\n"
    assert output.stderr == "<redacted>\n"
    assert not [file for file in tmp_path.iterdir() if "canary" in file.read_text()]


STARTS = """
import asyncio, sys
from pathlib import Path
from skillwright.plugins.executors.process import Program, run_program
code = "echo $$ > pid.new; mv pid.new pid; exec sleep 600"
asyncio.run(run_program(Program(("/bin/sh", "-c", code), "", Path(sys.argv[1]), {})))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of our death")
async def test_a_program_dies_with_us_when_we_are_killed(tmp_path):
    ours = await asyncio.create_subprocess_exec(sys.executable, "-c", STARTS, tmp_path)
    note = tmp_path / "pid"
    while not note.exists():  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.01)
    ours.kill()
    await ours.wait()
    async with asyncio.timeout(20):
        while is_alive(int(note.read_text())):  # noqa: ASYNC110  it was told, and is dying
            await asyncio.sleep(0.01)
