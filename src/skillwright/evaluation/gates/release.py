"""The release test: whether the current skill is proven better than the initial one.

Source: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659-663, for spending an alpha over
looks; B. Phipson and G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 9
(2010) 39, for exact tests by random sign assignments.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise, zip_longest
from math import log2
from typing import TYPE_CHECKING, Literal

from skillwright.core import Duel, Pair
from skillwright.core.seeds import derive_seed
from skillwright.evaluation.duel import Draws
from skillwright.evaluation.gates.chosen import ASSIGNMENTS, chosen_p_value
from skillwright.evaluation.gates.judging import (
    USUAL,
    Metric,
    Terms,
    changeable_tasks,
    doubling,
    harmed_task_type,
    measured,
    nothing_left,
    share_varying_within,
    too_few,
    too_many_lost,
    too_many_unscored,
    too_many_worse,
    undecided,
    varying_tasks,
    went,
    z_score,
)
from skillwright.evaluation.gates.skillopt_gate import GateMetric
from skillwright.evaluation.paired import PairedEffect, cluster_means, measure_effect, task_gains
from skillwright.evaluation.power import what_would_prove
from skillwright.evaluation.verdict import AlphaLedger, Decision, Expected, Look, Verdict

if TYPE_CHECKING:  # numpy is imported by the first test, because scoring does not need it
    import numpy as np
    from numpy.typing import NDArray

RELEASE_SHARES = (0.6, 0.4)
"""Shares of a run's alpha: for the test at its end, and for one repetition."""

RELEASE_DRAWS_FROM = 1_000_000
"""Number of the first draw of a release test, above the draws of all step decisions."""

RELEASE_PHASE = "release"
"""Phase of its episodes."""

RELEASE_STRIDE = 1_000
"""Draw numbers reserved for each release test."""

_CHOSEN = (
    "nearly all tasks drawn twice scored alike, so p is for the best that chance could have kept "
    "of {} judged candidates; let the agent sample (a temperature above 0), or give it more val "
    "tasks"
)
_REPEATING = 0.1  # with fewer tasks that vary within a side, the agent counts as deterministic
_LEAST_PART, _PART, _MOST_PARTS = 20, 50, 20  # tasks of a part: half of them, or 50 of many
_FUTILE_Z = 0.2  # the test stops below this z for each doubling of the draws beyond two ...
_FUTILE_Z_AT_ONE = -0.5  # ... and below this one after one draw of each task


def release_draws(seed: int, test: int, step: int | None) -> Draws:
    """Return the draws of a release test, which no other decision uses."""
    first = RELEASE_DRAWS_FROM + test * RELEASE_STRIDE
    return Draws(seed, first=first, phase=RELEASE_PHASE, step=step)


@dataclass(frozen=True, slots=True)
class _Round:
    """Draws between two looks.

    Attributes:
        tasks: The tasks to draw, "again" for all that can differ, "varying" for those whose
            results differ so far.
        draws: How often each is drawn in this round.
        total: Draws per task and side after it.
        reached: Tasks that have been drawn at all after it.
    """

    tasks: Sequence[str] | Literal["again", "varying"]
    draws: int
    total: int
    reached: int

    def asked(self, task_ids: Sequence[str], pairs: Sequence[Pair]) -> Sequence[str]:
        """Return the tasks to draw after all ``pairs`` so far."""
        if self.tasks == "varying":
            return varying_tasks(task_ids, pairs)
        return changeable_tasks(task_ids, pairs) if self.tasks == "again" else list(self.tasks)


