"""Group-relative advantages of episodes of the same task.

Source: GRPO (arXiv:2402.03300) as in SkillRL (arXiv:2602.08234): ``A = (R - mean) / (std + eps)``.
SkillRL's code takes mean and deviation over rows, so that long episodes count more; here each
episode counts once. It also subtracts the penalty of malformed actions before normalization, where
it can be twenty standard deviations.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from skillwright.core import ConfigError, ContractError, EpisodeResult, StopReason, Turn
from skillwright.core.agent import action_in
from skillwright.policy.backend import GroupTooSmall, RewardInvalid, Row


@dataclass(frozen=True, slots=True)
class AdvantageSettings:
    """How advantages are computed from the rewards of a group.

    Attributes:
        scale_by_std: Divide by the unbiased standard deviation. Without it, advantages of groups
            that nearly always succeed or fail stay small (source: Dr. GRPO, arXiv:2503.20783).
        leave_one_out: Compare an episode with the mean of the *others* (source: RLOO,
            arXiv:2402.14740).
        eps: Added to the deviation.

    Raises:
        ConfigError: ``eps`` is not positive.
    """

    scale_by_std: bool = True
    leave_one_out: bool = False
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise ConfigError(f"advantage.eps is {self.eps}; set a small positive number like 1e-6")


def group_advantages(rewards: Sequence[float], settings: AdvantageSettings) -> list[float]:
    """Return the advantage of every episode of a group.

    Args:
        rewards: One per scored episode, at least two.
        settings: Scaling.

    Returns:
        One number per episode; exactly 0.0 for all if all rewards are equal.

    Raises:
        RewardInvalid: A reward is NaN or infinite.
        ValueError: Fewer than two episodes.
    """
    check_rewards(rewards)
    if len(rewards) < 2:
        raise ValueError(f"a group of {len(rewards)} has nothing to be compared with; drop it")
    scaled = normalized(rewards, scale_by_std=settings.scale_by_std, eps=settings.eps)
    n = len(rewards)  # reward - mean of the others = (reward - mean of all) * n / (n - 1)
    return [one * n / (n - 1) for one in scaled] if settings.leave_one_out else scaled


def has_zero_variance(rewards: Sequence[float]) -> bool:
    """Return whether all rewards are equal, so that the group has no signal."""
    return all(reward == rewards[0] for reward in rewards)


def check_rewards(rewards: Sequence[float]) -> None:
    """Refuse rewards that are not finite."""
    for index, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise RewardInvalid(
                f"episode {index} of a group has reward {reward}. An episode without a score is a "
                "Failure, which leaves the group; a score is a finite number."
            )


def normalized(values: Sequence[float], *, scale_by_std: bool, eps: float) -> list[float]:
    """Return differences from the mean, optionally divided by the unbiased standard deviation.

    Returns:
        One number per value; exactly 0.0 for all if they are equal, or for a single value.
    """
    if has_zero_variance(values):
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    scale = math.sqrt(squares / (len(values) - 1)) + eps if scale_by_std else 1.0
    return [(value - mean) / scale for value in values]


@dataclass(frozen=True, slots=True)
class StepAdvantage:
    """Settings of GiGPO's step-level advantage.

    Attributes:
        weight: Weight of the step-level advantage in the sum.
        discount: Discount of rewards per step, in (0, 1].
        scale_by_std: Divide by the standard deviation among equal observations.
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
    """Return the discounted return of each step.

    Returns:
        Shape ``[steps]``.
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
    """Return the weighted step-level advantages of a group (source: GiGPO, arXiv:2505.10978).

    Args:
        observations: The environment's text before each turn, shape ``[episodes][steps]``. Steps
            with equal texts are compared, also within an episode.
        rewards: The rewards of the steps, in the same shape.
        settings: Weight, discount and scaling.

    Returns:
        Advantages in the same shape; exactly 0.0 for unique observations.
    """
    returns = [returns_to_go(steps, settings.discount) for steps in rewards]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for episode, seen in enumerate(observations):
        for step, text in enumerate(seen):
            places[text].append((episode, step))
    advantages = [[0.0] * len(steps) for steps in rewards]
    for met in places.values():
        values = [returns[episode][step] for episode, step in met]
        compared = normalized(values, scale_by_std=settings.scale_by_std, eps=settings.eps)
        for (episode, step), value in zip(met, compared, strict=True):
            advantages[episode][step] = settings.weight * value
    return advantages


IsMalformed = Callable[[Turn, Mapping[str, Any]], bool]
"""Tells whether a turn's action is invalid, given the metadata before the turn."""

