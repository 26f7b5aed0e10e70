"""The built-in gates: explore, paired, strict and open."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core import Duel, Pair, StepDuel
from skillwright.evaluation.gates.base import Gate, built_in
from skillwright.evaluation.gates.judging import (
    USUAL,
    Terms,
    change,
    harmed_task_type,
    measured,
    nothing_left,
    stricter,
    too_few,
    too_many_lost,
    too_many_worse,
    undecided,
    went,
)
from skillwright.evaluation.gates.release import RELEASE_SHARES, RELEASE_STRIDE, ReleaseTest
from skillwright.evaluation.gates.skillopt_gate import compute_semantic_density
from skillwright.evaluation.intervals import gain_text
from skillwright.evaluation.paired import PairedEffect, measure_effect
from skillwright.evaluation.verdict import AlphaLedger, Decision, Verdict
from skillwright.models.validation import Share

_EXPECTED_DRAWS = 30


@built_in
class ExploreGate(Gate):
    """Accept likely gains during the run; prove all gains together at the release.

    The *current* skill, from which training continues, changes if the expected gain is above 0. A
    candidate is drawn on a few tasks at a time, while the expected improvement of the decision is
    worth the price of the draws: what the same rollouts would bring in a further step. It is
    compared with a belief about the current skill, in which all draws of the run are pooled and
    shrunken, so that no single draw decides anything (`Belief`). If the agent answers alike each
    time, all tasks are drawn once, and any gain in their sum is accepted.

    The *released* skill changes only by `ReleaseTest`, on fresh draws. The gains of all steps add
    up there, so it can be significant on tasks that are too few to prove a single step.

    ``benchmarks/gates.py`` compares it with other rules at equal total cost.
    """

    believes: ClassVar[bool] = True

    kind: Literal["explore"] = "explore"
    draws: PositiveInt = 4
    """Maximum draws per task in a step."""
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
        """Return the mean number of rollouts of a decision on ``tasks``.

        In simulated runs a decision takes about 30, almost independent of the number of tasks.
        """
        return min(_EXPECTED_DRAWS, tasks * self.draws)

    async def judge(self, duel: StepDuel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw the candidate until its expected gain is known well enough for its price."""
        del ledger
        from skillwright.evaluation.gates.explore import Exploration  # imports numpy

        if not duel.task_ids:
            return undecided("there was no task to draw. Add validation tasks.")
        return await Exploration(duel, self.scores(terms), terms, self.draws).verdict()


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
    density_weight: SkipJsonSchema[NonNegativeFloat] = 0.0
    """Score that a skill gains whose words are all leading words, such as "must"."""
    leading_words: SkipJsonSchema[list[str] | None] = None
    """The leading words; unset, SkillOpt's eleven."""

    def bonus(self, incumbent: str, candidate: str) -> float:
        """Return the weighted difference of both texts' densities of leading words."""
        if not self.density_weight:
            return 0.0
        before, after = (
            compute_semantic_density(text, self.leading_words) for text in (incumbent, candidate)
        )
        return self.density_weight * (after - before)

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
        if terms.bonus:
            facts += f", and its words add {gain_text(terms.bonus)}"
        if effect.gain + terms.bonus <= self.margin:
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
