"""Paired comparisons: how much better is the second side on the same tasks and seeds?

Tasks are the independent unit: several draws of a task are averaged first.
"""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, stdev, variance
from typing import Literal

from skillwright.core import EpisodeSpec, Pair, SkillSource, Task, did_you_mean
from skillwright.core.concurrency import together
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation.intervals import (
    Interval,
    mean_interval,
    normal_quantile,
    paired_proportion_interval,
    student_t_upper_tail,
    wilson_interval,
)
from skillwright.rollout import Engine

_DIGITS = 9  # numbers that agree to this many digits are equal
_ROUNDING = 10**-_DIGITS
_MAX_WEIGHT = 10_000  # of all tasks together: it bounds the sums that are counted


@dataclass(frozen=True, slots=True)
class PairedEffect(JsonRecord):
    """The statistics of a set of pairs.

    Attributes:
        gain: Mean gain over tasks, or ``None`` where no pair was scored.
        interval: 95% confidence interval of the gain, or ``None`` where the pairs show no spread.
        p_value: See `paired_p_value`; ``None`` where no pair was scored, or no test was asked for.
        incumbent: The incumbent's mean reward over tasks.
        candidate: The candidate's mean reward over tasks.
        tasks: Tasks with at least one scored pair.
        better: Tasks on which the candidate did better.
        lost: Pairs left out because a side has a Failure.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    gain: float | None
    interval: Interval | None
    p_value: float | None
    incumbent: float | None
    candidate: float | None
    tasks: int
    better: int
    worse: int
    pairs: int
    lost: int


def measure_effect(pairs: Sequence[Pair], *, tests: bool = True) -> PairedEffect:
    """Estimate how much better the candidates of ``pairs`` did than their incumbents.

    Pairs with a Failure are left out and counted. With one draw per task and rewards of 0 and 1
    the interval is Newcombe's, otherwise Student's t over the tasks' mean gains.

    Args:
        pairs: Draws of both sides.
        tests: Also test the gain (`paired_p_value`); without, ``p_value`` is ``None``.
    """
    rewards = _rewards_by_task(pairs)
    scored = sum(len(draws) for draws in rewards.values())
    lost = len(pairs) - scored
    if not rewards:
        return PairedEffect(None, None, None, None, None, 0, 0, 0, 0, lost)
    gains = list(_gains(rewards).values())
    return PairedEffect(
        gain=round(fmean(gains), _DIGITS),
        interval=_gain_interval(rewards, gains),
        p_value=paired_p_value(gains) if tests else None,
        incumbent=fmean(fmean([old for old, _ in draws]) for draws in rewards.values()),
        candidate=fmean(fmean([new for _, new in draws]) for draws in rewards.values()),
        tasks=len(rewards),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        pairs=scored,
        lost=lost,
    )


def task_gains(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the mean gain over the scored draws of each task, by id, in order of first sight."""
    return _gains(_rewards_by_task(pairs))


