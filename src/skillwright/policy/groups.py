"""Episodes of the same task, side by side: what becomes of results before they teach.

What a malformed action costs is no part of the outcome: inside the statistics of a group of
losers one such action would weigh twenty standard deviations (SkillRL's code does that).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from skillwright.core import ContractError, EpisodeResult, StopReason, Turn
from skillwright.core.action import action_in
from skillwright.policy.advantage import (
    AdvantageSettings,
    check_rewards,
    group_advantages,
    is_flat,
)
from skillwright.policy.backend import Row
from skillwright.policy.errors import GroupTooSmall
from skillwright.policy.gigpo import StepAdvantage, step_advantages

IsMalformed = Callable[[Turn, Mapping[str, Any]], bool]
"""Given a turn and what the environment offered before it: was the action no action?"""

_CUT = frozenset({StopReason.MAX_TURNS, StopReason.TIMEOUT, StopReason.CONTEXT})


@dataclass(frozen=True, slots=True)
class Played:
    """A scored episode and the rows that it was sampled as.

    Attributes:
        result: The episode; it has a reward.
        rows: One per turn, in order.
        reward: Its outcome: the result's reward, or 0 where it was truncated.
        truncated: Whether a limit ended it.
        malformed: Per turn: whether the action was none.
    """

    result: EpisodeResult
    rows: tuple[Row, ...]
    reward: float
    truncated: bool
    malformed: tuple[bool, ...]

    def observations(self) -> tuple[str, ...]:
        """Return what stood before the agent at each turn: the environment's raw text."""
        told = self.result.trajectory
        return (told.opening, *(turn.observation for turn in told.turns))[: len(told.turns)]

    def step_rewards(self) -> tuple[float, ...]:
        """Return the reward of each turn; all 0 where the episode was truncated."""
        if self.truncated:
            return (0.0,) * len(self.rows)
        return tuple(turn.reward for turn in self.result.trajectory.turns)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What was done with the episodes of a batch.

    Attributes:
        groups: Tasks with at least one scored episode.
        episodes: Scored episodes in groups that teach or could have taught.
        flat: Groups whose outcomes are all equal; their advantages are exactly 0.
        failures: Episodes that left their group because the infrastructure failed.
        lone: Groups with a single survivor. It is dropped: it has nothing to be compared with.
        truncated: Scored episodes that a limit ended.
        malformed: Turns whose action was none.
        rewards: Outcome of every scored episode, lone ones too.
    """

    groups: int = 0
    episodes: int = 0
    flat: int = 0
    failures: int = 0
    lone: int = 0
    truncated: int = 0
    malformed: int = 0
    rewards: tuple[float, ...] = ()

    @property
    def flat_share(self) -> float:
        """Share of the groups that teach nothing, in [0, 1]."""
        return self.flat / self.groups if self.groups else 0.0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How groups are compared.

    Attributes:
        size: Episodes played per task, at least 2.
        advantage: How outcomes become advantages.
        step_advantage: GiGPO's second advantage, or ``None``.
        penalty: Taken off the advantage of a turn whose action was none, at least 0. It is not
            scaled by any deviation.
        is_malformed: What counts as none.

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
    """Tell whether an action is not among the admissible commands, where those are listed.

    The action is the last complete ``<action>`` tag, or else the whole text.
    """
    admissible = offered.get("admissible_commands")
    if admissible is None:
        return False
    return action_in(turn.act.text) not in admissible


def play_of(result: EpisodeResult, rows: Sequence[Row], is_malformed: IsMalformed) -> Played:
    """Put a scored episode beside its rows."""
    if result.reward is None:
        raise ValueError(f"task {result.task_id!r}: a failure teaches nothing; leave it out")
    check_rewards([result.reward])
    told = result.trajectory
    before = [told.metadata, *(turn.metadata for turn in told.turns)]
    truncated = result.stop_reason in _CUT
    return Played(
        result,
        tuple(replace(row, group=result.task_id) for row in rows),
        0.0 if truncated else result.reward,
        truncated,
        tuple(is_malformed(turn, seen) for turn, seen in zip(told.turns, before, strict=False)),
    )


def teach(
    results: Iterable[EpisodeResult],
    rows_of: Callable[[EpisodeResult], Sequence[Row]],
    settings: GroupSettings,
) -> tuple[list[Row], GroupReport]:
    """Compare the episodes of each task and return the rows that have something to teach.

    Rows of equal outcomes have an advantage of exactly 0 and are left out, so that they never
    reach a forward pass; a malformed action among them is still told its penalty.

    Returns:
        Rows with advantage and group, in the order of the results; and what was dropped.

    Raises:
        RewardInvalid: A reward is not a finite number.
        ContractError: Episodes of one task were told different skills.
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
        count["flat"] += is_flat([played.reward for played in group])
        rows += [row for row in _advised(group, settings) if row.matters()]
    everyone = [played for group in by_task.values() for played in group]
    return rows, GroupReport(
        groups=len(by_task),
        episodes=count["episodes"],
        flat=count["flat"],
        failures=count["failures"],
        lone=count["lone"],
        truncated=sum(played.truncated for played in everyone),
        malformed=sum(sum(played.malformed) for played in everyone),
        rewards=tuple(played.reward for played in everyone),
    )


def _advised(group: Sequence[Played], settings: GroupSettings) -> list[Row]:
    """Return all rows of a group with their advantages."""
    outcomes = group_advantages(
        [played.reward for played in group],
        settings.advantage,
        # An episode that was cut before its first turn has no row, and is a loss all the same.
        [max(1, len(played.rows)) for played in group],
    )
    steps = [[0.0] * len(played.rows) for played in group]
    if settings.step_advantage is not None:
        steps = step_advantages(
            [played.observations() for played in group],
            [played.step_rewards() for played in group],
            settings.step_advantage,
        )
    return [
        replace(row, advantage=outcome + step - (settings.penalty if malformed else 0.0))
        for played, outcome, beside in zip(group, outcomes, steps, strict=True)
        for row, step, malformed in zip(played.rows, beside, played.malformed, strict=True)
    ]


def _check_same_skills(group: Sequence[Played]) -> None:
    for one, other in pairwise(group):
        if one.result.skill_version != other.result.skill_version:
            raise ContractError(
                f"episodes of task {one.result.task_id!r} were told skills of versions "
                f"{one.result.skill_version!r} and {other.result.skill_version!r}; a group is "
                "compared under the same skills, so retrieve once per task"
            )
