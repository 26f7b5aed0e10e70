"""How alike two texts are as sets of words: the token-set ratio, from 0 to 100, as fractions.

Source: rapidfuzz (``fuzz.token_set_ratio``), by the Indel distance. The reward asks thefuzz
0.19, which prepares texts in its own way and returns a whole number; `are_alike` does both
alike.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_ZERO: Final = Fraction(0)
_WHOLE: Final = Fraction(100)
_DROPPED: Final = dict.fromkeys(range(128, 256))


def token_set_similarity(one: str, other: str) -> Fraction:
    """Compare the words of two texts as they stand; no word on either side gives 0.

    Returns:
        A fraction in [0, 100].
    """
    words, others = set(one.split()), set(other.split())
    if not words or not others:
        return _ZERO
    shared = " ".join(sorted(words & others))
    left, right = " ".join(sorted(words - others)), " ".join(sorted(others - words))
    if shared and not (left and right):
        return _WHOLE
    gap = len(shared) + 1 if shared else 0
    best = _ratio(_indel_distance(left, right), 2 * gap + len(left) + len(right))
    if shared:
        for rest in (left, right):
            best = max(best, _ratio(1 + len(rest), len(shared) + gap + len(rest)))
    return best


@lru_cache(maxsize=65_536)
def are_alike(one: str, other: str) -> bool:
    """Tell whether two texts are more than 85 alike, rounded, without case and punctuation."""
    return round(token_set_similarity(_plain(one), _plain(other))) > 85


def _plain(text: str) -> str:
    """Prepare a text as the original does: the characters 128 to 255 are dropped, others stay."""
    return re.sub(r"\W", " ", text.translate(_DROPPED)).lower().strip()


def _ratio(distance: int, length: int) -> Fraction:
    return _WHOLE - Fraction(100 * distance, length) if length else _WHOLE


def _indel_distance(one: str, other: str) -> int:
    return len(one) + len(other) - 2 * _common_subsequence(one, other)


def _common_subsequence(one: str, other: str) -> int:
    """Return the length of the longest common subsequence, a bit for each character of ``one``."""
    places: dict[str, int] = {}
    for index, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << index
    full = (1 << len(one)) - 1
    row = full
    for character in other:
        matched = row & places.get(character, 0)
        row = (row + matched) | (row - matched)
        row &= full
    return len(one) - row.bit_count()
