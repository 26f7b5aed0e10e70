"""A document enters a run with plain line breaks, so that its anchors can be quoted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Edit, apply_edit
from skillwright.textopt import plain_document


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("# Skill\r\n\r\n- a\r\n", "# Skill\n\n- a\n"),
        ("old\rmac\r", "old\nmac\n"),
        ("\ufeff# Skill\n", "# Skill\n"),
        ("- a\n- b", "- a\n- b"),
        ("", ""),
    ],
)
def test_line_breaks_become_plain_and_the_rest_stays(written, plain):
    assert plain_document(written) == plain


@given(st.lists(st.sampled_from(["\r\n", "\r", "\n", "\ufeff", "a"])).map("".join))
def test_a_plain_document_stays_as_it_is(text):
    plain = plain_document(text)
    assert "\r" not in plain
    assert plain_document(plain) == plain


def test_an_anchor_over_two_lines_is_found_in_a_document_from_windows():
    edit = Edit("replace", "- c", "- a\n- b")
    document = "# Skill\r\n- a\r\n- b\r\n"
    assert apply_edit(document, edit) == document
    assert apply_edit(plain_document(document), edit) == "# Skill\n- c\n"
