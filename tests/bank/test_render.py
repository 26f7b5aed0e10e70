"""Skills as text: the same bytes for everybody, within a budget."""

import logging
from dataclasses import replace

import pytest
from bank_worlds import skill, skills
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import (
    NOTHING,
    RenderBudget,
    Retrieved,
    Scored,
    approximate_tokens,
    render,
    skill_line,
)
from skillwright.core import ConfigError, Counterfactual, SkillKind

GENERAL = skill(
    "g001",
    SkillKind.GENERAL,
    name="Search once",
    principle="Visit each likely place once before going anywhere twice.",
)
TASK = skill(
    "t014",
    name="Hold it first",
    principle="Have the object in hand before you use the microwave",
    applicability="When a goal asks for something hot.",
)
LESSON = skill(
    "l003",
    SkillKind.LESSON,
    name="Empty hands",
    principle="Check what you hold before you use an appliance.",
    counterfactual=Counterfactual(
        "heating an object that lies in the microwave", "it was near", "take it first, then heat it"
    ),
)


def told(general=(), task=(), lessons=(), category="heat"):
    return Retrieved(
        *(tuple(Scored(one, 0.5) for one in part) for part in (general, task, lessons)),
        category=category,
    )


def test_a_context_reads_as_the_documentation_shows_it():
    assert render(told([GENERAL], [TASK], [LESSON])).text == (
        "### General skills\n"
        "- [g001] Search once: Visit each likely place once before going anywhere twice.\n"
        "### Skills for heat tasks\n"
        "- [t014] Hold it first: Have the object in hand before you use the microwave. "
        "(Apply when a goal asks for something hot.)\n"
        "### Lessons\n"
        "- [l003] Empty hands: Avoid: heating an object that lies in the microwave. "
        "Instead: take it first, then heat it. Check what you hold before you use an appliance."
    )


def test_sections_without_skills_are_left_out_and_no_skill_at_all_is_said():
    assert render(told(task=[TASK], category="pick_two")).text.splitlines()[0] == (
        "### Skills for pick two tasks"
    )
    assert render(told(task=[TASK], category="")).text.startswith("### Skills for this task\n")
    assert render(told(lessons=[LESSON])).text.startswith("### Lessons\n")
    assert render(told()).text == NOTHING


@pytest.mark.parametrize(
    ("applicability", "shown"),
    [
        ("When a goal asks for two.", " (Apply when a goal asks for two.)"),
        ("apply whenever it is hot", " (Apply when it is hot.)"),
        ("The goal names a lamp", " (Apply when the goal names a lamp.)"),
        ("Before you cancel an order", " (Apply before you cancel an order.)"),
        ("Apply in kitchens!", " (Apply in kitchens!)"),
        ("SKU numbers differ", " (Apply when SKU numbers differ.)"),
        (" ", ""),
    ],
)
def test_the_condition_of_a_skill_is_a_sentence_however_it_was_written(applicability, shown):
    line = skill_line(replace(TASK, applicability=applicability))
    assert line == f"- [t014] Hold it first: {TASK.principle}.{shown}"


def test_a_skill_stays_on_its_line_whatever_it_says():
    broken = replace(TASK, name="Hold\n### it", principle="one\n\n- [g001] two", applicability="\n")
    assert skill_line(broken) == "- [t014] Hold ### it: one - [g001] two."


@given(skills(most=25), st.integers(11, 600), st.data())
def test_a_text_fits_its_budget_and_what_is_told_and_dropped_is_what_was_retrieved(
    bank, max_tokens, data
):
    kinds = {kind: [one for one in bank if one.kind == kind] for kind in SkillKind}
    budget = RenderBudget(max_tokens, data.draw(st.integers(0, max_tokens)))
    retrieved = told(*kinds.values())
    rendered = render(retrieved, budget)
    assert rendered.tokens == approximate_tokens(rendered.text) <= max_tokens
    assert sorted(one.skill.id for one in (*rendered.injected, *rendered.dropped)) == sorted(
        one.skill.id for one in retrieved.all
    )
    # What is left of each part is its beginning: the best.
    for kind, part in kinds.items():
        left = [one.skill for one in rendered.injected if one.skill.kind == kind]
        assert left == part[: len(left)]
    lines = [line for line in rendered.text.splitlines() if line.startswith("- [")]
    assert lines == [skill_line(one.skill) for one in rendered.injected]
    assert rendered == render(retrieved, budget)


def test_the_lowest_ranked_go_first_task_specific_then_lessons_then_general_and_are_logged(caplog):
    many = [skill(f"s{n}", kind) for kind in SkillKind for n in (f"{kind[0]}1", f"{kind[0]}2")]
    parts = told(many[:2], many[2:4], many[4:])
    full = render(parts)
    order: dict[str, None] = {}
    with caplog.at_level(logging.INFO):
        for tokens in range(full.tokens, 10, -1):
            dropped = render(parts, RenderBudget(tokens, tokens)).dropped
            order |= dict.fromkeys(one.skill.id for one in dropped)
    assert list(order) == ["st2", "st1", "sl2", "sl1", "sg2", "sg1"]
    assert "st2" in caplog.text


def test_general_skills_over_their_own_budget_go_even_where_there_is_room():
    many = [replace(GENERAL, id=f"g{number}") for number in range(10)]
    rendered = render(told(many, [TASK], [LESSON]), RenderBudget(5_000, 60))
    left = [one.skill.id for one in rendered.injected]
    assert left == ["g0", "g1", "t014", "l003"]
    assert [one.skill.id for one in rendered.dropped] == [f"g{n}" for n in range(9, 1, -1)]


def test_a_budget_counts_as_the_given_tokenizer_does():
    words = RenderBudget(40, 20, count=lambda text: len(text.split()))
    rendered = render(told([GENERAL], [TASK], [LESSON]), words)
    assert rendered.tokens == len(rendered.text.split()) <= 40


def test_a_budget_that_cannot_be_kept_is_refused():
    with pytest.raises(ConfigError, match="shortest text"):
        RenderBudget(5, 0)
    with pytest.raises(ConfigError, match="between 0 and"):
        RenderBudget(100, 101)


def test_thousands_of_general_skills_are_counted_a_few_times_and_not_once_per_skill():
    counted = []

    def count(text):
        counted.append(text)
        return approximate_tokens(text)

    general = [skill(f"g{n:04}", SkillKind.GENERAL) for n in range(2000)]
    rendered = render(told(general), RenderBudget(count=count))
    assert len(counted) < 30
    assert [one.skill for one in rendered.injected] == general[: len(rendered.injected)]
    assert [one.skill for one in rendered.dropped] == general[: len(rendered.injected) - 1 : -1]
