"""What an edit says, so that two wordings of one thing are known for the same."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from skillwright.scripted.skilltext import BAD_RULES, Rule, read_conduct, read_habits

_SAME_WORDS: Final = 0.75

_HEADING_ON_ONE_LINE = re.compile(r"^#{1,6} .*? - ")


class Say(NamedTuple):
    """One thing that a text says: a rule, and whether it asks for the doing."""

    rule: Rule
    wanted: bool

    @property
    def is_harmful(self) -> bool:
        """It forbids what helps, or asks for what harms."""
        return self.wanted == (self.rule in BAD_RULES)


def says(text: str) -> frozenset[Say]:
    """Return what a text says about the rules in the end, each rule once.

    A heading that was put on one line with its text is taken off.
    """
    stances = read_conduct(_HEADING_ON_ONE_LINE.sub("- ", text)).stances
    return frozenset(Say(rule, stance.wanted) for rule, stance in stances.items())


def are_alike(one: str, other: str) -> bool:
    """Tell whether two texts say the same: by what is recognised, else by their words.

    Texts that tell where things are kept say the same only in the same words.
    """
    if says(one) or says(other):
        return says(one) == says(other) and bool(read_habits(one)) == bool(read_habits(other))
    words, others = _words(one), _words(other)
    if read_habits(one) or read_habits(other):
        return words == others
    shared = len(words & others)
    return shared >= _SAME_WORDS * max(len(words | others), 1)


def text_of(edit: Mapping[str, Any], field: str) -> str:
    """Return a field of an edit as a model's JSON has it, or "" where it is no text."""
    value = edit.get(field, "")
    return value if isinstance(value, str) else ""


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
