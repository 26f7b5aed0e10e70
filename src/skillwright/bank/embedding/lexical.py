"""Similarity by words and parts of words: no model, no download, the same on every machine.

A text becomes a bag of stemmed words and of the four-letter pieces of each, hashed into a fixed
number of signed places. What a word weighs is a fixed rule and not counted in a bank, so that
adding a skill leaves every other score as it was: function words, and those that any instruction
is full of, weigh little; all others the same. A piece weighs a share of its word, so that
"reheating" and "heat" meet. A word counts by the square root of how often it occurs.

It sees words, not meanings: "warm" and "hot" meet only in the small table of synonyms below.
"""

import math
import re
import zlib
from collections import Counter
from functools import lru_cache
from typing import Final

import numpy as np

from skillwright.bank.embedding.embedder import Vectors, unit_rows

DIMENSIONS: Final = 1024
VERSION: Final = 2
"""Rises whenever the same text would get another vector."""

_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_PIECE: Final = 4
_PIECES_WEIGH: Final = 0.35  # of their word, all together
_COMMON_WEIGHS: Final = 0.1

_COMMON: Final = """
    a about above after again all also always an and any are as at avoid back be because been
    before being below between both but by can cannot case check could did do does doing dollar
    done down each either else ensure even every few find first for from further get give given
    go goal goals had has have having he her here his how i if in instead into is it item its
    itself just keep know last least less like look lower made make many may me mean might more
    most much must my need needed needs never new next no nor not nothing now of off on once one
    only onto or other our out over own per price put rather right same see several she should
    since so some something still such take task tasks than that the their them then there these
    they thing things this those through thus to too under unless until up upon use used uses
    using very want wants was way we well were what when whenever where whether which while who
    whose why will with within without would yes yet you your
    """

_SAME: Final = {
    "hot": "heat", "warm": "heat", "cold": "cool", "chill": "cool", "wash": "clean",
    "rinse": "clean", "lamp": "light", "desklamp": "light", "floorlamp": "light", "both": "two",
    "pair": "two", "second": "two",
}  # fmt: skip


class LexicalEmbedder:
    """Encodes texts by their words."""

    identity = f"lexical-{VERSION}-{DIMENSIONS}"
    delta = 0.05

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode task descriptions; see `Embedder`."""
        return self._encode(texts)

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode texts of skills; see `Embedder`."""
        return self._encode(texts)

    def _encode(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(words_of(text)).items():
                for place, weight in _places(word):
                    row[place] += weight * math.sqrt(count)
        return unit_rows(rows)


def words_of(text: str) -> list[str]:
    """Return the stems of a text's words, in order; ``pick_two`` and ``SinkBasin`` are two each."""
    return [_stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower())]


def _stem(word: str) -> str:
    for suffix in ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix) + ("y" if suffix == "ies" else "")
            break
    return word.removesuffix("e") if len(word) > 4 else word


@lru_cache(maxsize=65_536)
def _places(word: str) -> tuple[tuple[int, float], ...]:
    """Where a word goes: (place, signed weight) of itself and of its pieces."""
    weight = _COMMON_WEIGHS if word in _COMMON_STEMS else 1.0
    word = _SAME_STEMS.get(word, word)
    places = [_place(f"w:{word}", weight)]
    padded = f"<{word}>"
    pieces = [padded[at : at + _PIECE] for at in range(len(padded) - _PIECE + 1)]
    if pieces:
        share = weight * math.sqrt(_PIECES_WEIGH / len(pieces))
        places += [_place(f"p:{piece}", share) for piece in pieces]
    return tuple(places)


def _place(feature: str, weight: float) -> tuple[int, float]:
    number = zlib.crc32(feature.encode())
    return number % DIMENSIONS, weight if number & 0x8000_0000 else -weight


_COMMON_STEMS: Final = frozenset(map(_stem, _COMMON.split()))
_SAME_STEMS: Final = {_stem(word): _stem(same) for word, same in _SAME.items()}
