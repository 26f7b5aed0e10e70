"""Texts as tokens: "cabinet 3" is one, and an unknown word is still equal to itself."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from skillwright.core.jsonio import digest

UNKNOWN: Final = 1
"""The word id of every word that the vocabulary lacks; 0 is padding."""

MOST_NUMBER: Final = 31
"""Larger numbers share one embedding; tokens that differ in them are still unequal."""

# The tags of a bank ("[t014]") name skills and say nothing about the world.
_TAG: Final = re.compile(r"^- \[\w+\] ", re.MULTILINE)
_TOKEN: Final = re.compile(r"([a-z][a-z'-]*)(?: (\d+)\b)?|(\d+)|([.:?!])|\n")


class Token(NamedTuple):
    """A token.

    Attributes:
        word: Lower-case; "." for the end of a sentence or line, "" for a bare number.
        number: From 1, that is the number in the text plus 1; 0 where there is none.
        name: Equal for equal words with equal numbers.
        kind: Equal for equal words.
    """

    word: str
    number: int
    name: int
    kind: int


@lru_cache(maxsize=65536)
def tokenise(text: str) -> tuple[Token, ...]:
    """Cut a text into tokens. Articles and the like stay; commas and brackets go."""
    tokens: list[Token] = []
    for word, number, bare, _ in _TOKEN.findall(_TAG.sub("- ", text).lower()):
        digits = number or bare
        shown = word if word or bare else "."
        if shown == "." and tokens and tokens[-1].word == ".":
            continue
        tokens.append(_token(shown, digits))
    return tuple(tokens)


@lru_cache(maxsize=65536)
def _token(word: str, digits: str) -> Token:
    number = int(digits) + 1 if digits else 0
    return Token(word, number, _hashed(f"{word} {digits}"), _hashed(word))


def _hashed(text: str) -> int:
    """31 bits, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


FULL_STOP: Final = _token(".", "")
"""The end of a sentence or line."""


@dataclass(frozen=True)
class Vocabulary:
    """The words that a policy knows.

    Attributes:
        words: In the order of their ids, which start at 2.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        """Return all words of some texts, in the order of the alphabet."""
        return cls(tuple(sorted({token.word for text in texts for token in tokenise(text)})))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word -> id."""
        return {word: index for index, word in enumerate(self.words, start=UNKNOWN + 1)}

    @property
    def size(self) -> int:
        """How many ids there are, padding and the unknown word included."""
        return len(self.words) + UNKNOWN + 1

    @cached_property
    def digest(self) -> str:
        """Equal for equal vocabularies."""
        return digest(list(self.words))
