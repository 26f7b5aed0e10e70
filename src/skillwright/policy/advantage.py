"""How much better an episode did than the others at the same task.

Source: GRPO (arXiv:2402.03300) as in SkillRL (arXiv:2602.08234): ``A = (R - mean) / (std +
eps)``. SkillRL's code runs its statistics over rows, so that long episodes count for more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from skillwright.core import ConfigError
from skillwright.policy.errors import RewardInvalid

Statistics = Literal["trajectories", "rows"]


@dataclass(frozen=True, slots=True)
class AdvantageSettings:
    """How the rewards of a group become advantages.

    Attributes:
        statistics: What mean and deviation run over: each episode once, or once per row.
        scale_by_std: Divide by the unbiased standard deviation. Without it, groups that are nearly
            always won or lost keep their small differences small (source: Dr. GRPO,
            arXiv:2503.20783).
        leave_one_out: Compare an episode with the mean of the *others* (source: RLOO,
            arXiv:2402.14740).
        eps: Added to the deviation.

    Raises:
        ConfigError: ``eps`` is not positive.
    """

    statistics: Statistics = "trajectories"
    scale_by_std: bool = True
    leave_one_out: bool = False
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise ConfigError(f"advantage.eps is {self.eps}; set a small positive number like 1e-6")


def group_advantages(
    rewards: Sequence[float], settings: AdvantageSettings, rows: Sequence[int] | None = None
) -> list[float]:
    """Return the advantage of every episode of a group.

    Args:
        rewards: One per episode, at least two. Episodes that failed for reasons of their own are
            not among them; so groups may differ in size.
        settings: How.
        rows: Rows per episode, each at least 1; read with ``statistics = "rows"`` only.

    Returns:
        One number per episode. Exactly 0.0 for all where all rewards are equal.

    Raises:
        RewardInvalid: A reward is NaN or infinite.
        ValueError: Fewer than two episodes, or ``rows`` are missing or of another length.
    """
    check_rewards(rewards)
    if len(rewards) < 2:
        raise ValueError(f"a group of {len(rewards)} has nothing to be compared with; drop it")
    if is_flat(rewards):
        return [0.0] * len(rewards)
    counts = [1] * len(rewards)
    if settings.statistics == "rows":
        if rows is None or len(rows) != len(rewards) or min(rows) < 1:
            raise ValueError("statistics over rows need the number of rows of every episode, >= 1")
        counts = list(rows)
    mean, std = _moments(rewards, counts)
    scale = std + settings.eps if settings.scale_by_std else 1.0
    if not settings.leave_one_out:
        return [(reward - mean) / scale for reward in rewards]
    n, total = sum(counts), mean * sum(counts)
    return [
        (reward - (total - count * reward) / (n - count)) / scale
        for reward, count in zip(rewards, counts, strict=True)
    ]


def is_flat(rewards: Sequence[float]) -> bool:
    """Tell whether all rewards are equal, so that the group teaches nothing."""
    return all(reward == rewards[0] for reward in rewards)


def check_rewards(rewards: Sequence[float]) -> None:
    """Refuse rewards that are no numbers."""
    for index, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise RewardInvalid(
                f"episode {index} of a group has reward {reward}. An episode without a score is a "
                "Failure, which leaves the group; a score is a finite number."
            )


def normalised(values: Sequence[float], *, scale_by_std: bool, eps: float) -> list[float]:
    """Return distances from the mean, divided by the unbiased deviation where asked.

    Returns:
        One number per value; exactly 0.0 for all where they are equal, and for a value alone.
    """
    if is_flat(values):
        return [0.0] * len(values)
    if not scale_by_std:
        mean = fmean(values)
        return [value - mean for value in values]
    mean, std = _moments(values, [1] * len(values))
    return [(value - mean) / (std + eps) for value in values]


def _moments(values: Sequence[float], counts: Sequence[int]) -> tuple[float, float]:
    n = sum(counts)
    pairs = list(zip(values, counts, strict=True))
    mean = math.fsum(value * count for value, count in pairs) / n
    squares = math.fsum(count * (value - mean) ** 2 for value, count in pairs)
    return mean, math.sqrt(squares / (n - 1))
