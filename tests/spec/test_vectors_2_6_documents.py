"""The published vectors of SkillOpt's documents: hashes, scores, the gate, and every edit.

They were observed by running the original (microsoft/SkillOpt, after v0.2.0); ours match exactly.
"""

import pytest

from skillwright.core import Edit, Patch, apply_edit, apply_patch_with_report, skill_hash
from skillwright.core.skill import (
    inject_empty_appendix,
    inject_empty_slow_update,
    replace_slow_update_field,
)
from skillwright.evaluation import compute_semantic_density, evaluate_gate, select_gate_score

S = "# T\n\n- a\n- b"
B = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
P = "# T\n\n- a\n\n\n" + B


@pytest.mark.parametrize(
    ("text", "digest"), [("", "e3b0c44298fc1c14"), ("hello", "2cf24dba5fb0a30e")]
)
def test_hash(text, digest):
    assert skill_hash(text) == digest


def test_mixed_score_of_a_half_and_eight_tenths_at_a_quarter():
    assert select_gate_score(0.5, 0.8, "mixed", 0.25) == 0.575


def test_density_of_the_published_sentence():
    assert compute_semantic_density("You MUST always verify the answer.") == 0.5


@pytest.mark.parametrize(
    ("score", "action", "current", "best", "best_step"),
    [
        (0.6, "accept", 0.6, 0.7, 1),
        (0.8, "accept_new_best", 0.8, 0.8, 3),
        (0.5, "reject", 0.5, 0.7, 1),
        (0.7, "accept", 0.7, 0.7, 1),
    ],
)
def test_gate_at_current_a_half_and_best_seven_tenths(score, action, current, best, best_step):
    judged = evaluate_gate("new", score, "current", 0.5, "best", 0.7, 1, 3)
    assert judged.action == action
    assert (judged.current_score, judged.best_score, judged.best_step) == (current, best, best_step)


@pytest.mark.parametrize(
    ("skill", "edit", "result"),
    [
        (S, Edit("append", "  x \n"), "# T\n\n- a\n- b\n\nx\n"),
        (S, Edit("append", ""), "# T\n\n- a\n- b\n\n\n"),
        (S, Edit("insert_after", "x", "- a"), "# T\n\n- a\n\nx\n- b"),
        (S, Edit("insert_after", "x", "- b"), "# T\n\n- a\n- b\nx\n"),
        (S, Edit("insert_after", "x", "zz"), "# T\n\n- a\n- b\n\nx\n"),
        (S, Edit("replace", "Q", "a"), "# T\n\n- Q\n- b"),
        (S, Edit("delete", target="- a"), "# T\n\n\n- b"),
        (P, Edit("append", "x"), "# T\n\n- a\n\nx\n\n" + B),
        (P, Edit("insert_after", "x", "zz"), "# T\n\n- a\n\nx\n\n" + B),
        (P, Edit("append", "u <!-- APPENDIX_START --> v"), "# T\n\n- a\n\nu  v\n\n" + B),
        (P, Edit("replace", "Q", "g"), P),
    ],
)
def test_edit(skill, edit, result):
    assert apply_edit(skill, edit) == result


@pytest.mark.parametrize(
    ("skill", "edit", "status"),
    [
        (S, Edit("append", "x"), "applied_append"),
        (P, Edit("append", "x"), "applied_append_before_protected_region"),
        (S, Edit("insert_after", "x", "- a"), "applied_insert_after"),
        (S, Edit("insert_after", "x", "zz"), "applied_insert_after_fallback_append"),
        (
            P,
            Edit("insert_after", "x", "zz"),
            "applied_insert_after_fallback_before_protected_region",
        ),
        (S, Edit("replace", "Q", "a"), "applied_replace"),
        (S, Edit("delete", target="- a"), "applied_delete"),
        (P, Edit("replace", "Q", "g"), "skipped_protected_region"),
        (S, Edit("replace", "Q", ""), "skipped_replace_missing_target"),
        (S, Edit("delete"), "skipped_delete_missing_target"),
        (S, Edit("replace", "Q", "zz"), "skipped_replace_target_not_found"),
        (S, Edit("delete", target="zz"), "skipped_delete_target_not_found"),
        (S, Edit("rename", "Q", "a"), "skipped_unknown_op"),
        (S, Edit("append", None), "error"),
    ],
)
def test_status_of_an_edit(skill, edit, status):
    (row,) = apply_patch_with_report(skill, Patch([edit]))[1]
    assert row["status"] == status


def test_replace_slow_update_field():
    assert replace_slow_update_field(P, "NEW") == "# T\n\n- a\n\n" + B.replace("g", "NEW")
    assert replace_slow_update_field(f"# T\n\n\n\n- a\n{B}", "g") == f"# T\n\n- a\n\n{B}"


def test_inject_an_empty_slow_update_field():
    region = "<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n"
    assert inject_empty_slow_update(S) == f"{S}\n\n{region}"


def test_inject_an_empty_appendix():
    region = "<!-- APPENDIX_START -->\n## Execution Notes Appendix\n<!-- APPENDIX_END -->\n"
    assert inject_empty_appendix(S) == f"{S}\n\n{region}"
