"""The gate of a step where proof is left to the release: what it draws, and what it believes."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skillwright.evaluation import AlphaLedger, Decision, ExploreGate, ReleaseTest, Seen, Terms
from skillwright.evaluation.gates.current import CurrentSkill, drawn_of

LEDGER, TERMS = ExploreGate().ledger(0.05, 8), Terms()
WIN, LOSS, TIE, MISS, LOST = (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (None, 1.0)


def tasks(*results, ties=0):
    """Give tasks the results of their draws; then some that always tie."""
    listed = [one if isinstance(one, list) else [one] for one in results] + [[TIE]] * ties
    return {f"t{number}": draws for number, draws in enumerate(listed)}


async def judged(duel, ledger=LEDGER, terms=TERMS, **gate):
    return await ExploreGate(**gate).judge(duel, ledger, terms)


def drawn(duel):
    """Count how often each task was drawn."""
    return Counter(name for names, n in duel.asked for name in names for _ in range(n))


def first_seen(duel, rewards):
    """Return what a run has seen after a baseline with these rewards, and one draw of each again.

    The second draws differ on every other task, so the agent's answers vary.
    """
    base = dict(zip(duel.task_ids, rewards, strict=True))
    again = {one: (1 - score if n % 2 else score, 1) for n, (one, score) in enumerate(base.items())}
    return Seen({one: (score, 1) for one, score in base.items()}), Seen({}, again)


HALF = [0.0, 1.0] * 20


def believed(duel, train=(0.0, 0), steps=1):
    """Return the belief after refused steps with these train batches and no draws."""
    base, again = first_seen(duel, HALF)
    refused = [Seen({}, train=train)] * steps
    return CurrentSkill.of(duel.task_ids, [base, again, *refused]).belief


def test_train_batches_tell_how_good_the_current_skill_is(drawn_duel):
    duel = drawn_duel(tasks(*[[TIE]] * 40))
    plain, low = believed(duel), believed(duel, (4.0, 20))
    assert low.mean < plain.mean
    assert low.error < plain.error


def test_train_tasks_that_are_always_harder_are_learned_to_be(drawn_duel):
    duel = drawn_duel(tasks(*[[TIE]] * 40))
    plain, low = believed(duel), believed(duel, (4.0, 20), steps=20)
    assert low.offset < -0.1
    assert low.offset_variance < plain.offset_variance / 4
    assert abs(low.mean - plain.mean) < 0.15


# Without earlier draws.


async def test_without_earlier_draws_both_sides_are_drawn_once_first(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 8, ties=12))
    verdict = await judged(duel)
    assert verdict.decision is Decision.ACCEPT
    assert duel.asked[0] == (duel.task_ids, 1)
    assert verdict.seen.incumbent == {}  # nothing is kept: the caller has no belief
    assert (verdict.effect, verdict.better, verdict.worse) == (0.4, 8, 0)
    assert (verdict.incumbent_score, verdict.candidate_score) == (0.6, 1.0)
    assert verdict.moved == {f"t{n}": 1.0 for n in range(8)}
    assert verdict.reason.startswith("Accepted as current: 8 of 20 tasks went better and 0 worse")
    assert str(verdict.current) in verdict.reason


async def test_a_clear_loss_is_given_up_after_one_draw_of_each_task(drawn_duel):
    duel = drawn_duel(tasks(*[LOSS] * 8, ties=12))
    verdict = await judged(duel)
    assert (verdict.decision, duel.asked) == (Decision.REJECT, [(duel.task_ids, 1)])
    assert verdict.reason.startswith("Rejected: 0 of 20 tasks went better and 8 worse")


async def test_tasks_with_one_text_on_both_sides_are_not_drawn_again(drawn_duel, make_result):
    duel = drawn_duel(tasks(*[WIN, LOSS] * 5, ties=10))
    plain, shared = duel.draw, {f"t{n}" for n in range(10, 20)}

    async def draw(task_ids, n):
        pairs = await plain(task_ids, n)
        one = {name: make_result(1.0, name, key=name) for name in shared}
        return [
            replace(p, incumbent=one[p.task_id], candidate=one[p.task_id])
            if p.task_id in shared
            else p
            for p in pairs
        ]

    duel.draw = draw
    verdict = await judged(duel)
    assert all(drawn(duel)[name] == 1 for name in shared)
    assert not shared & set(verdict.seen.candidate)
    assert verdict.rollouts == 20 + 10 + sum(drawn(duel)[f"t{n}"] - 1 for n in range(10))


async def test_where_all_texts_are_the_same_nothing_is_decided(drawn_duel, make_result):
    duel = drawn_duel(tasks(ties=9))
    plain = duel.draw

    async def draw(task_ids, n):
        pairs = await plain(task_ids, n)
        one = make_result(1.0, "t0", key="same")
        return [replace(pair, incumbent=one, candidate=one) for pair in pairs]

    duel.draw = draw
    verdict = await judged(duel)
    assert verdict.decision is Decision.UNDECIDED
    assert "the same skill text on all held-out tasks" in verdict.reason


# With a belief.


async def test_only_the_candidate_is_drawn_and_only_as_long_as_it_is_worth(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 20, ties=20))
    verdict = await judged(duel, terms=Terms(seen=first_seen(duel, HALF)))
    assert verdict.accepted
    assert verdict.rollouts == verdict.pairs == sum(drawn(duel).values()) < 40
    assert sum(count for _, count in verdict.seen.candidate.values()) == verdict.pairs
    assert verdict.seen.accepted
    assert verdict.current.mean > verdict.incumbent_score


async def test_a_dear_step_buys_more_draws_and_a_cheap_one_fewer(drawn_duel):
    def rollouts(cost):
        return judged_at(drawn_duel, cost)

    assert (await rollouts(1.0)).rollouts <= (await rollouts(40.0)).rollouts
    assert (await rollouts(40.0)).rollouts < (await rollouts(1000.0)).rollouts


async def judged_at(drawn_duel, cost):
    duel = drawn_duel(tasks(*[MISS, TIE, MISS, TIE, WIN] * 8))
    return await judged(duel, terms=Terms(seen=first_seen(duel, HALF), step_cost=cost, seed=1))


async def test_no_lucky_draw_of_the_current_skill_decides(drawn_duel):
    """A skill that drew 70% once is not taken for one that solves 70%."""
    lucky = [1.0] * 28 + [0.0] * 12
    once = drawn_duel(tasks(ties=40))
    only = Seen({name: (score, 1) for name, score in zip(once.task_ids, lucky, strict=True)})
    worse = Seen(dict.fromkeys(once.task_ids, (0.5, 1)))
    verdict = await judged(once, terms=Terms(seen=(only, *[worse] * 5)))
    assert verdict.incumbent_score < 0.7


async def test_the_belief_follows_from_what_was_seen_alone(drawn_duel):
    seen = first_seen(drawn_duel(tasks(ties=40)), HALF)
    verdicts = []
    for _ in range(2):
        duel = drawn_duel(tasks(*[WIN] * 10, *[LOSS] * 3, ties=27))
        verdicts.append(await judged(duel, terms=Terms(seen=seen)))
    assert verdicts[0] == verdicts[1]
    later = drawn_duel(tasks(*[WIN] * 10, ties=30))
    after = await judged(later, terms=Terms(seen=(*seen, verdicts[0].seen)))
    assert after.incumbent_score == pytest.approx(verdicts[0].current.mean, abs=1e-6)


async def test_a_budget_ends_a_decision_inside_its_draws(drawn_duel):
    duel = drawn_duel(tasks(*[MISS, TIE, WIN, LOSS] * 10))
    terms = Terms(seen=first_seen(duel, HALF), rollouts=7, step_cost=500)
    verdict = await judged(duel, terms=terms)
    assert verdict.rollouts == 7
    assert verdict.decision is not Decision.UNDECIDED
    verdict = await judged(duel, terms=replace(terms, rollouts=0))
    assert verdict.decision is Decision.UNDECIDED
    assert "the budget leaves no rollout" in verdict.reason


async def test_a_budget_without_a_rollout_left_is_named(drawn_duel):
    duel = drawn_duel(tasks(*[MISS, TIE] * 20))
    verdict = await judged(duel, terms=Terms(seen=first_seen(duel, HALF), rollouts=0))
    assert (verdict.decision, duel.asked) == (Decision.UNDECIDED, [])
    assert "the budget leaves no rollouts" in verdict.reason


@pytest.mark.parametrize("tasks_won", range(0, 12, 2))
async def test_every_draw_of_a_candidate_that_answers_alike_counts(drawn_duel, tasks_won):
    duel = drawn_duel(tasks(*[TIE] * tasks_won, *[MISS] * (12 - tasks_won)))
    seen = first_seen(duel, HALF[:12])
    verdict = await judged(duel, terms=Terms(seen=seen, step_cost=50_000), draws=16)
    belief = CurrentSkill.of(duel.task_ids, seen).belief
    gain = belief.weigh(drawn_of(duel.task_ids, verdict.seen.candidate)).gain
    assert verdict.effect == pytest.approx(gain, abs=1e-6)


# Agents that answer alike each time.


async def test_what_answers_alike_is_decided_by_one_draw_of_each_task(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 6, *[LOSS] * 5, *[MISS] * 15, ties=14))
    base = Seen(
        {name: (new if new == old else old, 1) for name, [(old, new)] in duel.draws.items()}
    )
    verdict = await judged(duel, terms=Terms(seen=(base,)))
    # Twelve tasks are drawn on both sides, once in a run, to find out.
    assert [n for _, n in duel.asked] == [1, 1]
    assert [len(names) for names, _ in duel.asked] == [12, 28]
    assert (verdict.decision, verdict.rollouts) == (Decision.ACCEPT, 24 + 28)
    assert (verdict.better, verdict.worse) == (6, 5)
    assert verdict.moved == {f"t{n}": 1.0 if n < 6 else -1.0 for n in range(11)}
    assert verdict.effect == pytest.approx(1 / 40)
    assert "tasks that were drawn twice scored alike, so one draw of each" in verdict.reason
    later = drawn_duel(tasks(*[MISS] * 6, *[LOSS] * 5, *[MISS] * 15, ties=14))
    worse = await judged(later, terms=Terms(seen=(base, verdict.seen)))
    assert (worse.decision, worse.rollouts) == (Decision.REJECT, 40)


@given(st.lists(st.sampled_from([WIN, LOSS, TIE, MISS]), min_size=1, max_size=30))
async def test_agents_that_answer_alike_are_judged_by_the_sum_of_gains(drawn_duel, results):
    duel = drawn_duel(tasks(*results))
    base = Seen({f"t{n}": (old, 1) for n, (old, _) in enumerate(results)})
    verdict = await judged(duel, terms=Terms(seen=(base,)))
    if "scored alike" in verdict.reason:
        assert verdict.rollouts == len(results) + min(12, len(results))
        assert verdict.accepted == (results.count(WIN) > results.count(LOSS))
    else:  # few of the 12 repeated tasks were expected to vary
        old = [reward for reward, _ in results]
        assert min(old.count(0.0), old.count(1.0)) <= 12


async def test_equal_rewards_tell_little_where_nearly_all_are_0(drawn_duel):
    duel = drawn_duel(tasks(*[MISS] * 36, *[TIE] * 4))
    seen = (Seen({name: (float(n >= 36), 1) for n, name in enumerate(duel.task_ids)}),)
    verdict = await judged(duel, terms=Terms(seen=seen))
    assert "scored alike" not in verdict.reason
    # Whether answers vary is asked twice at most.
    for _ in range(2):
        seen += (verdict.seen,)
        verdict = await judged(duel, terms=Terms(seen=seen))
    assert [bool(one.incumbent) for one in (*seen[1:], verdict.seen)] == [True, True, False]


@pytest.mark.parametrize(("solved", "is_asked_again"), [(0, False), (4, False), (24, True)])
async def test_whether_answers_vary_is_asked_again_where_a_better_skill_can_tell(
    drawn_duel, solved, is_asked_again
):
    task_ids = drawn_duel(tasks(ties=60)).task_ids
    seen = [Seen({name: (float(n < 1), 1) for n, name in enumerate(task_ids)})]
    current = CurrentSkill.of(task_ids, seen)
    assert current.is_in_doubt
    current = current.with_own({name: (float(n < 1), 1) for n, name in enumerate(task_ids[:24])})
    assert (current.repeats, current.is_in_doubt) == (None, False)
    rewards = {name: (float(n < solved), 1) for n, name in enumerate(task_ids)}
    current = current.after(rewards, accepted=True)
    assert (current.repeats, current.is_in_doubt) == (None, is_asked_again)
    if is_asked_again:
        assert current.with_own({name: rewards[name] for name in task_ids[:24:2]}).repeats


async def test_tasks_that_the_current_skill_has_drawn_are_drawn_again(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 24, ties=36))
    seen = Seen({name: (float(n < 1), 1) for n, name in enumerate(duel.task_ids)})
    again = Seen({}, {name: (float(n < 1), 1) for n, name in enumerate(duel.task_ids[:24])})
    kept = Seen({name: (float(n % 2), 1) for n, name in enumerate(duel.task_ids[:20])}, {}, True)
    verdict = await judged(duel, terms=Terms(seen=(seen, again, kept)))
    assert len(verdict.seen.incumbent) == 12
    assert set(verdict.seen.incumbent) <= set(kept.candidate)


# Faults, few tasks, rewards.


async def test_lost_draws_tell_nothing_and_more_than_half_of_them_decide_nothing(drawn_duel):
    seen = first_seen(drawn_duel(tasks(ties=40)), HALF)
    some = drawn_duel(tasks(*[WIN] * 28, *[(0.0, None)] * 12))
    verdict = await judged(some, terms=Terms(seen=seen))
    assert verdict.accepted
    assert verdict.rollouts == verdict.pairs + verdict.lost
    most = drawn_duel(tasks(*[WIN] * 4, *[(0.0, None)] * 36))
    verdict = await judged(most, terms=Terms(seen=seen))
    assert verdict.decision is Decision.UNDECIDED
    assert "draws were lost to failures of a model or an environment" in verdict.reason
    assert verdict.alpha is None


async def test_an_endpoint_that_goes_down_is_asked_until_the_engine_can_tell(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 40))
    seen, plain = first_seen(duel, HALF), duel.draw
    [fault] = await drawn_duel(tasks((0.0, None))).draw_candidate(["t0"], 1)

    async def draw(task_ids, n):
        pairs = await plain(task_ids, n)
        kept = 2 if len(duel.asked) == 1 else 0
        return pairs[:kept] + [replace(one, candidate=fault) for one in pairs[kept:]]

    duel.draw = draw
    verdict = await judged(duel, terms=Terms(seen=seen))
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.lost - len(duel.asked[0][0]) >= 20  # by then the engine has stopped the run


async def test_a_budget_that_leaves_no_draw_is_named(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 40))
    verdict = await judged(duel, terms=Terms(seen=first_seen(duel, HALF), rollouts=0))
    assert (verdict.decision, verdict.rollouts, duel.asked) == (Decision.UNDECIDED, 0, [])
    assert "the budget leaves no rollouts for it. Train with a larger budget." in verdict.reason


async def test_where_everything_is_lost_nothing_is_decided(drawn_duel):
    verdict = await judged(drawn_duel(tasks(*[LOST] * 9)))
    assert (verdict.decision, verdict.effect, verdict.pairs) == (Decision.UNDECIDED, None, 0)


async def test_rewards_are_compared_by_the_metric(drawn_duel):
    graded = tasks(*[(0.4, 0.6)] * 30)
    hard = await judged(drawn_duel(graded))
    assert hard.incumbent_score < 0.1
    soft = await judged(drawn_duel(graded), metric="soft")
    assert soft.accepted
    assert soft.incumbent_score == pytest.approx(0.4, abs=0.05)
    passing = Terms(success_threshold=0.5)
    assert (await judged(drawn_duel(graded), terms=passing)).effect > soft.effect


async def test_without_tasks_nothing_is_decided_and_one_task_is_enough(drawn_duel):
    none = drawn_duel({})
    verdict = await judged(none)
    assert (verdict.decision, none.asked) == (Decision.UNDECIDED, [])
    assert "Add validation tasks" in verdict.reason
    assert not (await judged(drawn_duel(tasks(LOSS)))).accepted
    assert (await judged(drawn_duel(tasks(WIN)), step_cost_draws())).decision


def step_cost_draws():
    """Return a ledger; a step uses none of it."""
    return AlphaLedger(0.05, 2, made=2, shares=(0.6, 0.4))


async def test_a_step_makes_no_test_and_takes_nothing_of_the_alpha(drawn_duel):
    spent = step_cost_draws()
    for result in (WIN, LOSS):
        verdict = await judged(drawn_duel(tasks(*[result] * 9)), spent)
        assert verdict.decision is not Decision.UNDECIDED
        assert (verdict.alpha, verdict.p_value) == (None, None)
        assert spent.spend(verdict) == spent


REWARDS = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


@given(
    st.lists(st.lists(st.tuples(REWARDS, REWARDS), min_size=1, max_size=6), max_size=25),
    st.sampled_from(["hard", "soft", "mixed"]),
    st.integers(1, 9),
)
async def test_whatever_happens_no_task_is_drawn_more_often_than_allowed(
    drawn_duel, results, metric, draws
):
    duel = drawn_duel(tasks(*results))
    verdict = await judged(duel, metric=metric, draws=draws)
    assert all(count <= draws + 1 for count in drawn(duel).values())
    if verdict.accepted:
        assert verdict.effect > 0
        assert verdict.pairs >= verdict.lost / 2


def test_its_settings_are_those_of_its_release_test():
    gate = ExploreGate(
        metric="mixed", mixed_weight=0.3, release_draws=5, task_type_veto=0.1, max_worse_tasks=2
    )
    assert gate.release == ReleaseTest(5, "mixed", 0.3, 0.1, 2)
    assert gate.ledger(0.1, 99) == AlphaLedger(0.1, 1, shares=(1.0,))
    assert gate.ledger(0.1, 99, second_release=True) == AlphaLedger(0.1, 2, shares=(0.6, 0.4))
    assert ExploreGate().expected_rollouts(500) == 30
    assert ExploreGate(draws=2).expected_rollouts(8) == 16


@pytest.mark.parametrize(
    "wrong",
    [
        {"metric": "loud"},
        {"draws": 0},
        {"draws": 1.5},
        {"release_draws": 0},
        {"family_veto": 1.5},
        {"family_veto": float("nan")},
        {"max_worse_tasks": -1},
        {"mixed_weight": -0.1},
        {"seed": 1},
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_once(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ExploreGate(**wrong)


@pytest.mark.parametrize(
    ("shift", "least", "most"), [(0.0, 0.1, 0.45), (-0.1, 0.0, 0.12), (0.15, 0.65, 1.0)]
)
async def test_a_step_is_right_more_often_than_wrong_at_few_rollouts(
    chance_duel, shift, least, most
):
    verdicts = []
    for seed in range(150):
        duel = chance_duel(40, shift, seed=seed)
        base, again = [
            {name: (duel.play(name, 0.0).reward, 1) for name in duel.task_ids} for _ in range(2)
        ]
        seen = (Seen(base), Seen({}, again))
        verdicts.append(await judged(duel, terms=Terms(seen=seen, seed=seed)))
    share = sum(verdict.accepted for verdict in verdicts) / 150
    assert least <= share <= most
    assert sum(verdict.rollouts for verdict in verdicts) / 150 <= 60
