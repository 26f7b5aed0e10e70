"""Analysts read minibatches at once; the outcome depends on what they say, not on who is first."""

import itertools
import json

import pytest

from fakes import ScriptedReplies, make_episode
from skillwright.core import FailureCause, ModelError, Purpose, Sampling
from skillwright.textopt import (
    ANY_REWARD,
    AnalystFault,
    Evidence,
    Optimizer,
    StepContext,
    StepSettings,
    plan_minibatches,
    read_episodes,
    reflect,
)

SKILL = "# Skill\n\n- Look first.\n"
DEFAULTS = StepSettings()


def edit(content="Open doors.", evidence=(), op="append", **more):
    cited = [{"id": row_id, "turns": list(turns)} for row_id, turns in evidence]
    return {"op": op, "content": content, "evidence": cited, **more}


def patch(*edits, **more):
    return {"reasoning": "because", "patch": {"edits": list(edits)}, **more}


def rows(*rewards):
    turns = [("look", "ok"), ("go", "ok"), ("open", "ok")]
    return read_episodes(
        [make_episode(f"T{i}", reward, turns) for i, reward in enumerate(rewards)]
    ).rows


def context(budget=4, **more):
    return StepContext("s3", SKILL, budget, **more)


async def reflected(replies, episodes=None, settings=DEFAULTS, budget=4, **more):
    model = replies if isinstance(replies, ScriptedReplies) else ScriptedReplies(replies)
    optimizer = Optimizer(model, repair_rounds=0)
    return await reflect(optimizer, settings, context(budget, **more), episodes or rows(0.0, 0.0))


def ids_of(minibatches, source_type):
    return [row.id for m in minibatches if m.source_type == source_type for row in m.rows]


def test_without_a_seed_the_input_order_stays():
    planned = plan_minibatches(rows(*[0.0] * 3), StepSettings(), None)
    assert ids_of(planned, "failure") == ["T0", "T1", "T2"]


def test_minibatches_are_consecutive_chunks_failures_first():
    planned = plan_minibatches(rows(0, 1, 0, 1, 0), StepSettings(minibatch_size=2), None)
    assert [(m.source_type, m.number, [r.id for r in m.rows]) for m in planned] == [
        ("failure", 0, ["T0", "T2"]),
        ("failure", 1, ["T4"]),
        ("success", 0, ["T1", "T3"]),
    ]


@pytest.mark.parametrize(
    ("threshold", "failing"),
    [(1.0, ["T0", "T1", "T2"]), (0.5, ["T0", "T1"]), (ANY_REWARD, ["T0"])],
)
def test_the_threshold_parts_failures_from_successes(threshold, failing):
    settings = StepSettings(success_threshold=threshold)
    planned = plan_minibatches(rows(0.0, 0.3, 0.5, 1.0), settings, None)
    assert ids_of(planned, "failure") == failing


def test_successes_can_be_left_out():
    planned = plan_minibatches(rows(0.0, 1.0), StepSettings(failure_only=True), None)
    assert [m.source_type for m in planned] == ["failure"]


async def test_an_analyst_is_asked_in_the_agreed_form():
    model = ScriptedReplies([patch()])
    await reflected(model, rows(0.0), earlier_steps="Step 1: reject", seed=5)
    (asked,) = model.asked
    system, user = asked.messages
    assert system["content"].splitlines()[0] == "# Analyst: failures"
    assert user["content"].startswith(
        "## Current skill\n<skill>\n# Skill\n\n- Look first.\n</skill>\n\n"
        "## Edit budget\nPropose at most 4 edits.\n\n"
        "## Earlier steps\nStep 1: reject\n\n"
        "## Optimizer notes\n(none)\n\n"
        '## Trajectories\n<trajectory id="T0" '
    )
    assert asked.purpose is Purpose.REFLECT
    assert asked.sampling.seed is not None


