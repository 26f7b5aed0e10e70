"""A sequential test of a changed skill: better, not worse by more than a margin, or worse.

Sources: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659-663, for the alpha that is spent by
a look, here in proportion to the pairs drawn; I. Waudby-Smith and A. Ramdas, Journal of the Royal
Statistical Society B 86 (2024) 1-27, for the bound on a loss.
"""

import math
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, variance
from typing import Literal

from skillwright.core import Duel, Pair
from skillwright.core.jsonio import JsonRecord
from skillwright.core.seeds import derive_seed
from skillwright.evaluation.gates.judging import (
    MIN_PAIRED_TASKS,
    Metric,
    share_varying_within,
    too_many_lost,
    too_many_unscored,
    z_score,
)
from skillwright.evaluation.gates.release import SignTest
from skillwright.evaluation.gates.skillopt_gate import GateMetric
from skillwright.evaluation.intervals import (
    bounded_mean_interval,
    gain_text,
    mean_above_p_value,
    normal_quantile,
)
from skillwright.evaluation.paired import (
    PairedEffect,
    cluster_means,
    measure_effect,
    paired_p_value,
    task_gains,
)
from skillwright.evaluation.power import POWER

CHANGE_ALPHA = 0.01
"""Probability of a wrong "better", and of a wrong "worse"."""
LOSS_ALPHA = 0.05
"""Probability of a wrong "not worse"."""

_DRAWS = 8
_FEW_PAIRS = 160  # with fewer tasks than a test over tasks needs, draw up to this many pairs
_FIRST_PAIRS = 32
_GROWTH = 1.5
_PROMISING_Z = 1.8  # the z score at the last look that justifies drawing more for "better"
_TIMES = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_SIMULATED = 50


class CheckAnswer(StrEnum):
    """The answer about a new skill."""

    BETTER = "better"
    """A gain is proven."""
    NOT_WORSE = "not worse"
    """A loss of the margin or more is ruled out."""
    WORSE = "worse"
    """A loss is proven, and one of the margin or more is not ruled out."""
    UNDECIDED = "undecided"
    """None of these is proven."""

    @property
    def is_fine(self) -> bool:
        """Whether the new skill may replace the old one."""
        return self in (CheckAnswer.BETTER, CheckAnswer.NOT_WORSE)


@dataclass(frozen=True, slots=True)
class Noise(JsonRecord):
    """How much two measurements of the same skill differ.

    Attributes:
        tasks: Tasks that were measured twice.
        varying: Those with two different scores.
        difference: Mean difference of the second measurement from the first.
        p_value: Two-sided test that the order of the measurements makes no difference.
        lost: Tasks left out because an episode failed.
    """

    tasks: int
    varying: int
    difference: float
    p_value: float
    lost: int

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> "Noise":
        """Measure the noise on pairs that have the same skill at both sides."""
        gains = list(task_gains(pairs).values())
        tail = min(paired_p_value(gains), paired_p_value([-gain for gain in gains]))
        return cls(
            tasks=len(gains),
            varying=sum(gain != 0 for gain in gains),
            difference=fmean(gains) if gains else 0.0,
            p_value=min(1.0, 2 * tail),
            lost=len(pairs) - len(gains),
        )

    @property
    def is_odd(self) -> bool:
        """Whether more than chance differs, such as an endpoint that changes over time."""
        return self.p_value <= CHANGE_ALPHA


