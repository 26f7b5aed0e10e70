"""Skill documents: hashes and protected regions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import PlainSkill, Task, skill_hash
from skillwright.core.skill import (
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    body,
    inject_empty_appendix,
    inject_empty_slow_update,
    protected_regions,
    replace_slow_update_field,
    slow_update_field,
    without_markers,
)

S = "# T\n\n- a\n- b"
BLOCK = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
P = f"# T\n\n- a\n\n\n{BLOCK}"


@pytest.mark.parametrize(
    ("text", "expected"), [("", "e3b0c44298fc1c14"), ("hello", "2cf24dba5fb0a30e")]
)
def test_a_skill_is_named_by_the_head_of_its_sha_256(text, expected):
    assert skill_hash(text) == expected


def test_a_lone_surrogate_of_a_model_has_a_hash_too():
    assert len(skill_hash("\ud800")) == 16


def test_the_slow_update_field_is_replaced_by_one_block_at_the_end():
    assert replace_slow_update_field(P, "NEW") == f"# T\n\n- a\n\n{BLOCK.replace('g', 'NEW')}"
    assert replace_slow_update_field(f"{BLOCK}{P}", " NEW \n").count(SLOW_UPDATE_START) == 1
    assert slow_update_field(P) == "g"
    assert slow_update_field(S) == ""


def test_empty_regions_are_injected_once():
    slow = inject_empty_slow_update(S)
    assert slow == f"{S}\n\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n"
    assert inject_empty_slow_update(slow) == slow
    appendix = inject_empty_appendix(S)
    assert appendix == (
        f"{S}\n\n<!-- APPENDIX_START -->\n## Execution Notes Appendix\n<!-- APPENDIX_END -->\n"
    )
    assert inject_empty_appendix(appendix) == appendix


def test_regions_are_found_in_document_order_and_left_out_of_the_body():
    text = inject_empty_slow_update(inject_empty_appendix(S))
    first, second = protected_regions(text)
    assert text[first.start :].startswith(APPENDIX_START)
    assert text[second.start :].startswith(SLOW_UPDATE_START)
    assert body(text).strip() == S


def test_a_marker_without_its_partner_protects_nothing_and_does_not_survive_a_slow_update():
    text = f"# T\n{SLOW_UPDATE_START}\n- a"
    assert protected_regions(text) == []
    updated = replace_slow_update_field(text, "NEW")
    assert slow_update_field(updated) == "NEW"
    assert "- a" in body(updated)


PIECES = st.lists(
    st.sampled_from([SLOW_UPDATE_START, SLOW_UPDATE_END, "<!-- SLOW_", "START -->", "x", "\n"]),
    max_size=10,
).map("".join)


@given(PIECES, PIECES)
def test_a_slow_update_can_always_be_read_back(text, content):
    updated = replace_slow_update_field(text, content)
    assert slow_update_field(updated) == without_markers(content)
    assert updated.count(SLOW_UPDATE_START) == 1


@given(PIECES)
def test_no_marker_survives_its_removal(text):
    assert SLOW_UPDATE_START not in without_markers(text)
    assert SLOW_UPDATE_END not in without_markers(text)


def test_a_plain_skill_tells_every_task_the_same():
    context = PlainSkill("hello").context(Task("t", "guess"))
    assert (context.text, context.version) == ("hello", "2cf24dba5fb0a30e")
    assert (context.skill_ids, context.scores) == ((), ())
