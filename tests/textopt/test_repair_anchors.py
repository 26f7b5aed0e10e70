"""An edit whose anchor is lost goes back to the optimizer once; what is repaired says so."""

import json

import pytest

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import Edit, ModelError, Purpose
from skillwright.textopt import (
    Optimizer,
    Proposal,
    StepContext,
    StepSettings,
    StepStatus,
    apply_proposals,
    nearest_passages,
    propose,
    repair_anchors,
)

SKILL = "# Rules\n\n- Look into every cabinet.\n- Take what you need.\n"
CONTEXT = StepContext("s3", SKILL, budget=4)


def proposals(*edits):
    return [Proposal(f"e{n}", Edit(*edit), "failure") for n, edit in enumerate(edits, 1)]


async def repaired(edits, replies, settings=None, skill=SKILL):
    settings = settings or StepSettings()
    model = ScriptedReplies(replies)
    wanted = proposals(*edits)
    first = apply_proposals(
        skill, wanted, settings.limits, insert_after_fallback=settings.insert_after_fallback
    )
    context = StepContext("s3", skill, budget=4, seed=1)
    update, record = await repair_anchors(
        Optimizer(model, repair_rounds=0), settings, context, wanted, first
    )
    return update, record, model


def anchors(*found):
    return {"anchors": [{"id": i, "op": op, "target": target} for i, op, target in found]}


BROKEN = ("replace", "- Open every cabinet.", "- Look in every cabinet.")
SOUND = ("append", "- Be quick.")


async def test_a_lost_anchor_is_found_again_and_its_edit_applied_with_a_loud_status():
    update, record, model = await repaired(
        [BROKEN, SOUND], [anchors(("e1", "replace", "- Look into every cabinet."))]
    )
    assert (
        update.candidate
        == "# Rules\n\n- Open every cabinet.\n- Take what you need.\n\n- Be quick.\n"
    )
    assert [o.status for o in update.outcomes] == ["repaired_replace", "applied_append"]
    assert [(o.proposal_id, o.index, o.lines) for o in update.outcomes] == [
        ("e1", 1, (3, 3)),
        ("e2", 2, (6, 6)),
    ]
    assert update.counts == {"total": 2, "applied": 2, "skipped": 0, "refused": 0, "errors": 0}
    assert (record.asked, record.repaired) == (("e1",), ("e1",))
    assert model.asked[0].purpose is Purpose.REPAIR


async def test_the_optimizer_is_shown_the_nearest_lines_and_the_other_edits_as_made():
    _, _, model = await repaired([BROKEN, SOUND], [anchors()])
    shown = json.loads(model.asked[0].user.split("## Edits\n")[1])
    assert shown[0]["nearest"][0] == "- Look into every cabinet."
    assert "- Be quick." in model.asked[0].user.split("## Edits")[0]


async def test_all_lost_anchors_go_back_together_and_only_once():
    lost = ("delete", "", "not there")
    update, record, model = await repaired([lost, BROKEN], [anchors(("e2", "replace", "no"))])
    assert len(model.asked) == 1
    assert record.asked == ("e1", "e2")
    assert [o.status for o in update.outcomes] == [
        "skipped_delete_target_not_found",
        "skipped_replace_target_not_found",
    ]
    assert update.is_noop
    assert "not in the document either" in " ".join(record.notes)


async def test_nobody_is_asked_where_every_anchor_is_found_or_repair_is_off():
    update, record, _ = await repaired([SOUND], [])
    assert (record, update.counts["applied"]) == (None, 1)
    _, record, _ = await repaired([BROKEN], [], StepSettings(repair_anchors=False))
    assert record is None


async def test_an_insertion_without_its_anchor_is_repaired_and_not_appended_in_silence():
    insertion = ("insert_after", "- Second.", "- Take all that you need.")
    update, _, _ = await repaired(
        [insertion], [anchors(("e1", "insert_after", "- Take what you need."))]
    )
    assert update.outcomes[0].status == "repaired_insert_after"
    update, _, _ = await repaired([insertion], [anchors(("e1", "append", ""))])
    assert update.outcomes[0].status == "repaired_append"
    update, _, _ = await repaired([insertion], [anchors()])
    assert update.outcomes[0].status == "skipped_insert_after_target_not_found"
    update, _, _ = await repaired([("insert_after", "- x", "")], [anchors()])
    assert update.outcomes[0].status == "skipped_insert_after_missing_target"


async def test_parity_keeps_the_fallback_of_an_insertion():
    settings = StepSettings(insert_after_fallback=True)
    update, record, _ = await repaired([("insert_after", "- x", "gone")], [], settings)
    assert update.outcomes[0].status == "applied_insert_after_fallback_append"
    assert record is None


async def test_only_the_anchor_may_change():
    reply = anchors(("e1", "delete", "- Look into every cabinet."))
    reply["anchors"][0]["content"] = "- Something else."
    update, _, _ = await repaired([BROKEN], [reply])
    assert "- Open every cabinet." in update.candidate
    assert "Something else" not in update.candidate