_CUT = frozenset({StopReason.MAX_TURNS, StopReason.TIMEOUT, StopReason.CONTEXT})


@dataclass(frozen=True, slots=True)
class Played:
    """A scored episode and its rows.

    Attributes:
        rows: One per turn, in order.
        reward: The result's reward, or 0 if it was truncated.
        truncated: Whether a limit ended the episode.
        malformed: Whether the action was invalid, per turn.
    """

    result: EpisodeResult
    rows: tuple[Row, ...]
    reward: float
    truncated: bool
    malformed: tuple[bool, ...]

    def observations(self) -> tuple[str, ...]:
        """Return the environment's raw text before each turn."""
        played = self.result.trajectory
        return (played.opening, *(turn.observation for turn in played.turns))[: len(played.turns)]

    def step_rewards(self) -> tuple[float, ...]:
        """Return the reward of each turn; all 0 if the episode was truncated."""
        if self.truncated:
            return (0.0,) * len(self.rows)
        return tuple(turn.reward for turn in self.result.trajectory.turns)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Counts of a batch's episodes.

    Attributes:
        groups: Tasks with at least one scored episode.
        episodes: Scored episodes in groups of at least two.
        zero_variance: Groups with equal rewards; their advantages are exactly 0.
        failures: Episodes with an infrastructure failure, which are left out of their group.
        lone: Groups with a single scored episode, which are dropped.
        truncated: Scored episodes that a limit ended.
        malformed: Turns with an invalid action.
        rewards: Training reward of every scored episode, including lone ones.
    """

    groups: int = 0
    episodes: int = 0
    zero_variance: int = 0
    failures: int = 0
    lone: int = 0
    truncated: int = 0
    malformed: int = 0
    rewards: tuple[float, ...] = ()

    @property
    def zero_variance_share(self) -> float:
        """Share of groups with zero variance, in [0, 1]."""
        return self.zero_variance / self.groups if self.groups else 0.0

    @property
    def useful(self) -> int:
        """Groups with different rewards."""
        return self.groups - self.lone - self.zero_variance


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of groups and their advantages.

    Attributes:
        size: Episodes per task, at least 2.
        advantage: Settings of the group-relative advantage.
        step_advantage: Settings of GiGPO's step-level advantage, or ``None``.
        penalty: Subtracted from the advantage of a turn with an invalid action, at least 0; not
            scaled by the deviation.
        is_malformed: Decides which actions are invalid.

    Raises:
        GroupTooSmall: ``size`` is below 2.
    """

    size: int = 8
    advantage: AdvantageSettings = field(default_factory=AdvantageSettings)
    step_advantage: StepAdvantage | None = None
    penalty: float = 0.01
    is_malformed: IsMalformed = field(default_factory=lambda: not_offered)

    def __post_init__(self) -> None:
        if self.size < 2:
            raise GroupTooSmall(
                f"group_size is {self.size}; an advantage compares episodes of the same task, so "
                "set at least 2 (8 is usual)"
            )


def not_offered(turn: Turn, offered: Mapping[str, Any]) -> bool:
    """Tell whether an action is not among the admissible commands, where these are listed.

    The action is the last complete ``<action>`` tag, or else the whole text.
    """
    admissible = offered.get("admissible_commands")
    if admissible is None:
        return False
    return action_in(turn.act.text) not in admissible


