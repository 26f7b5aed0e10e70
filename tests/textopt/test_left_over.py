"""Replies with more than the form asks for: all of it is read, or named with the cause."""

import json

import pytest
import yaml

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.bank.teaching.teacher import EvolveReply, SkillsReply
from skillwright.core import Completion
from skillwright.core.chat import ToolCall
from skillwright.jobs.text.records import edit_records, patch_records
from skillwright.jobs.text.replies import account_of_step
from skillwright.models.leftovers import DROPPED
from skillwright.models.structured import read_reply
from skillwright.textopt import Optimizer, StepContext, StepSettings, propose

SKILL = "# Skill\n\n- Look first.\n- Go home.\n"
SAY = {"op": "append", "content": "- Say the color."}
GO = {"op": "replace", "target": "- Go home.", "content": "- Go."}
CUT = {"op": "delete", "target": "- Look first."}
LOOK, MORE = "- Look first.", "- One more rule."


def written(value):
    return json.dumps(value)


def reply(*items, **more):
    return {"reasoning": "r", "patch": {"edits": list(items)}, **more}


def called(*arguments, text="", name="submit"):
    calls = tuple(ToolCall(f"c{at}", name, written(one)) for at, one in enumerate(arguments))
    return Completion(text, "tool_calls", tool_calls=calls)


async def stepped(said):
    return await propose(
        Optimizer(ScriptedReplies([said]), repair_rounds=0),
        StepSettings(repair_anchors=False),
        StepContext("s1", SKILL, budget=9),
        in_one_batch([make_episode("T0")]),
    )


def made(step):
    return [(one.edit.op, one.edit.target, one.edit.content) for one in step.proposals]


def drops(step):
    return [
        note
        for patch in step.reflection.patches
        for note in (*patch.notes, *patch.repairs)
        if DROPPED in note
    ]


def remarks(step):
    return account_of_step(step, patch_records(step, 1), edit_records(step, 1)).remarks


BESIDE = {
    "deletions as objects": ({"deletions": [{"target": LOOK}]}, ("delete", LOOK, "")),
    "deletions as texts": ({"deletions": [LOOK]}, ("delete", LOOK, "")),
    "removals as lines": ({"removals": [{"line": LOOK}]}, ("delete", LOOK, "")),
    "remove": ({"remove": [LOOK]}, ("delete", LOOK, "")),
    "additions": ({"additions": [MORE]}, ("append", "", MORE)),
    "additions as objects": ({"additions": [{"text": MORE}]}, ("append", "", MORE)),
    "appends": ({"appends": [MORE]}, ("append", "", MORE)),
    "insertions": ({"insertions": [{"content": MORE}]}, ("append", "", MORE)),
    "insertions at a target": (
        {"insertions": [{"target": LOOK, "content": MORE}]},
        ("insert_after", LOOK, MORE),
    ),
    "insertions after": (
        {"insertions": [{"after": LOOK, "text": MORE}]},
        ("insert_after", LOOK, MORE),
    ),
    "replacements": ({"replacements": [{"old": LOOK, "new": MORE}]}, ("replace", LOOK, MORE)),
    "replacements by old text": ({"replacements": {LOOK: MORE}}, ("replace", LOOK, MORE)),
    "modifications": (
        {"modifications": [{"target": LOOK, "content": MORE}]},
        ("replace", LOOK, MORE),
    ),
    "changes": ({"changes": [CUT]}, ("delete", LOOK, "")),
    "changes by operation": ({"changes": {"delete": [LOOK]}}, ("delete", LOOK, "")),
    "operations": ({"operations": [CUT]}, ("delete", LOOK, "")),
    "additional edits": ({"additional_edits": [CUT]}, ("delete", LOOK, "")),
    "a JSON text": ({"deletions": written([LOOK])}, ("delete", LOOK, "")),
    "edits and a patch": ({"patch": {"edits": [CUT]}}, ("delete", LOOK, "")),
    "one object": ({"deletion": {"target": LOOK}}, ("delete", LOOK, "")),
}


@pytest.mark.parametrize(
    "place", ["top", "patch", "next to the patch", "wrapped", "YAML", "YAML with JSON"]
)
@pytest.mark.parametrize("form", BESIDE)
async def test_edits_beside_the_list_are_read_where_their_key_says_what_they_are(form, place):
    more, wanted = BESIDE[form]
    more = {"changes": [CUT]} if place == "patch" and "patch" in more else more
    said = {
        "top": written({"edits": [SAY], **more}),
        "patch": written({"reasoning": "r", "patch": {"edits": [SAY], **more}}),
        "next to the patch": written(
            {**reply(SAY), **({"edits": [CUT]} if "patch" in more else more)}
        ),
        "wrapped": written({"result": {"edits": [SAY], **more}}),
        "YAML": "edits:\n- op: append\n  content: '- Say the color.'\n" + yaml.safe_dump(more),
        "YAML with JSON": "edits:\n- op: append\n  content: '- Say the color.'\n"
        + "".join(f"{key}: {written(value)}\n" for key, value in more.items()),
    }[place]
    step = await stepped(said)
    assert sorted(made(step)) == sorted([("append", "", SAY["content"]), wanted])
    assert not drops(step)
    assert any("repaired" in one for one in remarks(step))


