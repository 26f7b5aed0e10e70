"""The scripted analyst answers every prompt of the learner, and reads nothing but the prompt."""

import asyncio

import pytest
from analyst_prompts import FULL_SKILL, play
from hypothesis import given
from hypothesis import strategies as st

from fakes import in_one_batch
from skillwright.core import Edit, Purpose
from skillwright.core.fence import json_block
from skillwright.core.skill import slow_update_field
from skillwright.textopt import (
    PROMPT_NAMES,
    BudgetControl,
    Comparison,
    EditLimits,
    EpochContext,
    MetaSkillAction,
    Optimizer,
    Proposal,
    SkillAware,
    SlowUpdateStatus,
    StepContext,
    StepSettings,
    StepStatus,
    UpdateMode,
    add_notes,
    appendix_notes,
    apply_proposals,
    decide_budget,
    load_prompt,
    propose,
    repair_anchors,
    write_meta_skill,
    write_slow_update,
)
from skillwright.textopt.optimizer import skill_section, user_message
from skillwright.worlds.alfworld import generated_tasks
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst
from skillwright.worlds.scripted.skilltext import Rule, read_conduct, read_stances

LIMITS = EditLimits()
OPTIMIZER = Optimizer(ScriptedAnalyst(), repair_rounds=0)


async def epoch(previous="", current="- Be friendly.\n"):
    """Compare two skills on games that were really played."""
    tasks = generated_tasks("train", 60)
    comparison = Comparison.plan(tasks, wanted=20, seed=3, epoch=2)
    sides = [
        {result.task_id: result for result in await play(skill)} for skill in (previous, current)
    ]
    chosen = [[side[task.id] for task in comparison.todo] for side in sides]
    return EpochContext("e2", previous, current, comparison.add(*chosen), seed=7)


async def test_a_slow_update_teaches_what_failing_games_lack():
    context = await epoch()
    update = await write_slow_update(OPTIMIZER, context, LIMITS)
    assert update.status is SlowUpdateStatus.CANDIDATE
    guidance = slow_update_field(update.candidate)
    stances = read_stances(guidance)
    assert stances
    assert not any(stance.is_harmful for stance in stances)
    assert update == await write_slow_update(OPTIMIZER, context, LIMITS)
    learned = read_conduct(update.candidate)
    assert all(learned.follows(stance.rule) for stance in stances)


async def test_a_slow_update_keeps_earlier_guidance():
    first = await write_slow_update(OPTIMIZER, await epoch(), LIMITS)
    second = await epoch("- Be friendly.\n", first.candidate)
    update = await write_slow_update(OPTIMIZER, second, LIMITS)
    assert update.content.startswith(slow_update_field(first.candidate))


async def test_a_full_skill_needs_no_guidance():
    context = await epoch(FULL_SKILL, FULL_SKILL)
    update = await write_slow_update(OPTIMIZER, context, LIMITS)
    assert update.candidate == FULL_SKILL


async def test_a_meta_skill_names_what_persists_and_what_was_learned():
    memory = await write_meta_skill(OPTIMIZER, await epoch("", FULL_SKILL), "", LIMITS)
    assert memory.action is MetaSkillAction.WRITTEN
    assert "The last epoch taught against this: left closed receptacles shut." in memory.content
    stuck = await write_meta_skill(OPTIMIZER, await epoch(), "", LIMITS)
    assert "This still happens: left closed receptacles shut." in stuck.content


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (Edit("replace", "- Open.", "- Be frindly."), "repaired_replace"),
        (Edit("delete", "", "- Be friendly!"), "repaired_delete"),
        (Edit("insert_after", "- Open.", "## General rules"), "repaired_append"),
        (Edit("replace", "- Open.", "zzzz"), "skipped_replace_target_not_found"),
    ],
)
async def test_a_lost_anchor_gets_the_nearest_line(edit, status):
    skill = "- Be friendly.\n"
    wanted, config = [Proposal("e1", edit, "failure")], StepSettings()
    update = apply_proposals(skill, wanted, LIMITS, insert_after_fallback=False)
    context = StepContext("s1", skill, 4)
    update, _ = await repair_anchors(OPTIMIZER, config, context, wanted, update)
    assert update.outcomes[0].status == status


