"""Raw patches of an adapter's own analysts become patches of ours, and what is dropped is said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, make_episode
from skillwright.core import Edit, FailureSummaryEntry, Patch, RawPatch
from skillwright.core.jsonio import encode
from skillwright.textopt import (
    EditLimits,
    Evidence,
    FailureNote,
    Optimizer,
    SkillAware,
    StepContext,
    StepSettings,
    StepStatus,
    TrainRollouts,
    UpdateMode,
    propose,
    read_episodes,
    read_raw_patches,
)

SKILL = "# Skill\n\n- Look first.\n"
CONTEXT = StepContext("s3", SKILL, budget=4, seed=1)
EDIT = {"op": "append", "content": "- Open it."}
TRANSCRIPTS = read_episodes([make_episode(f"T{n}", reward) for n, reward in enumerate([0, 0, 1])])


def read(payloads, **settings):
    return read_raw_patches(
        payloads,
        name="s3",
        transcripts=TRANSCRIPTS,
        settings=StepSettings(**settings),
        context=CONTEXT,
    )


def raw(*edits, source_type="failure", **more):
    return {"patch": {"edits": list(edits or [EDIT])}, "source_type": source_type, **more}


def test_a_raw_patch_becomes_a_patch_with_ids_and_evidence():
    summary = [{"failure_type": "shut", "count": 9, "description": "Doors."}]
    payload = raw(batch_size=2, failure_summary=summary, success_patterns=["fast", 3])
    (patch,) = read([payload]).patches
    assert (patch.call, patch.source_type, patch.trajectories) == (
        "s3.a0",
        "failure",
        ("T0", "T1"),
    )
    (proposal,) = patch.proposals
    assert (proposal.id, proposal.edit.content) == ("s3.a0.e1", "- Open it.")
    assert proposal.evidence == (Evidence("T0"), Evidence("T1"))
    assert patch.failures == (FailureNote("shut", 2, "Doors."),)
    assert (patch.success_patterns, patch.notes) == (("fast",), ())


def test_the_inner_patch_may_stand_alone_and_the_types_may_stand_for_their_objects():
    typed = RawPatch(
        Patch([Edit("append", "- Typed.")], "why"),
        batch_size=1,
        failure_summary=[FailureSummaryEntry("shut", 1)],
    )
    loose = {"patch": Patch([Edit("append", "- Loose.")]), "source_type": "success"}
    bare = {"edits": [EDIT, Edit("append", "- Bare.")], "source_type": "success"}
    patches = read([typed, loose, bare]).patches
    contents = [[one.edit.content for one in patch.proposals] for patch in patches]
    assert contents == [["- Typed."], ["- Loose."], ["- Open it.", "- Bare."]]
    assert [patch.source_type for patch in patches] == ["failure", "success", "success"]
    assert (patches[0].reasoning, patches[0].failures) == ("why", (FailureNote("shut", 1),))


def test_what_is_no_patch_is_dropped_and_said():
    found = read([None, "edits", {"patch": 3}, {"patch": {"edits": "x"}}, {}, raw()])
    assert [patch.call for patch in found.patches] == ["s3.a5"]
    assert found.notes == (
        "s3.a0 is dropped: it is a NoneType, not an object",
        "s3.a1 is dropped: it is a str, not an object",
        "s3.a2 is dropped: its patch is a int, not an object",
        "s3.a3 is dropped: it has no list of 'edits'",
        "s3.a4 is dropped: it has no list of 'edits'",
    )
    assert found.faults == ()


def test_a_patch_of_another_update_mode_says_so():
    (note,) = read([raw()], update_mode=UpdateMode.REWRITE).notes
    assert note == (
        "s3.a0 is dropped: it has 'edits', and this run reads 'revise_suggestions' "
        "(skill_update_mode is rewrite_from_suggestions)"
    )


@pytest.mark.parametrize(
    ("mode", "item"),
    [
        (UpdateMode.REWRITE, {"type": "add_rule", "instruction": "Say it."}),
        (UpdateMode.FULL_REWRITE, {"new_skill": "# New"}),
    ],
)
def test_every_update_mode_has_its_payload(mode, item):
    payload = {"patch": {mode.payload_key: [item]}, "source_type": "failure"}
    (patch,) = read([payload], update_mode=mode).patches
    assert patch.proposals[0].edit.content in ("Say it.", "# New")


@pytest.mark.parametrize(
    ("payload", "side", "notes"),
    [
        ({"edits": [EDIT]}, "failure", ("it does not say its source_type; failure is assumed",)),
        (raw(source_type="both"), "failure", ("source_type 'both' is none; failure is assumed",)),
        (raw(source_type="success"), "success", ()),
    ],
)
def test_a_missing_source_type_is_a_failure_and_a_warning(payload, side, notes):
    (patch,) = read([payload]).patches
    assert (patch.source_type, patch.notes) == (side, notes)
    assert patch.proposals[0].edit.source_type == side


def test_an_edit_may_name_its_own_source():
    (patch,) = read([raw({**EDIT, "source_type": "success"}, EDIT)]).patches
    assert [one.source_type for one in patch.proposals] == ["success", "failure"]
    assert [one.edit.source_type for one in patch.proposals] == ["success", "failure"]


@pytest.mark.parametrize(
    ("size", "count", "notes"),
    [
        (8, 8, ()),
        ("7", 7, ()),
        (0, 1, ()),
        (None, 1, ()),
        ("many", 1, ("batch_size 'many' is no number; 1 is assumed",)),
        (float("inf"), 1, ("batch_size 'inf' is no number; 1 is assumed",)),
    ],
)
def test_batch_size_is_the_support_of_edits_whose_evidence_nobody_names(size, count, notes):
    (patch,) = read([raw(batch_size=size)]).patches
    assert (patch.proposals[0].edit.support_count, patch.notes) == (count, notes)


def test_evidence_is_what_an_edit_cites_or_else_what_its_patch_names():
    cites = {**EDIT, "evidence": [{"id": "T1", "turns": [0, 7]}]}
    (patch,) = read([raw(cites, EDIT, ids=["T1", "T2", "T9"], batch_size=8)]).patches
    assert patch.trajectories == ("T1", "T2")
    assert [one.evidence for one in patch.proposals] == [
        (Evidence("T1", (0,)),),
        (Evidence("T1"), Evidence("T2")),
    ]
    assert [one.edit.support_count for one in patch.proposals] == [1, 2]


def test_edits_pass_the_checks_of_our_own_analysts():
    bad = [
        {"op": "append", "content": "x" * 101},
        {"op": "move"},
        {"op": "append", "content": "hid\u200bden"},
        "text",
    ]
    (patch,) = read([raw(*bad, EDIT)], limits=EditLimits(max_edit_chars=100)).patches
    assert [one.id for one in patch.proposals] == ["s3.a0.e5"]
    assert patch.notes[0] == "e1 is dropped: its 101 characters are more than the 100 of an edit"
    assert len(patch.notes) == 4


def test_notes_for_the_appendix_are_taken_where_the_run_wants_them():
    payload = raw(appendix_notes=["Open doors."])
    assert read([payload]).patches[0].execution_notes == ()
    aware = read([payload], skill_aware=SkillAware()).patches[0]
    assert aware.execution_notes == ("Open doors.",)


async def test_an_adapters_patches_make_a_candidate():
    async def reflect(context):
        payloads = [raw(), None, raw({"op": "append", "content": "- Fast."}, source_type="success")]
        return read_raw_patches(
            payloads,
            name=context.name,
            transcripts=TRANSCRIPTS,
            settings=StepSettings(),
            context=context,
        )

    async def played():
        return TrainRollouts(TRANSCRIPTS, seed=1, reflect=reflect)

    keep = {"edits": [{**EDIT, "sources": ["p1.e1", "p2.e1"]}]}
    model = ScriptedReplies([keep])
    step = await propose(Optimizer(model), StepSettings(), CONTEXT, [played()])
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate == f"{SKILL}\n- Open it.\n"
    assert step.selection.proposals[0].support == 3
    assert step.to_dict()["reflection_notes"] == [
        "s3.a1 is dropped: it is a NoneType, not an object"
    ]


keys = st.sampled_from(
    ["patch", "edits", "source_type", "batch_size", "failure_summary", "evidence", "op", "content"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(anything, max_size=4), st.sampled_from(list(UpdateMode)))
def test_whatever_an_adapter_returns_is_read_or_said(payloads, mode):
    found = read(payloads, update_mode=mode)
    assert len(found.patches) + len(found.notes) == len(payloads)
    json.dumps(encode(found.patches))
