"""A real terminal: what a panel leaves behind, and that Ctrl-C leaves it as it was."""

import os
import re
import struct
import subprocess
import sys

import pytest

from served import served

fcntl, pty, termios = (
    pytest.importorskip(name, reason="Windows has no pseudo-terminals")
    for name in ("fcntl", "pty", "termios")
)

ENDPOINT = {"backend": "openai_chat", "model": "mock-1", "api_key_env": "MOCK_KEY"}
COLORED = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])(?:;\d+)*m")
BAR = "\N{BOX DRAWINGS HEAVY HORIZONTAL}"


class Screen:
    """A command on a terminal of its own, and everything that it wrote there."""

    def __init__(self, words, cwd, width=80, **environ):
        self.mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.before = termios.tcgetattr(self.mine)
        kept = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "skillwright", *map(str, words)],
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color", **environ},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.said = ""

    def read(self, until=None):
        """Read on until a text comes, or to the end."""
        while until is None or until not in self.said:
            try:
                part = os.read(self.mine, 65536)
            except OSError:  # nobody has the terminal any more
                break
            if not part:
                break
            self.said += part.decode("utf-8", "replace")
        return self.said

    def write(self, text):
        """Type something."""
        os.write(self.mine, text.encode())

    def close(self):
        """End what is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.mine)


@pytest.fixture
def on_terminal(tmp_path):
    """Start commands on terminals."""
    made = []

    def start(*words, **more):
        made.append(Screen(words, tmp_path, **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_ctrl_c_takes_the_panel_away_and_leaves_the_terminal_as_it_was(on_terminal, write_config):
    asked = []

    async def until_ctrl_c(body):
        asked.append(body)
        if len(asked) == 10:
            screen.read(BAR)
            screen.write("\x03")
        return "1"

    with served(until_ctrl_c) as server:
        config = write_config(models={"target": {**ENDPOINT, "base_url": server.base_url}})
        screen = on_terminal("train", config, MOCK_KEY=server.api_key)
        said = screen.read()
        code = screen.process.wait(timeout=60)
    assert code == 130
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") > 0  # the cursor is back
    assert termios.tcgetattr(screen.mine) == screen.before
    left = said.rpartition("\x1b[?25h")[2]
    assert "elapsed" in left
    assert BAR not in left
    assert "continue with:" in left
    assert "Traceback" not in said


@pytest.mark.parametrize(("environ", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colors_are_for_those_who_want_them(on_terminal, write_config, environ, colored):
    screen = on_terminal("eval", write_config(), **environ)
    said = screen.read()
    assert screen.process.wait(timeout=60) == 0
    assert bool(COLORED.search(said)) is colored


@pytest.mark.parametrize("width", [80, 60, 40])
def test_what_stays_after_a_run_fits_the_terminal(on_terminal, write_config, width):
    screen = on_terminal("eval", write_config(), width=width, NO_COLOR="1")
    said = screen.read()
    assert screen.process.wait(timeout=60) == 0
    left = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.rpartition("\x1b[?25h")[2])
    lines = [line.rstrip() for line in left.replace("\r", "").splitlines()]
    assert "elapsed" in left
    assert "solved" in left
    assert max(map(len, lines)) <= width
