"""Scores of one or several artifacts on a split, and the selection bias of gates."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Self

from skillwright.core import EpisodeResult, Pair, StopReason
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.datasets.clusters import clusters_of
from skillwright.evaluation.gates.judging import Metric
from skillwright.evaluation.gates.skillopt_gate import GateMetric
from skillwright.evaluation.intervals import Interval, clustered_wilson_interval, gain_text
from skillwright.evaluation.paired import PairedEffect, measure_effect
from skillwright.evaluation.verdict import Verdict


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
    """An agent's score on some episodes. Failures are counted and not scored.

    Attributes:
        episodes: Scored episodes.
        tasks: Distinct tasks among them.
        success_rate: Mean `EpisodeResult.hard_score` of the scored episodes, which is the share
            that reaches the success threshold unless the benchmark defines another score;
            ``None`` without scored episodes.
        interval: 95% confidence interval of the success rate, clustered by task, or by groups of
            tasks that say nearly the same; ``None`` without scored episodes. It is conservative for
            smoothed scores, because scores of 0 and 1 have the largest variance of all scores in
            [0, 1] with that mean.
        mean_reward: Mean reward of the scored episodes; ``None`` without scored episodes.
        truncated: Scored episodes that ended at the turn limit.
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
            success_threshold: Minimum reward of a success, for episodes without ``hard``.
        """
        scored = [result for result in results if result.reward is not None]
        failures = len(results) - len(scored)
        if not scored:
            return cls(0, 0, None, None, None, 0, failures)
        clusters = clusters_of(result.spec.task for result in scored)
        by_cluster: defaultdict[str, list[float]] = defaultdict(list)
        for result in scored:
            cluster = clusters.get(result.task_id, result.task_id)
            by_cluster[cluster].append(result.hard_score(success_threshold))
        counts = [(math.fsum(outcomes), len(outcomes)) for outcomes in by_cluster.values()]
        return cls(
            episodes=len(scored),
            tasks=len({result.task_id for result in scored}),
            success_rate=math.fsum(successes for successes, _ in counts) / len(scored),
            interval=clustered_wilson_interval(counts),
            mean_reward=fmean(result.reward for result in scored if result.reward is not None),
            truncated=sum(result.stop_reason is StopReason.MAX_TURNS for result in scored),
            failures=failures,
        )


@dataclass(frozen=True, slots=True)
class ScoreTable(JsonRecord):
    """One artifact's score, overall and by task type.

    Attributes:
        overall: The score of all episodes.
        task_types: The score of each task type, sorted by name; empty without any.
    """

    overall: Score
    task_types: Mapping[str, Score] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Sequence[EpisodeResult], success_threshold: float = 1.0) -> Self:
        """Score episodes; see `Score.of`."""
        groups: defaultdict[str, list[EpisodeResult]] = defaultdict(list)
        for result in results:
            if result.task_type:
                groups[result.task_type].append(result)
        return cls(
            overall=Score.of(results, success_threshold),
            task_types={
                name: Score.of(group, success_threshold) for name, group in sorted(groups.items())
            },
        )


@dataclass(frozen=True, slots=True)
class SplitReport(JsonRecord):
    """Artifacts scored side by side on one split.

    Attributes:
        split: ``val`` or ``test``.
        success_threshold: Minimum reward of a success.
        tables: A table per artifact, in the order given; the first is the baseline.
        gains: Gain of each other artifact over the baseline in mean reward, on pairs of equal
            task and draw.
        judged: The same in the metric of the run's gate; empty without a gate.
        opened_before: Runs in the same folder that opened equal tasks before, by name.
    """

    split: str
    success_threshold: float
    tables: Mapping[str, ScoreTable]
    gains: Mapping[str, PairedEffect]
    judged: Mapping[str, PairedEffect] = field(default_factory=dict)
    opened_before: tuple[str, ...] = field(default=(), compare=False)

    @property
    def caveat(self) -> str:
        """Say that earlier runs opened the same tasks, or ""."""
        if not self.opened_before:
            return ""
        names, more = ", ".join(self.opened_before[:3]), len(self.opened_before) - 3
        return (
            f"These {self.split} tasks were opened before, by {names}"
            f"{f' and {more} more runs' if more > 0 else ''}: choices made since then may fit them."
        )

    @classmethod
    def of(
        cls,
        split: str,
        results: Mapping[str, Sequence[EpisodeResult]],
        success_threshold: float = 1.0,
        metric: Metric | None = None,
    ) -> Self:
        """Score each artifact's episodes, and pair them with those of the baseline."""
        names = list(results)
        pairs = {name: _pairs(results[names[0]], results[name]) for name in names[1:]}
        return cls(
            split=split,
            success_threshold=success_threshold,
            tables={
                name: ScoreTable.of(episodes, success_threshold)
                for name, episodes in results.items()
            },
            gains={name: measure_effect(drawn) for name, drawn in pairs.items()},
            judged={name: measure_effect(metric.of(drawn)) for name, drawn in pairs.items()}
            if metric
            else {},
        )

    def renamed(self, source: str, target: str) -> Self:
        """Return the report with a copy of one artifact's scores under another name."""
        tables = {**self.tables, target: self.tables[source]}
        judged = {**self.judged, target: self.judged[source]} if self.judged else {}
        gains = {**self.gains, target: self.gains[source]}
        return replace(self, tables=tables, gains=gains, judged=judged)


