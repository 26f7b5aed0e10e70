"""Skills as Markdown that people read and write."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_changes import PARTS, draft

from skillwright.bank import SEED_BANKS, Bank, from_markdown, seed_bank, to_markdown
from skillwright.core import DataError, SkillKind, SkillStatus


@pytest.mark.parametrize("name", SEED_BANKS)
def test_a_seed_bank_goes_out_and_comes_in(name):
    bank = seed_bank(name)
    drafts = from_markdown(to_markdown(bank))
    said = sorted(one.content_digest for one in drafts)
    assert said == sorted(one.content_digest for one in bank.active)


line = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=30
).filter(lambda text: text == " ".join(text.split()) and not text.endswith("#"))


@given(st.lists(st.tuples(line, line, line, line, line), min_size=1, max_size=4))
def test_any_words_on_a_line_come_back(rows):
    skills = tuple(
        replace(
            draft(n, category, id=f"l{n:03d}", name=name, principle=do, applicability=when),
            kind=SkillKind.LESSON,
            counterfactual=replace(PARTS, failure_point=avoid),
            scope="household 3",
        )
        for n, (name, do, when, category, avoid) in enumerate(rows)
    )
    drafts = from_markdown(to_markdown(Bank(1, skills)))
    assert sorted(one.content_digest for one in drafts) == sorted(
        one.content_digest for one in skills
    )


def test_the_form_is_what_the_documentation_shows():
    bank = Bank(1, (draft(1, "", id="g001"), draft(2, id="t001", scope="household 3")))
    assert to_markdown(bank) == (
        "# Skills\n\n"
        "## General skills\n\n"
        "### Rule 1\n\n"
        "- Do: Take the object of shelf 1 first.\n"
        "- When: When you search.\n"
        "- Id: g001\n\n"
        "## Skills for heat tasks in household 3\n\n"
        "### Rule 2\n\n"
        "- Do: Take the object of shelf 2 first.\n"
        "- When: When you search.\n"
        "- Category: heat\n"
        "- Scope: household 3\n"
        "- Id: t001\n"
    )


def test_only_active_skills_are_written():
    retired = draft(1, id="t001", status=SkillStatus.RETIRED)
    assert "Rule" not in to_markdown(Bank(1, (retired,)))


def test_drafts_are_quarantined_and_have_no_id():
    (one,) = from_markdown("### Rule 1\n- Do: Look.\n- Id: t009")
    assert (one.id, one.status, one.kind) == ("", SkillStatus.PENDING, SkillKind.GENERAL)


def test_plain_bullets_are_skills_where_there_are_no_others():
    drafts = from_markdown(
        "# Advice\n\n* **Look first.** Then take it.\n2) Count all the items twice now."
    )
    assert [(one.name, one.principle) for one in drafts] == [
        ("Look first", "Then take it."),
        ("Count all the items twice", "Count all the items twice now."),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "my file has no skills"),
        ("# Title\n\nWords.", "my file has no skills"),
        ("### A\n- Do: Look.\n- Wehn: Now.", "skill 'A': unknown part 'Wehn'. Did you mean 'When'"),
        ("### A\n- Do: Look.\n- Do: Leave.", "skill 'A': it has two parts 'Do'"),
        ("### A\n- Do: Look.\n- Avoid: Leaving.", "all of Avoid, Mistaken belief and Instead"),
    ],
)
def test_a_wrong_document_is_explained(text, message):
    with pytest.raises(DataError, match=message):
        from_markdown(text, "my file")


def test_what_holds_in_one_place_and_is_of_no_category_comes_back_as_task_specific():
    known = replace(draft(0), kind=SkillKind.TASK_SPECIFIC, category="", scope="household 3")
    (back,) = from_markdown(to_markdown(Bank(1, (replace(known, id="t001"),))))
    assert (back.kind, back.scope) == (SkillKind.TASK_SPECIFIC, "household 3")
    assert back.content_digest == known.content_digest


def test_a_name_may_end_in_a_hash():
    (back,) = from_markdown("### Prefer C#\n- Do: Write it.\n### Closed ##\n")
    assert back.name == "Prefer C#"
