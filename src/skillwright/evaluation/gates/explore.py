"""The default gate: a step needs to be right more often than wrong; what is released is proven."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from skillwright.core import Duel, Pair
from skillwright.evaluation.gates.base import GateSettings
from skillwright.evaluation.gates.judging import (
    USUAL,
    Terms,
    change,
    measured,
    too_many_lost,
    too_many_unscored,
    undecided,
)
from skillwright.evaluation.gates.release import RELEASE_SHARES, RELEASE_STRIDE, ReleaseTest
from skillwright.evaluation.gates.varying import doubling, varying_tasks, z_score
from skillwright.evaluation.ledger import AlphaLedger
from skillwright.evaluation.paired import measure_effect, task_gains
from skillwright.evaluation.verdict import Decision, Verdict
from skillwright.models.frozen import Share


class ExploreGate(GateSettings):
    """Explore inside the run, prove at the release.

    Training goes on from the *current* skill, which changes wherever a gain is more likely than
    not: candidate and incumbent meet in looks after 1, 2, 4, ... draws per task, from the second
    look on only where results differ so far. A look accepts or gives up early; the last one accepts
    any mean gain above 0. That a useless edit gets in costs nothing but its length.

    What is *released* changes only by `ReleaseTest`, on draws that took part in no such decision:
    there the gains of all steps add up, so it can be proven with tasks that could not prove any
    single step.

    Measured against the strict rule at equal rollouts, and with the thresholds chosen, in
    ``benchmarks/gates.py``.
    """

    kind: Literal["explore"] = "explore"
    draws: PositiveInt = 6
    """Draws per task and side that a step takes at most."""
    release_draws: Annotated[int, Field(ge=1, le=RELEASE_STRIDE)] = 16
    """Draws per task and side that the release test takes at most; more of them prove smaller
    gains."""
    family_veto: Share | None = None
    """Do not release what makes a task type worse by more than this, with confidence."""
    max_worse_tasks: NonNegativeInt | None = None
    """Do not release what makes more tasks worse than this, in their mean; unset, any number."""

    @property
    def release(self) -> ReleaseTest:
        """The test of what a run releases."""
        return ReleaseTest(
            self.release_draws,
            self.metric,
            self.mixed_weight,
            self.family_veto,
            self.max_worse_tasks,
        )

    def ledger(self, alpha: float, decisions: int, *, again: bool = False) -> AlphaLedger:
        """Return how a run's alpha is shared: over its release tests alone."""
        del decisions
        shares = RELEASE_SHARES if again else (1.0,)
        return AlphaLedger(alpha, len(shares), shares=shares)

    def expected_rollouts(self, tasks: int) -> int:
        """Return how many rollouts of both sides a decision on so many tasks takes on average.

        Simulated steps take 1.3 to 1.6 times a first look.
        """
        return round(2 * tasks * (1.5 if self.draws > 1 else 1))

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Look after 1, 2, 4, ... draws until one side is likely enough the better one."""
        del ledger
        if not duel.task_ids:
            return undecided("there was no task to draw. Add validation tasks.")
        metric, pairs = self.scores(terms), list[Pair]()
        asked: Sequence[str] = duel.task_ids
        sizes = list(doubling(1, self.draws))
        for left, size in zip(reversed(range(len(sizes))), sizes, strict=True):
            pairs += metric.of(await duel.draw(asked, n=size))
            asked = varying_tasks(duel.task_ids, pairs)
            decision = self._decide(z_score(task_gains(pairs)), left if asked else 0)
            if decision is not None:
                return _verdict(decision, pairs, len(duel.task_ids))
        raise AssertionError("the last look decides")  # pragma: no cover

    @staticmethod
    def _decide(z: float, looks_left: int) -> Decision | None:
        """Decide at a look; ``None`` asks for the next one."""
        if not looks_left:
            return Decision.ACCEPT if z > 0 else Decision.REJECT
        # The more looks are left, the clearer a case must be to be settled now.
        if z >= 0.2 + 0.4 * looks_left:
            return Decision.ACCEPT
        return Decision.REJECT if z <= -0.2 - 0.2 * looks_left else None


def _verdict(decision: Decision, pairs: Sequence[Pair], tasks: int) -> Verdict:
    effect = measure_effect(pairs, tests=False)
    verdict = measured(effect)
    problem = too_many_lost(effect) or too_many_unscored(effect, tasks)
    if problem or effect.gain is None:
        return replace(verdict, reason=f"Undecided: {problem or 'no pair was scored.'}")
    facts = (
        f"{effect.better} of {effect.tasks} tasks went better and {effect.worse} worse in "
        f"{effect.pairs} pairs of draws; {change(effect)}"
    )
    if decision is Decision.ACCEPT:
        reason = f"Accepted as current: {facts}; a gain is more likely than not."
    else:
        reason = f"Rejected: {facts}; a gain is not likely enough."
    return replace(verdict, decision=decision, reason=reason)