async def test_an_anchor_in_a_protected_region_is_refused():
    skill = f"{SKILL}\n<!-- SLOW_UPDATE_START -->\nguidance\n<!-- SLOW_UPDATE_END -->\n"
    update, record, _ = await repaired(
        [BROKEN], [anchors(("e1", "replace", "guidance"))], skill=skill
    )
    assert update.outcomes[0].status == "skipped_protected_region"
    assert (update.is_noop, record.repaired) == (True, ())


@pytest.mark.parametrize("reply", ["prose", ModelError("503"), {"anchors": 3}])
async def test_a_reply_that_cannot_be_used_is_a_fault_and_changes_nothing(reply):
    update, record, _ = await repaired([BROKEN, SOUND], [reply])
    assert record.fault.call == "s3.repair"
    assert [o.status for o in update.outcomes] == [
        "skipped_replace_target_not_found",
        "applied_append",
    ]


@pytest.mark.parametrize("item", [3, None, {}, {"id": "e9", "target": "x"}, {"id": "e1"}])
async def test_an_anchor_that_makes_no_sense_leaves_the_edit_skipped(item):
    update, record, _ = await repaired([BROKEN], [{"anchors": [item]}])
    assert update.outcomes[0].status == "skipped_replace_target_not_found"
    assert "e1 stays without an anchor" in record.notes


def test_the_nearest_passages_have_the_height_of_the_anchor():
    text = "a b c\nd e f\n\ng h i\n"
    assert nearest_passages("a b x\nd e f", text)[0] == "a b c\nd e f"
    assert nearest_passages("a b x", text)[0] == "a b c"
    assert nearest_passages("zzzzzz", text) == []
    assert nearest_passages("x", "") == []


async def test_a_step_repairs_between_selection_and_update():
    edit = {"op": "replace", "target": "- Look in every cabinet.", "content": "- Open cabinets."}
    fixed = anchors(("s3.f0.e1", "replace", "- Look into every cabinet."))
    model = ScriptedReplies([{"patch": {"edits": [edit]}}, fixed])
    batch = in_one_batch([make_episode("T")])
    step = await propose(Optimizer(model, repair_rounds=0), StepSettings(), CONTEXT, batch)
    assert step.status is StepStatus.CANDIDATE
    assert step.update.outcomes[0].status == "repaired_replace"
    assert json.loads(json.dumps(step.to_dict()))["repair"]["repaired"] == ["s3.f0.e1"]
    assert "Rejected edits:\n- replace" in step.entry(3, "reject").render()


async def test_a_fault_of_the_repair_is_one_of_the_steps_faults():
    edit = {"op": "delete", "target": "gone"}
    model = ScriptedReplies([{"patch": {"edits": [edit]}}, "no"])
    batch = in_one_batch([make_episode("T")])
    step = await propose(Optimizer(model, repair_rounds=0), StepSettings(), CONTEXT, batch)
    assert [fault.call for fault in step.faults] == ["s3.repair"]
    assert step.status is StepStatus.NO_CHANGE


async def replaced(skill, target):
    edit = {"op": "replace", "target": target, "content": "- X."}
    return await propose(
        Optimizer(ScriptedReplies([{"patch": {"edits": [edit]}}]), repair_rounds=0),
        StepSettings(repair_anchors=False),
        StepContext("s3", skill, budget=4),
        in_one_batch([make_episode("T0")]),
    )


@pytest.mark.parametrize(
    ("quoted", "meant"),
    [
        *(
            (quoted, "- Say “red” or “blue”.")
            for quoted in (
                '- Say "red" or "blue".',
                "* Say “red” or “blue”.",
                "•\u00a0Say 'red'  or 'blue'. ",
                "- **Say “red” or “blue”.**",
                "- say “red” or “blue”.\r\n",
            )
        ),
        ("Never guess", "Never guess"),
        ("1. Never guess.", "1. **Never guess.**"),
        ('- Say "red" or "blue".\\n1. Never guess.', "- Say “red” or “blue”.\n1. **Never guess.**"),
        ("- Go home! ", None),  # its words are in the skill twice
        ("ever guess. ", None),  # half a word
        ("- Say “red”\n- or blue!", None),
    ],
)
async def test_an_anchor_may_differ_in_blanks_quotes_and_marks_where_one_passage_is_meant(
    quoted, meant
):
    skill = "- Say “red” or “blue”.\n1. **Never guess.**\n- Go home!\n  - Go home!\n"
    step = await replaced(skill, quoted)
    assert step.candidate == (skill if meant is None else skill.replace(meant, "- X.", 1))
    assert step.update.counts["skipped"] == (meant is None)


async def test_a_line_does_not_join_the_next_one_where_only_its_anchor_has_the_break():
    step = await replaced("# Skill\n\n- Look first.\n- Go home.\n", "- Look first.\n")
    assert step.candidate == "# Skill\n\n- X.\n- Go home.\n"
