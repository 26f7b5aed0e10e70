"""Skills, patches, edits and verdicts in the store."""

import pytest

from skillwright.core import Edit, Failure, FailureCause, RunError, skill_hash
from skillwright.core.jsonio import text_digest
from skillwright.runs import EditRecord, PatchRecord, SkillVersion, VerdictRecord

PROMPT = text_digest("prompt")


def test_skill_versions_are_appended_and_never_changed(store):
    assert store.add_skill_version("", origin="initial_skill") == 0
    assert store.add_skill_version("- a", parent=0, origin="step_0001", step=1) == 1
    assert store.add_skill_version("- a", parent=1, origin="step_0002", step=2) == 2
    assert [store.skill(version) for version in range(3)] == ["", "- a", "- a"]
    assert store.skills()[1] == SkillVersion(1, skill_hash("- a"), 0, "step_0001", 1, 1001.0)


def test_an_unknown_skill_version_is_refused_with_the_newest(store):
    with pytest.raises(RunError, match="no skill version 0; it has none yet"):
        store.skill(0)
    store.add_skill_version("x")
    with pytest.raises(RunError, match="no skill version 7; the newest is 0"):
        store.skill(7)


def test_patches_keep_their_inputs_reasoning_and_faults(store):
    analyst = PatchRecord(
        step=1,
        id="s1.f0",
        source_type="failure",
        inputs=("t1", "t2"),
        edits=("s1.f0.e1",),
        reasoning="Receptacles stay closed.",
        details={"failures": [{"failure_type": "closed", "count": 2}]},
        prompt_digest=PROMPT,
    )
    fault = Failure(FailureCause.REPLY, "no JSON")
    broken = PatchRecord(1, "s1.s0", "success", ("t3",), failure=fault)
    merge = PatchRecord(1, "s1.final", "", ("s1.f0.e1",), ("s1.final.e1",), level=1)
    later = PatchRecord(2, "s2.f0", "failure", ("t1",))
    store.record_patches([merge, analyst, broken, later])
    assert store.patches(1) == [analyst, broken, merge]
    assert store.patches() == [analyst, broken, merge, later]


def edit(name="s1.f0.e1", **changes):
    return EditRecord(
        step=1,
        id=name,
        edit=Edit("insert_after", "- open", "# T", 2, "failure", None, "step_0001", "body"),
        evidence=(("t1", (3, 4)), ("t2", ())),
        prompt_digest=PROMPT,
        **changes,
    )


def test_edits_keep_their_provenance_and_their_fate(store):
    merged = edit("s1.final.e1", parents=("s1.f0.e1", "s1.f1.e1"), stage="merged")
    store.record_edits([edit(), merged])
    assert store.edits(1) == [edit(), merged]

    applied = edit(
        "s1.final.e1",
        parents=("s1.f0.e1", "s1.f1.e1"),
        stage="selected",
        status="applied_insert_after",
        lines=(3, 4),
    )
    store.record_edits([applied])  # more is known of it now
    assert store.edits(1) == [edit(), applied]
    assert store.edits(2) == []


def test_an_edit_is_told_with_the_verdict_on_its_step(store):
    store.record_edits([edit()])
    assert store.edits()[0].verdict == ""
    store.record_verdict(VerdictRecord(1, {"decision": "accept", "reason": "gain"}))
    slow = VerdictRecord(1, {"decision": "reject", "reason": "no gain"}, origin="slow_update")
    store.record_verdict(slow)
    assert store.edits()[0] == edit(verdict="accept")


def test_verdicts_can_be_queried_by_column_and_come_back_whole(store, database):
    body = {
        "decision": "accept",
        "reason": "gain +0.1000",
        "effect": 0.1,
        "interval": [0.02, 0.18],
        "p_value": 0.01,
        "rollouts": 48,
        "pairs": 24,
    }
    store.record_verdict(VerdictRecord(2, body, candidate="abcd"))
    skipped = VerdictRecord(1, {"decision": "undecided", "reason": "lost pairs", "interval": None})
    store.record_verdict(skipped)
    assert store.verdicts() == [skipped, VerdictRecord(2, body, "abcd")]
    columns = "decision, effect, low, high, p_value, rollouts, reason, candidate"
    row = database.rows(f"SELECT {columns} FROM verdicts WHERE step = 2")[0]
    assert tuple(row) == ("accept", 0.1, 0.02, 0.18, 0.01, 48, "gain +0.1000", "abcd")


def test_deciding_a_step_again_after_a_resume_leaves_one_verdict(store):
    for _ in range(2):
        store.record_verdict(VerdictRecord(1, {"decision": "accept", "reason": "gain"}))
    assert len(store.verdicts()) == 1
