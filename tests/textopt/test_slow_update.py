"""A slow update writes guidance into its own region, and never decides that it is better."""

import json

import pytest

from fakes import ScriptedReplies, make_episode
from skillwright.core import ModelError, Purpose, Task, skill_hash
from skillwright.core.skill import inject_empty_slow_update, replace_slow_update_field
from skillwright.textopt import (
    Comparison,
    EditLimits,
    EpochContext,
    Optimizer,
    SlowUpdateStatus,
    placeholder,
    write_slow_update,
)

SKILL = "# Skill\n\n- Look first.\n"
LIMITS = EditLimits()
TASKS = [Task(f"T{number}", "fake") for number in range(3)]


def compared(rewards=((0.0, 1.0), (1.0, 0.0), (0.0, 0.0))):
    comparison = Comparison.plan(TASKS, wanted=3, seed=1, epoch=2)
    sides = [
        [make_episode(t.id, r[side]) for t, r in zip(comparison.todo, rewards, strict=True)]
        for side in (0, 1)
    ]
    return comparison.add(*sides)


async def updated(reply, skill=SKILL, comparison=None, limits=LIMITS):
    model = ScriptedReplies([reply])
    context = EpochContext("e2", "- Old rule.\n", skill, comparison or compared(), seed=5)
    return await write_slow_update(Optimizer(model, repair_rounds=0), context, limits), model


def says(content):
    return {"reasoning": "because", "slow_update_content": content}


async def test_guidance_becomes_a_region_at_the_end_of_a_candidate():
    update, model = await updated(says(" Take your time. \n"))
    assert update.status is SlowUpdateStatus.CANDIDATE
    assert update.candidate == replace_slow_update_field(SKILL, "Take your time.")
    assert update.means == pytest.approx((1 / 3, 1 / 3))
    assert len(update.pairs) == 3
    assert model.asked[0].purpose is Purpose.SLOW_UPDATE
    assert update.prompt_digest


async def test_the_prompt_has_both_skills_the_guidance_so_far_and_the_trajectories():
    _, model = await updated(says("x"), replace_slow_update_field(SKILL, "Go slowly."))
    user = model.asked[0].user
    assert user.startswith("## Current skill\n<skill>\n# Skill")
    assert "## Previous skill\n<skill>\n- Old rule.\n</skill>" in user
    assert "## Previous guidance\nGo slowly.\n" in user
    assert "regressed: 1\npersistent_fail: 1\nimproved: 1\nstable_success: 0" in user
    assert "mean reward: 0.33 -> 0.33" in user


async def test_new_guidance_takes_the_place_of_the_old():
    update, _ = await updated(says("New."), replace_slow_update_field(SKILL, "Old."))
    assert update.candidate == replace_slow_update_field(SKILL, "New.")


async def test_the_same_guidance_is_no_change():
    skill = replace_slow_update_field(SKILL, "Same.")
    update, _ = await updated(says("Same."), skill)
    assert (update.status, update.candidate) == (SlowUpdateStatus.NO_CHANGE, skill)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (" \n", None),
        ("<!-- SLOW_UPDATE_START --><!-- SLOW_UPDATE_END -->", None),
        ("x" * 30_000, "its 30,000 characters are more than the 20,000 of an edit"),
        (
            "a\u200bb",
            "it holds the hidden character U+200B (ZERO WIDTH SPACE) in line 1, column 2",
        ),
    ],
)
async def test_guidance_that_may_not_enter_a_skill_is_dropped_with_a_reason(content, note):
    update, _ = await updated(says(content))
    assert (update.status, update.candidate) == (SlowUpdateStatus.NO_CONTENT, SKILL)
    assert update.notes == ((f"the guidance is dropped: {note}",) if note else ())


async def test_a_document_at_its_limit_takes_no_guidance():
    update, _ = await updated(says("more"), limits=EditLimits(max_skill_chars=10))
    assert (update.status, update.candidate) == (SlowUpdateStatus.NO_CONTENT, SKILL)


@pytest.mark.parametrize("reply", ["prose", ModelError("503"), {"slow_update_content": 3}])
async def test_a_fault_leaves_the_skill_alone_and_is_reported(reply):
    update, _ = await updated(reply)
    assert (update.status, update.candidate) == (SlowUpdateStatus.FAULT, SKILL)
    assert update.fault.call == "e2.slow"


async def test_without_a_pair_nobody_is_asked():
    lost = compared(((None, 1.0), (1.0, None), (None, None)))
    update, model = await updated(says("x"), comparison=lost)
    assert (update.status, update.candidate) == (SlowUpdateStatus.NO_PAIRS, SKILL)
    assert model.asked == []


async def test_guidance_cannot_forge_the_appendix_or_close_its_region():
    update, _ = await updated(says("a <!-- SLOW_UPDATE_END --> b <!-- APPENDIX_START --> c"))
    assert update.candidate == replace_slow_update_field(SKILL, "a  b  c")


def test_the_first_epoch_has_a_placeholder():
    first = placeholder(SKILL, EditLimits())
    assert (first.status, first.candidate) == (
        SlowUpdateStatus.PLACEHOLDER,
        inject_empty_slow_update(SKILL),
    )
    assert first.status == "inject_placeholder"


async def test_the_record_names_the_guidance_and_leaves_trajectories_out():
    update, _ = await updated(says("New."))
    body = json.loads(json.dumps(update.to_dict()))
    assert body["slow_update_content"] == "New."
    assert body["candidate_hash"] == skill_hash(update.candidate)
    assert [pair["category"] for pair in body["pairs"]] == [
        "improved",
        "regressed",
        "persistent_fail",
    ]
    assert "Nothing happens" not in json.dumps(body)


async def test_the_same_question_gives_the_same_update():
    assert await updated(says("x")) != await updated(says("y"))
    assert (await updated(says("x")))[0] == (await updated(says("x")))[0]
