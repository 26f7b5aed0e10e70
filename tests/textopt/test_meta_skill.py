"""The optimizer's memory is written at an epoch's end and never enters the skill."""

import json

import pytest

from fakes import ScriptedReplies, make_episode
from skillwright.core import ModelError, Purpose, Task
from skillwright.textopt import (
    Comparison,
    EditLimits,
    EpochContext,
    MetaSkillAction,
    Optimizer,
    write_meta_skill,
)

LIMITS = EditLimits()


def compared(previous=0.0):
    comparison = Comparison.plan([Task("T0", "fake")], wanted=1, seed=1, epoch=2)
    return comparison.add([make_episode("T0", previous)], [make_episode("T0", 1.0)])


async def written(reply, previous="", comparison=None, limits=LIMITS):
    model = ScriptedReplies([reply])
    context = EpochContext("e2", "- Old.\n", "- New.\n", comparison or compared())
    optimizer = Optimizer(model, repair_rounds=0)
    return await write_meta_skill(optimizer, context, previous, limits), model


def says(content):
    return {"reasoning": "because", "meta_skill_content": content}


async def test_the_memory_is_replaced_by_what_is_written_now():
    memory, model = await written(says(" - Short rules work.\n"), previous="- Old note.")
    assert memory.action is MetaSkillAction.WRITTEN == "write_meta_skill"
    assert memory.content == "- Short rules work."
    assert model.asked[0].purpose is Purpose.META_SKILL
    assert "## Previous notes\n- Old note.\n" in model.asked[0].user
    assert "improved: 1" in model.asked[0].user
    assert json.loads(json.dumps(memory.to_dict()))["action"] == "write_meta_skill"


async def test_nothing_to_say_keeps_what_was_known():
    memory, _ = await written(says("  "), previous="- Old note.")
    assert (memory.action, memory.content) == (MetaSkillAction.NO_CONTENT, "- Old note.")


async def test_notes_with_hidden_characters_or_without_end_are_dropped():
    for content in ("a\u202eb", "x" * 30_000):
        memory, _ = await written(says(content), previous="old")
        assert (memory.action, memory.content) == (MetaSkillAction.NO_CONTENT, "old")
        assert memory.notes


@pytest.mark.parametrize("reply", ["prose", ModelError("503"), {"meta_skill_content": None}])
async def test_a_fault_keeps_what_was_known_and_is_reported(reply):
    memory, _ = await written(reply, previous="old")
    assert (memory.action, memory.content) == (MetaSkillAction.FAULT, "old")
    assert memory.fault.call == "e2.meta"


async def test_without_a_pair_nobody_is_asked():
    memory, model = await written(says("x"), "old", comparison=compared(previous=None))
    assert (memory.action, memory.content, model.asked) == (MetaSkillAction.NO_CONTENT, "old", [])