def by_task_type(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Group pairs by the task type of their task, task types sorted by name."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.candidate.task_type].append(pair)
    return dict(sorted(groups.items()))


def paired_p_value(gains: Sequence[float]) -> float:
    """Test, one-sided, whether gains are more than chance.

    If the candidate changes nothing, each task's gain is as likely to have the opposite sign. The
    p-value is the share of all sign assignments whose sum is at least the observed one: Fisher's
    randomization form of the paired t test. Chance alone has p <= alpha with a chance of at most
    alpha, however few the tasks, also where nearly all tie (three wins among 97 ties: p = 1/8,
    where t says 0.04) and where a few large gains stand among many small ones.

    Graded rewards on many tasks have too many sums to count, so their gains are rounded to whole
    shares first. The promise holds all the same: the sign of a share is as much a coin toss.

    Args:
        gains: Mean gain per task, shape ``[tasks]``; tasks are independent.

    Returns:
        A probability in (0, 1]; 1 where no gain differs from 0.

    Source: R. A. Fisher, The Design of Experiments (1935), section 21.
    """
    moved = [gain for gain in gains if abs(gain) >= _ROUNDING]
    if not moved:
        return 1.0
    weights = _whole_weights([abs(gain) for gain in moved])
    observed = sum(weight for weight, gain in zip(weights, moved, strict=True) if gain > 0)
    return float(_share_as_large(weights, observed))


def _share_as_large(weights: Sequence[int], observed: int) -> Fraction:
    """Return the share of sign assignments whose positive weights sum to ``observed`` or more.

    Digit s of one long number counts the assignments whose positive weights sum to s. A digit is
    wide enough for all assignments together, so none ever carries into the next.
    """
    bits = 8 * (len(weights) // 8 + 1)
    counts = 1
    for weight in weights:
        counts += counts << weight * bits
    # The remainder of a division by "all nines" is the sum of the digits.
    as_large = (counts >> observed * bits) % ((1 << bits) - 1)
    return Fraction(as_large, 2 ** len(weights))


def _whole_weights(sizes: Sequence[float]) -> list[int]:
    """Return whole numbers in the proportion of positive sizes: exactly where they stay small."""
    shares = [Fraction(size / max(sizes)).limit_denominator(_MAX_WEIGHT) for size in sizes]
    common = Fraction(1, math.lcm(*(share.denominator for share in shares)))
    finest = sum(shares, start=Fraction()) / _MAX_WEIGHT
    return [round(share / max(common, finest)) for share in shares]


def _rewards_by_task(pairs: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """Collect ``(incumbent, candidate)`` rewards of the scored pairs, in order of first sight."""
    rewards: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if old is not None and new is not None:
            rewards[pair.task_id].append((old, new))
    return dict(rewards)


def _gains(rewards: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, float]:
    # Rounded, so that what differs only by how floats round is a tie.
    return {
        task: round(fmean([new - old for old, new in draws]), _DIGITS)
        for task, draws in rewards.items()
    }


def _gain_interval(
    rewards: Mapping[str, Sequence[tuple[float, float]]], gains: Sequence[float]
) -> Interval | None:
    draws = [draw for task in rewards.values() for draw in task]
    one_draw_each = len(draws) == len(rewards)
    if one_draw_each and all(reward in (0, 1) for draw in draws for reward in draw):
        return paired_proportion_interval([(old == 1, new == 1) for old, new in draws])
    return mean_interval(gains)


# How far two sides differ on the same tasks, where their attempts do not match one to one.
#
# Each side's attempts at a task are averaged first. The tasks are the clusters and the independent
# unit: Student's t over the tasks' mean differences is the interval that clustered standard errors
# give with one mean per cluster, and the same as scipy's ``ttest_rel`` on the task means.


IntervalMethod = Literal["student_t", "wilson"]

_EQUAL_DIGITS = 9  # differences that agree to this many digits are equal, up to rounding
MAX_EXACT_TASKS = 1000  # above it the exact test takes seconds and agrees with Student's t


@dataclass(frozen=True, slots=True)
class PairedDifference(JsonRecord):
    """How far the second side's scores lie above the first's.

    Attributes:
        tasks: Tasks that were compared, at least 1.
        first: Mean over tasks of the first side's scores.
        second: The same of the second side.
        effect: ``second - first``.
        interval: 95% confidence interval of the effect.
        method: ``student_t``; ``wilson`` where all differences are equal, or there is one task, so
            that Student's t has no spread to work with: the bound is then on the share of tasks
            that would differ by another amount, each by as much as scores in [0, 1] can.
        p_value: Two-sided paired t test; ``None`` for one task and where all differences are equal.
        exact_p_value: Two-sided randomization test, see `paired_p_value`; ``None`` where more than
            1,000 tasks differ.
        better: Tasks on which the second side scored higher.
        worse: Tasks on which it scored lower.
    """

    tasks: int
    first: float
    second: float
    effect: float
    interval: Interval
    method: IntervalMethod
    p_value: float | None
    exact_p_value: float | None
    better: int
    worse: int


def paired_difference(scores: Sequence[tuple[float, float]]) -> PairedDifference:
    """Estimate how far the second side lies above the first.

    Args:
        scores: ``(first, second)`` per task, each in [0, 1] and the mean over that side's attempts,
            shape ``[tasks]``. Every task counts the same, however many attempts it had.

    Raises:
        ValueError: There are no tasks.
    """
    if not scores:
        raise ValueError("no task was scored on both sides, so there is no difference")
    gains = [round(second - first, _EQUAL_DIGITS) for first, second in scores]
    by_t = mean_interval(gains)
    return PairedDifference(
        tasks=len(scores),
        first=fmean(first for first, _ in scores),
        second=fmean(second for _, second in scores),
        effect=fmean(gains),
        interval=by_t or _interval_without_spread(gains),
        method="student_t" if by_t else "wilson",
        p_value=_t_p_value(gains),
        exact_p_value=_exact_p_value(gains),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def _interval_without_spread(gains: Sequence[float]) -> Interval:
    """Bound the mean of equal measurements: conservative, and never of width 0."""
    gain = gains[0]
    others = wilson_interval(0, len(gains)).high
    return Interval(gain - others * max(0.0, 1 + gain), gain + others * max(0.0, 1 - gain))


def _t_p_value(gains: Sequence[float]) -> float | None:
    if len(gains) < 2 or min(gains) == max(gains):
        return None
    t = fmean(gains) / (stdev(gains) / len(gains) ** 0.5)
    return 2 * student_t_upper_tail(abs(t), len(gains) - 1)


def _exact_p_value(gains: Sequence[float]) -> float | None:
    if sum(gain != 0 for gain in gains) > MAX_EXACT_TASKS:
        return None
    # Under random signs the sum is symmetric around 0, so both tails are equally heavy.
    tail = min(paired_p_value(gains), paired_p_value([-gain for gain in gains]))
    return min(1.0, 2 * tail)


# How large a gain must be to be found, before a run; and what would prove it, after one.
#
# Both plan with a normal approximation. An error here costs a wrong hint, never a wrong release;
# ``benchmarks/gates.py`` holds the hints against simulated runs.


POWER = 0.8
"""A gain counts as findable where it is found in this share of runs."""

# The variance of a task's measured gain, for success rates spread as Beta(0.6, 0.6) and edits that
# help some of the tasks much: what draws average away, what they do not, and what grows with the
# gain, because it falls on some tasks only. Fitted to simulated tests of 20 to 200 tasks.
_NOISE_OF_A_DRAW = 0.27
_REST = 0.05
_UNEVENNESS = 0.45

_MOST_TIMES = 8  # a hint to multiply tasks or draws by more than this is no help


def detectable_gain(tasks: int, draws: int, alpha: float) -> float | None:
    """Return the smallest true gain that a paired test finds in `POWER` of runs.

    Args:
        tasks: Held-out tasks, at least 1.
        draws: Draws per task and side, at least 1.
        alpha: The test's, in (0, 1).

    Returns:
        A gain in success rate, in (0, 1); ``None`` where not even the largest one is found.
    """
    reach = normal_quantile(1 - alpha) + normal_quantile(POWER)

    def is_found(gain: float) -> bool:
        noise = _REST + _NOISE_OF_A_DRAW / draws
        # What a gain adds falls again where it is on most tasks, and never below nothing.
        spread = noise + max(0.0, _UNEVENNESS * gain - gain * gain)
        return gain * math.sqrt(tasks / spread) >= reach

    low, high = 0.0, 0.99
    if not is_found(high):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def what_would_prove(pairs: Sequence[Pair], alpha: float) -> str:
    """Say how many more tasks or draws would prove a gain as large as the measured one, or ""."""
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        if pair.gain is not None:
            gains[pair.task_id].append(pair.gain)
    means = [fmean(draws) for draws in gains.values()]
    if len(means) < 2 or fmean(means) <= 0:
        return ""
    n, spread = len(means), variance(means)
    needed = (fmean(means) / (normal_quantile(1 - alpha) + normal_quantile(POWER))) ** 2
    hints = []
    tasks = math.ceil(spread / needed) - n
    if tasks > (_MOST_TIMES - 1) * n:
        return ""
    if tasks > 0:
        hints.append(f"{tasks} more val tasks")
    noise = fmean(variance(one) / len(one) if len(one) > 1 else 0.0 for one in gains.values())
    most = max(len(one) for one in gains.values())
    room = n * needed - max(0.0, spread - noise)
    if noise > 0 and room > 0 and 1 < noise / room <= _MOST_TIMES:
        hints.append(f"{math.ceil(most * noise / room) - most} more draws of each")
    if not hints:
        return ""
    often = f"{POWER * 10:.0f} of 10 new runs"
    return f"{' or '.join(hints)} would prove a gain of this size in {often}"


@dataclass(frozen=True, slots=True)
class Draws:
    """Which draws of its tasks a duel takes, and what they are recorded as.

    Attributes:
        seed: The run's evaluation seed.
        first: Number of each task's first draw. Another number means other seeds.
    """

    seed: int
    first: int = 0
    phase: str = "gate"
    step: int | None = None

    def spec(self, task: Task, number: int) -> EpisodeSpec:
        """Return a task's draw of a number; both sides of a pair have the same."""
        seed = evaluation_seed(self.seed, task.id, number)
        return EpisodeSpec(task, seed, number, self.phase, self.step)


class DrawCount:
    """Numbers the draws of a duel's tasks, so that no draw of a task counts twice.

    Args:
        first: The number of each task's first draw, by id.
    """

    def __init__(self, first: Mapping[str, int]) -> None:
        self._next = dict(first)

    def take(self, task_id: str, n: int) -> range:
        """Return the numbers of the next ``n`` draws of a task.

        Raises:
            ValueError: The task is not part of the duel.
        """
        if task_id not in self._next:
            near = did_you_mean(task_id, self._next)
            raise ValueError(f"task {task_id!r} is not part of this duel. {near}")
        first = self._next[task_id]
        self._next[task_id] += n
        return range(first, first + n)


class SkillDuel:
    """Draws paired results of two skills through an engine.

    Both sides of a pair have the same task, draw number and seed. Drawing a task again continues
    its count, so no draw counts twice.

    A task that both sides give the same text cannot go differently: one episode is both sides'.
    Its draws are numbered from 0, wherever the others begin, because those are the ones that were
    played before: with a bank, where a change reaches few tasks, only these are played anew.

    Args:
        engine: Runs the episodes.
        tasks: The held-out tasks, with unique ids.
        incumbent: The skill that stands.
        candidate: The skill that wants its place.
        draws: Where the count of draws begins.

    Raises:
        ValueError: Two tasks have the same id.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        incumbent: SkillSource,
        candidate: SkillSource,
        draws: Draws,
    ) -> None:
        self._engine = engine
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) < len(tasks):
            twice = [name for name, n in Counter(task.id for task in tasks).items() if n > 1]
            raise ValueError(f"task ids must be unique; {twice[0]!r} is not")
        self._sides = (incumbent, candidate)
        self._draws = draws
        self._count: DrawCount | None = None

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks, in the order given."""
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``, both sides at once.

        Raises:
            ValueError: A task is not part of the duel.
            SkillwrightError: What stopped the engine (`Engine.run`); a Failure does not.
        """
        if self._count is None:
            self._count = DrawCount(await self._first_draws())
        specs = [
            self._draws.spec(self._tasks[task_id], number)
            for task_id in task_ids
            for number in self._count.take(task_id, n)
        ]
        incumbents, candidates = await together(
            self._engine.run(specs, skill) for skill in self._sides
        )
        return [
            Pair(incumbent, candidate)
            for incumbent, candidate in zip(incumbents, candidates, strict=True)
        ]

    async def _first_draws(self) -> dict[str, int]:
        tasks = list(self._tasks.values())
        given = [
            await asyncio.to_thread(side.contexts, tasks) if side.waits else side.contexts(tasks)
            for side in self._sides
        ]
        return {
            task.id: 0 if old.text == new.text else self._draws.first
            for task, old, new in zip(tasks, *given, strict=True)
        }
