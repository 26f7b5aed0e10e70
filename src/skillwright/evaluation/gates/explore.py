"""The decision on a candidate by what further draws of it are worth; see `ExploreGate`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from random import Random

from skillwright.core import EpisodeResult, Pair, StepDuel
from skillwright.core.seeds import derive_seed
from skillwright.evaluation.gates.belief import Weighed
from skillwright.evaluation.gates.current import FEW, REPEATS, CurrentSkill, drawn_of
from skillwright.evaluation.gates.judging import Metric, Terms, undecided
from skillwright.evaluation.intervals import gain_text
from skillwright.evaluation.verdict import Decision, Rewards, Seen, Verdict

CHUNK = 5
"""Minimum draws between two looks."""

GROWTH = 0.5
"""The next draws are this share of the most worthwhile number, so that a decision waits 2.1 times
instead of 3.1 with `CHUNK` alone, at an equal gain per rollout (simulated)."""

MAX_LOST_SHARE = 0.5
"""Share of lost draws above which nothing is decided."""

MOST_LOST = 40
"""Lost draws of the candidate that end a decision. It is twice `rollout.give_up_after`, so that an
endpoint that is down stops the run, and leaves no candidate undecided."""

_ROUNDING = 1e-9


@dataclass(slots=True)
class _Draws:
    """Scored draws of one side, and the number of lost ones."""

    rewards: Rewards = field(default_factory=dict)
    lost: int = 0

    @property
    def scored(self) -> int:
        return sum(count for _, count in self.rewards.values())

    def add(self, results: Iterable[EpisodeResult]) -> None:
        for result in results:
            if result.reward is None:
                self.lost += 1
                continue
            total, count = self.rewards.get(result.task_id, (0.0, 0))
            self.rewards[result.task_id] = (total + result.reward, count + 1)


class Exploration:
    """One decision of the gate ``explore``.

    Without earlier draws in ``terms.seen``, it begins with one draw of each task on both sides, and
    leaves out tasks on which both sides have the same skill text, because there they share their
    episodes. If no
    further draws follow, any gain in their sum is accepted.

    Args:
        duel: Draws the results.
        metric: The compared score.
        terms: Facts about the run.
        draws: Maximum draws per task.
    """

    def __init__(self, duel: StepDuel, metric: Metric, terms: Terms, draws: int) -> None:
        self._duel, self._metric, self._terms, self._draws = duel, metric, terms, draws
        self._task_ids: Sequence[str] = duel.task_ids
        self._old, self._new = _Draws(), _Draws()
        self._share = 1.0  # of the tasks on which the candidate can differ
        self._rollouts = 0
        self._queue: list[str] = []
        self._random = Random(derive_seed("explore", terms.seed, len(terms.seen)))

    async def verdict(self) -> Verdict:
        """Draw until the decision is worth no further draw, and return it."""
        current = await self._begin()
        if current is None:
            return self._nothing()
        if current.repeats:
            return await self._alike(current)
        return await self._by_worth(current)

    async def _begin(self) -> CurrentSkill | None:
        """Draw both sides until the current skill is known; ``None`` if nothing can be compared."""
        if not self._terms.seen:
            pairs = await self._both(self._task_ids)
            differ = [pair.task_id for pair in pairs if not pair.is_shared]
            self._share = len(differ) / len(self._task_ids)
            self._task_ids = [one for one in self._task_ids if one in set(differ)]
            if not self._old.rewards or not differ:
                return None
            self._old.rewards = {
                one: self._old.rewards[one] for one in self._task_ids if one in self._old.rewards
            }
            return CurrentSkill.of(self._task_ids, [Seen(self._old.rewards)])
        current = CurrentSkill.of(self._task_ids, self._terms.seen).with_train(self._terms.train)
        few = len(self._task_ids) if self._terms.plays_whole else REPEATS
        asked = min(few, len(self._task_ids))
        if current.is_in_doubt and self._room(2 * asked) == 2 * asked:
            places, counts = current.places, current.own.counts
            everything = self._next(len(self._task_ids))  # those that were drawn first
            self._queue = sorted(everything, key=lambda one: counts[places[one]] == 0)
            await self._both(self._next(asked))
            current = current.with_own(self._old.rewards)
        return current

    async def _by_worth(self, current: CurrentSkill) -> Verdict:
        belief, most = current.belief, self._draws * len(self._task_ids)
        price = belief.price(self._terms.step_cost) / self._share
        weighed = belief.weigh(drawn_of(self._task_ids, self._new.rewards))
        while True:
            done = self._new.scored + self._new.lost
            worth, more = weighed.worth(price)
            if done >= most or (done and worth <= 0) or not self._room(1):
                break
            size = self._room(min(max(CHUNK, int(more * GROWTH)), most - done))
            await self._candidate(self._next(size))
            await self._insist()
            weighed = belief.weigh(drawn_of(self._task_ids, self._new.rewards))
            if self._is_lost() or self._repeats():
                break
        if self._is_lost():
            return self._nothing()
        # Without a belief, draws of both sides that are all alike are compared task by task, so
        # that a release test can account for the selection (`chosen_p_value`).
        is_paired = not self._terms.seen and (done <= len(self._task_ids) or self._repeats())
        if is_paired:
            return self._by_sum(current)
        return self._by_gain(current, weighed)

    async def _alike(self, current: CurrentSkill) -> Verdict:
        """Draw all tasks once; where answers do not vary, more draws tell nothing."""
        missing = [one for one in self._task_ids if one not in self._new.rewards]
        if missing and (size := self._room(len(missing))):
            await self._candidate(missing[:size])
            await self._insist()
        return self._nothing() if self._is_lost() else self._by_sum(current)

    def _by_gain(self, current: CurrentSkill, weighed: Weighed) -> Verdict:
        accepted = weighed.gain > 0
        after = current.after(self._new.rewards, accepted=accepted)
        gain, error = self._share * weighed.gain, self._share * weighed.error
        draws = f"{self._new.scored} draw{'s' if self._new.scored > 1 else ''}"
        interval = round(gain - 1.96 * error, 6), round(gain + 1.96 * error, 6)
        facts = f"expected gain {gain_text(gain, interval)} after {draws}"
        return replace(
            self._decided(accepted, facts, after),
            effect=round(gain, 6),
            interval=interval,
            incumbent_score=round(current.belief.mean, 6),
            candidate_score=round(current.belief.mean + gain, 6),
        )

    def _by_sum(self, current: CurrentSkill) -> Verdict:
        own, means = current.own, dict[str, tuple[float, float]]()
        for task_id, (total, count) in self._new.rewards.items():
            at = current.places[task_id]
            if own.counts[at]:
                means[task_id] = (float(own.sums[at] / own.counts[at]), total / count)
        moved = {one: round(new - old, 9) for one, (old, new) in means.items()}
        moved = {one: gain for one, gain in moved.items() if gain}
        better, tasks = sum(gain > 0 for gain in moved.values()), max(len(means), 1)
        accepted = fsum(moved.values()) > _ROUNDING
        after = current.after(self._new.rewards, accepted=accepted)
        facts = f"{better} of {len(means)} tasks went better and {len(moved) - better} worse"
        if current.repeats:
            alike = f"; all {current.repeated} tasks that were drawn twice scored alike"
            facts += f"{alike}, so one draw of each decides"
        return replace(
            self._decided(accepted, facts, after),
            effect=round(self._share * fsum(moved.values()) / tasks, 6),
            incumbent_score=round(fsum(old for old, _ in means.values()) / tasks, 6),
            candidate_score=round(fsum(new for _, new in means.values()) / tasks, 6),
            better=better,
            worse=len(moved) - better,
            moved=moved,
        )

    def _decided(self, accepted: bool, facts: str, after: CurrentSkill) -> Verdict:
        old = self._old.rewards if self._terms.seen else {}
        return Verdict(
            Decision.ACCEPT if accepted else Decision.REJECT,
            f"{'Accepted as current' if accepted else 'Rejected'}: {facts}; current "
            f"{after.estimate}.",
            pairs=self._new.scored,
            lost=self._new.lost,
            rollouts=self._rollouts,
            current=after.estimate,
            seen=Seen(self._new.rewards, old, accepted, self._terms.train),
        )

    def _is_lost(self) -> bool:
        scored, lost = self._new.scored, self._new.lost
        return not scored or lost > MAX_LOST_SHARE * (scored + lost)

    def _nothing(self) -> Verdict:
        lost = self._old.lost + self._new.lost
        if not lost and not self._room(1):
            return undecided("the budget leaves no rollouts for it. Train with a larger budget.")
        if not lost:
            return undecided("both sides have the same skill text on all held-out tasks.")
        drawn = self._old.scored + self._new.scored + lost
        verdict = undecided(
            f"{lost} of {drawn} draws were lost to failures of a model or an environment. The "
            "run's store has them; mend their cause before the next run."
        )
        seen = Seen({}, self._old.rewards if self._terms.seen else {}, train=self._terms.train)
        return replace(verdict, lost=lost, rollouts=self._rollouts, seen=seen)

    # Draws.

    def _repeats(self) -> bool:
        """Tell whether several draws of enough tasks were all alike, so that more tell nothing."""
        several = [one for one in self._new.rewards.values() if one[1] > 1]
        return len(several) >= FEW and all(total in (0, count) for total, count in several)

    def _next(self, size: int) -> list[str]:
        """Return the next tasks of a random order, which begins again when it ends."""
        found: list[str] = []
        while len(found) < size:
            if not self._queue:
                self._queue = list(self._task_ids)
                self._random.shuffle(self._queue)
            found.append(self._queue.pop(0))
        return found

    def _room(self, wanted: int) -> int:
        """Return how many of the wanted rollouts the budget allows."""
        if self._terms.rollouts is None:
            return wanted
        left = self._terms.rollouts - self._rollouts
        least = len(self._task_ids) if self._terms.plays_whole else 1
        return min(wanted, left) if left >= least else 0

    async def _both(self, task_ids: Sequence[str]) -> list[Pair]:
        pairs = self._metric.of(await self._duel.draw(task_ids, n=1))
        self._old.add(pair.incumbent for pair in pairs)
        self._new.add(pair.candidate for pair in pairs if not pair.is_shared)
        self._rollouts += sum(1 if pair.is_shared else 2 for pair in pairs)
        return pairs

    async def _candidate(self, task_ids: Sequence[str]) -> None:
        """Draw the candidate alone."""
        results = await self._duel.draw_candidate(task_ids, n=1)
        self._new.add(map(self._metric.scored, results))
        self._rollouts += len(results)

    async def _insist(self) -> None:
        """Keep drawing where most draws are lost: an endpoint that is down stops the run."""
        most = self._draws * len(self._task_ids)
        while self._is_lost() and self._new.lost < MOST_LOST:
            size = self._room(min(CHUNK, most - self._new.scored - self._new.lost))
            if not size:
                break
            await self._candidate(self._next(size))
