"""The prompts, one file each; a changed word changes scores.

The obligations of a simulated customer, and their place after the first sentence, are tau-bench's
(arXiv:2406.12045); the words are ours.
"""

from functools import cache
from pathlib import Path
from string import Template
from typing import Any


def prompt(name: str, **values: Any) -> str:
    """Return a prompt with its ``$names`` replaced."""
    return _template(name).substitute(values)


@cache
def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8"))
