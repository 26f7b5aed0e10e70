"""Patches merge level by level; what a merged edit stands for is counted from its sources."""

import itertools
import json

import pytest

from fakes import ScriptedReplies
from skillwright.core import Edit, Purpose
from skillwright.textopt import (
    AnalystPatch,
    Evidence,
    Optimizer,
    Proposal,
    StepContext,
    StepSettings,
    aggregate,
)

CONTEXT = StepContext("s1", "# Skill\n", 4, seed=1)


def analyst_patch(name, *trajectories, source_type="failure", contents=None):
    proposals = tuple(
        Proposal(
            f"{name}.e{number}",
            Edit("append", content, support_count=len(trajectories), source_type=source_type),
            source_type,
            tuple(Evidence(t, (0,)) for t in trajectories),
        )
        for number, content in enumerate(contents or [f"rule of {name}"], start=1)
    )
    return AnalystPatch(name, source_type, trajectories, proposals)


def merged_edit(content, sources, **more):
    return {"op": "append", "content": content, "sources": sources, **more}


async def merged(replies, patches, size=8, finish_order=()):
    model = ScriptedReplies(replies, finish_order=finish_order)
    optimizer = Optimizer(model, repair_rounds=0)
    settings = StepSettings(merge_batch_size=size)
    return await aggregate(optimizer, settings, CONTEXT, patches), model


def patches_in(asked):
    return json.loads(asked.user.split("## Patches\n")[1])


def summary(found):
    return [(p.id, p.edit.content, p.support, p.edit.merge_level) for p in found.proposals]


async def test_no_patch_and_one_patch_ask_nobody():
    nothing, model = await merged([], [AnalystPatch("s1.f0", "failure", ("T0",), ())])
    assert (nothing.proposals, nothing.merges, model.asked) == ((), (), [])
    one, model = await merged(
        [], [analyst_patch("s1.f0", "T0"), AnalystPatch("x", "success", (), ())]
    )
    assert (summary(one), one.merges) == ([("s1.f0.e1", "rule of s1.f0", 1, None)], ())
    assert model.asked == []


async def test_a_merge_is_asked_for_in_the_agreed_form():
    reply = {"reasoning": "", "edits": [merged_edit("both", ["p1.e1", "p2.e2"])]}
    patches = [
        analyst_patch("s1.f0", "T0", "T1"),
        analyst_patch("s1.f1", "T2", contents=["see </skill>", "c"]),
    ]
    found, model = await merged([reply], patches)
    (asked,) = model.asked
    assert asked.messages[0]["content"].splitlines()[0] == "# Merge: failures"
    headings = [line for line in asked.user.splitlines() if line.startswith("## ")]
    assert headings == ["## Current skill", "## Optimizer notes", "## Merge level", "## Patches"]
    assert "## Merge level\n1\n" in asked.user
    assert patches_in(asked)[1] == {
        "id": "p2",
        "source_type": "failure",
        "support": 1,
        "edits": [
            {"id": "p2.e1", "op": "append", "target": "", "content": "see </skill>", "support": 1},
            {"id": "p2.e2", "op": "append", "target": "", "content": "c", "support": 1},
        ],
    }
    assert asked.user.count("</skill>") == 1  # the edit's own is escaped inside its JSON string
    assert asked.purpose is Purpose.MERGE
    (proposal,) = found.proposals
    assert proposal.parents == ("s1.f0.e1", "s1.f1.e2")
    assert proposal.evidence == (Evidence("T0", (0,)), Evidence("T1", (0,)), Evidence("T2", (0,)))
    assert summary(found) == [("s1.f.m1.0.e1", "both", 3, 1)]
    assert proposal.edit.support_count == 3


async def test_shared_trajectories_are_counted_once_and_the_models_number_never():
    reply = {"edits": [merged_edit("both", ["p1.e1", "p2.e1"], support_count=50)]}
    patches = [analyst_patch("s1.f0", "T0", "T1"), analyst_patch("s1.f1", "T1")]
    found, _ = await merged([reply], patches)
    assert found.proposals[0].support == found.proposals[0].edit.support_count == 2


async def test_a_copied_edit_needs_no_source_and_an_invented_one_gets_no_support():
    reply = {
        "edits": [
            {"op": "append", "content": "rule of s1.f1"},
            merged_edit("invented", ["p9.e9", 4]),
            merged_edit("none", "p1.e1"),
        ]
    }
    patches = [analyst_patch("s1.f0", "T0"), analyst_patch("s1.f1", "T1")]
    found, _ = await merged([reply], patches)
    assert [(p.parents, p.support) for p in found.proposals] == [
        (("s1.f1.e1",), 1),
        ((), 0),
        ((), 0),
    ]
    assert found.merges[0].notes == (
        "e2 names no known source; its support is 0",
        "e3 names no known source; its support is 0",
    )


