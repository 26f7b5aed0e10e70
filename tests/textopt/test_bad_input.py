"""What a teacher may do wrong, and the recorded outcome of each."""

import json

import pytest

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import Completion, FailureCause, Purpose
from skillwright.core.skill import SLOW_UPDATE_END, SLOW_UPDATE_START
from skillwright.textopt import (
    Optimizer,
    StepContext,
    StepSettings,
    StepStatus,
    UpdateMode,
    propose,
)

SKILL = "# Skill\n\n- Look first.\n- Go home.\n"
REGION = f"{SLOW_UPDATE_START}\nStay calm.\n{SLOW_UPDATE_END}"
MEGABYTE = 1_000_000


async def stepped(*replies, skill=SKILL, **settings):
    model = ScriptedReplies(replies)
    step = await propose(
        Optimizer(model, repair_rounds=0),
        StepSettings(**settings),
        StepContext("s3", skill, budget=4),
        in_one_batch([make_episode("T0")]),
    )
    json.dumps(step.to_dict())
    return step


def patch(*edits):
    return {"patch": {"edits": list(edits)}}


def replace(content, target="- Look first."):
    return {"op": "replace", "target": target, "content": content}


def statuses(step):
    return [outcome.status for outcome in step.update.outcomes]


async def test_prose_in_place_of_json_is_a_fault_and_a_skip():
    step = await stepped("I would add a rule about doors.")
    assert (step.status, step.candidate) == (StepStatus.FAULTS, SKILL)
    (fault,) = step.faults
    assert fault.failure.cause is FailureCause.REPLY
    assert "no complete JSON object; it begins 'I would add" in fault.failure.message


@pytest.mark.parametrize(("cut", "finish_reason"), [(-2, "length"), (-6, "stop")])
async def test_half_a_json_is_a_fault_even_where_it_holds_a_whole_edit(cut, finish_reason):
    whole = json.dumps(patch({"op": "append", "content": "- Rule."}))
    step = await stepped(Completion(whole[:cut], finish_reason=finish_reason))
    assert (step.status, step.candidate) == (StepStatus.FAULTS, SKILL)
    message = step.faults[0].failure.message
    assert ("cut off by the token limit" in message) == (finish_reason == "length")


async def test_brackets_that_a_model_forgot_at_the_end_are_added_and_noted():
    whole = json.dumps(patch({"op": "append", "content": "- Rule."}))
    step = await stepped(Completion(whole[:-2], finish_reason="stop"))
    assert step.candidate == f"{SKILL}\n- Rule.\n"
    (repair,) = step.reflection.patches[0].repairs
    assert repair.startswith("it was not strict JSON (line 1, column")


async def test_an_empty_patch_is_a_step_without_patches():
    step = await stepped(patch())
    assert (step.status, step.candidate, step.faults) == (StepStatus.NO_PATCHES, SKILL, ())


async def test_an_edit_of_a_megabyte_is_dropped_and_its_siblings_are_made():
    huge = {"op": "append", "content": "x" * MEGABYTE}
    step = await stepped(patch(huge, {"op": "append", "content": "- Rule."}))
    assert step.candidate == f"{SKILL}\n- Rule.\n"
    dropped = "e1 is dropped: its 1,000,000 characters are more than the 20,000 of an edit"
    assert dropped in step.reflection.patches[0].notes
    assert len(json.dumps(step.to_dict())) < MEGABYTE / 10
    alone = await stepped(patch(huge))
    assert (alone.status, alone.candidate) == (StepStatus.NO_PATCHES, SKILL)
    assert alone.reflection.patches[0].notes == (dropped,)


async def test_a_target_that_is_replaced_twice_is_replaced_once_and_the_second_edit_is_lost():
    edits = patch(replace("- Look."), replace("- Ask."))
    step = await stepped(edits, repair_anchors=False)
    assert statuses(step) == ["applied_replace", "skipped_replace_target_not_found"]
    assert step.candidate == SKILL.replace("- Look first.", "- Look.")
    assert "- Ask. [skipped_replace_target_not_found]" in step.entry(3, "reject").render()


async def test_the_second_of_two_contradicting_edits_goes_back_to_the_teacher_once():
    edits = patch(replace("- Look."), replace("- Ask."))
    anchor = {"id": "s3.f0.e2", "op": "replace", "target": "- Go home."}
    step = await stepped(edits, {"anchors": [anchor]})
    assert statuses(step) == ["applied_replace", "repaired_replace"]
    assert step.candidate == "# Skill\n\n- Look.\n- Ask.\n"
    unrepaired = await stepped(edits, {"anchors": []})
    assert statuses(unrepaired)[1] == "skipped_replace_target_not_found"
    assert unrepaired.made.repair.notes == ("s3.f0.e2 stays without an anchor",)


async def test_a_target_that_is_deleted_and_then_replaced_is_deleted():
    gone = {"op": "delete", "target": "- Look first.\n"}
    step = await stepped(patch(gone, replace("- Ask.")), repair_anchors=False)
    assert statuses(step) == ["applied_delete", "skipped_replace_target_not_found"]
    assert step.candidate == "# Skill\n\n- Go home.\n"


async def test_a_rewrite_that_drops_a_protected_region_gets_it_back():
    def answer(asked):
        if asked.purpose is Purpose.REFLECT:
            suggestion = {"type": "compress", "instruction": "Be short."}
            return {"patch": {"revise_suggestions": [suggestion]}}
        return {"new_skill": "# Short", "change_summary": ["shorter"]}

    step = await propose(
        Optimizer(ScriptedReplies(answer), repair_rounds=0),
        StepSettings(update_mode=UpdateMode.REWRITE),
        StepContext("s3", f"{SKILL}\n{REGION}\n", budget=4),
        in_one_batch([make_episode("T0")]),
    )
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate == f"# Short\n\n{REGION}\n"


async def test_an_edit_that_takes_a_protected_region_out_is_skipped():
    skill = f"{SKILL}\n{REGION}\n"
    step = await stepped(patch({"op": "delete", "target": REGION}), skill=skill)
    assert (step.status, step.candidate) == (StepStatus.NO_CHANGE, skill)
    assert statuses(step) == ["skipped_protected_region"]
