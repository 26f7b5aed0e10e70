"""Shared parts of gates: the compared score, undecidable cases, and the wording of reasons.

A pair with a Failure is left out and counted. With more than a tenth of the pairs lost, or too few
tasks to prove anything, the verdict is `UNDECIDED`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf, sqrt
from statistics import fmean

from skillwright.core import EpisodeResult, Pair
from skillwright.evaluation.gates.skillopt_gate import GateMetric, select_gate_score
from skillwright.evaluation.paired import PairedEffect, by_task_type, measure_effect, task_gains
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict

MAX_LOST_SHARE = 0.1
MIN_PAIRED_TASKS = 8
_MOST_NAMED = 20  # tasks that a reason names; the store has all


@dataclass(frozen=True, slots=True)
class Metric:
    """The score of an episode that a gate compares.

    Attributes:
        name: ``hard`` is `EpisodeResult.hard_score`, ``soft`` the reward, ``mixed`` a blend.
        mixed_weight: Weight of ``soft`` in ``mixed``, clamped to [0, 1].
        success_threshold: The reward from which an episode passes, for ``hard``.
    """

    name: GateMetric = "hard"
    mixed_weight: float = 0.5
    success_threshold: float = 1.0

    def of(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return pairs whose rewards are the metric's scores; failures stay failures."""
        return [self._scored_pair(pair) for pair in pairs]

    def _scored_pair(self, pair: Pair) -> Pair:
        old, new = self._scored(pair.incumbent), self._scored(pair.candidate)
        return pair if old is pair.incumbent and new is pair.candidate else Pair(old, new)

    def _scored(self, result: EpisodeResult) -> EpisodeResult:
        if result.reward is None:
            return result
        hard = result.hard_score(self.success_threshold)
        score = select_gate_score(hard, result.reward, self.name, self.mixed_weight)
        return result if score == result.reward else replace(result, reward=score)


@dataclass(frozen=True, slots=True)
class Terms:
    """Facts about the run that a gate decides for.

    Attributes:
        success_threshold: The reward from which an episode passes, for the metric ``hard``.
        seed: The run's seed, for gates that choose tasks or sign assignments at random.
        judged: Of each candidate that the run has judged on the same tasks, on how many of them it
            went differently: for a release test whose draws repeat those that decided.
        weights: Number of weights among which the tested ones were selected on the same tasks.
    """

    success_threshold: float = 1.0
    seed: int = 0
    judged: tuple[int, ...] = ()
    weights: int = 1


USUAL = Terms()
"""Success is a reward of 1."""


def tasks_needed(alpha: float) -> int:
    """Return how many held-out tasks a paired test at ``alpha`` needs to be able to accept.

    With n tasks the smallest p-value is 2^-n, when every task goes better.
    """
    return max(MIN_PAIRED_TASKS, math.ceil(-math.log2(alpha)))


def nothing_left(ledger: AlphaLedger) -> str:
    """Return that a ledger's plan is used up, or ""."""
    if ledger.share > 0:
        return ""
    return (
        f"all {ledger.planned} planned decisions are made, and nothing is left of "
        f"alpha = {ledger.total:g}. Plan more decisions in a new run."
    )


def too_few(tasks: int, alpha: float) -> str:
    """Return that a paired test on ``tasks`` cannot accept at ``alpha``, or ""."""
    needed = tasks_needed(alpha)
    if tasks >= needed:
        return ""
    return (
        f"{tasks} held-out tasks cannot prove a gain at alpha = {alpha:.2g}; at least {needed} "
        "are needed. Add validation tasks, or use the strict gate."
    )


def too_many_unscored(effect: PairedEffect, tasks: int) -> str:
    """Return that too many of the duel's ``tasks`` have no scored pair, or ""."""
    unscored = tasks - effect.tasks
    if unscored <= MAX_LOST_SHARE * tasks:
        return ""
    return (
        f"{unscored} of {tasks} held-out tasks have no score on both sides, for failures of a "
        f"model or an environment: more than {MAX_LOST_SHARE:.0%}. The run's store has them; mend "
        "their cause before the next run."
    )


def too_many_lost(effect: PairedEffect) -> str:
    """Return that too many pairs were lost, or ""."""
    drawn = effect.pairs + effect.lost
    if effect.lost <= MAX_LOST_SHARE * drawn:
        return ""
    return (
        f"{effect.lost} of {drawn} pairs were lost to failures of a model or an environment, "
        f"more than {MAX_LOST_SHARE:.0%}. The run's store has them; mend their cause before the "
        "next run."
    )


def too_many_worse(pairs: Sequence[Pair], most: int | None) -> str:
    """Return which tasks went worse if they exceed the limit (``None``: no limit), or ""."""
    if most is None:
        return ""
    worse = [task_id for task_id, gain in task_gains(pairs).items() if gain < 0]
    if len(worse) <= most:
        return ""
    named = ", ".join(map(repr, worse[:_MOST_NAMED]))
    rest = f" and {len(worse) - _MOST_NAMED} more" if len(worse) > _MOST_NAMED else ""
    were = "1 task went worse" if len(worse) == 1 else f"{len(worse)} tasks went worse"
    return f"{were}, and at most {most} may (evaluation.gate.max_worse_tasks): {named}{rest}"