@pytest.mark.parametrize("prompt", PROMPT_NAMES)
async def test_every_prompt_is_known_and_a_damaged_message_gets_prose(prompt):
    messages = [
        {"role": "system", "content": load_prompt(prompt)},
        {"role": "user", "content": "## Current skill\nnone"},
    ]
    answer = await ScriptedAnalyst().complete(messages, purpose=Purpose.CHECK)
    assert answer.text.startswith("I am a scripted analyst")


async def step_in(mode, skill="", control=BudgetControl.FIXED, earlier=""):
    context = StepContext("s1", skill, 4, seed=3, earlier_steps=earlier)
    config = StepSettings(update_mode=mode, budget_control=control)
    return await propose(OPTIMIZER, config, context, in_one_batch(await play("", 30), 3))


@pytest.mark.parametrize("mode", list(UpdateMode))
@pytest.mark.parametrize("control", list(BudgetControl))
async def test_every_mode_turns_games_into_a_better_skill(mode, control):
    skill = "- Be friendly.\n\n<!-- SLOW_UPDATE_START -->\nslowly\n<!-- SLOW_UPDATE_END -->\n"
    step = await step_in(mode, skill, control)
    assert step.status is StepStatus.CANDIDATE
    assert step.faults == ()
    assert [note for patch in step.reflection.patches for note in patch.notes] == []
    assert [note for merge in step.merged.merges for note in merge.notes] == []
    learned = read_conduct(step.candidate)
    assert learned.follows(Rule.OPEN_CLOSED)
    assert learned.follows(Rule.SEARCH_ONCE)
    assert slow_update_field(step.candidate) == "slowly"
    assert step == await step_in(mode, skill, control)


async def test_a_suggestion_that_was_rejected_is_worded_anew():
    first = await step_in(UpdateMode.REWRITE)
    memory = first.entry(1, "reject", scores=(0.5, 0.4)).render()
    second = await step_in(UpdateMode.REWRITE, earlier=memory)
    tried = {p.edit.content for p in first.selection.proposals}
    assert tried.isdisjoint(p.edit.content for p in second.selection.proposals)


async def test_suggestions_take_out_and_replace_what_harms():
    skill = "- Leave closed receptacles shut.\n- Be friendly.\n"
    step = await step_in(UpdateMode.REWRITE, skill)
    assert "Leave closed receptacles shut" not in step.candidate
    assert read_conduct(step.candidate).follows(Rule.OPEN_CLOSED)


async def test_slips_become_notes_and_gaps_become_edits():
    context = StepContext("s1", "- Open closed receptacles to look inside.\n", 4, seed=3)
    config = StepSettings(skill_aware=SkillAware(consolidate_threshold=1))
    games = await play("", 30)  # played without the rule, so it was not followed
    step = await propose(OPTIMIZER, config, context, in_one_batch(games, 3))
    assert len(step.execution_notes) == 1
    assert step.execution_notes[0].startswith("Remember: When you arrive at a closed receptacle")
    told = [*step.execution_notes, "Open what is closed!", "Be quick."]
    update = await add_notes(OPTIMIZER, config, context, told)
    assert update.consolidated
    assert appendix_notes(update.skill)[0] == step.execution_notes[0]
    plain = await propose(OPTIMIZER, StepSettings(), context, in_one_batch(games, 3))
    assert plain.execution_notes == ()


async def test_the_optimizer_stops_where_the_skill_says_everything():
    edit = Edit("append", "- Open closed receptacles to look inside.")
    proposal = Proposal("e1", edit, "failure")
    config = StepSettings(budget_control=BudgetControl.AUTONOMOUS)
    context = StepContext("s1", FULL_SKILL, 4)
    decision = await decide_budget(OPTIMIZER, config, context, [], [proposal])
    assert (decision.budget, decision.fallback) == (0, False)


shapes = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "op", "target", "content", "edits", "nearest", "instruction"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
headings = st.sampled_from(["Edits", "Suggestions", "Patches"])


@given(st.sampled_from(PROMPT_NAMES), headings, st.lists(shapes, max_size=3))
def test_no_json_in_a_prompt_makes_it_raise(prompt, heading, items):
    user = user_message(skill_section("- a"), (heading, json_block(items)))
    messages = [
        {"role": "system", "content": load_prompt(prompt)},
        {"role": "user", "content": user},
    ]
    answer = asyncio.run(ScriptedAnalyst().complete(messages, purpose=Purpose.CHECK))
    assert answer.text
