"""Shared parts of gates: the compared score, undecidable cases, and the text of reasons.

Pairs with a failure are left out and counted. The verdict is `UNDECIDED` if more than a tenth of
the pairs are lost, or if there are too few tasks for the test.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, inf, sqrt
from statistics import fmean

from skillwright.core import EpisodeResult, Pair
from skillwright.evaluation.gates.chosen import Choice
from skillwright.evaluation.gates.skillopt_gate import GateMetric, select_gate_score
from skillwright.evaluation.intervals import gain_text
from skillwright.evaluation.paired import (
    PairedEffect,
    by_task_type,
    measure_effect,
    task_gains,
)
from skillwright.evaluation.verdict import AlphaLedger, Decision, Seen, Verdict

MAX_LOST_SHARE = 0.1
STEP_COST = 40.0
MIN_PAIRED_TASKS = 8
_MOST_NAMED = 20  # tasks that a reason names; the store has all


@dataclass(frozen=True, slots=True)
class Metric:
    """The score of an episode that a gate compares.

    Attributes:
        name: ``hard`` is `EpisodeResult.hard_score`, ``soft`` the reward, ``mixed`` a blend.
        mixed_weight: Weight of ``soft`` in ``mixed``, clamped to [0, 1].
        success_threshold: Minimum reward of a success, for ``hard``.
    """

    name: GateMetric = "hard"
    mixed_weight: float = 0.5
    success_threshold: float = 1.0

    def of(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return pairs whose rewards are the metric's scores; failures stay failures."""
        return [self._scored_pair(pair) for pair in pairs]

    def _scored_pair(self, pair: Pair) -> Pair:
        old, new = self.scored(pair.incumbent), self.scored(pair.candidate)
        return pair if old is pair.incumbent and new is pair.candidate else Pair(old, new)

    def scored(self, result: EpisodeResult) -> EpisodeResult:
        """Return a result whose reward is the metric's score; a failure stays one."""
        if result.reward is None:
            return result
        hard = result.hard_score(self.success_threshold)
        score = select_gate_score(hard, result.reward, self.name, self.mixed_weight)
        return result if score == result.reward else replace(result, reward=score)


@dataclass(frozen=True, slots=True)
class Terms:
    """Facts about the run that a gate needs.

    Attributes:
        success_threshold: Minimum reward of a success, for the metric ``hard``.
        seed: The run's seed, for random tasks or sign assignments.
        judged: The candidates that the run has judged on the same tasks, in order; for a release
            test of an agent without randomness.
        weights: Number of checkpoints from which the tested one was selected on the same tasks.
        clusters: Cluster by task id, of tasks that say nearly the same; see `cluster_means`.
        seen: What the run has seen of its skills on these tasks, in order: first the initial skill,
            then each judged candidate. Empty where the gate must begin with draws of both sides.
        step_cost: What it costs to propose a candidate, in rollouts: those of its train batch, and
            the optimizer's calls.
        repeats: Whether the agent answers alike each time; ``None`` if that is not known.
        rollouts: Maximum rollouts of the decision, for a budget; ``None`` for no limit.
        train: Sum and number of the scores of the current skill on the step's train batch.
        plays_whole: Whether a draw of any task plays them all, as some adapters do.
        bonus: Added to the gain by a gate that rewards the text itself; see `Gate.bonus`.
    """

    success_threshold: float = 1.0
    seed: int = 0
    judged: tuple[Choice, ...] = ()
    weights: int = 1
    clusters: Mapping[str, str] = field(default_factory=dict)
    seen: tuple[Seen, ...] = ()
    step_cost: float = STEP_COST
    repeats: bool | None = None
    rollouts: int | None = None
    train: tuple[float, int] = (0.0, 0)
    plays_whole: bool = False
    bonus: float = 0.0

    def count(self, task_ids: Iterable[str]) -> int:
        """Return the number of clusters of these tasks, which is the size of the sample."""
        return len({self.clusters.get(task_id, task_id) for task_id in task_ids})

    def affords(self, more: int, rollouts: int) -> bool:
        """Tell whether ``more`` rollouts are within the budget after ``rollouts``."""
        return self.rollouts is None or rollouts + more <= self.rollouts


USUAL = Terms()
"""Default terms: a reward of 1 is a success."""


def tasks_needed(alpha: float) -> int:
    """Return the minimum number of held-out tasks for a paired test at ``alpha``.

    With n tasks the smallest p-value is 2^-n, reached when all tasks improve.
    """
    return max(MIN_PAIRED_TASKS, math.ceil(-math.log2(alpha)))


def nothing_left(ledger: AlphaLedger) -> str:
    """Return a message if no alpha is left, or ""."""
    if ledger.share > 0:
        return ""
    return (
        f"all {ledger.planned} planned decisions are made, and nothing is left of "
        f"alpha = {ledger.total:g}. Plan more decisions in a new run."
    )


def too_few(tasks: int, alpha: float, clusters: int | None = None) -> str:
    """Return a message if ``tasks`` are too few for a paired test at ``alpha``, or "".

    Args:
        tasks: Held-out tasks.
        alpha: Significance level.
        clusters: Clusters of these tasks; ``None`` for as many.
    """
    needed = tasks_needed(alpha)
    if (tasks if clusters is None else clusters) >= needed:
        return ""
    copies = "" if clusters in (None, tasks) else f" that are {clusters} clusters of near copies"
    return (
        f"{tasks} held-out tasks{copies} cannot prove a gain at alpha = {alpha:.2g}; at least "
        f"{needed} are needed. Add validation tasks, or use the strict gate."
    )


