"""Searches that an instruction suggests, for policies that can only choose among commands.

They are the whole instruction, as an untaught customer would paste it; its content words from
the thing on, without talk and price; those of them up to the first comma; and the first four of
those.
"""

import re
from typing import Final

from skillwright.envs.webshop.categories import named_category
from skillwright.envs.webshop.words import words

_PRICE: Final = re.compile(r",? and price lower than [0-9.]+ dollars\s*$")
_QUERY_WORD: Final = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_ASKS: Final = re.compile(r".*\b(?:want|need|buy|find me|looking for)\s")
_CLAUSE: Final = re.compile(r"([.,:;?!])\s+")
_TALK: Final = frozenset(
    words(
        "a an and are as at be but by can could for from give has have i i'd i'll i'm "
        "i've if in is it like look looking me my need of on one or please should so some "
        "something soon that the their them there they this to want was we will with "
        "would you your am find buy get nice also must it's which who made comes come "
        "size color colour new shop shopping purchase interested want "
    )
)
_FIRST_WORDS: Final = 4


def search_commands(instruction: str) -> list[str]:
    """Return ``search[...]`` commands for an instruction, each once, the plainest first."""
    wish = _PRICE.sub("", instruction.lower())
    asked = _asked(wish)
    about = _content(" ".join(asked[: _first_comma(asked)]))
    queries = (
        " ".join(_QUERY_WORD.findall(instruction.lower())),
        " ".join(_content(" ".join(asked))),
        " ".join(about),
        " ".join(about[:_FIRST_WORDS]),
    )
    return [f"search[{query}]" for query in dict.fromkeys(queries) if query]


def _asked(wish: str) -> list[str]:
    """Return clauses and what ends them, from the clause that names the thing on."""
    pieces = _CLAUSE.split(wish)
    clauses = pieces[::2]
    named = [at for at, clause in enumerate(clauses) if named_category(clause)]
    first = named[0] if named else max(range(len(clauses)), key=lambda at: len(clauses[at]))
    clause = _ASKS.sub("", clauses[first])
    if not named_category(clause) and named:
        clause = clauses[first]  # the thing stood in the talk
    return [clause, *pieces[2 * first + 1 :]]


def _first_comma(asked: list[str]) -> int:
    return asked.index(",") if "," in asked else len(asked)


def _content(text: str) -> list[str]:
    return [word for word in _QUERY_WORD.findall(text) if word not in _TALK]