async def test_an_empty_skill_is_shown_as_empty():
    model = ScriptedReplies([patch()])
    await reflect(Optimizer(model), StepSettings(), StepContext("s1", " \n", 2), rows(1.0))
    assert "## Current skill\n<skill>\n(empty)\n</skill>\n" in model.asked[0].user
    assert model.asked[0].messages[0]["content"].startswith("# Analyst: successes\n")


async def test_proposals_carry_ids_evidence_and_support():
    reply = patch(edit("a", [("T1", [1, 0, 9]), ("T0", []), ("T1", [2])]), edit("b", [("T0", [2])]))
    (found,) = (await reflected([f"Here:\n```json\n{json.dumps(reply)}\n```"])).patches
    first, second = found.proposals
    assert (first.id, second.id) == ("s3.f0.e1", "s3.f0.e2")
    assert first.evidence == (Evidence("T1", (0, 1, 2)), Evidence("T0", ()))
    assert (first.support, first.edit.support_count, second.support) == (2, 2, 1)
    assert first.source_type == first.edit.source_type == "failure"
    assert len(first.prompt_digest) == 64
    assert (found.reasoning, found.notes) == ("because", ())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_the_order_of_answers_changes_nothing(order):
    def answer(asked):
        shown = [i for i in range(6) if f'id="T{i}"' in asked.user]
        return "no json" if shown == [2, 3] else patch(edit(f"from {shown}"))

    model = ScriptedReplies(answer, finish_order=order)
    found = await reflected(model, rows(0, 0, 0, 0, 1, 1), StepSettings(minibatch_size=2))
    assert model.finished == list(order)
    assert [type(outcome) is AnalystFault for outcome in found.outcomes] == [False, True, False]
    assert [(p.id, p.edit.content) for patch_ in found.patches for p in patch_.proposals] == [
        ("s3.f0.e1", "from [0, 1]"),
        ("s3.s0.e1", "from [4, 5]"),
    ]
    assert found.faults[0].call == "s3.f1"


async def test_support_is_counted_and_never_the_models_number():
    (found,) = (await reflected([patch(edit("a", [("T0", [])], support_count=99))])).patches
    assert found.proposals[0].edit.support_count == 1


async def test_unknown_evidence_becomes_the_whole_minibatch_and_is_noted():
    reply = patch(edit("a", [("T9", [1])]), edit("b"), edit("c", [("T0", [0]), ("T9", [])]))
    (found,) = (await reflected([reply])).patches
    everything = (Evidence("T0"), Evidence("T1"))
    assert [p.evidence for p in found.proposals] == [
        everything,
        everything,
        (Evidence("T0", (0,)),),
    ]
    assert "e1 cites trajectories that were not shown: 'T9'" in found.notes
    assert "e2 cites nothing known; all of its minibatch is its evidence" in found.notes


async def test_turns_that_are_no_numbers_of_the_trajectory_are_left_out():
    cited = [{"id": "T0", "turns": [2, [1], True, "0", 1.0, None, 99, 0]}]
    (found,) = (await reflected([patch({"content": "a", "evidence": cited})])).patches
    assert found.proposals[0].evidence == (Evidence("T0", (0, 2)),)


@pytest.mark.parametrize("evidence", ["T0", 7, {"id": "T0"}, [None, 3, {"id": ["T0"]}], ["T0"]])
async def test_evidence_of_the_wrong_form_never_breaks_a_reply(evidence):
    reply = patch({"op": "append", "content": "a", "evidence": evidence})
    (found,) = (await reflected([reply])).patches
    assert found.proposals[0].support == (1 if evidence == ["T0"] else 2)


async def test_edits_beyond_the_budget_are_cut_and_noted():
    (found,) = (await reflected([patch(edit("a"), edit("b"), edit("c"))], budget=2)).patches
    assert [p.edit.content for p in found.proposals] == ["a", "b"]
    assert "3 edits were proposed; the first 2 are kept" in found.notes


