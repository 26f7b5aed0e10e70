"""What the front page and the page of the demo show is what the demo prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "demo.md")


def words(text):
    """Text without its line breaks: the page wraps what a pipe gets in one line."""
    return " ".join(text.split())


@pytest.mark.heavy
def test_the_pages_show_what_the_demo_prints(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = cli("demo", "--half", "text").stdout
    lines = said.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    printed = words(said)
    for page in PAGES:
        text, at = page.read_text(encoding="utf-8"), 0
        (block,) = re.findall(r"<!-- demo-output -->.*?```\n(.*?)```", text, re.DOTALL)
        for part in block.split("\n...\n"):
            at = printed.find(words(part), at)
            assert at >= 0, f"run skillwright demo and put what it prints into {page}: {part}"