def outcome_of(result: EpisodeResult) -> float:
    """Return the training reward of a scored episode: its reward, or 0 if a limit ended it.

    Raises:
        RewardInvalid: The reward is not a finite number.
        ValueError: The episode has a failure and no reward.
    """
    if result.reward is None:
        raise ValueError(
            f"task {result.task_id!r}: an infrastructure fault has no score; leave it out"
        )
    check_rewards([result.reward])
    return 0.0 if result.stop_reason in _CUT else result.reward


def play_of(result: EpisodeResult, rows: Sequence[Row], is_malformed: IsMalformed) -> Played:
    """Pair a scored episode with its rows."""
    trajectory = result.trajectory
    before = [trajectory.metadata, *(turn.metadata for turn in trajectory.turns)]
    return Played(
        result,
        tuple(replace(row, group=result.task_id) for row in rows),
        outcome_of(result),
        result.stop_reason in _CUT,
        tuple(
            is_malformed(turn, seen) for turn, seen in zip(trajectory.turns, before, strict=False)
        ),
    )


def teach(
    results: Iterable[EpisodeResult],
    rows_of: Callable[[EpisodeResult], Sequence[Row]],
    settings: GroupSettings,
) -> tuple[list[Row], GroupReport]:
    """Compute advantages within each task's group, and return the rows with a nonzero one.

    Groups with equal rewards have advantage 0 and are dropped before any forward pass, except
    turns with a penalty.

    Returns:
        Rows with advantage and group, in the order of the results; and counts.

    Raises:
        RewardInvalid: A reward is not a finite number.
        ContractError: Episodes of one task had different skills injected.
    """
    by_task: dict[str, list[Played]] = defaultdict(list)
    count: Counter[str] = Counter()
    for result in results:
        if result.failure is not None:
            count["failures"] += 1
            continue
        by_task[result.task_id].append(play_of(result, rows_of(result), settings.is_malformed))
    rows: list[Row] = []
    for group in by_task.values():
        _check_same_skills(group)
        if len(group) == 1:
            count["lone"] += 1
            continue
        count["episodes"] += len(group)
        count["zero_variance"] += has_zero_variance([played.reward for played in group])
        rows += [row for row in _advised(group, settings) if row.matters()]
    everyone = [played for group in by_task.values() for played in group]
    return rows, GroupReport(
        groups=len(by_task),
        episodes=count["episodes"],
        zero_variance=count["zero_variance"],
        failures=count["failures"],
        lone=count["lone"],
        truncated=sum(played.truncated for played in everyone),
        malformed=sum(sum(played.malformed) for played in everyone),
        rewards=tuple(played.reward for played in everyone),
    )


def _advised(group: Sequence[Played], settings: GroupSettings) -> list[Row]:
    """Return all rows of a group with their advantages."""
    outcomes = group_advantages([played.reward for played in group], settings.advantage)
    steps = [[0.0] * len(played.rows) for played in group]
    if settings.step_advantage is not None:
        steps = step_advantages(
            [played.observations() for played in group],
            [played.step_rewards() for played in group],
            settings.step_advantage,
        )
    return [
        replace(row, advantage=outcome + step - (settings.penalty if malformed else 0.0))
        for played, outcome, own_steps in zip(group, outcomes, steps, strict=True)
        for row, step, malformed in zip(played.rows, own_steps, played.malformed, strict=True)
    ]


def _check_same_skills(group: Sequence[Played]) -> None:
    for one, other in pairwise(group):
        if one.result.skill_version != other.result.skill_version:
            raise ContractError(
                f"episodes of task {one.result.task_id!r} had skills of versions "
                f"{one.result.skill_version!r} and {other.result.skill_version!r}; a group is "
                "compared under the same skills, so retrieve once per task"
            )