@dataclass(frozen=True, slots=True)
class CheckVerdict(JsonRecord):
    """The answer of a check, with its numbers; scores are in [0, 1].

    Attributes:
        effect: The measured gain of the new skill over the old one.
        margin: The loss that "not worse" rules out.
        p_better: Of the test for a gain; `CHANGE_ALPHA` or less is a proof.
        p_worse: Of the test for a loss.
        sample: ``tasks``, or ``draws`` with too few tasks: then the answer is about these alone.
        tasks: Tasks that were drawn.
        draws: Draws per task and side.
        advice: What would decide, if undecided; else "".
        broken: Why the measurement cannot be used, or "".
    """

    answer: CheckAnswer
    effect: PairedEffect
    margin: float
    metric: GateMetric
    p_better: float
    p_worse: float
    sample: Literal["tasks", "draws"]
    tasks: int
    draws: int
    advice: str = ""
    broken: str = ""

    @property
    def sentence(self) -> str:
        """The answer as a sentence."""
        if self.broken:
            return f"Not measured: {self.broken}"
        margin = gain_text(self.margin).removeprefix("+")
        facts = self.change
        match self.answer:
            case CheckAnswer.BETTER:
                said = f"Better: {facts}; p = {self.p_better:.2g}."
            case CheckAnswer.NOT_WORSE:
                said = f"Not worse: a loss of {margin} is ruled out. {facts}."
            case CheckAnswer.WORSE:
                said = f"Worse: {facts}; p = {self.p_worse:.2g}."
            case CheckAnswer.UNDECIDED:
                said = (
                    f"Undecided: {facts}. Neither a gain nor a loss is proven, and a loss of "
                    f"{margin} is not ruled out: {self.advice}."
                )
        if self.sample == "draws":
            said += (
                f" This holds for these {self.tasks} tasks; {MIN_PAIRED_TASKS} or more could speak "
                "for others like them."
            )
        return said

    @property
    def change(self) -> str:
        """Both scores, their difference and its interval."""
        effect = self.effect
        if effect.gain is None or effect.incumbent is None or effect.candidate is None:
            return "nothing was scored"
        style = ".1%" if self.metric == "hard" else ".3f"
        copies = f" (in {effect.clusters} clusters of near copies)"
        where = f"{effect.tasks} tasks" + copies * (effect.clusters < effect.tasks)
        where += f", {self.draws} draws each" if self.draws > 1 else ""
        return (
            f"{effect.incumbent:{style}} -> {effect.candidate:{style}} on {where}: "
            f"{gain_text(effect.gain, effect.interval)}"
        )


@dataclass(frozen=True, slots=True)
class CheckLook:
    """A look of the test at the first ``draws`` draws of the first ``tasks`` tasks."""

    tasks: int
    draws: int