TWO = {
    "in a row": (written(reply(SAY)) + "\n" + written(reply(GO)), SAY),
    "after words": (f"{written(reply(SAY))}\nWait, let me fix it.\n{written(reply(GO))}", SAY),
    "in code blocks": (
        f"```json\n{written(reply(SAY))}\n```\nBetter:\n```json\n{written(reply(GO))}\n```",
        SAY,
    ),
    "in bare lists": (written({"edits": [SAY]}) + "\n\n" + written({"edits": [GO]}), SAY),
    "with nearly JSON": (f"{written(reply(SAY))[:-1]},}}\nor\n{written(reply(GO))[:-1]},}}", SAY),
    "wrapped": (written({"result": reply(SAY)}) + "\n" + written({"result": reply(GO)}), SAY),
    "in two calls": (called(reply(SAY), reply(GO)), SAY),
    "in a text and a call": (called(reply(GO), text=written(reply(SAY))), SAY),
    "in another notation": (
        f"```json\n{written(reply(GO))}\n```\n```yaml\nedits:\n- op: append\n"
        "  content: '- Say the color.'\n```\n",
        SAY,
    ),
    "in YAML under two keys": (
        f"```yaml\n{yaml.safe_dump({'result': {'edits': [SAY]}, 'other': {'edits': [GO]}})}```\n"
        + written(reply(GO)),
        SAY,
    ),
    "with the same target": (
        written({"result": reply({**GO, "content": "- Run."})}) + "\n" + written(reply(GO)),
        {"content": "- Run."},
    ),
    "with a shared edit": (written(reply(SAY, GO)) + "\n" + written(reply(GO)), SAY),
    "deleting what the other replaces": (
        written(reply({"op": "delete", "target": "- Go home."})) + "\n" + written(reply(GO)),
        {"target": "- Go home."},
    ),
    "set aside as a draft": (written({**reply(GO), "draft_edits": [SAY]}), SAY),
    "rejected": (written({**reply(GO), "rejected_edits": [SAY]}), SAY),
    "earlier": (written({**reply(GO), "previous_edits": [SAY]}), SAY),
    "below an unknown key": (written({**reply(GO), "optional": [SAY]}), SAY),
    "below a remark": (
        written({**reply(GO), "failure_summary": [{"failure_type": "t", "suggested": SAY}]}),
        SAY,
    ),
    "one level deeper": (written({"edits": [GO], "result": {"edits": [SAY]}}), SAY),
    "in a text of JSON": (written({"edits": [GO], "response": written(reply(SAY))}), SAY),
    "before a text": (
        written({**reply(GO), "insertions": [{"before": LOOK, "content": SAY["content"]}]}),
        SAY,
    ),
}


@pytest.mark.parametrize("form", TWO)
async def test_an_edit_that_is_set_aside_is_named_with_its_cause(form):
    said, lost = TWO[form]
    step = await stepped(said)
    assert made(step) == [("replace", "- Go home.", "- Go.")]
    (note,) = drops(step)
    assert note.startswith("edit is dropped: ")
    assert lost.get("content", lost.get("target")) in note
    (remark,) = (one for one in remarks(step) if "dropped" in one)
    assert remark.startswith("1 edit was dropped: ")
    assert step.reflection.patches[0].dropped == 1


PARTS = {
    "rules as texts": {"tips": ["- Always say hello."]},
    "a rule": {"postscript": "- Always say hello."},
    "a table": {"rules": {"first": "- Always say hello."}},
    "additions as a text": {"additions": "- Always say hello."},
    "a rule of an edit": reply({**SAY, "also": "- Always say hello."}),
    "lines of an edit": reply({**SAY, "more_lines": ["- Always say hello."]}),
    "two texts of an edit": reply({**SAY, "text": "- Always say hello."}),
    "an unknown name of the target": reply(SAY, {**GO, "target": "", "needle": "say hello."}),
    "an unknown operation": reply(SAY, {"op": "merge", "target": "a", "content": "say hello."}),
    "a text among the edits": reply(SAY, "- Always say hello."),
}


@pytest.mark.parametrize("form", PARTS)
async def test_other_words_of_a_reply_are_named_with_their_cause(form):
    step = await stepped(written({"edits": [SAY], **PARTS[form]}))
    assert made(step)[0] == ("append", "", SAY["content"])
    (note,) = drops(step)
    assert "say hello." in note or note.startswith("e2 is dropped: ")
    assert any("dropped: " in one for one in remarks(step))