def too_many_unscored(effect: PairedEffect, tasks: int) -> str:
    """Return a message if too many of the duel's ``tasks`` have no scored pair, or ""."""
    unscored = tasks - effect.tasks
    if unscored <= MAX_LOST_SHARE * tasks:
        return ""
    return (
        f"{unscored} of {tasks} held-out tasks have no score on both sides, for failures of a "
        f"model or an environment: more than {MAX_LOST_SHARE:.0%}. The run's store has them; mend "
        "their cause before the next run."
    )


def too_many_lost(effect: PairedEffect) -> str:
    """Return a message if too many pairs were lost, or ""."""
    drawn = effect.pairs + effect.lost
    if effect.lost <= MAX_LOST_SHARE * drawn:
        return ""
    return (
        f"{effect.lost} of {drawn} pairs were lost to failures of a model or an environment, "
        f"more than {MAX_LOST_SHARE:.0%}. The run's store has them; mend their cause before the "
        "next run."
    )


def too_many_worse(pairs: Sequence[Pair], most: int | None) -> str:
    """Return a message if more than ``most`` tasks got worse (``None``: no limit), or ""."""
    if most is None:
        return ""
    worse = [task_id for task_id, gain in task_gains(pairs).items() if gain < 0]
    if len(worse) <= most:
        return ""
    named = ", ".join(map(repr, worse[:_MOST_NAMED]))
    rest = f" and {len(worse) - _MOST_NAMED} more" if len(worse) > _MOST_NAMED else ""
    were = "1 task went worse" if len(worse) == 1 else f"{len(worse)} tasks went worse"
    return f"{were}, and at most {most} may (evaluation.gate.max_worse_tasks): {named}{rest}"


def harmed_task_type(
    pairs: Sequence[Pair], veto: float | None, clusters: Mapping[str, str] | None = None
) -> str:
    """Return a message about the first task type with a loss above ``veto``, or "".

    The loss is significant: the 95% interval of the gain lies below ``-veto``.
    """
    if veto is None:
        return ""
    for task_type, members in by_task_type(pairs).items():
        effect = measure_effect(members, clusters)
        if effect.interval is not None and effect.interval.high < -veto:
            return f"task type {task_type!r} got worse by more than {veto:g}: {change(effect)}"
    return ""


def undecided(problem: str) -> Verdict:
    """Return an undecided verdict without measurements."""
    return Verdict(Decision.UNDECIDED, f"Undecided: {problem}")


def measured(effect: PairedEffect) -> Verdict:
    """Return an undecided verdict with measurements, to be completed by the gate."""
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


_BELOW_95 = 0.025  # tail probability below a two-sided 95% interval


def stricter(effect: PairedEffect, alpha: float) -> str:
    """Return why a gain with a 95% interval above 0 is not significant at ``alpha``, or ""."""
    if effect.interval is None or effect.interval.low <= 0 or alpha >= _BELOW_95:
        return ""
    return ", which is stricter than a 95% interval: a run's decisions share its alpha"


def went(effect: PairedEffect) -> str:
    """Return the number of better and worse tasks and the change of the mean, as text."""
    clusters = "" if effect.clusters == effect.tasks else f" (in {effect.clusters} clusters)"
    return (
        f"{effect.better} of {effect.tasks} tasks{clusters} went better and {effect.worse} worse; "
        f"{change(effect)}"
    )


def change(effect: PairedEffect) -> str:
    """Return the change of the mean as text; requires a scored pair."""
    means = f"mean {effect.incumbent:.3f} -> {effect.candidate:.3f}"
    return f"{means}, a change of {gain_text(effect.gain or 0.0, effect.interval)}"


# Sequential gates draw again only tasks whose results differ so far. This does not depend on which
# side had which result, so that tests by random sign assignments stay exact. Tasks that are not
# drawn again keep their gain of 0, which makes measured gains conservative.


def doubling(first: int, most: int) -> Iterator[int]:
    """Yield the draws to add at each look so that the total doubles: 1, 1, 2, 2 for (1, 6)."""
    done = min(first, most)
    yield done
    while done < most:
        more = min(done, most - done)
        yield more
        done += more


def varying_tasks(task_ids: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return the tasks whose scored rewards are not all equal, in order.

    A task on which both sides share their episodes, because their prompts are equal, is left out:
    its gain is always 0. So is a task without a scored pair: its episodes were retried already,
    and drawing tasks that always fail again would lose too many pairs for a verdict.
    """
    seen: defaultdict[str, set[float]] = defaultdict(set)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if pair.is_shared:
            seen[pair.task_id] = {0.0}
        elif old is not None and new is not None:
            seen[pair.task_id] |= {old, new}
    return [task_id for task_id in task_ids if len(seen[task_id]) > 1]


def changeable_tasks(task_ids: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return the tasks that have a scored pair of two episodes, in order; see `varying_tasks`."""
    scored = {pair.task_id for pair in pairs if pair.gain is not None and not pair.is_shared}
    return [task_id for task_id in task_ids if task_id in scored]


def share_varying_within(pairs: Sequence[Pair]) -> float:
    """Return the share of tasks with different rewards within a side, among tasks with >= 2 draws.

    0 without such tasks.
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

    0 if all gains are 0; infinite, with the sign of the mean, if all gains are equal otherwise.
    """
    values = gains.values()
    n, total = len(values), fsum(values)
    spread = fsum(value * value for value in values) - total * total / n if n else 0.0
    if n > 1 and spread > 1e-12:
        return total / sqrt(n * spread / (n - 1))
    return inf if total > 0 else -inf if total < 0 else 0.0
