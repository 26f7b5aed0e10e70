"""Selected edits become a candidate; each edit says what became of it and where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Edit, Patch, apply_patch_with_report, skill_hash
from skillwright.core.jsonio import encode
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    protected_regions,
    without_markers,
)
from skillwright.textopt import EditLimits, Proposal, apply_proposals

SKILL = "# T\n\n- a\n- b\n"
REGION = f"{SLOW_UPDATE_START}\nslow guidance\n{SLOW_UPDATE_END}\n"
GUARDED = f"{SKILL}\n{REGION}"


LIMITS = EditLimits()


def updated(skill, *edits, limits=LIMITS):
    proposals = [Proposal(f"e{i}", Edit(*edit), "failure") for i, edit in enumerate(edits, 1)]
    return apply_proposals(skill, proposals, limits)


def lines_of(update):
    return [
        update.candidate.splitlines()[o.lines[0] - 1 : o.lines[1]] if o.lines else None
        for o in update.outcomes
    ]


def test_a_candidate_has_its_hash_and_each_edit_its_lines():
    update = updated(
        SKILL,
        ("append", "## New\n\n- z"),
        ("insert_after", "- a1", "- a"),
        ("replace", "- B", "- b"),
        ("delete", "", "# T\n\n"),
    )
    assert update.candidate == "- a\n\n- a1\n- B\n\n## New\n\n- z\n"
    assert update.candidate_hash == skill_hash(update.candidate)
    assert [o.lines for o in update.outcomes] == [(6, 8), (3, 3), (4, 4), None]
    assert lines_of(update) == [["## New", "", "- z"], ["- a1"], ["- B"], None]
    assert update.counts == {"total": 4, "applied": 4, "skipped": 0, "refused": 0, "errors": 0}
    assert update.is_noop is False


def test_a_later_edit_that_overwrites_an_earlier_one_takes_its_lines():
    update = updated(SKILL, ("append", "one\ntwo\nthree"), ("replace", "2", "two\nthree"))
    assert update.candidate == "# T\n\n- a\n- b\n\none\n2\n"
    assert lines_of(update) == [["one"], ["2"]]
    gone = updated(SKILL, ("append", "one"), ("replace", "other", "one"))
    assert lines_of(gone) == [None, ["other"]]


def test_contradicting_edits_have_an_outcome_each():
    update = updated(
        SKILL, ("replace", "- B", "- b"), ("replace", "- C", "- b"), ("delete", "", "- b")
    )
    assert [o.status for o in update.outcomes] == [
        "applied_replace",
        "skipped_replace_target_not_found",
        "skipped_delete_target_not_found",
    ]
    assert update.counts["skipped"] == 2


def test_an_unchanged_text_is_a_no_op():
    assert updated(SKILL).is_noop
    assert updated(SKILL, ("replace", "- a", "- a"), ("delete", "", "zz")).is_noop


def test_a_report_row_has_the_documented_keys_and_ours():
    (outcome,) = updated(SKILL, ("append", "x" * 300)).outcomes
    assert encode(outcome) == {
        "index": 1,
        "op": "append",
        "target": "",
        "content_preview": "x" * 200,
        "status": "applied_append",
        "proposal_id": "e1",
        "lines": [6, 6],
    }


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (("append", "x" * 1_000_000), "refused_too_long"),
        (("replace", "x", "y" * 30_000), "refused_too_long"),
        (("append", "zero\u200bwidth"), "refused_invisible_characters"),
        (("append", "right\u202eleft"), "refused_invisible_characters"),
        (("append", "bell\x07"), "refused_invisible_characters"),
        (("append", "over\rwrite"), "refused_invisible_characters"),
        (("append", "tag\U000e0041"), "refused_invisible_characters"),
        (("append", "half\ud800"), "refused_invisible_characters"),
    ],
)
def test_an_edit_that_no_skill_should_have_is_refused(edit, status):
    update = updated(SKILL, edit, ("append", "fine"))
    assert [o.status for o in update.outcomes] == [status, "applied_append"]
    assert update.candidate == SKILL + "\nfine\n"
    assert update.counts["refused"] == 1


def test_ordinary_letters_of_any_language_are_welcome():
    text = "Öffne — «дверь» 門 ⚠️ \t✓"
    assert updated("", ("append", text)).candidate == f"{text}\n"


def test_hidden_characters_may_be_taken_out():
    assert updated("a\u200bb", ("replace", "ab", "a\u200bb")).candidate == "ab"


def test_a_skill_over_its_limit_may_shrink_and_not_grow():
    limits = EditLimits(max_skill_chars=10)
    update = updated(SKILL, ("append", "more"), ("delete", "", "- a\n"), limits=limits)
    assert [o.status for o in update.outcomes] == ["refused_too_long", "applied_delete"]


def test_an_edit_with_a_field_of_the_wrong_type_is_an_error():
    update = updated(SKILL, ("append", None))
    assert (update.outcomes[0].status, update.is_noop) == ("error", True)
    assert update.counts["errors"] == 1


def test_a_region_is_neither_changed_nor_left_behind():
    update = updated(
        GUARDED,
        ("append", "- c"),
        ("replace", "evil", "slow guidance"),
        ("delete", "", SLOW_UPDATE_START),
        ("insert_after", "- d", "not there"),
    )
    assert [o.status for o in update.outcomes] == [
        "applied_append_before_protected_region",
        "skipped_protected_region",
        "skipped_protected_region",
        "applied_insert_after_fallback_before_protected_region",
    ]
    assert update.candidate == f"{SKILL}\n- c\n\n- d\n\n{REGION}"
    assert lines_of(update) == [["- c"], None, None, ["- d"]]


@pytest.mark.parametrize(
    ("skill", "status"),
    [(SKILL, "refused_forged_region"), (GUARDED, "skipped_protected_region")],
)
@pytest.mark.parametrize(
    "second",
    [("replace", "UPDATE", "X~~X"), ("replace", "UPDATE_", "X~~X_"), ("delete", "", "X~~X")],
)
def test_two_harmless_edits_cannot_put_a_marker_together(skill, status, second):
    start = "UPDATE" if second[0] == "delete" else ""
    first = ("append", f"<!-- SLOW_{start}X~~X_START --> mine")
    update = updated(skill, first, second)
    assert update.outcomes[0].is_applied
    assert update.outcomes[1].status == status
    assert update.candidate.count(SLOW_UPDATE_START) == skill.count(SLOW_UPDATE_START)


def test_a_marker_inside_a_marker_is_taken_out_too():
    nested = f"<!-- SLOW_{SLOW_UPDATE_START}UPDATE_START -->mine"
    assert updated(SKILL, ("append", nested)).candidate == SKILL + "\nmine\n"


def test_a_marker_as_such_is_taken_out_of_the_text():
    assert updated(SKILL, ("append", f"u {APPENDIX_START} v")).candidate == SKILL + "\nu  v\n"


MARKERS = [SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END]
pieces = st.sampled_from(
    [*MARKERS, "<!-- ", "SLOW_", "UPDATE_", "START", " -->", "a", "\n", "x", " "]
)
texts = st.lists(pieces, max_size=5).map("".join)
edits = st.tuples(st.sampled_from(["append", "insert_after", "replace", "delete"]), texts, texts)
plain_skills = st.lists(st.sampled_from(["a", "x", "\n", "- b\n", " "]), max_size=8).map("".join)


@given(plain_skills, st.booleans(), st.lists(edits, max_size=6))
def test_protected_regions_come_out_as_they_went_in(body, is_guarded, many):
    skill = f"{body}\n{REGION}" if is_guarded else body
    candidate = updated(skill, *many).candidate
    regions = [candidate[s.start : s.end] for s in protected_regions(candidate)]
    assert regions == ([REGION.rstrip("\n")] if is_guarded else [])
    assert all(candidate.count(marker) == skill.count(marker) for marker in MARKERS)


@given(plain_skills, st.lists(edits, max_size=6))
def test_without_a_refusal_the_text_is_that_of_the_documented_update(body, many):
    update = updated(body, *many, limits=EditLimits(as_written=True))
    text, report = apply_patch_with_report(body, Patch([Edit(*edit) for edit in many]))
    if update.counts["refused"] == 0:
        assert update.candidate == text
        assert [(o.index, o.status) for o in update.outcomes] == [
            (row["index"], row["status"]) for row in report
        ]


@given(plain_skills, edits)
def test_the_lines_of_an_edit_hold_its_text(body, edit):
    update = updated(body, edit)
    (outcome,) = update.outcomes
    if outcome.is_applied and edit[0] != "delete" and outcome.lines:
        first, last = outcome.lines
        shown = "\n".join(update.candidate.split("\n")[first - 1 : last])
        assert without_markers(edit[1]) in shown