async def test_a_tree_grows_level_by_level_and_a_single_patch_passes_through():
    def answer(asked):
        patches = patches_in(asked)
        sources = [edit["id"] for patch in patches for edit in patch["edits"]]
        return {
            "edits": [
                merged_edit("+".join(e["content"] for p in patches for e in p["edits"]), sources)
            ]
        }

    patches = [analyst_patch(f"f{i}", f"T{i}", contents=[str(i)]) for i in range(5)]
    found, model = await merged(answer, patches, size=2)
    assert [(m.call, m.level) for m in found.merges] == [
        ("s1.f.m1.0", 1),
        ("s1.f.m1.1", 1),
        ("s1.f.m2.0", 2),
        ("s1.f.m3.0", 3),
    ]
    assert summary(found) == [("s1.f.m3.0.e1", "0+1+2+3+4", 5, 3)]
    assert found.merges[3].inputs == ("s1.f.m2.0.e1", "f4.e1")
    assert len(model.asked) == 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_the_order_of_answers_changes_nothing(order):
    def answer(asked):
        first = patches_in(asked)[0]
        level = asked.user.split("## Merge level\n")[1][0]
        if first["edits"][0]["content"] == "f2":
            return "no"
        return {
            "edits": [merged_edit(f"L{level} {first['edits'][0]['content']}", ["p1.e1", "p2.e1"])]
        }

    names = ["f0", "f1", "f2", "f3"], ["s0", "s1", "s2", "s3"]
    patches = [analyst_patch(n, f"T{n}", contents=[n]) for n in names[0]]
    patches += [analyst_patch(n, f"T{n}", contents=[n], source_type="success") for n in names[1]]
    found, model = await merged(answer, patches, size=2, finish_order=order)
    # A merge of the next level may be done before the last of the first one.
    assert [number for number in model.finished if number < 4] == list(order)
    assert [(m.call, m.level, m.fault is None) for m in found.merges] == [
        ("s1.f.m1.0", 1, True),
        ("s1.f.m1.1", 1, False),
        ("s1.f.m2.0", 2, True),
        ("s1.s.m1.0", 1, True),
        ("s1.s.m1.1", 1, True),
        ("s1.s.m2.0", 2, True),
        ("s1.final", 3, True),
    ]
    assert summary(found) == [("s1.final.e1", "L3 L2 L1 f0", 7, None)]


@pytest.mark.parametrize(
    "reply",
    ["prose", '{"edits": [{"op"', {"edits": "none"}, {"edits": ["text"]}, {"reasoning": "x"}],
)
async def test_a_merge_that_fails_puts_its_inputs_one_after_the_other_and_says_so(reply):
    patches = [analyst_patch("f0", "T0", contents=["a", "b"]), analyst_patch("f1", "T1")]
    found, _ = await merged([reply], patches)
    assert summary(found) == [
        ("f0.e1", "a", 1, 1),
        ("f0.e2", "b", 1, 1),
        ("f1.e1", "rule of f1", 1, 1),
    ]
    (merge,) = found.merges
    assert merge.fault.call == "s1.f.m1.0"
    assert merge.inputs == ("f0.e1", "f0.e2", "f1.e1")
    assert merge.outputs == found.proposals


async def test_a_final_merge_that_fails_keeps_failures_first():
    patches = [
        analyst_patch("s0", "T1", source_type="success"),
        analyst_patch("f0", "T0"),
    ]
    found, model = await merged(["prose"], patches)
    assert [p.id for p in found.proposals] == ["f0.e1", "s0.e1"]
    assert [p.edit.merge_level for p in found.proposals] == [None, None]
    assert model.asked[0].messages[0]["content"].splitlines()[0] == "# Merge: final"


async def test_a_failed_merge_keeps_the_level_that_an_edit_has():
    def answer(asked):
        if "## Merge level\n1\n" in asked.user:
            return {"edits": [merged_edit("first", ["p1.e1"])]}
        return "prose"

    patches = [analyst_patch(f"f{i}", f"T{i}") for i in range(3)]
    found, _ = await merged(answer, patches, size=2)
    assert [(p.id, p.edit.merge_level) for p in found.proposals] == [
        ("s1.f.m1.0.e1", 1),
        ("f2.e1", 2),
    ]


async def test_failures_win_the_source_type_of_a_final_edit():
    reply = {
        "edits": [
            merged_edit("both", ["p1.e1", "p2.e1"]),
            merged_edit("good", ["p2.e1"]),
            merged_edit("new", []),
        ]
    }
    patches = [analyst_patch("f0", "T0"), analyst_patch("s0", "T1", source_type="success")]
    found, _ = await merged([reply], patches)
    assert [p.source_type for p in found.proposals] == ["failure", "success", "failure"]


async def test_bad_edits_of_a_merge_are_dropped_and_an_empty_merge_is_noted():
    reply = {"edits": [merged_edit("x" * 30_000, ["p1.e1"]), {"op": "explode", "content": "y"}]}
    found, _ = await merged([reply], [analyst_patch("f0", "T0"), analyst_patch("f1", "T1")])
    assert found.proposals == ()
    assert found.merges[0].notes == (
        "e1 is dropped: its 30,000 characters are more than the 20,000 of an edit",
        "e2 is dropped: op 'explode' is none of append, insert_after, replace, delete",
        "none of 2 edits is kept",
    )


async def test_patches_too_long_for_a_prompt_are_not_sent():
    patches = [analyst_patch(f"f{i}", f"T{i}", contents=[f"{i}" * 15_000]) for i in range(8)]
    model = ScriptedReplies([])
    optimizer = Optimizer(model, max_prompt_tokens=20_000)
    found = await aggregate(optimizer, StepSettings(), CONTEXT, patches)
    assert len(found.proposals) == 8
    assert "nothing was sent" in found.merges[0].fault.failure.message
