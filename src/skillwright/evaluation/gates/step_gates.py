"""The gates a configuration can choose for a step: explore, paired, strict and open."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core import Duel, Pair
from skillwright.evaluation.gates.base import Gate, built_in
from skillwright.evaluation.gates.judging import (
    USUAL,
    Terms,
    change,
    doubling,
    harmed_task_type,
    measured,
    nothing_left,
    stricter,
    too_few,
    too_many_lost,
    too_many_unscored,
    too_many_worse,
    undecided,
    varying_tasks,
    went,
    z_score,
)
from skillwright.evaluation.gates.release import RELEASE_SHARES, RELEASE_STRIDE, ReleaseTest
from skillwright.evaluation.paired import PairedEffect, measure_effect, task_gains
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict
from skillwright.models.validation import Share


@built_in
class ExploreGate(Gate):
    """Accept likely gains during the run; prove all gains together at the release.

    Training continues from the *current* skill, which changes wherever a gain is more likely than
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
    """Maximum draws per task and side in a step."""
    release_draws: Annotated[int, Field(ge=1, le=RELEASE_STRIDE)] = 16
    """Maximum draws per task and side in the release test."""
    task_type_veto: Share | None = None
    """Do not release a skill with a confident loss above this on a task type."""
    max_worse_tasks: NonNegativeInt | None = None
    """Do not release a skill with more worse tasks than this; unset, no limit."""

    @property
    def release(self) -> ReleaseTest:
        """The test of what a run releases."""
        return ReleaseTest(
            self.release_draws,
            self.metric,
            self.mixed_weight,
            self.task_type_veto,
            self.max_worse_tasks,
        )

    def ledger(self, alpha: float, decisions: int, *, again: bool = False) -> AlphaLedger:
        """Return how a run's alpha is shared: over its release tests alone."""
        del decisions
        shares = RELEASE_SHARES if again else (1.0,)
        return AlphaLedger(alpha, len(shares), shares=shares)

    def expected_rollouts(self, tasks: int) -> int:
        """Return the mean number of rollouts, both sides together, of a decision on ``tasks``.

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


@built_in
class PairedGate(Gate):
    """Accept gains that pass a one-sided paired test over tasks.

    The chance of accepting an edit that changes nothing is at most the ledger's share, and so at
    most the ledger's alpha over the whole run (see `paired_p_value`). As every step asks for proof,
    it keeps little of what small steps gain together; `ExploreGate` asks for proof once.
    """

    kind: Literal["paired"] = "paired"
    draws: PositiveInt = 1
    """Draws per task and side."""
    task_type_veto: Share | None = None
    """Reject a candidate with a confident loss above this on a task type."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject a candidate with more worse tasks than this; unset, no limit."""

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw every task ``draws`` times and test the gain; nothing is drawn for a lost cause."""
        alpha = ledger.share
        problem = nothing_left(ledger) or too_few(len(duel.task_ids), alpha)
        if problem:
            return undecided(problem)
        pairs = self.scores(terms).of(await duel.draw(duel.task_ids, n=self.draws))
        effect = measure_effect(pairs)
        verdict = measured(effect)
        problem = too_many_lost(effect) or too_few(effect.tasks, alpha)
        if problem:
            return replace(verdict, reason=f"Undecided: {problem}", p_value=None)
        decision, reason = self._decide(effect, pairs, alpha)
        return replace(verdict, decision=decision, reason=reason, alpha=alpha)

    def _decide(
        self, effect: PairedEffect, pairs: Sequence[Pair], alpha: float
    ) -> tuple[Decision, str]:
        facts = went(effect)
        if effect.p_value is None or effect.better == 0:
            return Decision.REJECT, f"Rejected: {facts}."
        if effect.p_value > alpha:
            return Decision.REJECT, (
                f"Rejected: {facts}; that may be chance, because p = {effect.p_value:.2g} is above "
                f"this decision's {alpha:.2g}{stricter(effect, alpha)}."
            )
        harmed = harmed_task_type(pairs, self.task_type_veto) or too_many_worse(
            pairs, self.max_worse_tasks
        )
        if harmed:
            return Decision.REJECT, f"Rejected: {facts}; but {harmed}."
        return Decision.ACCEPT, (
            f"Accepted: {facts}; p = {effect.p_value:.2g} is within this decision's {alpha:.2g}."
        )


class MeasuredGate(Gate):
    """What gates share that compare one draw per task and know nothing of noise."""

    knows_noise: ClassVar[bool] = False

    fresh_draws: SkipJsonSchema[bool] = True

    @property
    def draws(self) -> int:
        """Draws per task and side."""
        return 1

    @property
    def redraws(self) -> bool:
        """Whether both sides are drawn anew once something was accepted."""
        return self.fresh_draws


@built_in
class StrictGate(MeasuredGate):
    """Accept any mean gain on one draw per task, as SkillOpt does; a tie is rejected.

    It ignores the ledger, because it knows nothing of noise: with one draw per task and margin 0
    it accepts about 44% of edits that change nothing (40 tasks, success rates Beta(0.6, 0.6)).

    Source: SkillOpt (microsoft/SkillOpt); see `evaluate_gate` for its documented function.
    """

    kind: Literal["strict"] = "strict"
    margin: SkipJsonSchema[NonNegativeFloat] = 0.0
    """What the gain must exceed."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject a candidate with more worse tasks than this; unset, no limit."""
    fresh_draws: SkipJsonSchema[bool] = True
    """After an accept both sides draw anew; else the first scores hold for the whole run, also
    that of a skill that nothing but an empty region was put into since."""

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Compare mean scores once."""
        del ledger
        pairs = self.scores(terms).of(await duel.draw(duel.task_ids, n=1))
        effect = measure_effect(pairs, tests=False)
        verdict = measured(effect)
        nothing = "" if effect.tasks else "there was no task to draw. Add validation tasks."
        problem = too_many_lost(effect) or nothing
        if problem or effect.gain is None:
            return replace(verdict, reason=f"Undecided: {problem}")
        facts = change(effect)
        if effect.gain <= self.margin:
            reason = f"Rejected: {facts}; that is not above the margin of {self.margin:g}."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        harmed = too_many_worse(pairs, self.max_worse_tasks)
        if harmed:
            return replace(
                verdict, decision=Decision.REJECT, reason=f"Rejected: {facts}; but {harmed}."
            )
        reason = f"Accepted: {facts}; that is above the margin of {self.margin:g}."
        return replace(verdict, decision=Decision.ACCEPT, reason=reason)


@built_in
class OpenGate(MeasuredGate):
    """Make every candidate current; the best skill is replaced only by a better one."""

    kind: Literal["open"] = "open"
    fresh_draws: SkipJsonSchema[bool] = True
    """After the best skill was beaten both sides draw anew; else first scores stand."""

    accepts_all: ClassVar[bool] = True

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Judge a candidate against the best skill by any gain, as the strict gate does."""
        strict = StrictGate(metric=self.metric, mixed_weight=self.mixed_weight)
        return await strict.judge(duel, ledger, terms)
