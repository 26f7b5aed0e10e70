"""What the lines of a skill are worth that came in together, by factorial draws.

A step judges the lines of its candidate together, so a useless or harmful line can come in with a
right one. Here each draw of the current skill leaves out a random part of such lines, and every
draw tells about all of them: the score is regressed on what was left out, with a prior by what the
step saw of them together.

Source: R. A. Fisher, The Design of Experiments (1935), on factorial designs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillwright.evaluation.gates.belief import Belief

Array = NDArray[np.float64]

LEFT_OUT: Final = 0.3
"""Chance that a draw leaves out a line."""

SPREAD: Final = 0.036
"""Least prior standard deviation of the gain of a line around the mean of its bundle's lines."""

LEVEL: Final = 0.06
"""Prior standard deviation of the whole skill's mean score around the believed one."""

UNEVEN: Final = 0.03
"""Variance of a draw because lines help some tasks and not others."""

AHEAD: Final = (20, 40, 80, 160)
"""Numbers of further draws whose worth is computed."""

MOST_DRAWS: Final = 100
"""Maximum draws in all; also two per held-out task."""

LEAST_PRICE: Final = 2e-6
"""Price of a draw, in gain, of a run without a budget."""

REALIZED: Final = 0.2
"""Share of the expected improvement that simulated runs realize: under a normal distribution a line
that does nothing seems to harm as often as it seems to help."""

_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Bundle:
    """Lines that came in together.

    Attributes:
        size: Their number.
        gain: The gain that was expected of them together.
        error: The standard deviation of that.
    """

    size: int
    gain: float
    error: float


class LineEffects:
    """The gains of lines, as a normal distribution that draws inform.

    Args:
        bundles: The bundles whose lines are judged, in order of the lines.
        belief: The belief about the skill with all lines.
    """

    def __init__(self, bundles: Sequence[Bundle], belief: Belief) -> None:
        self._lines = sum(one.size for one in bundles)
        self._noise = float((belief.expected * (1 - belief.expected)).mean()) + UNEVEN
        means = np.zeros(self._lines + 1)  # the last one is the level
        spread = np.zeros((self._lines + 1, self._lines + 1))
        spread[-1, -1], first = LEVEL**2, 0
        for one in bundles:
            own, share = slice(first, first + one.size), np.full((one.size, one.size), 1.0)
            apart = np.eye(one.size) - share / one.size
            together = (one.error / one.size) ** 2
            least = SPREAD**2 + (one.gain / one.size) ** 2  # one line may have all of the gain
            spread[own, own] = least * apart + together * share + 1e-6 * np.eye(one.size)
            means[own] = one.gain / one.size
            first += one.size
        self._precision = np.linalg.inv(spread)
        self._weighted = self._precision @ means

    @property
    def gains(self) -> Array:
        """The expected gain of each line, shape ``[lines]``."""
        return np.asarray(np.linalg.solve(self._precision, self._weighted)[:-1], np.float64)

    @property
    def errors(self) -> Array:
        """The standard deviation of each gain."""
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self._precision))[:-1]), np.float64)

    def more(self, price: float, room: int) -> int:
        """Return how many further draws are worth their price; 0 if none are.

        Args:
            price: Price of a draw, in gain.
            room: Maximum number.
        """
        information = LEFT_OUT * (1 - LEFT_OUT) / self._noise
        gains, errors = self.gains, self.errors
        worth = [
            (
                self._improvement(gains, errors**2 / np.sqrt(errors**2 + 1 / (information * more))),
                more,
            )
            for more in AHEAD
            if more <= room
        ]
        net, more = max(
            ((REALIZED * gain - price * more, more) for gain, more in worth), default=(0.0, 0)
        )
        return max(AHEAD[0], more // 2) if net > 0 else 0

    def leave_out(self, random: Random) -> tuple[bool, ...]:
        """Return which lines the next draw leaves out."""
        return tuple(random.random() < LEFT_OUT for _ in range(self._lines))

    def add(self, drawn: Iterable[tuple[tuple[bool, ...], float]]) -> None:
        """Add draws: which lines each left out, and how much below the expected rate it scored."""
        for left_out, missing in drawn:
            row = np.array([*left_out, True], np.float64)
            self._precision += np.outer(row, row) / self._noise
            self._weighted += row * missing / self._noise

    @staticmethod
    def _improvement(gains: Array, moves: Array) -> float:
        """Return what the decisions which lines to keep gain if expectations move by this much."""
        total = 0.0
        for gain, move in zip(gains, np.maximum(moves, 1e-9), strict=True):
            z = gain / move
            kept = gain * _NORMAL.cdf(z) + move * _NORMAL.pdf(z)
            total += kept - max(gain, 0.0)
        return total
