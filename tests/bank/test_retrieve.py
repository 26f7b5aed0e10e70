"""Which skills a task is told: the laws that hold for every bank and every task."""

from dataclasses import replace

import pytest
from bank_worlds import CATEGORIES, Drawn, skill, skills
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import (
    Bank,
    BankIndex,
    Encoder,
    RetrievalSettings,
    SkillStats,
    retrieve,
    utilities,
)
from skillwright.core import SkillKind, SkillStatus

CATEGORY = st.sampled_from(["", *CATEGORIES, "unheard of"])
SCOPE = st.sampled_from(["", "household 1"])
DELTA = st.sampled_from([None, -1.0, 0.0, 0.3, 1.0])


def ask(found, text="put a hot egg in fridge", category="heat", scope="", **settings):
    """Retrieve for a text from skills or a bank."""
    bank = found if isinstance(found, Bank) else Bank(1, tuple(found))
    encoder = Encoder(Drawn())
    query = encoder.queries([text])[text]
    return retrieve(
        BankIndex(bank, encoder),
        query,
        category=category,
        scope=scope,
        settings=RetrievalSettings(**settings),
    )


def ids(scored):
    return [one.skill.id for one in scored]


@given(skills(), CATEGORY, SCOPE, DELTA, st.integers(0, 8), st.integers(0, 6))
def test_the_laws_of_retrieval_hold(bank, category, scope, delta, k_task, k_lessons):
    found = ask(bank, "t", category, scope, k_task=k_task, k_lessons=k_lessons, delta=delta)
    active = [one for one in bank if one.status == SkillStatus.ACTIVE]
    here = {one.id for one in active if one.scope in ("", scope)}

    general = {one.id for one in active if one.kind == SkillKind.GENERAL} & here
    assert set(ids(found.general)) == general
    assert {one.skill.id for one in found.all} <= here  # nothing retired, nothing of elsewhere
    assert len(found.task_specific) <= k_task
    assert len(found.lessons) <= k_lessons
    for one in found.task_specific:
        assert one.skill.kind == SkillKind.TASK_SPECIFIC
        assert one.score > found.delta
        assert not category or one.skill.category in ("", category)
    assert {one.skill.kind for one in found.lessons} <= {SkillKind.LESSON}
    for part in (found.general, found.task_specific):
        assert list(part) == sorted(part, key=lambda one: (-one.score, one.skill.id))
    own = [not category or one.skill.category in ("", category) for one in found.lessons]
    assert own == sorted(own, reverse=True)
    assert found.delta == (Drawn.delta if delta is None else delta)


@given(skills(), CATEGORY, SCOPE)
def test_what_is_told_hangs_on_the_skills_and_not_on_their_order(bank, category, scope):
    assert ask(bank, "t", category, scope) == ask(bank[::-1], "t", category, scope)


@given(skills(), st.sampled_from(CATEGORIES))
def test_adding_a_skill_of_another_category_leaves_everything_told_as_it_was(bank, category):
    before = ask(bank, category=category)
    added = ask([*bank, skill("new", category="another")], category=category)
    assert added == before


@given(skills(), CATEGORY)
def test_adding_a_skill_moves_no_score_of_another(bank, category):
    wide = {"k_task": 100, "k_lessons": 100, "delta": -1.0}
    before = {one.skill.id: one.score for one in ask(bank, category=category, **wide).all}
    added = ask([*bank, skill("new", category=category)], category=category, **wide)
    after = {one.skill.id: one.score for one in added.all}
    after.pop("new", None)
    assert after == before


@pytest.mark.parametrize("status", [SkillStatus.RETIRED, SkillStatus.PENDING])
@pytest.mark.parametrize("kind", SkillKind)
def test_what_is_not_active_is_never_told(kind, status):
    told = skill("s1", kind)
    assert ids(ask([told], delta=-1.0).all) == ["s1"]
    assert ask([replace(told, status=status)], delta=-1.0).all == ()


def test_lessons_of_the_own_category_come_first_and_others_only_where_they_are_near():
    lesson = SkillKind.LESSON
    bank = [
        skill("l1", lesson, "heat"),
        skill("l2", lesson, ""),
        *(skill(f"l{number}", lesson, "cool") for number in range(3, 40)),
    ]
    found = ask(bank, category="heat", delta=0.3, k_lessons=8).lessons
    assert set(ids(found[:2])) == {"l1", "l2"}
    assert len(found) == 8
    assert all(one.score > 0.3 for one in found[2:])
    far = ask(bank, category="heat", delta=0.999, k_lessons=8).lessons
    assert set(ids(far)) == {"l1", "l2"}


def test_a_skill_of_one_place_is_told_there_and_nowhere_else():
    bank = [skill("s1", scope="household 3"), skill("s2"), skill("s3", SkillKind.GENERAL)]
    bank.append(skill("s4", SkillKind.GENERAL, scope="household 3"))
    everything = {"delta": -1.0}
    assert set(ids(ask(bank, scope="household 3", **everything).all)) == {"s1", "s2", "s3", "s4"}
    assert set(ids(ask(bank, scope="household 4", **everything).all)) == {"s2", "s3"}
    assert set(ids(ask(bank, scope="", **everything).all)) == {"s2", "s3"}


def test_an_unknown_category_searches_all_of_them_with_the_same_k_and_delta():
    bank = [skill(f"s{number}", category=CATEGORIES[number % 3]) for number in range(30)]
    found = ask(bank, category="", delta=-0.5, k_task=20)
    assert {one.skill.category for one in found.task_specific} == set(CATEGORIES)
    assert all(one.score > -0.5 for one in found.task_specific)


def test_general_skills_are_told_by_how_much_better_episodes_end_with_them():
    general = [skill(f"g{number}", SkillKind.GENERAL) for number in range(4)]
    stats = {
        "g0": SkillStats(retrieved=90, episodes=90, wins=30),
        "g2": SkillStats(retrieved=90, episodes=90, wins=80),
        "g3": SkillStats(retrieved=1, episodes=1, wins=1),
    }
    bank = Bank(1, tuple(general), stats)
    assert ids(ask(bank).general) == ["g2", "g3", "g1", "g0"]
    assert utilities(bank)["g1"] == 0  # nothing is known of it


def test_utility_is_neutral_where_nobody_has_played():
    bank = Bank(1, (skill("g1", SkillKind.GENERAL), skill("g2", SkillKind.GENERAL)))
    assert utilities(bank) == {"g1": 0, "g2": 0}
    assert ids(ask(bank).general) == ["g1", "g2"]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_more_wins_never_lower_the_rank_of_a_skill(episodes, wins, others, their_wins):
    wins, their_wins = min(wins, episodes), min(their_wins, others)
    pair = (skill("g1", SkillKind.GENERAL), skill("g2", SkillKind.GENERAL))

    def lead(won):
        stats = {
            "g1": SkillStats(episodes, episodes, won),
            "g2": SkillStats(others, others, their_wins),
        }
        found = utilities(Bank(1, pair, stats))
        return found["g1"] - found["g2"]

    if wins < episodes:
        assert lead(wins + 1) >= lead(wins) - 1e-4  # both are rounded


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="k_task"):
        RetrievalSettings(k_task=-1)
    with pytest.raises(ValueError, match="delta"):
        RetrievalSettings(delta=40)
