"""The scripted optimizer in another form: sentences that no sheet of the supervised data has."""

import re
from collections.abc import Mapping
from dataclasses import replace

from skillwright.models.scripted.prompts import Reading
from skillwright.worlds.scripted.clerk import ClerkAnalyst, Finding

SAYS = re.compile(r'When it says ((?:"[^"\n]+"(?:, )?)+), answer "([^"\n]+)"\.?')
BELONGS = re.compile(r"The (\S+) desk takes tickets with ([^\n]+?) in them\.")

FORMS = ("says", "belongs")
"""`When it says "money", answer "Red".` and `The Red desk takes tickets with money in them.`"""


class BelongsAnalyst(ClerkAnalyst):
    """Proposes the rules of `ClerkAnalyst` in the form ``belongs``."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = "scripted:belongs_analyst"

    def _found(self, reading: Reading, episodes: Mapping[str, str]) -> list[Finding]:
        said = replace(reading, skill=to_says(reading.skill), earlier=to_says(reading.earlier))
        found = super()._found(said, episodes)
        return [(lesson, to_belongs(text), names) for lesson, text, names in found]


def to_belongs(text: str) -> str:
    """Rewrite the rules in a text from ``says`` to ``belongs``."""
    return SAYS.sub(lambda m: f"The {m[2]} desk takes tickets with {_or(m[1])} in them.", text)


def to_says(text: str) -> str:
    """Rewrite the rules in a text from ``belongs`` to ``says``."""
    return BELONGS.sub(lambda m: f'When it says {_quoted(m[2])}, answer "{m[1]}".', text)


def _or(quoted: str) -> str:
    return " or ".join(re.findall(r'"([^"\n]+)"', quoted))


def _quoted(words: str) -> str:
    return ", ".join(f'"{word}"' for word in words.split(" or "))
