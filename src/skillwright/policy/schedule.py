"""How a learning rate rises and falls."""

import math
from dataclasses import dataclass
from typing import Literal

from skillwright.core import ConfigError


@dataclass(frozen=True, slots=True)
class Schedule:
    """A linear rise, then a fall.

    Attributes:
        shape: ``cosine`` or ``linear`` down to ``floor``, or ``constant``.
        warmup: Share of the steps in which the rate rises, in [0, 1).
        floor: Share of the highest rate that the last step ends at, in [0, 1].

    Raises:
        ConfigError: A share is out of its range.
    """

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1 or not 0 <= self.floor <= 1:
            raise ConfigError(
                f"schedule.warmup is {self.warmup} and schedule.floor {self.floor}; set shares in "
                "[0, 1) and [0, 1]"
            )

    def rate(self, highest: float, step: int, steps: int) -> float:
        """Return the learning rate of a step.

        Args:
            highest: What the rise ends at, above 0.
            step: From 0; beyond ``steps`` the rate stays at the floor.
            steps: How many there are in all, at least 1.

        Returns:
            A rate in [0, ``highest``], and above 0 before step ``steps``.
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            # Not from zero: a first step of nothing is a step lost.
            return highest * (step + 1) / rising
        if self.shape == "constant":
            return highest
        gone = min(1.0, (step - rising) / max(1, steps - rising))
        left = 1 - gone if self.shape == "linear" else (1 + math.cos(math.pi * gone)) / 2
        return highest * (self.floor + (1 - self.floor) * left)
