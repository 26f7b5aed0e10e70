"""Every command of the pages for newcomers is run, in order, in a folder with the examples.

A block of shell commands is run as it is written. One that cannot be has a comment above it,
``<!-- not run: REASON -->``. Models behind an endpoint are scripted ones behind a mock of it, and
runs with them are made small; nothing else of a page is changed.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from mock_openai import MockOpenAI, answer_with
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<head>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# `view` and `serve` run until they are stopped, which they are once they have said where. Versions
# that differ end with 1.
COMMAND = """\
import signal, subprocess, sys
words = [sys.executable, "-m", "skillwright", *sys.argv[1:]]
if sys.argv[1] not in ("view", "serve"):
    code = subprocess.run(words).returncode
    sys.exit(0 if code == 1 and sys.argv[1:3] == ["skill", "diff"] else code)
closed = ["--no-open"] if sys.argv[1] == "view" else []
served = subprocess.Popen([*words, *closed], stdout=subprocess.PIPE, text=True)
said = next((line for line in served.stdout if "http://127.0.0.1" in line), "")
served.send_signal(signal.SIGINT)
served.communicate()
sys.exit(not said)
"""
SMALL = {"epochs": 1}, {"train": 12, "val": 16, "test": 8}


class Block(NamedTuple):
    """A fenced block, in the order of its page."""

    language: str
    title: str
    body: str
    reason: str


def guides() -> list[Path]:
    """The front page, and what the menu has under its first two headings."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    found = {name: pages for one in menu for name, pages in one.items()}
    listed = [
        page for name in ("Get started", "Guides") for one in found[name] for page in one.values()
    ]
    return [ROOT / "README.md", *(ROOT / "docs" / name for name in listed)]


def blocks(page: Path) -> Iterator[Block]:
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', found["head"])
        language = found["head"].partition(" ")[0]
        yield Block(language, title[1] if title else "", found["body"], found["reason"] or "")


GUIDES = [page for page in guides() if any(one.language == "sh" for one in blocks(page))]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's run, which several pages look at."""
    folder = tmp_path_factory.mktemp("demo")
    asyncio.run(shell("skillwright demo --half text", folder))
    return folder / "runs" / "demo"


async def shell(commands: str, folder: Path) -> None:
    """Run commands as a person would, and fail at the first that does."""
    place = folder / ".bin"
    place.mkdir(exist_ok=True)
    (place / "command.py").write_text(COMMAND, encoding="utf-8")
    program = place / "skillwright"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{place}/command.py" "$@"\n')
    program.chmod(0o755)
    hidden = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ALFWORLD_DATA")
    settings = {name: value for name, value in os.environ.items() if name not in hidden}
    settings["PYTHONUNBUFFERED"] = "1"  # what `view` says is read while it runs
    settings["PATH"] = f"{place}:{settings['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *(
            "bash",
            "-euo",
            "pipefail",
            "-c",
            commands.replace("OPENAI_API_KEY=...", "OPENAI_API_KEY=sk-mock"),
        ),
        cwd=folder,
        env=settings,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{commands}\n{said.decode()[-3000:]}"


def at_the_mock(body: str, base_url: str) -> str:
    """A configuration with its endpoint here, and its run made small."""
    settings = yaml.safe_load(body)
    called = [one for one in settings.get("models", {}).values() if one["backend"] == "openai_chat"]
    if not called:
        return body
    for one in called:
        one["base_url"] = base_url
        # A server of one's own has no known prices, which a budget in USD needs.
        one["prices"] = {"input_usd_per_mtok": 0.01, "output_usd_per_mtok": 0.01}
    if settings.get("env", {}).get("name") == "alfworld":
        settings["train"], settings["env"]["data"] = SMALL
    return yaml.safe_dump(settings, sort_keys=False)


@pytest.mark.heavy
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
async def test_every_command_of_a_guide_can_be_typed_in_order(page, demo, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    found = list(blocks(page))
    if not any("skillwright demo" in one.body for one in found if not one.reason):
        shutil.copytree(demo, tmp_path / "runs" / "demo")
    acts, writes = ScriptedHousehold(noise=0.1), ScriptedAnalyst()
    models = {"gpt-5-mini": acts, "Qwen/Qwen3.5-4B": acts, "gpt-5.5": writes}
    exports = ""  # a later block is typed into the same terminal
    async with MockOpenAI(answer_with(models), api_key=None) as server:
        for one in found:
            if one.language == "sh" and not one.reason:
                await shell(exports + one.body, tmp_path)
                exports += "".join(
                    f"{line}\n" for line in one.body.splitlines() if line.startswith("export ")
                )
            elif one.language == "python" and page.name == "README.md":
                (tmp_path / "script.py").write_text(one.body, encoding="utf-8")
                await shell(f'"{sys.executable}" script.py', tmp_path)
            elif one.language in {"yaml", "python"} and re.fullmatch(
                r"[^/]+\.(yaml|py)", one.title
            ):
                body = (
                    at_the_mock(one.body, server.base_url) if one.language == "yaml" else one.body
                )
                (tmp_path / one.title).write_text(body, encoding="utf-8")


def test_what_is_not_run_says_why():
    for page in GUIDES:
        text = page.read_text(encoding="utf-8")
        told = [one for one in blocks(page) if one.reason]
        assert all(len(one.reason.split()) > 1 and one.language == "sh" for one in told)
        assert text.count("<!-- not run") == len(told), (
            f"{page.name}: a comment is not above a block"
        )