def harmed_task_type(pairs: Sequence[Pair], veto: float | None) -> str:
    """Return the first task type with a confident (97.5%) loss above ``veto``, or ""."""
    if veto is None:
        return ""
    for task_type, members in by_task_type(pairs).items():
        effect = measure_effect(members)
        if effect.interval is not None and effect.interval.high < -veto:
            return f"task type {task_type!r} got worse by more than {veto:g}: {change(effect)}"
    return ""


def undecided(problem: str) -> Verdict:
    """Return the verdict without draws."""
    return Verdict(Decision.UNDECIDED, f"Undecided: {problem}")


def measured(effect: PairedEffect) -> Verdict:
    """Return a verdict that holds the measurements and is not yet decided."""
    return Verdict(
        Decision.UNDECIDED,
        reason="",
        effect=effect.gain,
        interval=effect.interval,
        p_value=effect.p_value,
        pairs=effect.pairs,
        lost=effect.lost,
        rollouts=2 * (effect.pairs + effect.lost),
        incumbent_score=effect.incumbent,
        candidate_score=effect.candidate,
        better=effect.better,
        worse=effect.worse,
    )


_BELOW_95 = 0.025  # of a two-sided 95% interval, what lies below it


def stricter(effect: PairedEffect, alpha: float) -> str:
    """Return why a gain with a 95% interval above 0 is not significant at ``alpha``, or ""."""
    if effect.interval is None or effect.interval.low <= 0 or alpha >= _BELOW_95:
        return ""
    return ", which is stricter than a 95% interval: a run's decisions share its alpha"


def went(effect: PairedEffect) -> str:
    """Return how many tasks went better and worse, as text."""
    return (
        f"{effect.better} of {effect.tasks} tasks went better and {effect.worse} worse; "
        f"{change(effect)}"
    )


def change(effect: PairedEffect) -> str:
    """Return the change of the mean as text; some pair must be scored."""
    text = f"mean {effect.incumbent:.3f} -> {effect.candidate:.3f}, a change of {effect.gain:+.3f}"
    if effect.interval is None:
        return text
    return f"{text} (95% interval {effect.interval.low:+.3f} to {effect.interval.high:+.3f})"


# Draw again only where a further draw can tell something: tasks whose results differ so far.
#
# Whether a task is drawn again depends on the results of both sides together, not on which side had
# them, so a test that swaps the sides of a task stays exact. A task that is left out keeps the gain
# of 0 that it showed: measured gains are conservative.


def doubling(first: int, most: int) -> Iterator[int]:
    """Yield the draws to add at each look; their number doubles, as 1, 1, 2, 2 for (1, 6)."""
    done = min(first, most)
    yield done
    while done < most:
        more = min(done, most - done)
        yield more
        done += more


def varying_tasks(task_ids: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return the tasks whose scored results are not all equal; in order.

    A task whose two sides are the same episode, because their prompts are equal, is
    left out however it varies: its gain is 0 in every draw. So is a task without a scored pair:
    its episodes were tried again before they were given up, and a few tasks that always fail
    would be ever more of what is drawn, until too much was lost for any verdict.
    """
    seen: defaultdict[str, set[float]] = defaultdict(set)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if pair.candidate.key and pair.candidate.key == pair.incumbent.key:
            seen[pair.task_id] = {0.0}
        elif old is not None and new is not None:
            seen[pair.task_id] |= {old, new}
    return [task_id for task_id in task_ids if len(seen[task_id]) > 1]


def share_varying_within(pairs: Sequence[Pair]) -> float:
    """Return the share of tasks whose draws differ on one side, among those with several draws.

    0 where no task has several: then nothing is known.
    """
    sides: defaultdict[str, tuple[set[float], set[float]]] = defaultdict(lambda: (set(), set()))
    draws: defaultdict[str, int] = defaultdict(int)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if old is not None and new is not None:
            sides[pair.task_id][0].add(old)
            sides[pair.task_id][1].add(new)
            draws[pair.task_id] += 1
    several = [sides[task_id] for task_id, count in draws.items() if count > 1]
    return fmean(len(old) > 1 or len(new) > 1 for old, new in several) if several else 0.0


def z_score(gains: Mapping[str, float]) -> float:
    """Return the mean of the tasks' gains in units of its standard error.

    0 where no task went differently; infinite, with the sign of the mean, where all tasks gained
    the same.
    """
    values = gains.values()
    n, total = len(values), fsum(values)
    spread = fsum(value * value for value in values) - total * total / n if n else 0.0
    if n > 1 and spread > 1e-12:
        return total / sqrt(n * spread / (n - 1))
    return inf if total > 0 else -inf if total < 0 else 0.0