async def test_the_analysts_budget_can_differ_from_the_steps():
    model = ScriptedReplies([patch(edit("a"), edit("b"))])
    settings = StepSettings(analyst_budget=1)
    (found,) = (await reflected(model, settings=settings, budget=3)).patches
    assert "Propose at most 1 edits." in model.asked[0].user
    assert len(found.proposals) == 1


async def test_no_budget_keeps_every_edit():
    model = ScriptedReplies([patch(edit("a"), edit("b"))])
    (found,) = (await reflected(model, budget=None)).patches
    assert "Propose as many edits as the evidence supports." in model.asked[0].user
    assert len(found.proposals) == 2


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        ("open doors", "it is a str, not an object"),
        (None, "it is a NoneType, not an object"),
        ({"op": "merge", "content": "x"}, "op 'merge' is none of append"),
        ({"op": ["append", 1], "content": "x"}, "op \"['append', 1]\" is none of"),
        ({"op": "append", "content": 5}, "content is a int, not a text"),
        ({"op": "delete", "target": {"a": 1}}, "target is a dict, not a text"),
        ({"op": "append", "content": " \n"}, "append has nothing to add"),
        ({"op": "append", "content": "x" * 1_000_000}, "its 1,000,000 characters are more than"),
        ({"op": "append", "content": "see\u202ethis"}, "it holds the hidden character U+202E"),
        ({"op": "append", "content": "half \ud800 pair"}, "it holds the hidden character U+D800"),
    ],
)
async def test_an_edit_that_cannot_be_used_is_dropped_and_its_siblings_stay(bad, note):
    (found,) = (await reflected([patch(bad, edit("good"))])).patches
    assert [(p.id, p.edit.content) for p in found.proposals] == [("s3.f0.e2", "good")]
    assert found.notes[0].startswith(f"e1 is dropped: {note}")


async def test_an_edit_without_an_op_is_an_append():
    (found,) = (await reflected([patch({"content": "x"})])).patches
    assert found.proposals[0].edit.op == "append"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"op": "append", "target": None, "content": "x"}, ("append", "", "x")),
        ({"op": "delete", "target": "- a", "content": None}, ("delete", "- a", "")),
        ({"op": None, "content": "x"}, ("append", "", "x")),
    ],
)
async def test_a_field_that_is_null_is_one_that_is_not_there(written, read):
    (found,) = (await reflected([patch(written)])).patches
    (proposal,) = found.proposals
    assert (proposal.edit.op, proposal.edit.target, proposal.edit.content) == read


async def test_an_anchor_quoted_in_its_defused_form_is_found_again():
    skill = "Put it in <task> tags.\n"
    model = ScriptedReplies([patch(edit("", op="delete", target="in \u2039task> tags"))])
    found = await reflect(Optimizer(model), StepSettings(), StepContext("s1", skill, 1), rows(0))
    assert "\u2039task> tags" in model.asked[0].user
    assert found.patches[0].proposals[0].edit.target == "in <task> tags"


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        ("I would add a rule about doors.", FailureCause.REPLY),
        ('{"reasoning": "x", "patch": {"edits": [{"op": "app', FailureCause.REPLY),
        ({"reasoning": "x"}, FailureCause.REPLY),
        ({"patch": {"edits": {"op": "append"}}}, FailureCause.REPLY),
        ({"patch": {"edits": "none"}}, FailureCause.REPLY),
        ("", FailureCause.REPLY),
        (ModelError("503 from the endpoint"), FailureCause.MODEL),
    ],
)
async def test_an_answer_that_cannot_be_used_is_a_fault_not_an_empty_patch(reply, cause):
    found = await reflected([reply])
    assert found.patches == ()
    (fault,) = found.faults
    assert (fault.call, fault.failure.cause) == ("s3.f0", cause)
    assert fault.failure.message


async def test_an_empty_patch_is_an_answer():
    found = await reflected([patch()])
    assert found.faults == ()
    assert found.patches[0].proposals == ()


