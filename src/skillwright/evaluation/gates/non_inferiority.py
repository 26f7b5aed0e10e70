"""A non-inferiority test: whether a policy without a skill loses less than a margin.

The null hypothesis is a loss of at least the margin, so that a lack of data never shows that a
skill can be retired.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count

from skillwright.core import Duel, Pair
from skillwright.core.seeds import derive_seed
from skillwright.evaluation.gates.judging import (
    USUAL,
    Metric,
    Terms,
    doubling,
    harmed_task_type,
    measured,
    nothing_left,
    share_varying_within,
    too_many_lost,
    too_many_unscored,
    too_many_worse,
    undecided,
    went,
    z_score,
)
from skillwright.evaluation.gates.release import ReleaseTest
from skillwright.evaluation.intervals import mean_above_p_value
from skillwright.evaluation.paired import cluster_means, measure_effect, task_gains
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict

_FIRST_DRAWS = 2
_FUTILE_Z = -1.0
_SIMULATED = 400


@dataclass(frozen=True, slots=True)
class NonInferiorityTest:
    """Accepts a candidate that is proven to lose less than a margin, on fresh draws.

    Tasks are the sample, or clusters of near copies: each is drawn equally often on both sides, and
    its mean gain is one value in [-1, 1]. If the true mean is a loss of ``margin`` or more, the
    candidate is accepted with a probability of at most the ledger's share, for any distribution of
    gains (`mean_above_p_value`).
    A t test would not be valid: with 60 tasks, of which one in twenty is lost outright, it accepts
    the loss of .05 in 18% of cases at a nominal 5% (``benchmarks/non_inferiority.py``).

    After 2, 4, 8, ... draws it stops if the loss is clearly larger than the margin. A measured loss
    of the margin or more is never accepted, whatever the p-value. Both rules are conservative. If
    draws never vary within a side, the agent is deterministic, and the first look is the last.

    Attributes:
        margin: The loss to rule out, in (0, 1), in units of the metric.
        like: Release test whose draws, metric and vetoes are used.
    """

    margin: float
    like: ReleaseTest = field(default_factory=ReleaseTest)

    def expected_rollouts(self, tasks: int) -> int:
        """Return the maximum number of rollouts, both sides together, of a test on ``tasks``."""
        return 2 * tasks * self.like.draws

    def why_hopeless(self, tasks: int, alpha: float) -> str:
        """Return a message if ``tasks`` are too few even for equal results, or ""."""
        if mean_above_p_value([0.0] * tasks, -self.margin) <= alpha:
            return ""
        return (
            f"{tasks} held-out tasks cannot rule out a loss of {self.margin:g} at alpha = "
            f"{alpha:.2g}, even if nothing goes differently; at least "
            f"{tasks_to_rule_out(self.margin, alpha)} are needed"
        )

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Test whether the duel's candidate loses less than the margin."""
        alpha, task_ids = ledger.share, duel.task_ids
        problem = nothing_left(ledger) or self.why_hopeless(terms.count(task_ids), alpha)
        if problem:
            return undecided(f"{problem}.")
        metric = Metric(self.like.metric, self.like.mixed_weight, terms.success_threshold)
        pairs: list[Pair] = []
        sizes = list(doubling(min(_FIRST_DRAWS, self.like.draws), self.like.draws))
        for size, done in zip(sizes, accumulate(sizes), strict=True):
            pairs += metric.of(await duel.draw(task_ids, n=size))
            gains = cluster_means(task_gains(pairs), terms.clusters)
            beyond = {name: gain + self.margin for name, gain in gains.items()}
            repeats = done > 1 and not share_varying_within(pairs)
            if done == self.like.draws or repeats or z_score(beyond) < _FUTILE_Z:
                return self._decide(pairs, len(task_ids), alpha, terms)
        raise AssertionError("the last look decides")  # pragma: no cover

    def _decide(self, pairs: Sequence[Pair], tasks: int, alpha: float, terms: Terms) -> Verdict:
        effect = measure_effect(pairs, terms.clusters, tests=False)
        verdict = measured(effect)
        problem = (
            too_many_unscored(effect, tasks)
            or too_many_lost(effect)
            or self.why_hopeless(effect.clusters, alpha)
        )
        if problem:
            return replace(verdict, reason=f"Undecided: {problem}")
        # Shuffled, because tasks may be sorted by type, and the p-value depends on the order.
        gains = sorted(cluster_means(task_gains(pairs), terms.clusters).items())
        random.Random(derive_seed("non-inferiority", terms.seed)).shuffle(gains)
        p_value = mean_above_p_value([gain for _, gain in gains], -self.margin)
        verdict, facts = replace(verdict, p_value=p_value, alpha=alpha), went(effect)
        loss = f"a loss of {self.margin:g} or more"
        # Without a measured gain there were too few tasks above.
        if (effect.gain or 0.0) <= -self.margin:
            reason = f"Not proven: {facts}; {loss} is what was measured."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        if p_value > alpha:
            reason = (
                f"Not proven: {facts}; {loss} is not ruled out: p = {p_value:.2g}, and at most "
                f"{alpha:.2g} would do."
            )
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        veto = self.like.task_type_veto
        harmed = harmed_task_type(pairs, veto, terms.clusters) or too_many_worse(
            pairs, self.like.max_worse_tasks
        )
        if harmed:
            reason = f"Not accepted: {facts}; but {harmed}."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        reason = f"Not worse: {facts}; {loss} is ruled out (p = {p_value:.2g}, within {alpha:.2g})."
        return replace(verdict, decision=Decision.ACCEPT, reason=reason)


def tasks_to_rule_out(margin: float, alpha: float) -> int:
    """Return the minimum number of tasks to rule out a loss when all results are equal."""
    return next(n for n in count(1) if mean_above_p_value([0.0] * n, -margin) <= alpha)


def non_inferiority_power(tasks: int, draws: int, margin: float, alpha: float) -> float:
    """Estimate the probability that a change without loss is accepted, by 400 simulated tests.

    Success rates are distributed as Beta(0.6, 0.6) and equal on both sides. The standard error is
    at most .025.

    Args:
        tasks: Held-out tasks.
        draws: Draws per task and side, at least 1.
        margin: The loss to rule out, in (0, 1).
        alpha: Significance level, in (0, 1).
    """
    import numpy as np

    rng = np.random.default_rng(0)
    rates = rng.beta(0.6, 0.6, (_SIMULATED, tasks))
    gains = (rng.binomial(draws, rates) - rng.binomial(draws, rates)) / draws
    p_values = [mean_above_p_value(one, -margin) for one in gains.tolist()]
    return sum(p_value <= alpha for p_value in p_values) / _SIMULATED
