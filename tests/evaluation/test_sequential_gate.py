"""The sequential gate: when it stops, what it says, and which tasks it may touch."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import EpisodeResult, EpisodeSpec, Failure, FailureCause, Pair, Task
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    PairedGate,
    SequentialGate,
    Terms,
    paired_p_value,
    stagewise_p_value,
)

LEDGER, TERMS = AlphaLedger(total=0.05, planned=1), Terms()
WIN, LOSS, TIE, LOST = (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (None, 1.0)


async def judged(duel, ledger=LEDGER, terms=TERMS, **settings):
    return await SequentialGate(**settings).judge(duel, ledger, terms)


async def test_a_clear_win_is_accepted_after_a_quarter_of_the_tasks(listed_duel, make_pairs):
    verdict = await judged(listed_duel(make_pairs([WIN] * 40)))
    assert verdict.decision is Decision.ACCEPT
    assert (verdict.pairs, verdict.rollouts, verdict.alpha) == (10, 20, 0.05)
    assert verdict.p_value == 2**-10
    assert verdict.reason.startswith("Accepted after 10 of 40 tasks: 10 of 10 tasks went better")
    assert verdict.reason.endswith("p = 0.00098 is within this look's 0.0031.")


async def test_a_hopeless_candidate_is_rejected_after_a_quarter(listed_duel, make_pairs):
    verdict = await judged(listed_duel(make_pairs([LOSS] * 40)))
    assert verdict.decision is Decision.REJECT
    assert (verdict.rollouts, verdict.alpha, verdict.p_value) == (20, 0.05, 1.0)
    assert verdict.reason.startswith("Rejected after 10 of 40 tasks: 0 of 10 tasks went better")


async def test_a_candidate_that_changes_nothing_costs_half_of_the_tasks(listed_duel, make_pairs):
    verdict = await judged(listed_duel(make_pairs([TIE] * 40)))
    assert (verdict.decision, verdict.rollouts) == (Decision.REJECT, 40)


async def test_a_small_gain_is_judged_on_all_tasks(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([*[WIN, WIN, LOSS, TIE] * 12]))
    verdict = await judged(duel, terms=Terms(seed=1))
    assert (verdict.pairs, verdict.rollouts) == (48, 96)
    assert verdict.decision is Decision.ACCEPT
    assert "p = 0.0" in verdict.reason
    assert "this decision's 0.05" in verdict.reason


async def test_a_gain_that_may_be_chance_is_rejected_at_the_end(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([*[WIN] * 5, *[LOSS] * 2, *[TIE] * 5]))
    verdict = await judged(duel)
    assert verdict.decision is Decision.REJECT
    assert "that may be chance, because p = 0.23 is above this decision's 0.05" in verdict.reason


async def test_few_tasks_get_one_look_which_is_the_paired_gates(listed_duel, make_pairs):
    pairs = make_pairs([WIN] * 9 + [LOSS] + [TIE] * 5)
    verdict = await judged(listed_duel(pairs))
    fixed = await PairedGate().judge(listed_duel(pairs), LEDGER)
    assert verdict == fixed


@pytest.mark.parametrize(("planned", "needed"), [(1, 8), (20, 9), (100, 11)])
async def test_too_few_tasks_are_undecided_before_anything_is_drawn(
    listed_duel, make_pairs, planned, needed
):
    ledger = AlphaLedger(0.05, planned)
    duel = listed_duel(make_pairs([WIN] * (needed - 1)))
    verdict = await judged(duel, ledger)
    assert (verdict.decision, verdict.rollouts, duel.asked) == (Decision.UNDECIDED, 0, [])
    assert f"at least {needed} are needed" in verdict.reason
    assert (await judged(listed_duel(make_pairs([WIN] * needed)), ledger)).accepted


async def test_a_spent_ledger_leaves_every_candidate_undecided(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([WIN] * 20))
    verdict = await judged(duel, AlphaLedger(0.05, 2, made=2))
    assert (verdict.decision, duel.asked) == (Decision.UNDECIDED, [])


async def test_an_outage_ends_the_question_at_once(listed_duel, make_pairs):
    verdict = await judged(listed_duel(make_pairs([LOST] * 40)))
    assert verdict.decision is Decision.UNDECIDED
    assert (verdict.lost, verdict.rollouts, verdict.alpha) == (10, 20, None)
    assert "10 of 10 pairs were lost" in verdict.reason


async def test_a_look_that_lost_too_much_is_not_taken(listed_duel, make_pairs):
    pairs = make_pairs([WIN] * 40)
    watched = Watched({pair.task_id: pair for pair in pairs})
    await judged(watched)
    first = watched.drawn[:2]
    lost = [Pair(failed(pair), pair.candidate) if pair.task_id in first else pair for pair in pairs]
    verdict = await judged(listed_duel(lost))
    assert verdict.decision is Decision.ACCEPT
    assert (verdict.pairs, verdict.lost, verdict.rollouts) == (18, 2, 40)


async def test_rewards_are_compared_by_the_metric(listed_duel, make_pairs):
    pairs = make_pairs([(0.3, 0.6)] * 40)
    assert (await judged(listed_duel(pairs))).effect == 0.0
    hard = await judged(listed_duel(pairs), terms=Terms(success_threshold=0.5))
    assert (hard.accepted, hard.effect) == (True, 1.0)
    soft = await judged(listed_duel(pairs), metric="soft")
    assert (soft.accepted, soft.effect) == (True, 0.3)
    mixed = await judged(
        listed_duel(pairs),
        terms=Terms(success_threshold=0.5),
        metric="mixed",
        mixed_weight=0.25,
    )
    assert mixed.effect == pytest.approx(0.75 + 0.25 * 0.3)


async def test_gains_too_small_for_the_grid_do_not_hide_a_loss(listed_duel, make_pairs):
    pairs = make_pairs([(0.5, 0.505)] * 6 + [(0.5, 0.496)] * 8)
    verdict = await judged(listed_duel(pairs), metric="soft")
    assert verdict.p_value == 2**-6  # the losses round to nothing
    assert verdict.decision is Decision.REJECT


async def test_the_order_of_the_tasks_is_the_seeds(make_pairs):
    orders = []
    for seed in (0, 0, 1):
        duel = Watched({pair.task_id: pair for pair in make_pairs([WIN] * 40)})
        await judged(duel, terms=Terms(seed=seed))
        orders.append(tuple(duel.drawn))
    assert orders[0] == orders[1] != orders[2]
    assert len(orders[0]) == 10


def failed(pair):
    return EpisodeResult(pair.incumbent.spec, failure=Failure(FailureCause.MODEL, "503"))


@dataclass
class Watched:
    """A duel that notes what is drawn."""

    pairs: dict[str, Pair]
    drawn: list[str] = field(default_factory=list)

    @property
    def task_ids(self):
        return list(self.pairs)

    async def draw(self, task_ids, n):
        self.drawn += [task_id for task_id in task_ids for _ in range(n)]
        return [self.pairs[task_id] for task_id in task_ids for _ in range(n)]


REWARDS = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


@given(
    st.lists(st.tuples(REWARDS, REWARDS), max_size=60),
    st.sampled_from(["hard", "soft", "mixed"]),
    st.integers(0, 3),
    st.sampled_from([1, 20]),
)
async def test_whatever_happens_only_held_out_tasks_are_drawn_and_each_once(
    rewards, metric, seed, planned
):
    def side(number, reward):
        spec = EpisodeSpec(Task(f"val{number}", env="toy"), seed=1)
        failure = Failure(FailureCause.MODEL, "503") if reward is None else None
        return EpisodeResult(spec, reward, failure)

    duel = Watched(
        {f"val{i}": Pair(side(i, old), side(i, new)) for i, (old, new) in enumerate(rewards)}
    )
    ledger = AlphaLedger(0.05, planned)
    verdict = await SequentialGate(metric=metric).judge(duel, ledger, Terms(seed=seed))
    assert set(duel.drawn) <= set(duel.task_ids)
    assert len(set(duel.drawn)) == len(duel.drawn)
    assert verdict.rollouts == 2 * len(duel.drawn)
    assert (verdict.alpha is None) == (verdict.decision is Decision.UNDECIDED)
    if verdict.accepted:
        assert verdict.p_value <= ledger.share
        assert verdict.effect > 0


GAINS = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.5, 1.0]), max_size=4)


def rejects(looks, limits):
    """Say at which look luck is rejected, or None."""
    for number in range(len(looks)):
        p_value = stagewise_p_value(looks[: number + 1], limits[:number])
        if p_value <= limits[number]:
            return number
    return None


@given(
    st.tuples(GAINS, GAINS, GAINS),
    st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.5)).map(sorted),
)
def test_luck_is_rejected_no_more_often_than_any_look_may(looks, limits):
    sizes = [len(look) for look in looks]
    magnitudes = [abs(gain) for look in looks for gain in look]
    stops = []
    for signs in itertools.product((1, -1), repeat=len(magnitudes)):
        gains = iter([sign * size for sign, size in zip(signs, magnitudes, strict=True)])
        stops.append(rejects([list(itertools.islice(gains, size)) for size in sizes], limits))
    for number, limit in enumerate(limits):
        early = sum(stop is not None and stop <= number for stop in stops)
        assert early <= limit * len(stops)


def p_value_by_hand(looks, limits):
    """Write out every assignment of signs, and follow the definition."""
    sizes = list(itertools.accumulate(len(look) for look in looks))
    gains = [gain for look in looks for gain in look]
    everything = list(itertools.product((1, -1), repeat=len(gains)))
    alive, gone = everything, 0

    def total(signs, size):
        return sum(s * abs(g) for s, g in zip(signs[:size], gains[:size], strict=True))

    for size, limit in zip(sizes[:-1], limits, strict=True):
        for worst in sorted({total(signs, size) for signs in everything}, reverse=True):
            cut = sum(total(signs, size) == worst for signs in alive)
            if gone + cut > limit * len(everything):
                break
            alive, gone = [signs for signs in alive if total(signs, size) < worst], gone + cut
    observed = sum(gains)
    return (gone + sum(total(signs, len(gains)) >= observed for signs in alive)) / len(everything)


@given(st.tuples(GAINS, GAINS, GAINS), st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)).map(sorted))
def test_the_p_value_is_what_its_definition_says(looks, limits):
    assert stagewise_p_value(looks, limits) == pytest.approx(p_value_by_hand(looks, limits))


@given(st.lists(st.integers(-4, 4).map(lambda quarters: quarters / 4), max_size=12))
def test_with_one_look_it_is_the_paired_test(gains):
    assert stagewise_p_value([gains], []) == pytest.approx(paired_p_value(gains))


def test_what_an_early_look_left_unspent_is_there_for_the_later_ones():
    # Of 2^-3 and more, a limit of 0.1 can spend nothing on three tasks.
    assert stagewise_p_value([[1, 1, 1], [1, 1]], [0.1]) == 2**-5
    assert stagewise_p_value([[1, 1, -1], [1, 1]], [0.125]) == (4 + 3) / 32