@dataclass(frozen=True, slots=True)
class CheckTest:
    """Compares a new skill with an old one, and stops as soon as the answer is clear.

    The number of pairs grows by 50% from look to look: first over the tasks, in random order, then
    over the draws of each. A gain and a loss are proven by sign-flip tests over tasks that are
    exact over all looks together (`SignTest`), a loss of the margin is ruled out by bets that are
    valid for any distribution (`mean_above_p_value`). With fewer than 8 tasks the sample is one of
    draws instead of tasks.

    Once a loss of the margin is ruled out, the test continues only while the z-score so far makes
    the proof of a gain likely.

    Attributes:
        margin: The loss to rule out, in (0, 1).
        draws: Maximum draws per task and side; 0 is 8, and more with fewer than 20 tasks.
        metric: The score to compare.
        seed: Seeds the order of tasks and the sign assignments.
        clusters: Cluster by task id, of tasks that say nearly the same: their mean counts as one.
    """

    margin: float = 0.1
    draws: int = 0
    metric: Metric = field(default_factory=Metric)
    seed: int = 0
    clusters: Mapping[str, str] = field(default_factory=dict)

    def looks(self, tasks: int) -> list[CheckLook]:
        """Return the planned looks on ``tasks`` tasks."""
        most = self.draws or max(_DRAWS, -(-_FEW_PAIRS // tasks))
        sizes = [tasks]
        while tasks >= MIN_PAIRED_TASKS and sizes[0] / _GROWTH >= _FIRST_PAIRS:
            sizes.insert(0, math.ceil(sizes[0] / _GROWTH))
        found = [CheckLook(size, 1) for size in sizes[:-1]]
        draws = 1 if tasks >= MIN_PAIRED_TASKS else min(most, -(-_FIRST_PAIRS // tasks))
        while draws < most:
            found.append(CheckLook(tasks, draws))
            draws = min(most, max(draws + 1, round(draws * _GROWTH)))
        return [*found, CheckLook(tasks, most)]

    def order(self, task_ids: Sequence[str]) -> list[str]:
        """Return the tasks in the random order in which looks take them."""
        shuffled = sorted(task_ids)
        random.Random(derive_seed("check", self.seed)).shuffle(shuffled)
        return shuffled

    async def judge(self, duel: Duel) -> CheckVerdict:
        """Draw pairs until the answer is clear, or all looks are done."""
        order = self.order(duel.task_ids)
        state = _State.begin(self, order)
        pairs: list[Pair] = []
        done = dict.fromkeys(order, 0)
        for look in state.looks:
            for draws, ids in _missing(done, order[: look.tasks], look.draws):
                pairs += self.metric.of(await duel.draw(ids, n=draws))
            verdict = state.look(pairs, look)
            if verdict is not None:
                return verdict
        raise AssertionError("the last look decides")  # pragma: no cover


def _missing(
    done: dict[str, int], ids: Sequence[str], draws: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield which tasks to draw how often, and count them as drawn."""
    for count in sorted({draws - done[one] for one in ids} - {0}):
        asked = [one for one in ids if draws - done[one] == count]
        done |= dict.fromkeys(asked, draws)
        yield count, asked


@dataclass(slots=True)
class _State:
    """The tests of a check after some looks."""

    test: CheckTest
    order: list[str]
    looks: list[CheckLook]
    units: list[tuple[str, int]]  # the sample: tasks as (id, 0), or draws as (id, number)
    gain: SignTest
    loss: SignTest
    spent: float = 0.0
    p_better: float = 1.0
    p_worse: float = 1.0
    rules_out: bool = False

    @classmethod
    def begin(cls, test: CheckTest, order: list[str]) -> "_State":
        looks = test.looks(len(order))
        units = [(one, 0) for one in dict.fromkeys(test.clusters.get(one, one) for one in order)]
        if len(units) < MIN_PAIRED_TASKS:
            units = [(one, number) for number in range(looks[-1].draws) for one in order]
        seeds = [derive_seed("check", side, test.seed) for side in ("gain", "loss")]
        gain, loss = (SignTest(len(units), seed) for seed in seeds)
        return cls(test, order, looks, units, gain, loss)

    @property
    def is_few(self) -> bool:
        clusters = self.test.clusters
        return len({clusters.get(one, one) for one in self.order}) < MIN_PAIRED_TASKS

    def look(self, pairs: Sequence[Pair], look: CheckLook) -> CheckVerdict | None:
        """Test the pairs so far; return the verdict if this is the last look."""
        effect = measure_effect(pairs, self.test.clusters, tests=False)
        repeats = look.draws > 1 and not share_varying_within(pairs)
        is_last = look == self.looks[-1] or (repeats and look.tasks == len(self.order))
        if broken := too_many_unscored(effect, look.tasks) or too_many_lost(effect):
            if is_last or not effect.pairs:
                return self._verdict(CheckAnswer.UNDECIDED, effect, look, broken=broken)
            return None
        gains, last = self._gains(pairs), self.looks[-1]
        share = 1.0 if is_last else look.tasks * look.draws / (last.tasks * last.draws)
        limit = CHANGE_ALPHA * share
        values = [gains.get(unit, 0.0) for unit in self.units]
        self.p_better = self.gain.look(values, limit)
        self.p_worse = self.loss.look([-value for value in values], limit)
        self._rule_out(list(gains.values()), share)
        measured = effect.gain or 0.0
        answer, is_over = CheckAnswer.UNDECIDED, False
        if self.p_better <= limit and measured > 0:
            answer, is_over = CheckAnswer.BETTER, True
        elif self.rules_out and measured > -self.test.margin:
            trend = z_score({str(unit): gain for unit, gain in gains.items()}) / math.sqrt(share)
            answer, is_over = CheckAnswer.NOT_WORSE, trend < _PROMISING_Z
        elif self.p_worse <= limit and measured < 0:
            answer, is_over = CheckAnswer.WORSE, measured <= -self.test.margin
        if not is_last and not is_over:
            return None
        advice = ""
        if answer is CheckAnswer.UNDECIDED:
            advice = _advice(pairs, list(gains.values()), look, self.test.margin, repeats=repeats)
        return self._verdict(answer, effect, look, advice=advice)

    def _gains(self, pairs: Sequence[Pair]) -> dict[tuple[str, int], float]:
        """Return the gain of each unit of the sample, in the order of drawing."""
        if not self.is_few:
            means = cluster_means(task_gains(pairs), self.test.clusters)
            return {(name, 0): gain for name, gain in means.items()}
        numbers: Counter[str] = Counter()
        drawn = {}
        for pair in pairs:
            if pair.gain is not None:
                drawn[pair.task_id, numbers[pair.task_id]] = pair.gain
            numbers[pair.task_id] += 1
        return drawn

    def _rule_out(self, values: Sequence[float], share: float) -> None:
        """Test whether a loss of the margin can be ruled out."""
        margin = self.test.margin
        if self.is_few:
            # Equal bets on all draws of a round win nothing on average if the mean of the tasks is
            # at the margin, by the inequality of means. So looks after whole rounds need no share.
            low = bounded_mean_interval(values, -1.0, 1.0, 1 - 2 * LOSS_ALPHA).low
            self.rules_out = self.rules_out or low > -margin
            return
        limit = LOSS_ALPHA * (share - self.spent)
        # Alpha that could hardly prove anything on few tasks is kept for a later look.
        if share < 1 and 2 * mean_above_p_value([0.0] * len(values), -margin) > limit:
            return
        self.spent = share
        self.rules_out = self.rules_out or mean_above_p_value(values, -margin) <= limit

    def _verdict(
        self,
        answer: CheckAnswer,
        effect: PairedEffect,
        look: CheckLook,
        *,
        advice: str = "",
        broken: str = "",
    ) -> CheckVerdict:
        return CheckVerdict(
            answer=answer,
            effect=effect,
            margin=self.test.margin,
            metric=self.test.metric.name,
            p_better=self.p_better,
            p_worse=self.p_worse,
            sample="draws" if self.is_few else "tasks",
            tasks=look.tasks,
            draws=look.draws,
            advice=advice,
            broken=broken,
        )


def _advice(
    pairs: Sequence[Pair], gains: Sequence[float], look: CheckLook, margin: float, *, repeats: bool
) -> str:
    """Return how many more tasks or draws would decide in `POWER` of new checks, or why none."""
    noise = 0.0 if repeats else _noise_of_means(pairs)
    spread = max(variance(gains), 0.0) if len(gains) > 1 else 0.0
    mean, rng = fmean(gains), random.Random(0)

    def decides(times: float, draws: float) -> bool:
        """Simulate checks with more tasks, or more draws of each, if the measured gain is true."""
        left = max(spread - noise + noise / draws, 0.0)
        scale = math.sqrt(left / spread) if spread else 0.0
        size = math.ceil(times * len(gains))
        samples = (
            [mean + (gain - mean) * scale for gain in rng.choices(gains, k=size)]
            for _ in range(_SIMULATED)
        )
        return sum(_is_decided(one, margin) for one in samples) >= POWER * _SIMULATED

    def least(decides_at: Callable[[float], bool]) -> float | None:
        at = bisect_left(_TIMES, True, key=decides_at)
        return _TIMES[at] if at < len(_TIMES) else None

    more, is_few = [], len(gains) > look.tasks
    if times := least(lambda k: decides(k, 1)):
        more.append(f"{math.ceil(times * look.tasks) - look.tasks} more tasks")
    if not repeats and (times := least(lambda k: decides(k if is_few else 1, k))):
        more.append(f"{math.ceil(times * look.draws) - look.draws} more draws of each")
    if more:
        return f"{' or '.join(more)} would decide with {POWER:.0%}"
    return f"not even {_TIMES[-1]:g} times as many tasks would decide; a larger margin may"


def _noise_of_means(pairs: Sequence[Pair]) -> float:
    """Return the mean variance of a task's mean gain that is due to its draws."""
    draws: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        if pair.gain is not None:
            draws[pair.task_id].append(pair.gain)
    several = [variance(one) / len(one) for one in draws.values() if len(one) > 1]
    return fmean(several) if several else 0.0


def _is_decided(gains: Sequence[float], margin: float) -> bool:
    z = z_score({str(number): gain for number, gain in enumerate(gains)})
    if abs(z) >= normal_quantile(1 - CHANGE_ALPHA):
        return True
    return mean_above_p_value(gains, -margin) <= LOSS_ALPHA / 2  # of the rest, earlier looks spend
