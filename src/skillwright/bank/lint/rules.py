"""What a rule of lint is. The rules themselves are in `lint_form` and `lint_conduct`.

Patterns see text in compatibility form (NFKC), without hidden characters, on one line and in lower
case, so that other alphabets, widths and invisible letters do not get a word past them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a finding means for the skill."""

    BLOCKS = "blocks"
    """The skill cannot become active."""
    WARNS = "warns"
    """A person should look at it."""


class Negation(StrEnum):
    """Which negation makes the opposite out of what a pattern finds."""

    NONE = "none"
    JUST_BEFORE = "just_before"
    """``Never skip ...``: the words right before it."""
    OF_THE_CLAUSE = "of_the_clause"
    """``Never cancel anything without confirmation``: the first word of its clause."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that must not stand in a skill.

    Attributes:
        name: Names it in findings.
        patterns: Any of them.
        why: What could happen.
        fix: What to do.
        severity: Whether the skill can become active all the same.
        negation: Which negation makes it harmless.
        only_advice: Only what the agent is told to do is searched, not what went wrong.
        sees_disguises: Letters written as digits (``1gn0re``) and words joined by hyphens or
            underscores are read as well.
    """

    name: str
    patterns: tuple[re.Pattern[str], ...]
    why: str
    fix: str
    severity: Severity = Severity.BLOCKS
    negation: Negation = Negation.NONE
    only_advice: bool = False
    sees_disguises: bool = False


def any_of(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Compile the patterns of a rule."""
    return tuple(re.compile(pattern) for pattern in patterns)
