"""Numbers that name things, none of them twice."""

import random


class Numbers:
    """Draws numbers of a given length, as texts."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def fresh(self, digits: int) -> str:
        """Return a number that was not drawn before; it does not start with 0."""
        while True:
            number = str(self._rng.randrange(10 ** (digits - 1), 10**digits))
            if number not in self._taken:
                self._taken.add(number)
                return number
