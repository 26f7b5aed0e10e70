"""Slips of the agent become notes in an appendix; gaps in the skill become edits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import ModelError, Purpose, skill_hash
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    inject_empty_appendix,
    protected_regions,
    slow_update_field,
)
from skillwright.textopt import (
    EditLimits,
    Optimizer,
    SkillAware,
    StepContext,
    StepSettings,
    StepStatus,
    UpdateMode,
    add_notes,
    appendix_notes,
    propose,
    read_notes,
    unique_notes,
    with_notes,
)

SKILL = "# T\n\n- a\n- b"
SLOW = f"{SLOW_UPDATE_START}\ng\n{SLOW_UPDATE_END}"


def appendix(*notes):
    lines = [APPENDIX_START, "## Execution Notes Appendix", *(f"- {n}" for n in notes)]
    return "\n".join([*lines, APPENDIX_END]) + "\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["One.", " Two \n three "], ["One.", "Two three"]),
        ("Only one.", ["Only one."]),
        ([{"note": "a"}, {"content": "b"}, {"text": "c"}], ["a", "b", "c"]),
        ([{"rule": "a", "why": "b"}], []),
        ({"note": "alone"}, ["alone"]),
        (["Look.", "look", " LOOK !", "look  "], ["Look."]),
        (["- As a bullet."], ["As a bullet."]),
        (["", " . ", None, 3, ["x"], {"note": 4}], []),
        (["x" * 500, "hid\u200bden", f"a {APPENDIX_END} b"], ["a b"]),
        (None, []),
        (3, []),
    ],
)
def test_notes_are_read_as_models_write_them(written, read):
    assert read_notes(written) == read


def test_an_appendix_stands_at_the_end_and_without_notes_is_the_documented_empty_one():
    assert with_notes(SKILL, []) == inject_empty_appendix(SKILL)
    assert with_notes(SKILL, ["n"]) == f"{SKILL}\n\n{appendix('n')}"


def test_an_appendix_is_rebuilt_at_the_end_and_the_slow_update_stays():
    text = f"{SKILL}\n\n{appendix('old')}\n{SLOW}\n"
    new = with_notes(text, ["old", "new"])
    assert new == f"{SKILL}\n\n{SLOW}\n\n{appendix('old', 'new')}"
    assert appendix_notes(new) == ["old", "new"]
    assert with_notes(new, ["old", "new"]) == new


def test_several_appendices_become_one():
    text = f"{appendix('a')}\nmiddle\n\n{appendix('b')}"
    assert appendix_notes(text) == ["a", "b"]
    assert with_notes(text, appendix_notes(text)) == f"\n\nmiddle\n\n{appendix('a', 'b')}"


notes = st.lists(st.text(st.characters(codec="ascii"), max_size=12), max_size=5).map(read_notes)
bodies = st.lists(st.sampled_from(["- a", "\n", SLOW, appendix("x"), "word "]), max_size=5)


@given(bodies.map("".join), notes)
def test_what_is_written_into_an_appendix_can_be_read_back(skill, many):
    new = with_notes(skill, many)
    assert appendix_notes(new) == many
    assert slow_update_field(new) == slow_update_field(skill)
    assert new.count(APPENDIX_START) == 1
    assert protected_regions(new)[-1].end == len(new) - 1


@given(st.lists(st.text(max_size=6), max_size=6))
def test_unique_notes_stay_unique(many):
    assert unique_notes(unique_notes(many)) == unique_notes(many)


async def added(notes, replies=(), skill=SKILL, threshold=0, limits=None):
    model = ScriptedReplies(list(replies))
    config = StepSettings(
        skill_aware=SkillAware(consolidate_threshold=threshold), limits=limits or EditLimits()
    )
    context = StepContext("s3", skill, 4, seed=1)
    return await add_notes(Optimizer(model, repair_rounds=0), config, context, notes), model


async def test_notes_are_added_once_and_counted():
    update, _ = await added(["b!", "New.", "new"], skill=with_notes(SKILL, ["a", "B"]))
    assert appendix_notes(update.skill) == ["a", "B", "New."]
    assert update.to_dict() == {
        "step_notes": ["b!", "New."],
        "appendix_after": ["a", "B", "New."],
        "n_execution_lapse_notes": 2,
        "n_appendix_notes_added": 1,
        "n_appendix_notes_total": 3,
        "n_appendix_notes_consolidated": False,
        "fault": None,
    }


async def test_nothing_new_leaves_the_document_as_it_is():
    skill = f"{with_notes(SKILL, ['a'])}\n{SLOW}\n"
    for notes_of_step in ([], ["A."]):
        update, _ = await added(notes_of_step, skill=skill)
        assert (update.skill, update.added) == (skill, 0)


async def test_without_skill_aware_reflection_nothing_is_added():
    context = StepContext("s3", SKILL, 4)
    update = await add_notes(Optimizer(ScriptedReplies([])), StepSettings(), context, ["n"])
    assert update.skill == SKILL


async def test_too_many_notes_are_consolidated_where_that_makes_them_fewer():
    update, model = await added(["a", "b", "c"], [{"notes": ["a and b", "c"]}], threshold=2)
    assert update.notes == ("a and b", "c")
    assert (update.consolidated, update.added) == (True, 3)
    (asked,) = model.asked
    assert asked.purpose is Purpose.APPENDIX == "appendix_consolidate"
    assert asked.sampling.max_tokens == 4_096
    assert json.loads(asked.user.split("## Notes\n")[1]) == ["a", "b", "c"]
    update, model = await added(["a", "b"], threshold=2)
    assert model.asked == []


@pytest.mark.parametrize(
    "reply", [{"notes": ["a", "b", "d"]}, {"notes": []}, {"notes": [3]}, "no", ModelError("503")]
)
async def test_a_consolidation_that_makes_nothing_fewer_is_not_taken(reply):
    update, _ = await added(["a", "b", "c"], [reply], threshold=2)
    assert (update.notes, update.consolidated) == (("a", "b", "c"), False)
    assert (update.fault is not None) == (not isinstance(reply, dict))


async def test_a_document_at_its_limit_takes_no_notes():
    update, _ = await added(["a"], limits=EditLimits(max_skill_chars=20))
    assert (update.skill, update.added, update.notes) == (SKILL, 0, ())


EDIT = {"op": "append", "content": "- Rule."}


async def stepped(mode=UpdateMode.PATCH, aware=None, edits=(EDIT,), skill=SKILL, fewer="no"):
    def answer(asked):
        if asked.purpose is Purpose.APPENDIX:
            return fewer
        if asked.purpose is Purpose.REFLECT:
            failed = 'outcome="failure"' in asked.user
            said = ["Open doors.", "shared"] if failed else [{"note": "Shared!"}, {"note": "Fast."}]
            return {"patch": {"edits": list(edits)}, "appendix_notes": said}
        return {"edits": [{**edits[0], "sources": ["p1.e1"]}]}

    model = ScriptedReplies(answer)
    config = StepSettings(skill_aware=aware, update_mode=mode)
    batch = in_one_batch([make_episode("T0", 0.0), make_episode("T1", 1.0)])
    step = await propose(
        Optimizer(model, repair_rounds=0), config, StepContext("s3", skill, 4), batch
    )
    return step, model


async def test_analysts_are_asked_for_notes_and_a_step_collects_them():
    step, model = await stepped(aware=SkillAware())
    assert step.execution_notes == ("Open doors.", "shared", "Fast.")
    systems = [asked.messages[0]["content"] for asked in model.asked]
    assert "EXECUTION_LAPSE" in systems[0]
    assert "OPTIMIZATION" in systems[1]
    assert "Execution notes" not in systems[2]
    assert json.loads(json.dumps(step.to_dict()))["execution_notes"] == list(step.execution_notes)


NOTES = ("Open doors.", "shared", "Fast.")


async def test_gated_notes_are_part_of_the_candidate():
    step, _ = await stepped(aware=SkillAware())
    assert step.candidate == f"{SKILL}\n\n- Rule.\n\n{appendix(*NOTES)}"
    assert step.update.candidate_hash == skill_hash(step.candidate)
    assert step.update.outcomes[0].lines == (6, 6)
    record = json.loads(json.dumps(step.to_dict()))
    assert record["candidate"] == step.candidate
    assert record["appendix"]["appendix_after"] == list(NOTES)
    counts = {name: record[name] for name in record if name.startswith("n_")}
    assert counts == {
        "n_execution_lapse_notes": 3,
        "n_appendix_notes_added": 3,
        "n_appendix_notes_total": 3,
        "n_appendix_notes_consolidated": False,
    }


async def test_the_lines_of_an_edit_follow_an_appendix_that_moves_to_the_end():
    skill = f"{appendix('Fast')}\n# T\n\n- a\n"
    edit = {"op": "replace", "target": "- a", "content": "- b\n- c"}
    step, _ = await stepped(aware=SkillAware(), edits=[edit], skill=skill)
    first, last = step.update.outcomes[0].lines
    assert step.candidate.splitlines()[first - 1 : last] == ["- b", "- c"]


async def test_a_step_with_notes_and_no_edits_is_a_candidate():
    before = with_notes(SKILL, ["Fast"])
    step, _ = await stepped(aware=SkillAware(), edits=(), skill=before)
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate == with_notes(SKILL, ["Fast", "Open doors.", "shared"])
    assert step.entry(3, "reject").render() == (
        "Step 3: reject\nRejected edits:\n- note: Open doors.\n- note: shared"
    )


async def test_notes_that_the_skill_has_already_are_no_candidate():
    step, _ = await stepped(aware=SkillAware(), edits=(), skill=with_notes(SKILL, NOTES))
    assert step.status is StepStatus.NO_PATCHES
    assert step.entry(3, step.status).edits == ()


async def test_notes_that_are_not_gated_are_left_to_the_job():
    step, _ = await stepped(aware=SkillAware(gated=False))
    assert step.candidate == f"{SKILL}\n\n- Rule.\n"
    assert step.to_dict()["n_execution_lapse_notes"] == 3
    assert step.to_dict()["appendix"] is None
    alone, _ = await stepped(aware=SkillAware(gated=False), edits=())
    assert (alone.status, alone.execution_notes) == (StepStatus.NO_PATCHES, NOTES)


async def test_a_candidates_notes_are_consolidated_and_a_fault_of_it_is_the_steps():
    aware = SkillAware(consolidate_threshold=2)
    step, _ = await stepped(aware=aware, fewer={"notes": ["Open doors, fast."]})
    assert appendix_notes(step.candidate) == ["Open doors, fast."]
    assert step.to_dict()["n_appendix_notes_consolidated"] is True
    step, _ = await stepped(aware=aware, fewer="no")
    assert appendix_notes(step.candidate) == list(NOTES)
    assert [fault.call for fault in step.faults] == ["s3.notes"]


async def test_failure_only_takes_no_notes_from_successes():
    aware = SkillAware(appendix_source="failure_only")
    step, model = await stepped(aware=aware)
    assert step.execution_notes == ("Open doors.", "shared")
    assert "Execution notes" not in model.asked[1].messages[0]["content"]


@pytest.mark.parametrize(
    ("mode", "aware"), [(UpdateMode.PATCH, None), (UpdateMode.FULL_REWRITE, SkillAware())]
)
async def test_notes_are_neither_asked_for_nor_taken_where_the_run_does_not_want_them(mode, aware):
    step, model = await stepped(mode, aware)
    assert step.execution_notes == ()
    assert "Execution notes" not in model.asked[0].messages[0]["content"]


def test_a_threshold_below_zero_is_refused():
    with pytest.raises(ValueError, match="consolidate_threshold"):
        SkillAware(consolidate_threshold=-1)
