"""One step turns rollouts into a candidate with its provenance, or says why there is none."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import Purpose
from skillwright.textopt import (
    Optimizer,
    Skipped,
    StepContext,
    StepMemory,
    StepSettings,
    StepStatus,
    TriedEdit,
    propose,
)

SKILL = "# Skill\n\n- Look first.\n"
SETTINGS = StepSettings(minibatch_size=2)
CONTEXT = StepContext("s3", SKILL, budget=2)


def append(content, *ids):
    return {"op": "append", "content": content, "evidence": [{"id": i, "turns": [0]} for i in ids]}


def batch():
    rewards = [0.0, 0.0, 0.0, None, 1.0]
    return [make_episode(f"T{i}", reward, key=f"k{i}") for i, reward in enumerate(rewards)]


def household(asked):
    """Answer every stage: analysts cite what they saw, the merge joins all, the rank reverses."""
    if asked.purpose is Purpose.REFLECT:
        ids = [f"T{i}" for i in range(5) if f'id="T{i}"' in asked.user]
        summary = [{"failure_type": "shut", "count": len(ids), "ids": ids}]
        edits = [append(f"Rule of {i}.", i) for i in ids]
        return {"patch": {"edits": edits}, "failure_summary": summary}
    if asked.purpose is Purpose.MERGE:
        edits = [e for p in json.loads(asked.user.split("## Patches\n")[1]) for e in p["edits"]]
        merged = [{**e, "sources": [e["id"]]} for e in edits]
        return {"edits": merged}
    return {"selected_indices": [3, 1]}


async def proposed(replies, results=None, context=CONTEXT):
    optimizer = Optimizer(ScriptedReplies(replies), repair_rounds=0)
    results = batch() if results is None else results
    return await propose(optimizer, SETTINGS, context, in_one_batch(results, context.seed))


async def test_a_step_gives_a_candidate_with_the_whole_way_to_it():
    step = await proposed(household)
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate == "# Skill\n\n- Look first.\n\nRule of T4.\n\nRule of T1.\n"
    assert step.transcripts.skipped == (
        Skipped("T3", "it ended in a fault (model) and has no reward"),
    )
    assert step.failed == ("T0", "T1", "T2")
    assert [p.call for p in step.reflection.patches] == ["s3.f0", "s3.f1", "s3.s0"]
    assert [m.call for m in step.merged.merges] == ["s3.f.m1.0", "s3.final"]
    assert [p.support for p in step.selection.proposals] == [1, 1]
    assert [o.lines for o in step.update.outcomes] == [(5, 5), (7, 7)]
    assert step.faults == ()


async def test_every_parent_of_a_proposal_is_known():
    proposals = (await proposed(household)).proposals
    ids = [one.id for one in proposals]
    assert len(ids) == len(set(ids)) == 4 + 3 + 4
    for place, one in enumerate(proposals):
        assert set(one.parents) <= set(ids[:place])


async def test_the_same_answers_give_the_same_step():
    assert await proposed(household) == await proposed(household)


async def test_everything_but_the_texts_of_trajectories_is_recorded_as_json():
    record = json.loads(json.dumps((await proposed(household)).to_dict()))
    assert record["status"] == "candidate"
    assert record["trajectories"][0] == {"id": "T0", "task_id": "T0", "key": "k0", "reward": 0.0}
    assert record["merged"] == [f"s3.final.e{i}" for i in (1, 2, 3, 4)]
    assert record["selection"]["proposals"] == ["s3.final.e4", "s3.final.e2"]
    assert [e["proposal_id"] for e in record["edits"]] == ["s3.final.e4", "s3.final.e2"]
    assert record["patches"][0]["proposals"][0]["evidence"] == [{"id": "T0", "turns": [0]}]
    assert [e["id"] for e in record["merges"][0]["outputs"]] == [
        f"s3.f.m1.0.e{i}" for i in (1, 2, 3)
    ]
    assert record["counts"]["applied"] == 2
    assert "Nothing happens" not in json.dumps(record)


async def test_a_step_writes_itself_down_for_later_ones():
    step = await proposed(household)
    entry = step.entry(3, "reject", scores=(0.5, 0.25), p_value=0.9)
    assert entry.edits == (
        TriedEdit("append", "", "Rule of T4.", "applied_append"),
        TriedEdit("append", "", "Rule of T1.", "applied_append"),
    )
    assert (entry.n_total, entry.n_fail) == (4, 3)
    assert StepMemory().remember(entry).render() == (
        "Step 3: reject (0.50 -> 0.25, p = 0.90)\n"
        "Rejected edits:\n"
        "- append: Rule of T4.\n"
        "- append: Rule of T1.\n"
        "Failures seen: shut (3)"
    )


async def test_what_an_analyst_of_successes_calls_a_failure_is_none():
    def confused(asked):
        ids = [i for i in ("T0", "T1") if f'id="{i}"' in asked.user]
        summary = [{"failure_type": "slow", "ids": ids}, {"failure_type": "odd", "count": 1}]
        return {"patch": {"edits": []}, "failure_summary": summary}

    step = await proposed(confused, [make_episode("T0", 0.0), make_episode("T1", 1.0)])
    failures = step.entry(1, step.status).failures
    assert [(f.pattern, f.count) for f in failures] == [("slow", 1), ("odd", 1)]


async def test_analysts_without_an_edit_are_a_step_without_patches():
    step = await proposed(lambda asked: {"patch": {"edits": []}})
    assert step.status is StepStatus.NO_PATCHES == "skip_no_patches"
    assert (step.candidate, step.update.is_noop) == (SKILL, True)


async def test_a_batch_of_failures_is_a_step_without_patches():
    step = await proposed([], [make_episode("T0", None)])
    assert step.status is StepStatus.NO_PATCHES


async def test_faults_alone_are_not_a_step_without_patches():
    step = await proposed(lambda asked: "I have no edits in model.")
    assert step.status is StepStatus.FAULTS
    assert [fault.call for fault in step.faults] == ["s3.f0", "s3.f1", "s3.s0"]


async def test_one_fault_leaves_the_others_to_make_a_candidate():
    def answer(asked):
        is_success = asked.messages[0]["content"].startswith("# Analyst: successes")
        return household(asked) if is_success else "no"

    step = await proposed(answer)
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate.endswith("Rule of T4.\n")
    assert len(step.faults) == 2


async def test_edits_that_change_nothing_are_no_candidate():
    reply = {"patch": {"edits": [{"op": "delete", "target": "not there"}]}}
    step = await proposed([reply, {"anchors": []}], [make_episode("T0")])
    assert step.status is StepStatus.NO_CHANGE
    assert step.entry(1, step.status).render() == (
        "Step 1: skip_no_change\n"
        "Edits that could not be made:\n"
        '- delete "not there" [skipped_delete_target_not_found]'
    )


scalars = st.none() | st.booleans() | st.integers(-2, 9) | st.floats(0, 9) | st.text(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "turns", "op", "edits", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
odd_edits = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["append", "insert_after", "replace", "delete"]) | anything,
        "content": st.sampled_from(["New rule.", "- Look twice."]) | anything,
        "target": st.sampled_from(["- Look first.", "Skill"]) | anything,
        "evidence": st.lists(anything, max_size=2) | anything,
        "sources": st.lists(st.sampled_from(["p1.e1", "p2.e1"]) | anything, max_size=2),
    },
)
edit_lists = st.lists(odd_edits, max_size=4) | st.lists(odd_edits | anything, max_size=3) | anything
remark_keys = st.sampled_from(["failure_type", "count", "ids"])
odd_replies = st.builds(
    lambda edits, indices, remarks: {
        "patch": {"edits": edits},
        "edits": edits,
        "selected_indices": indices,
        "failure_summary": remarks,
        "success_patterns": remarks,
        "reasoning": remarks,
    },
    edit_lists,
    st.lists(st.integers(-1, 4), max_size=3) | anything,
    st.lists(st.dictionaries(st.sampled_from(["failure_type", "count", "ids"]), anything))
    | anything,
)


@given(st.lists(odd_replies | anything, min_size=1, max_size=6))
def test_whatever_json_comes_back_the_step_has_an_outcome(replies):
    said = iter(range(100))

    def answer(asked):
        return json.dumps(replies[next(said) % len(replies)])

    step = asyncio.run(proposed(answer))
    assert step.update.is_noop is (step.candidate == SKILL)
    assert len(step.reflection.outcomes) == 3
    assert len(step.selection.proposals) <= 2
    json.dumps(step.to_dict())
    step.entry(1, step.status).render()


@pytest.mark.parametrize("sizes", [{"minibatch_size": 0}, {"merge_batch_size": 1}])
def test_a_size_below_its_least_is_refused(sizes):
    with pytest.raises(ValueError, match="_size"):
        StepSettings(**sizes)
