"""The built-in gates: explore, paired, strict and open."""

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

    The *current* skill, from which training continues, changes if a gain is more likely than not:
    candidate and incumbent are compared after 1, 2, 4, ... draws per task. After the first look,
    only tasks whose results differ so far are drawn. An early look can accept or reject; the last
    one accepts any mean gain above 0. A useless edit that is accepted costs only its length.

    The *released* skill changes only by `ReleaseTest`, on fresh draws. The gains of all steps add
    up there, so it can be significant on tasks that are too few to prove a single step.

    ``benchmarks/gates.py`` compares it with the strict gate at equal rollouts, and chooses the
    thresholds.
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
        """The release test."""
        return ReleaseTest(
            self.release_draws,
            self.metric,
            self.mixed_weight,
            self.task_type_veto,
            self.max_worse_tasks,
        )

    def ledger(self, alpha: float, decisions: int, *, second_release: bool = False) -> AlphaLedger:
        """Divide a run's alpha among its one or two release tests; steps use none of it."""
        del decisions
        shares = RELEASE_SHARES if second_release else (1.0,)
        return AlphaLedger(alpha, len(shares), shares=shares)

    def expected_rollouts(self, tasks: int) -> int:
        """Return the mean number of rollouts, both sides together, of a decision on ``tasks``.

        Simulated steps take 1.3 to 1.6 times the rollouts of their first look.
        """
        return round(2 * tasks * (1.5 if self.draws > 1 else 1))

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Compare after 1, 2, 4, ... draws until one side is likely enough to be better."""
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
        """Decide at a look; ``None`` continues to the next one."""
        if not looks_left:
            return Decision.ACCEPT if z > 0 else Decision.REJECT
        # The more looks are left, the stricter the thresholds.
        if z >= 0.2 + 0.4 * looks_left:
            return Decision.ACCEPT
        return Decision.REJECT if z <= -0.2 - 0.2 * looks_left else None


def _verdict(decision: Decision, pairs: Sequence[Pair], tasks: int) -> Verdict:
    effect = measure_effect(pairs, tests=False)
    moved = {task_id: gain for task_id, gain in task_gains(pairs).items() if gain}
    verdict = replace(measured(effect), moved=moved)
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

    The probability of accepting an edit without effect is at most the ledger's share, and over the
    whole run at most its alpha (see `paired_p_value`). Because every step must be significant,
    small gains are rejected; `ExploreGate` tests all gains together, once.
    """

    kind: Literal["paired"] = "paired"
    draws: PositiveInt = 1
    """Draws per task and side."""
    task_type_veto: Share | None = None
    """Reject a candidate with a confident loss above this on a task type."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject a candidate with more worse tasks than this; unset, no limit."""

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw every task ``draws`` times and test the gain; draw nothing if too few tasks."""
        alpha = ledger.share
        asked = duel.task_ids
        problem = nothing_left(ledger) or too_few(len(asked), alpha, terms.count(asked))
        if problem:
            return undecided(problem)
        pairs = self.scores(terms).of(await duel.draw(asked, n=self.draws))
        effect = measure_effect(pairs, terms.clusters)
        verdict = measured(effect)
        problem = too_many_lost(effect) or too_few(effect.tasks, alpha, effect.clusters)
        if problem:
            return replace(verdict, reason=f"Undecided: {problem}", p_value=None)
        decision, reason = self._decide(effect, pairs, alpha, terms)
        return replace(verdict, decision=decision, reason=reason, alpha=alpha)

    def _decide(
        self, effect: PairedEffect, pairs: Sequence[Pair], alpha: float, terms: Terms
    ) -> tuple[Decision, str]:
        facts = went(effect)
        if effect.p_value is None or effect.better == 0:
            return Decision.REJECT, f"Rejected: {facts}."
        if effect.p_value > alpha:
            return Decision.REJECT, (
                f"Rejected: {facts}; that may be chance, because p = {effect.p_value:.2g} is above "
                f"this decision's {alpha:.2g}{stricter(effect, alpha)}."
            )
        veto = self.task_type_veto
        harmed = harmed_task_type(pairs, veto, terms.clusters) or too_many_worse(
            pairs, self.max_worse_tasks
        )
        if harmed:
            return Decision.REJECT, f"Rejected: {facts}; but {harmed}."
        return Decision.ACCEPT, (
            f"Accepted: {facts}; p = {effect.p_value:.2g} is within this decision's {alpha:.2g}."
        )


class MeasuredGate(Gate):
    """Base class of gates that compare one draw per task without a statistical test."""

    knows_noise: ClassVar[bool] = False

    fresh_draws: SkipJsonSchema[bool] = True

    @property
    def draws(self) -> int:
        """Draws per task and side."""
        return 1

    @property
    def redraws(self) -> bool:
        """Whether both sides get new draws after an accepted candidate."""
        return self.fresh_draws


@built_in
class StrictGate(MeasuredGate):
    """Accept any mean gain on one draw per task, as SkillOpt does; a tie is rejected.

    It makes no test and ignores the ledger: with margin 0 it accepts about 44% of edits without
    effect (40 tasks, success rates Beta(0.6, 0.6)).

    Source: SkillOpt (microsoft/SkillOpt); see `evaluate_gate` for its documented function.
    """

    kind: Literal["strict"] = "strict"
    margin: SkipJsonSchema[NonNegativeFloat] = 0.0
    """Mean gain that must be exceeded."""
    max_worse_tasks: NonNegativeInt | None = None
    """Reject a candidate with more worse tasks than this; unset, no limit."""
    fresh_draws: SkipJsonSchema[bool] = True
    """Draw both sides anew after an accept; if false, first scores are kept for the whole run,
    also after an empty region was added to a skill."""

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
    """Make every candidate current; replace the best skill only by a better one."""

    kind: Literal["open"] = "open"
    fresh_draws: SkipJsonSchema[bool] = True
    """Draw both sides anew after a new best skill; if false, first scores are kept."""

    accepts_all: ClassVar[bool] = True

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Compare a candidate with the best skill, as the strict gate does."""
        strict = StrictGate(metric=self.metric, mixed_weight=self.mixed_weight)
        return await strict.judge(duel, ledger, terms)
