"""Edits: what they do to a skill, and what is said about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import (
    ContractError,
    Edit,
    FailureSummaryEntry,
    Patch,
    RolloutResult,
    SlowUpdateResult,
    apply_edit,
    apply_patch,
    apply_patch_with_report,
)
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    protected_regions,
)

S = "# T\n\n- a\n- b"
BLOCK = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
P = f"# T\n\n- a\n\n\n{BLOCK}"


def status_of(skill, edit):
    return apply_patch_with_report(skill, Patch([edit]))[1][0]["status"]


@pytest.mark.parametrize(
    ("skill", "edit", "result", "status"),
    [
        (S, Edit("append", ""), "# T\n\n- a\n- b\n\n\n", "applied_append"),
        (S, Edit("insert_after", "x", "- b"), "# T\n\n- a\n- b\nx\n", "applied_insert_after"),
        (
            S,
            Edit("insert_after", "x", ""),
            "# T\n\n- a\n- b\n\nx\n",
            "applied_insert_after_fallback_append",
        ),
        (S, Edit("replace", "Q", ""), S, "skipped_replace_missing_target"),
        (S, Edit("delete", "Q", ""), S, "skipped_delete_missing_target"),
        (S, Edit("replace", "Q", "zz"), S, "skipped_replace_target_not_found"),
        (S, Edit("delete", "", "zz"), S, "skipped_delete_target_not_found"),
        (S, Edit("rename", "Q", "a"), S, "skipped_unknown_op"),
        (S, Edit(None, "Q", "a"), S, "skipped_unknown_op"),
        (S, Edit("append", None), S, "error"),
        (S, Edit("delete", None, "a"), S, "error"),
        (S, Edit("replace", "Q", 7), S, "error"),
        (
            P,
            Edit("append", "u <!-- APPENDIX_START --> v"),
            f"# T\n\n- a\n\nu  v\n\n{BLOCK}",
            "applied_append_before_protected_region",
        ),
        (P, Edit("delete", "", "SLOW_UPDATE_START"), P, "skipped_protected_region"),
        (P, Edit("insert_after", "x", "g\n"), P, "skipped_protected_region"),
        (
            f"{BLOCK}later g",
            Edit("replace", "Q", "g"),
            f"{BLOCK}later g",
            "skipped_protected_region",
        ),
    ],
)
def test_an_edit_does_what_the_original_does_byte_for_byte(skill, edit, result, status):
    assert apply_edit(skill, edit) == result
    assert status_of(skill, edit) == status


def test_edits_run_in_order_on_the_evolving_text_and_each_is_reported():
    patch = Patch(
        [
            Edit("append", "- c"),
            Edit("insert_after", "- d", "- c"),
            Edit("delete", target="z" * 300),
            "no edit at all",
            Edit("replace", "y" * 300, "# T"),
        ]
    )
    text, report = apply_patch_with_report(S, patch)
    assert text == apply_patch(S, patch)
    assert text.startswith("y" * 300)
    assert text.endswith("- a\n- b\n\n- c\n\n- d\n")
    assert [row["index"] for row in report] == [1, 2, 3, 4, 5]
    assert [row["status"] for row in report] == [
        "applied_append",
        "applied_insert_after",
        "skipped_delete_target_not_found",
        "error",
        "applied_replace",
    ]
    assert report[1] == {
        "index": 2,
        "op": "insert_after",
        "target": "- c",
        "content_preview": "- d",
        "status": "applied_insert_after",
    }
    assert report[2]["target"] == "z" * 200
    assert report[4]["content_preview"] == "y" * 200
    assert report[3] == {
        "index": 4,
        "op": "",
        "target": "",
        "content_preview": "",
        "status": "error",
    }


def test_matching_is_exact_and_takes_the_first_occurrence_even_in_a_word():
    assert apply_edit("can a cat", Edit("replace", "x", "ca")) == "xn a cat"
    assert apply_edit("a  b", Edit("replace", "x", "a b")) == "a  b"


def test_no_edit_can_forge_a_region():
    nested = "<!-- APPENDIX_<!-- APPENDIX_START -->START --> x <!-- APPENDIX_END -->"
    assert not protected_regions(apply_edit(S, Edit("append", nested)))

    halves = "<!-- APPENDIX_|START -->\nmine\n<!-- APPENDIX_|END -->"
    glued, report = apply_patch_with_report(
        halves, Patch([Edit("delete", target="|"), Edit("delete", target="|")])
    )
    assert not protected_regions(glued)
    assert report[-1]["status"] == "skipped_protected_region"


def test_no_edit_can_write_into_a_region_that_opens_on_the_line_of_its_target():
    skill = f"- a {BLOCK}"
    assert apply_edit(skill, Edit("insert_after", "x", "- a")) == skill


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            SLOW_UPDATE_START,
            SLOW_UPDATE_END,
            APPENDIX_START,
            APPENDIX_END,
            "<!-- SLOW_UPDATE_",
            "START -->",
            "END -->",
            "- a",
            "\n",
            " ",
        ]
    ),
    max_size=8,
).map("".join)
EDITS = st.builds(
    Edit, st.sampled_from(["append", "insert_after", "replace", "delete"]), FRAGMENTS, FRAGMENTS
)


@given(FRAGMENTS, st.lists(EDITS, max_size=4))
def test_whatever_edits_do_the_protected_regions_stay_as_they_are(skill, edits):
    def regions(text):
        return [text[span.start : span.end] for span in protected_regions(text)]

    assert regions(apply_patch(skill, Patch(edits))) == regions(skill)


def test_an_edit_reads_and_writes_its_documented_form():
    assert Edit.from_dict({"content": "x", "confidence": 0.9}) == Edit("append", "x")
    assert Edit.from_dict({"op": "Delete", "support_count": "3"}).support_count == "3"  # no cast
    assert Edit("append", "x").to_dict() == {"op": "append", "content": "x"}
    full = Edit("replace", "new", "old", 0, "success", 0, "step_0001", "skill")
    assert full.to_dict() == {
        "op": "replace",
        "content": "new",
        "target": "old",
        "support_count": 0,
        "source_type": "success",
        "merge_level": 0,
        "update_origin": "step_0001",
        "update_target": "skill",
    }
    assert Edit.from_dict(full.to_dict()) == full


@pytest.mark.parametrize("data", ["x", "", None, [], [{"op": "append"}], 3, {"op"}, Edit("append")])
def test_what_is_no_mapping_is_no_edit_and_no_patch(data):
    with pytest.raises(ContractError, match=r"an edit must be a mapping of its fields, not "):
        Edit.from_dict(data)
    with pytest.raises(ContractError, match=r"a patch must be a mapping of its fields, not "):
        Patch.from_dict(data)
    for kind in (RolloutResult, FailureSummaryEntry, SlowUpdateResult):
        with pytest.raises(ContractError, match="must be a mapping"):
            kind.from_dict(data)


@pytest.mark.parametrize("edits", ["x", {"op": "append"}, 3, None])
def test_edits_that_are_no_list_are_refused(edits):
    with pytest.raises(ContractError, match=r"the edits of a patch are .*, not a list"):
        Patch.from_dict({"edits": edits})


def test_a_patch_reads_and_writes_its_documented_form():
    patch = Patch.from_dict({"edits": [{"content": "x"}, "odd"], "reasoning": "why", "extra": 1})
    assert patch.edits == [Edit("append", "x"), "odd"]
    assert Patch().to_dict() == {"reasoning": "", "edits": []}
    ranked = Patch([Edit("append", "x")], "why", {"selected_indices": [0]})
    assert list(ranked.to_dict()) == ["reasoning", "edits", "ranking_details"]
    assert Patch.from_dict(ranked.to_dict()) == ranked
    assert Patch.from_dict({}) == Patch()
