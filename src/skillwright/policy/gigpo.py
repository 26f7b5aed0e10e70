"""A second advantage, per step, among choices before the same observation (arXiv:2505.10978)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from skillwright.core import ConfigError
from skillwright.policy.advantage import normalised


@dataclass(frozen=True, slots=True)
class StepAdvantage:
    """The settings of the step advantage.

    Attributes:
        weight: What it is multiplied by before it is added.
        discount: Of the return from a step on, per step, in (0, 1].
        scale_by_std: Divide by the deviation within the observation.
        eps: Added to the deviation.

    Raises:
        ConfigError: ``discount`` is out of its range.
    """

    weight: float = 1.0
    discount: float = 0.95
    scale_by_std: bool = True
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if not 0 < self.discount <= 1:
            raise ConfigError(f"step_advantage.discount is {self.discount}; set it in (0, 1]")


def returns_to_go(rewards: Sequence[float], discount: float) -> list[float]:
    """Return the discounted sum of the rewards from each step on.

    Returns:
        Shape ``[steps]``. Of rewards that are at least 0, each sum is too, and at most theirs.
    """
    total, sums = 0.0, []
    for reward in reversed(rewards):
        total = reward + discount * total
        sums.append(total)
    return sums[::-1]


def step_advantages(
    observations: Sequence[Sequence[str]],
    rewards: Sequence[Sequence[float]],
    settings: StepAdvantage,
) -> list[list[float]]:
    """Return the weighted step advantages of a group.

    Args:
        observations: Per episode of one task, per step: the raw text before the choice. Steps with
            equal texts are compared, within an episode too.
        rewards: Of the same shape: the reward of the step.
        settings: How.

    Returns:
        Of the same shape. Exactly 0.0 where an observation was met once.
    """
    returns = [returns_to_go(steps, settings.discount) for steps in rewards]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for episode, seen in enumerate(observations):
        for step, text in enumerate(seen):
            places[text].append((episode, step))
    advantages = [[0.0] * len(steps) for steps in rewards]
    for met in places.values():
        values = [returns[episode][step] for episode, step in met]
        compared = normalised(values, scale_by_std=settings.scale_by_std, eps=settings.eps)
        for (episode, step), value in zip(met, compared, strict=True):
            advantages[episode][step] = settings.weight * value
    return advantages