async def test_a_bad_answer_is_asked_for_once_more():
    model = ScriptedReplies(["sorry?", patch(edit("a"))])
    found = await reflect(Optimizer(model), StepSettings(), context(), rows(0.0))
    assert [p.edit.content for p in found.patches[0].proposals] == ["a"]
    assert len(model.asked) == 2


async def test_edits_at_the_top_level_and_loose_remarks_are_read():
    reply = {"edits": [edit("a")], "reasoning": None, "failure_summary": "none"}
    (found,) = (await reflected([reply])).patches
    assert (len(found.proposals), found.reasoning, found.failures) == (1, "", ())


async def test_failure_notes_are_joined_by_trajectory_and_bounded():
    summary = [
        {"failure_type": " lost ", "count": 40, "description": "never looked"},
        {"failure_type": "closed", "count": 9, "ids": ["T1", "T7"]},
        {"failure_type": "odd", "count": "many"},
        {"count": 3},
        "lost",
    ]
    (found,) = (await reflected([patch(failure_summary=summary)])).patches
    assert [(n.failure_type, n.count, n.trajectories) for n in found.failures] == [
        ("lost", 2, ()),
        ("closed", 1, ("T1",)),
        ("odd", 1, ()),
    ]
    assert found.failures[0].description == "never looked"


async def test_success_patterns_are_kept():
    (found,) = (await reflected([patch(success_patterns=["looked", 3])], rows(1.0))).patches
    assert (found.source_type, found.success_patterns) == ("success", ("looked",))


async def test_a_minibatch_with_nothing_to_read_is_not_sent():
    batch = read_episodes([make_episode("T0", 0.0, []), make_episode("T1", 0.0)]).rows
    model = ScriptedReplies([patch(edit("a"))])
    (found,) = (await reflected(model, batch, StepSettings(minibatch_size=1))).patches
    assert (found.call, found.trajectories) == ("s3.f1", ("T1",))


async def test_cuts_are_reported_and_the_prompt_keeps_to_its_budget():
    batch = read_episodes(
        [make_episode(f"T{i}", 0.0, [("act", "x" * 300)] * 40) for i in range(3)]
    ).rows
    model = ScriptedReplies([patch()])
    optimizer = Optimizer(model, max_prompt_tokens=6_000)
    (found,) = (await reflect(optimizer, StepSettings(), context(), batch)).patches
    assert {cut.id for cut in found.cuts} == {"T0", "T1", "T2"}
    assert all(cut.turns > 0 for cut in found.cuts)
    assert sum(len(m["content"]) for m in model.asked[0].messages) <= 24_000


async def test_a_skill_that_leaves_no_room_is_a_fault_and_nothing_is_sent():
    model = ScriptedReplies([])
    optimizer = Optimizer(model, max_prompt_tokens=1_000)
    found = await reflect(optimizer, StepSettings(), context(), rows(0.0))
    assert found.faults[0].failure.message.startswith("nothing was sent: the prompt has about")
    assert model.asked == []


async def test_a_seed_makes_every_call_sample_with_its_own():
    model = ScriptedReplies(lambda asked: patch())
    settings = StepSettings(minibatch_size=1)
    optimizer = Optimizer(model, sampling=Sampling(temperature=0.7))
    await reflect(optimizer, settings, context(seed=1), rows(0.0, 0.0))
    seeds = [asked.sampling.seed for asked in model.asked]
    assert len(set(seeds)) == 2
    assert None not in seeds
    assert all(asked.sampling.temperature == 0.7 for asked in model.asked)


async def test_a_bug_in_the_model_is_not_swallowed():
    with pytest.raises(KeyError, match="bug"):
        await reflected([KeyError("bug")])


async def test_no_more_analysts_than_workers_are_busy_at_once():
    model = ScriptedReplies(lambda asked: patch(), finish_order=[0, 1])
    settings = StepSettings(minibatch_size=1, analyst_workers=2)
    await reflected(model, rows(0.0, 0.0, 0.0), settings)
    assert (model.most_in_flight, len(model.finished)) == (2, 3)