def why_refuted(proven: Verdict, found: PairedEffect) -> str:
    """Return why a gain that was proven on val does not hold on test, or "".

    It does not if the test's 95% interval is below 0; or if it is not above 0 but below the whole
    95% interval of val, or below it with less than half of what could still be gained mended. Two
    independent 95% intervals that hold the same gain are apart in less than 1% of cases. Shares of
    what could be gained are compared, because a test split may be easier. The gain of val is the
    one to expect on further tasks, if it is known: the measured one is too large on average.

    Args:
        proven: The accepted verdict of the release test.
        found: The gain of the same skills on test, in the same metric.
    """
    if found.gain is None or found.interval is None or proven.effect is None:
        return ""
    gain, seen, where = proven.effect, proven.interval and Interval(*proven.interval), "there"
    if (one := proven.expected) is not None:
        gain, seen, where = one.gain, Interval(one.low, one.high), "was expected"
    is_worse = found.interval.high < 0
    is_less = seen is not None and found.interval.high < seen.low
    mended = _share_mended(found.gain, found.incumbent)
    is_half = mended < _share_mended(gain, proven.incumbent_score) / 2
    if not is_worse and not (is_less and (found.interval.low <= 0 or is_half)):
        return ""
    return (
        f"What was proven on val does not hold on test: a gain of {gain_text(gain, seen)} "
        f"{where}, and of {gain_text(found.gain, found.interval)} on {found.tasks} test tasks"
    )


def _share_mended(gain: float, before: float | None) -> float:
    """Return a gain as a share of the largest possible one."""
    room = 1 - (before or 0.0)
    return gain / room if room > 0 else 1.0


@dataclass(frozen=True, slots=True)
class SelectionBias(JsonRecord):
    """The part of the measured gain that is not confirmed on held-out tasks.

    Candidates are accepted because they are good or had favorable seeds, so the gains that gates
    measure are too high on average.

    Attributes:
        seen: Gain of the best skill over the initial one as measured by the gates.
        confirmed: Gain on the confirmation tasks, in the same metric.
        bias: ``seen`` minus the confirmed gain; ``None`` without scored confirmation pairs.
        interval: Approximate 95% confidence interval of the bias, for independent draws of the
            gates; ``None`` if any gain has no interval.
    """

    seen: float
    confirmed: PairedEffect
    bias: float | None
    interval: Interval | None

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        seen = f"The gates saw the best skill gain {gain_text(self.seen)} over the initial one"
        if self.bias is None or self.confirmed.gain is None:
            return f"{seen}; no confirmation task was scored, so how much of it was chance is open."
        confirmed = (
            f"on {self.confirmed.tasks} tasks that no gate had seen it gained "
            f"{gain_text(self.confirmed.gain, self.confirmed.interval)}"
        )
        return (
            f"{seen}; {confirmed}. The difference of {gain_text(self.bias, self.interval)} "
            f"{self._meaning()}."
        )

    def _meaning(self) -> str:
        if self.interval is None:
            return "has no interval, because the measurements show no spread"
        if self.interval.low > 0:
            return "is more than chance: expect the confirmed gain, not the one seen"
        if self.interval.high < 0:
            return "says that the best skill is better than the gates saw"
        return "may itself be chance"


def selection_bias(
    verdicts: Iterable[Verdict],
    initial: Sequence[EpisodeResult],
    best: Sequence[EpisodeResult],
    *,
    metric: GateMetric = "hard",
    mixed_weight: float = 0.5,
    success_threshold: float = 1.0,
) -> SelectionBias:
    """Compare the gain that gates measured with the gain on confirmation tasks.

    Args:
        verdicts: The decisions about the best skill. The effects of the accepted ones add up to
            the gain over the initial skill; others are ignored.
        initial: The initial skill's episodes on the confirmation tasks.
        best: The best skill's, on the same tasks and draws.
        metric: The gates' metric; see `Metric`, also for the other arguments.
        mixed_weight: Weight of ``soft`` in ``mixed``.
        success_threshold: Minimum reward of a success.

    Source: for the interval, G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693-1702.
    """
    steps = [verdict for verdict in verdicts if verdict.accepted and verdict.effect is not None]
    seen = math.fsum(step.effect for step in steps if step.effect is not None)
    scores = Metric(metric, mixed_weight, success_threshold)
    confirmed = measure_effect(scores.of(_pairs(initial, best)))
    if confirmed.gain is None:
        return SelectionBias(seen, confirmed, None, None)
    bias = seen - confirmed.gain
    below, above = _gap(confirmed.gain, confirmed.interval)
    gaps = [(above, below), *(_gap(step.effect, step.interval) for step in steps)]
    low, high = (math.hypot(*side) for side in zip(*gaps, strict=True))
    interval = Interval(bias - low, bias + high) if math.isfinite(low + high) else None
    return SelectionBias(seen, confirmed, bias, interval)


def _gap(value: float | None, interval: tuple[float, float] | None) -> tuple[float, float]:
    """Return the distances from a value to its interval's bounds; infinite without one."""
    if value is None or interval is None:
        return math.inf, math.inf
    return value - interval[0], interval[1] - value


def _pairs(baseline: Sequence[EpisodeResult], other: Sequence[EpisodeResult]) -> list[Pair]:
    """Pair episodes of equal task and draw; leave out episodes without a partner."""
    partners = {(result.task_id, result.spec.draw): result for result in baseline}
    return [
        Pair(incumbent=partners[key], candidate=result)
        for result in other
        if (key := (result.task_id, result.spec.draw)) in partners
    ]
