"""The luck of one turn: every kind of choice has its own, so that choices do not disturb another.

Two agents with the same seed that differ in one rule still make all other choices alike.
"""

from collections.abc import Iterable
from hashlib import blake2b

from skillwright.core.seeds import SEED_BITS, derive_seed


class Luck:
    """What a turn draws from its seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def chance(self, kind: str) -> float:
        """Draw a number in [0, 1); the same one for the same kind of choice."""
        return derive_seed("household", kind, self._seed) / (1 << SEED_BITS)

    def pick(self, kind: str, options: Iterable[str]) -> str:
        """Choose one of several options, which must not be empty.

        Each option draws a lot of its own and the lowest wins: leaving one of the others out does
        not change who that is.
        """
        prefix = f"{kind}|{self._seed}|"
        return min(options, key=lambda option: blake2b((prefix + option).encode()).digest())
