"""Whether an endpoint's level moved during a run, by draws of equal tasks with equal skills.

Such draws differ by chance alone if the level is still, so their order is as good as any other.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHUFFLES = 2_000
_WINDOW = 50  # episodes of a run whose draws are compared as one time
_SIGNIFICANT = 0.01  # a false alarm in one of 100 runs; it decides nothing
_PARTS = 4  # of a run, whose levels are named if they have such draws


@dataclass(frozen=True, slots=True)
class Timed:
    """A scored draw.

    Attributes:
        group: The task and the skill; draws of one group are compared.
        at: Number of episodes that the run had started before.
        reward: In [0, 1].
    """

    group: Hashable
    at: int
    reward: float


def drift_line(draws: Iterable[Timed], seed: int) -> str:
    """Return a sentence if the level moved, or "".

    Two statistics are taken of the rewards' differences from the mean of their group: the trend
    over the run, and the variance between windows of 50 episodes, for a level that switches. The
    p-value of each is found by shuffling the rewards within groups; the smaller one counts twice.

    Args:
        draws: Draws that did not depend on each other's results: a task that is drawn again
            because it failed would seem to rise.
        seed: Seed of the shuffles.
    """
    groups: defaultdict[Hashable, list[Timed]] = defaultdict(list)
    for draw in draws:
        groups[draw.group].append(draw)
    repeated = [members for members in groups.values() if len({one.at for one in members}) > 1]
    p_value = _p_value(repeated, seed)
    if p_value > _SIGNIFICANT:
        return ""
    return (
        "The endpoint's level moved during the run: draws of equal tasks with equal skills scored "
        f"{', then '.join(f'{level:.2f}' for level in _levels(repeated))} on average "
        f"(p = {p_value:.2g}). Both sides of a release test are drawn together, "
        "so its result holds; what steps kept or dropped may be due to the level"
    )


def _p_value(groups: list[list[Timed]], seed: int) -> float:
    import numpy as np  # imported here, because most commands test nothing

    draws = [one for members in groups for one in members]
    if not draws:
        return 1.0
    label_N = np.repeat(np.arange(len(groups)), [len(members) for members in groups])
    means = [fmean(one.reward for one in members) for members in groups]
    residual_N = np.array([one.reward for one in draws]) - np.array(means)[label_N]
    _, window_N = np.unique([one.at // _WINDOW for one in draws], return_inverse=True)
    sizes_W = np.bincount(window_N)
    time_N = np.array([one.at for one in draws]) - fmean(one.at for one in draws)
    rng = np.random.default_rng(seed)

    def statistics_of(rewards_N: "NDArray[np.float64]") -> "NDArray[np.float64]":
        between = (np.bincount(window_N, rewards_N) ** 2 / sizes_W).sum()
        return np.array([abs(time_N @ rewards_N), between])

    observed, found = statistics_of(residual_N) * (1 - 1e-9), np.ones(2)
    for _ in range(_SHUFFLES):
        # Sorted by group, then at random: the rewards of each group trade places.
        shuffled_N = residual_N[np.lexsort((rng.random(len(draws)), label_N))]
        found += statistics_of(shuffled_N) >= observed
    return min(1.0, 2 * float(found.min()) / (_SHUFFLES + 1))


def _levels(groups: list[list[Timed]]) -> list[float]:
    """Return the mean of each quarter of a run, corrected for its groups; without empty ones."""
    draws = [one for members in groups for one in members]
    mean, end = fmean(one.reward for one in draws), 1 + max(one.at for one in draws)
    quarters: defaultdict[int, list[float]] = defaultdict(list)
    for members in groups:
        usual = fmean(one.reward for one in members)
        for one in members:
            quarters[one.at * _PARTS // end].append(mean + one.reward - usual)
    return [fmean(quarters[at]) for at in sorted(quarters)]