def _rounds(task_ids: Sequence[str], first: int, most: int, *, whole: bool) -> list[_Round]:
    """Plan a test: all tasks are drawn once, in parts, and once more; then those that vary.

    If the first draws are two, which show whether answers vary, they are made at once; likewise
    if a draw of any task plays the ``whole`` split.
    """
    n = len(task_ids)
    count = max(1, min(n // _LEAST_PART, 2), min(n // _PART, _MOST_PARTS))
    ends = [n * at // count for at in range(count + 1)] if first == 1 and not whole else [0, n]
    rounds = [_Round(task_ids[at:end], first, first, end) for at, end in pairwise(ends)]
    more = list(doubling(first, most))[1:]
    for size, total in zip(more, list(accumulate([first, *more]))[1:], strict=True):
        rounds.append(_Round("again" if total == 2 else "varying", size, total, n))
    return rounds


def _within(rounds: list[_Round], task_ids: Sequence[str], terms: Terms) -> list[_Round]:
    """Return the rounds, or a single one of fewer tasks if the budget does not allow the first."""
    first, n = rounds[0], len(task_ids)
    least = 2 * len(first.tasks) * first.draws
    if terms.rollouts is None or terms.plays_whole or terms.affords(least, 0):
        return rounds
    room = min(terms.rollouts // 2, n)
    return rounds if room < min(_LEAST_PART, n) else [_Round(task_ids[:room], 1, 1, room)]


@dataclass(frozen=True, slots=True)
class _Look:
    """One look of a release test at all draws so far.

    Attributes:
        round: The latest draws.
        pairs: All draws so far.
        task_ids: All tasks of the test.
        alpha: The alpha of the whole test.
        limit: The alpha that may be spent up to this look.
        is_last: Whether this is the last look.
        repeats: Whether the agent is deterministic, so that draws repeat those of the steps.
        spent: The alpha that an earlier look spent; ``None`` if none has tested yet.
    """

    round: _Round
    pairs: Sequence[Pair]
    task_ids: Sequence[str]
    alpha: float
    limit: float
    is_last: bool
    repeats: bool
    spent: float | None

    @property
    def is_whole(self) -> bool:
        """Whether all tasks have been drawn."""
        return self.round.reached == len(self.task_ids)

    def tested_at(self, terms: Terms) -> float:
        """Return the alpha that the p-value of this look is compared with."""
        return self.alpha / terms.weights if self.repeats else self.limit


@dataclass(frozen=True, slots=True)
class ReleaseTest:
    """Releases the current skill if it is proven better than the initial one, on fresh draws.

    Tasks are drawn once per side, in parts: the first look is at half of them, or at 50 of very
    many. All tasks are drawn once more, and then those whose results differ so far, up to ``draws``
    times. At each look a paired test over tasks may release. The probability of releasing a skill
    without a gain is at most the ledger's share, over all looks together (`SignTest`). The test
    stops early without a gain, which is conservative.

    The draws of step decisions must not be used, because the skills were selected on them: with
    them, runs with useless edits release in 11 to 14% of cases at a nominal 5%.

    If an agent is deterministic, fresh draws repeat those of the steps. Then there is a single
    look, with a p-value that takes the selection into account (`chosen_p_value`). If the run does
    not know that yet (``terms.repeats``), the first draws are two per task, and the agent counts as
    deterministic if rewards vary within a side on fewer than a tenth of the tasks.

    Attributes:
        draws: Maximum draws per task and side; at least 1.
        metric: ``hard`` compares pass rates, ``soft`` mean rewards, ``mixed`` a blend.
        mixed_weight: Weight of ``soft`` in ``mixed``.
        task_type_veto: Do not release if the loss on a task type exceeds this with 97.5%
            confidence; ``None`` makes no such check.
        max_worse_tasks: Do not release if more tasks than this are worse; ``None`` means no limit.
    """

    draws: int = 16
    metric: GateMetric = "hard"
    mixed_weight: float = 0.5
    task_type_veto: float | None = None
    max_worse_tasks: int | None = None

    def expected_rollouts(self, tasks: int) -> int:
        """Return the mean number of rollouts, both sides together, of a test on ``tasks``.

        Simulated tests take 1 to 2 draws of each task and side.
        """
        return round(2 * tasks * min(self.draws, 1.5))

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Test the current skill, the duel's candidate, against the duel's incumbent."""
        alpha = ledger.share
        task_ids = in_random_order(duel.task_ids, terms.seed)
        problem = nothing_left(ledger) or too_few(len(task_ids), alpha, terms.count(task_ids))
        if problem:
            return undecided(problem)
        metric = Metric(self.metric, self.mixed_weight, terms.success_threshold)
        was_chosen = bool(terms.judged) or terms.weights > 1
        is_unknown = was_chosen and terms.repeats is None
        first = min(2 if is_unknown else 1, self.draws)
        rounds = _rounds(task_ids, first, self.draws, whole=terms.plays_whole)
        rounds = _within(rounds, task_ids, terms)
        test = SignTest(terms.count(task_ids), derive_seed("signs", terms.seed))
        pairs: list[Pair] = []
        asked = rounds[0].asked(task_ids, pairs)
        spent: float | None = None
        repeats = was_chosen and terms.repeats is True
        looks: tuple[Look, ...] = ()
        played = least = 0
        for number, (now, after) in enumerate(zip_longest(rounds, rounds[1:])):
            least = len(task_ids) if terms.plays_whole else len(asked)
            if not terms.affords(2 * least * now.draws, played):
                break
            played += 2 * least * now.draws
            pairs += metric.of(await duel.draw(asked, n=now.draws))
            if is_unknown and not number:
                repeats = share_varying_within(pairs) < _REPEATING
            asked = [] if after is None else after.asked(task_ids, pairs)
            least = len(task_ids) if asked and terms.plays_whole else len(asked)
            costs = 2 * least * (after.draws if after else 0)
            is_whole = now.reached == len(task_ids)
            is_last = not costs or (repeats and is_whole)
            is_last = is_last or not terms.affords(costs, played)
            if repeats and not is_last:
                continue  # a single look is exact
            limit = alpha if is_last else alpha * (number + 1) / len(rounds)
            look = _Look(now, pairs, task_ids, alpha, limit, is_last, repeats, spent)
            verdict, is_over = self._outcome(look, test, terms)
            looks += (Look(now.total, look.tested_at(terms), verdict.p_value, now.reached),)
            if is_over:
                return replace(verdict, looks=looks)
            spent = verdict.alpha
        return undecided(
            f"the budget has {terms.rollouts} rollouts left, and the release test begins with "
            f"{2 * least * rounds[0].draws}. Train with a larger budget."
        )

    def _outcome(self, look: "_Look", test: "SignTest", terms: Terms) -> tuple[Verdict, bool]:
        """Return the verdict at a look, and whether it is final."""
        effect = measure_effect(look.pairs, terms.clusters, tests=False)
        verdict = replace(measured(effect), alpha=look.spent)
        hopeless = too_many_unscored(effect, look.round.reached)
        few = too_few(effect.tasks, look.alpha, effect.clusters)
        problem = hopeless or too_many_lost(effect) or few
        if problem:
            # After further draws the share of lost pairs may be small enough.
            undecidable = replace(verdict, reason=f"Undecided: {problem}")
            return undecidable, look.is_last or (bool(hopeless) and look.is_whole)
        gains, limit = task_gains(look.pairs), look.tested_at(terms)
        if look.repeats:
            seed = derive_seed("chosen", terms.seed)
            p_value = chosen_p_value(gains, terms.judged, seed, terms.clusters)
        else:
            each = {task_id: gains.get(task_id, 0.0) for task_id in look.task_ids}
            p_value = test.look(list(cluster_means(each, terms.clusters).values()), limit)
        verdict = replace(verdict, p_value=p_value, alpha=look.alpha)
        total = look.round.total
        least = _FUTILE_Z * log2(total / 2) if total > 1 else _FUTILE_Z_AT_ONE
        is_futile = look.is_whole and z_score(gains) < least
        is_over = look.is_last or is_futile
        known = replace(terms, repeats=look.repeats)
        decided = self._decide(verdict, effect, look.pairs, limit, known)
        if decided is not None:
            return decided, decided.accepted or is_over
        if not is_over:
            return verdict, False
        chosen = _CHOSEN.format(len(terms.judged)) if look.repeats else ""
        hint = chosen or what_would_prove(look.pairs, limit)
        return _not_proven(verdict, effect, limit, hint), True

    def _decide(
        self,
        verdict: Verdict,
        effect: PairedEffect,
        pairs: Sequence[Pair],
        limit: float,
        terms: Terms,
    ) -> Verdict | None:
        """Return the final verdict if the test is significant, or ``None``."""
        facts, p_value, gain = went(effect), verdict.p_value or 0.0, verdict.effect or 0.0
        if p_value > limit or gain <= 0:
            return None
        harmed = harmed_task_type(pairs, self.task_type_veto, terms.clusters) or too_many_worse(
            pairs, self.max_worse_tasks
        )
        if harmed:
            reason = f"Not released: {facts}; but {harmed}."
            return replace(verdict, decision=Decision.REJECT, reason=reason)
        expected = _expected(pairs, effect, terms)
        if expected is not None:
            here = went(replace(effect, interval=None))
            facts = f"{here} in this test; expected on further tasks {expected}"
        whole = verdict.alpha or limit
        of_all = f", the limit so far (at the end {whole:.2g})" if limit < whole else ""
        reason = f"Proven better: {facts}; p = {p_value:.2g} is within {limit:.2g}{of_all}."
        return replace(verdict, decision=Decision.ACCEPT, reason=reason, expected=expected)


def _expected(pairs: Sequence[Pair], effect: PairedEffect, terms: Terms) -> Expected | None:
    """Return the gain to expect on further tasks; ``None`` without a belief of the steps."""
    if not (terms.repeats or terms.seen):
        return None
    from skillwright.evaluation.gates.gain import expected_alike, expected_gain

    if terms.repeats:
        return expected_alike(task_gains(pairs), terms.clusters)
    return expected_gain(list(terms.seen[0].candidate), terms.seen, effect, terms.clusters)


def _not_proven(verdict: Verdict, effect: PairedEffect, limit: float, hint: str) -> Verdict:
    asked = f"p = {verdict.p_value or 0.0:.2g}, and at most {limit:.2g} would be a proof"
    reason = f"Not proven better: {went(effect)}; {asked}{f'; {hint}' if hint else ''}."
    return replace(verdict, decision=Decision.REJECT, reason=reason)


def in_random_order(task_ids: Sequence[str], seed: int) -> list[str]:
    """Return tasks in an order that does not depend on the given one."""
    return sorted(task_ids, key=lambda task_id: (derive_seed("release", seed, task_id), task_id))


class SignTest:
    """A group-sequential randomization test over tasks, exact over all looks.

    Under the null hypothesis, the gains of a task are equally likely to have the opposite sign, at
    all looks together; so the observed signs are exchangeable with random assignments. Each look
    rejects the assignments with the largest sums of gains, as many as its limit allows together
    with earlier looks. The observed assignment is rejected with a probability of at most the last
    limit. With one look it equals `paired_p_value`, up to the random choice of assignments.
    """

    def __init__(self, tasks: int, seed: int) -> None:
        import numpy as np

        self._signs = _signs(tasks, seed)
        self._rejected = np.zeros(len(self._signs), bool)
        self._p_value = 1.0

    def look(self, gains: Sequence[float], limit: float) -> float:
        """Test the gains so far.

        Args:
            gains: Mean gain per task, shape ``[tasks]``; the same tasks at every look.
            limit: Alpha that may be spent up to this look; does not decrease between looks.

        Returns:
            The p-value, in (0, 1]: the share of assignments that an earlier look rejected or whose
            sum is at least the observed one. It is significant if it is at most ``limit``.
        """
        import numpy as np

        if self._rejected[0]:
            return self._p_value  # it stays significant after an earlier look
        sums = self._signs @ np.asarray(gains, np.float32)
        sums[self._rejected] = -np.inf  # the observed assignment is the first
        observed = sums[0]
        slack = np.float32(1e-4)  # tolerance of rounding errors
        before = int(self._rejected.sum())
        self._p_value = (before + int((sums >= observed - slack).sum())) / len(sums)
        allowed = int(limit * len(sums) + 1e-9) - before
        if allowed > 0:
            # Ties at the boundary are not rejected.
            bound = np.partition(sums, len(sums) - 1 - allowed)[len(sums) - 1 - allowed]
            self._rejected |= sums > bound + slack
        return self._p_value


@lru_cache(maxsize=4)
def _signs(tasks: int, seed: int) -> "NDArray[np.float32]":
    """Return sign assignments, shape ``[assignments, tasks]``; the first is the observed one.

    They are the bits of SHAKE-256, so that any program can repeat the test (``docs/evidence.md``).
    """
    import numpy as np

    width = -(-tasks // 8)
    stream = hashlib.shake_256(str(seed).encode()).digest(ASSIGNMENTS * width)
    rows = np.frombuffer(stream, np.uint8).reshape(ASSIGNMENTS, width)
    signs = 2 * np.unpackbits(rows, axis=1, count=tasks).astype(np.float32) - 1
    signs[0] = 1
    return signs
