"""Scores: of documented rollout rows, and of episodes."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Self

from skillwright.core import EpisodeResult, StopReason
from skillwright.core.codec import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.intervals import Interval, clustered_wilson_interval


def compute_score(rows: Sequence[Any]) -> tuple[float, float]:
    """Return the mean ``hard`` and the mean ``soft`` of rollout rows; ``(0.0, 0.0)`` for none.

    Args:
        rows: Mappings, or objects with attributes; each has ``hard`` and ``soft`` in [0, 1].

    Raises:
        KeyError: A mapping lacks one of them.
        AttributeError: An object lacks one of them.

    Source: SkillOpt (microsoft/SkillOpt), ``skillopt.utils.compute_score``.
    """
    if not rows:
        return 0.0, 0.0
    return _mean_of(rows, "hard"), _mean_of(rows, "soft")


def _mean_of(rows: Sequence[Any], name: str) -> float:
    return fmean(
        float(row[name] if isinstance(row, Mapping) else getattr(row, name)) for row in rows
    )


@dataclass(frozen=True, slots=True)
class Score(JsonRecord):
    """How well an agent did on some episodes. A Failure is counted, and scored as nothing.

    Attributes:
        episodes: Scored episodes.
        tasks: Distinct tasks among them.
        success_rate: Mean `EpisodeResult.hard_score` of the scored episodes, which is the share
            that reaches the success threshold where no benchmark says otherwise; ``None`` for
            none.
        interval: 95% confidence interval of the success rate, several attempts at a task counted
            for less than as many tasks; ``None`` for none. Smoothed scores add up to a count of
            successes with a fraction. The interval is then wide rather than narrow: no score in
            [0, 1] of that mean spreads more than 0 and 1 do.
        mean_reward: Mean reward of the scored episodes; ``None`` for none.
        truncated: Scored episodes that the turn limit ended.
        failures: Episodes without a reward.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    episodes: int
    tasks: int
    success_rate: float | None
    interval: Interval | None
    mean_reward: float | None
    truncated: int
    failures: int

    @classmethod
    def of(cls, results: Sequence[EpisodeResult], success_threshold: float = 1.0) -> Self:
        """Score episodes.

        Args:
            results: Episodes of one agent with one skill.
            success_threshold: The reward from which an episode is a success, where it has no
                score of its own for that.
        """
        scored = [result for result in results if result.reward is not None]
        failures = len(results) - len(scored)
        if not scored:
            return cls(0, 0, None, None, None, 0, failures)
        by_task: defaultdict[str, list[float]] = defaultdict(list)
        for result in scored:
            by_task[result.task_id].append(result.hard_score(success_threshold))
        counts = [(math.fsum(outcomes), len(outcomes)) for outcomes in by_task.values()]
        return cls(
            episodes=len(scored),
            tasks=len(by_task),
            success_rate=math.fsum(successes for successes, _ in counts) / len(scored),
            interval=clustered_wilson_interval(counts),
            mean_reward=fmean(result.reward for result in scored if result.reward is not None),
            truncated=sum(result.stop_reason is StopReason.MAX_TURNS for result in scored),
            failures=failures,
        )
