"""The rules of lint, read from `rules.toml`: `FORM` is about forms of text, `CONDUCT` about advice.

Forms are what a client follows, runs, expands or cannot read; conduct is what a skill must not ask
for. Patterns match text in compatibility form (NFKC), without hidden characters, on one line and in
lower case, so that other alphabets, widths and invisible letters do not hide a word.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any


class Severity(StrEnum):
    """The effect of a finding."""

    BLOCKS = "blocks"
    """The skill cannot become active."""
    WARNS = "warns"
    """A person should look at it."""


class Negation(StrEnum):
    """The negation that reverses the meaning of a match."""

    NONE = "none"
    JUST_BEFORE = "just_before"
    """``Never skip ...``: the words right before it."""
    OF_THE_CLAUSE = "of_the_clause"
    """``Never cancel anything without confirmation``: the first word of its clause."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Patterns that a skill must not contain.

    Attributes:
        name: Its name in findings.
        why: The risk.
        fix: What the author should do.
        negation: The negation that makes a match harmless.
        only_advice: Search the advice to the agent only, not the description of the failure.
        sees_disguises: Also read digits as letters (``1gn0re``), and words joined by hyphens or
            underscores as separate words.
    """

    name: str
    patterns: tuple[re.Pattern[str], ...]
    why: str
    fix: str
    severity: Severity = Severity.BLOCKS
    negation: Negation = Negation.NONE
    only_advice: bool = False
    sees_disguises: bool = False


def _rule(fields: dict[str, Any], words: Mapping[str, str]) -> Rule:
    patterns = map(_joined, fields.pop("patterns"))
    return Rule(
        patterns=tuple(
            re.compile(re.sub("<([A-Z]+)>", lambda found: words[found[1]], one)) for one in patterns
        ),
        severity=Severity(fields.pop("severity", Severity.BLOCKS)),
        negation=Negation(fields.pop("negation", Negation.NONE)),
        **fields,
    )


def _joined(text: str) -> str:
    return "".join(line.lstrip() for line in text.splitlines()) if "\n" in text else text


def _read() -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    file = resources.files("skillwright.bank.lint") / "rules.toml"
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    words = {name: _joined(text) for name, text in read["words"].items()}
    form, conduct = (tuple(_rule(one, words) for one in read[key]) for key in ("form", "conduct"))
    return form, conduct


FORM, CONDUCT = _read()
