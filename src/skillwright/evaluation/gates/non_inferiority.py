"""The test of a retirement: is what does without a skill proven not worse, beyond a margin?

"No difference was seen" is no answer to that, so the question is turned around: what is tested is
that the loss is as large as the margin, and few tasks cannot rule that out.
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
from skillwright.evaluation.paired import measure_effect, task_gains
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict

_FIRST_DRAWS = 2
_FUTILE_Z = -1.0
_SIMULATED = 400


@dataclass(frozen=True, slots=True)
class NonInferiorityTest:
    """Accepts a candidate that is proven to lose less than a margin, on draws that are fresh.

    Tasks are the sample: each is drawn equally often on both sides, and its mean gain is one value
    in [-1, 1]. If the mean over tasks of that kind is a loss of ``margin`` or more, the candidate
    is accepted with a chance of at most the ledger's share, whatever the gains look like
    (`mean_above_p_value`). A t test would not do: where one task in twenty of 60 is lost outright,
    it accepts that loss of .05 at a nominal 5% in 18% of cases
    (``benchmarks/non_inferiority.py``).

    After 2, 4, 8, ... draws it gives up on what loses more than the margin by all appearances. What
    measured such a loss is never accepted, not even where the bets had proven enough before most of
    the losses came. Both only take chances away. Where no draw of any task differs from another of
    its side, the agent answers alike each time, and the first look is the last.

    Attributes:
        margin: The loss that is ruled out, in (0, 1), in units of the metric.
        like: Draws, metric and vetoes are those of this release test.
    """

    margin: float
    like: ReleaseTest = field(default_factory=ReleaseTest)

    def expected_rollouts(self, tasks: int) -> int:
        """Return the largest number of rollouts, both sides together, of a test on ``tasks``."""
        return 2 * tasks * self.like.draws

    def why_hopeless(self, tasks: int, alpha: float) -> str:
        """Say why not even equal results could prove anything on so few tasks, or return ""."""
        if mean_above_p_value([0.0] * tasks, -self.margin) <= alpha:
            return ""
        return (
            f"{tasks} held-out tasks cannot rule out a loss of {self.margin:g} at alpha = "
            f"{alpha:.2g}, even if nothing goes differently; at least "
            f"{tasks_to_rule_out(self.margin, alpha)} are needed"
        )

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Test whether the duel's candidate loses less than the margin to its incumbent."""
        alpha, task_ids = ledger.share, duel.task_ids
        problem = nothing_left(ledger) or self.why_hopeless(len(task_ids), alpha)
        if problem:
            return undecided(f"{problem}.")
        metric = Metric(self.like.metric, self.like.mixed_weight, terms.success_threshold)
        pairs: list[Pair] = []
        sizes = list(doubling(min(_FIRST_DRAWS, self.like.draws), self.like.draws))
        for size, done in zip(sizes, accumulate(sizes), strict=True):
            pairs += metric.of(await duel.draw(task_ids, n=size))
            beyond = {name: gain + self.margin for name, gain in task_gains(pairs).items()}
            repeats = done > 1 and not share_varying_within(pairs)
            if done == self.like.draws or repeats or z_score(beyond) < _FUTILE_Z:
                return self._decide(pairs, len(task_ids), alpha, terms.seed)
        raise AssertionError("the last look decides")  # pragma: no cover

    def _decide(self, pairs: Sequence[Pair], tasks: int, alpha: float, seed: int) -> Verdict:
        effect = measure_effect(pairs, tests=False)
        verdict = measured(effect)
        problem = (
            too_many_unscored(effect, tasks)
            or too_many_lost(effect)
            or self.why_hopeless(effect.tasks, alpha)
        )
        if problem:
            return replace(verdict, reason=f"Undecided: {problem}")
        # Not in the order of the tasks, which may be sorted by kind.
        gains = sorted(task_gains(pairs).items())
        random.Random(derive_seed("non-inferiority", seed)).shuffle(gains)
        p_value = mean_above_p_value([gain for _, gain in gains], -self.margin)
        verdict, facts = replace(verdict, p_value=p_value, alpha=alpha), went(effect)
        loss = f"a loss of {self.margin:g} or more"
        # A gain that was measured has a number; without one, tasks were too few above.
        if (effect.gain or 0.0) <= -self.margin:
            reason = f"Not proven: {facts}; {loss} is what was measured."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        if p_value > alpha:
            reason = (
                f"Not proven: {facts}; {loss} is not ruled out: p = {p_value:.2g}, and at most "
                f"{alpha:.2g} would do."
            )
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        harmed = harmed_task_type(pairs, self.like.task_type_veto) or too_many_worse(
            pairs, self.like.max_worse_tasks
        )
        if harmed:
            reason = f"Not accepted: {facts}; but {harmed}."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        reason = f"Not worse: {facts}; {loss} is ruled out (p = {p_value:.2g}, within {alpha:.2g})."
        return replace(verdict, decision=Decision.ACCEPT, reason=reason)


def tasks_to_rule_out(margin: float, alpha: float) -> int:
    """Return on how many tasks a loss can be ruled out if nothing at all goes differently."""
    return next(n for n in count(1) if mean_above_p_value([0.0] * n, -margin) <= alpha)


def non_inferiority_power(tasks: int, draws: int, margin: float, alpha: float) -> float:
    """Return in which share of simulated tests a change that loses nothing is accepted.

    Success rates are spread as Beta(0.6, 0.6) and equal on both sides; 400 tests, so that the
    standard error is at most .025.

    Args:
        tasks: Held-out tasks.
        draws: Draws per task and side, at least 1.
        margin: The loss that is to be ruled out, in (0, 1).
        alpha: The test's, in (0, 1).
    """
    import numpy as np

    rng = np.random.default_rng(0)
    rates = rng.beta(0.6, 0.6, (_SIMULATED, tasks))
    gains = (rng.binomial(draws, rates) - rng.binomial(draws, rates)) / draws
    p_values = [mean_above_p_value(one, -margin) for one in gains.tolist()]
    return sum(p_value <= alpha for p_value in p_values) / _SIMULATED