async def test_a_second_answer_that_breaks_off_is_named():
    step = await stepped(
        written(reply(SAY)) + '\n{"patch": {"edits": [{"op": "append", "content": "h'
    )
    assert made(step) == [("append", "", SAY["content"])]
    assert "it is not JSON" in drops(step)[0]


async def test_an_answer_that_takes_all_edits_back_leaves_none_and_names_them():
    step = await stepped(written(reply(SAY)) + "\nNo, none is needed.\n" + written(reply()))
    assert made(step) == []
    assert "- Say the color." in drops(step)[0]
    assert any("held nothing that could be used" in one for one in remarks(step))


NOTHING_LOST = {
    "the same twice": written(reply(SAY)) + "\n" + written({**reply(SAY), "reasoning": "again"}),
    "one that grows": written(reply(SAY)) + "\nAnd:\n" + written(reply(SAY, GO)),
    "remarks": written(
        {
            "analysis": "The agent guessed a color.",
            "confidence": 0.8,
            "edits": [{**SAY, "rationale": "It guessed the color.", "id": "e 1"}],
            "failure_summary": [{"failure_type": "a guess", "description": "It guessed it."}],
        }
    ),
    "groups of nothing": written({"edits": [SAY], "deletions": "None needed.", "additions": []}),
    "a draft in the thoughts": f"<think>{written(reply(CUT))}</think>{written(reply(SAY))}",
    "a quoted answer": f'It said {{"answer": "the wrong color"}} so:\n{written(reply(SAY))}',
    "a call named after an operation": called({"edits": [SAY]}, name="update"),
    "a call with words": called(reply(SAY), text="I submit the patch."),
    "a reasoning that is the answer": Completion("", "stop", reasoning=written(reply(SAY))),
}


@pytest.mark.parametrize("form", NOTHING_LOST)
async def test_where_nothing_is_lost_there_is_no_note(form):
    step = await stepped(NOTHING_LOST[form])
    assert made(step)[0] == ("append", "", SAY["content"])
    assert not drops(step)


async def test_calls_of_tools_each_bring_their_edit():
    assert len(made(await stepped(called(SAY, GO)))) == 2
    step = await stepped(called({"content": MORE}, {"content": LOOK}, name="append_rule"))
    assert made(step) == [("append", "", MORE), ("append", "", LOOK)]


@pytest.mark.parametrize(
    "said",
    [
        Completion("", "stop", reasoning=f"Maybe {written(reply(SAY))}, or not."),
        Completion("", "length", reasoning=written(reply(SAY))),
        written({"additions": [MORE], "renames": [LOOK]}),
        written({"first": {"edits": [SAY]}, "second": {"edits": [GO]}}),
    ],
)
async def test_what_cannot_be_read_with_certainty_is_a_fault_with_its_cause(said):
    step = await stepped(said)
    assert made(step) == []
    assert remarks(step)[0].startswith("1 of 1 optimizer replies could not be read: ")


# Teachers

FACT = {
    "name": "Search once",
    "principle": "Search once, then read.",
    "applicability": "when a task names a thing",
    "evidence": [{"id": "T0"}],
}
OTHER = {**FACT, "name": "Read twice", "principle": "Read each page twice."}
RETIRE = {"id": "s2", "reason": "It misleads."}


@pytest.mark.parametrize(
    "text",
    [
        written({"skills": [OTHER]}) + "\n" + written({"skills": [FACT]}),
        written({"skills": [FACT], "general_skills": [OTHER]}),
        written({"skills": [FACT], "tips": ["Read each page twice."]}),
        written({"skills": [{**FACT, "caveat": "Read each page twice."}]}),
    ],
)
def test_what_a_teacher_sends_beside_its_skills_is_named(text):
    read = read_reply(text, "stop", SkillsReply)
    assert [one.name for one in read.value.skills] == ["Search once"]
    assert any(
        "part is dropped: " in note and "Read each page twice." in note for note in read.repairs
    )


@pytest.mark.parametrize("key", ["retire", "retirements", "removals", "deletions"])
@pytest.mark.parametrize("has_list", [True, False])
def test_changes_of_a_bank_below_their_operations_are_read(key, has_list):
    add = {"kind": "general", **FACT}
    others = {"changes": [{"op": "add", **add}]} if has_list else {"additions": [add]}
    read = read_reply(written({"reasoning": "r", **others, key: [RETIRE]}), "stop", EvolveReply)
    assert sorted(one.op for one in read.value.changes) == ["add", "retire"]
    assert read.repairs
    assert not any(DROPPED in note for note in read.repairs)


def test_a_retirement_that_gives_no_reason_is_named():
    text = written({"reasoning": "r", "changes": [{"op": "retire", **RETIRE}], "retire": ["s3"]})
    (note,) = read_reply(text, "stop", EvolveReply).repairs
    assert note == "edit is dropped: the form asked for has no place for it below 'retire': 's3'"
