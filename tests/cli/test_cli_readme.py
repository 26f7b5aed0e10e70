"""What the front page shows of the demo is what the demo prints."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def words(text):
    """Text without its line breaks: the page wraps what a pipe gets in one line."""
    return " ".join(text.split())


@pytest.mark.heavy
def test_the_page_shows_what_the_demo_prints(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = README.read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- demo-output -->.*?```\n(.*?)```", page, re.DOTALL)
    printed = words(cli("demo", "--half", "text").stdout)
    for part in block.split("\n...\n"):
        at = printed.find(words(part))
        assert at >= 0, f"run skillwright demo and put what it prints into README.md, for: {part}"
        printed = printed[at:]
