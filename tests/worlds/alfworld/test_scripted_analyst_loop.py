"""The learner's whole step runs on the scripted analyst, and the agent wins more and more."""

import pytest
from analyst_prompts import engine, play

from fakes import in_one_batch
from skillwright.core import EpisodeSpec, PlainSkill
from skillwright.core.seeds import evaluation_seed, training_seed
from skillwright.textopt import (
    Optimizer,
    StepContext,
    StepMemory,
    StepSettings,
    StepStatus,
    build_scheduler,
    propose,
)
from skillwright.worlds.alfworld import generated_tasks
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst
from skillwright.worlds.scripted.skilltext import Rule, read_conduct


async def step_on(results, skill="", budget=4, seed=3, earlier=""):
    context = StepContext("s1", skill, budget, seed=seed, earlier_steps=earlier)
    return await propose(
        Optimizer(ScriptedAnalyst()), StepSettings(), context, in_one_batch(results, seed)
    )


async def test_a_step_over_real_games_gives_a_candidate_without_a_single_complaint():
    step = await step_on(await play("", 30))
    assert step.status is StepStatus.CANDIDATE
    assert step.faults == ()
    assert [note for patch in step.reflection.patches for note in patch.notes] == []
    assert [note for merge in step.merged.merges for note in merge.notes] == []
    assert len(step.selection.proposals) == 4
    assert step.selection.ranked
    assert step.update.counts["applied"] == 4
    conduct = read_conduct(step.candidate)
    assert conduct.follows(Rule.OPEN_CLOSED)
    assert conduct.follows(Rule.SEARCH_ONCE)


async def test_a_merged_lesson_has_the_support_of_all_its_sources():
    step = await step_on(await play("", 30))
    assert any(len(proposal.parents) > 1 for proposal in step.proposals)
    assert step.selection.proposals[0].support > 8  # more than any one analyst has read


async def test_the_same_games_give_the_same_step():
    games = await play("", 30)
    assert await step_on(games) == await step_on(games)


async def won(skill, tasks, seed):
    specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0)) for task in tasks]
    results = await engine().run(specs, PlainSkill(skill))
    return sum(result.reward for result in results) / len(tasks)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2])
async def test_eight_steps_make_a_good_skill_of_an_empty_one(seed):
    train, val = generated_tasks("train", 120), generated_tasks("val", 60)
    budgets = build_scheduler("cosine", max_lr=4, min_lr=2, total_steps=8)
    skill, memory = "", StepMemory()
    score = await won(skill, val, seed)
    for number in range(1, 9):
        batch = [train[(30 * number + place) % 120] for place in range(30)]
        specs = [EpisodeSpec(task, training_seed(seed, 1, number, task.id)) for task in batch]
        results = await engine().run(specs, PlainSkill(skill))
        step = await step_on(
            results, skill, budgets.get_lr(number), seed * 100 + number, memory.render()
        )
        assert step.faults == ()
        new = await won(step.candidate, val, seed)
        action = "accept" if new >= score else "reject"
        memory = memory.remember(step.entry(number, action, scores=(score, new)))
        if new >= score:
            skill, score = step.candidate, new
    assert score >= 0.92
    assert await won(skill, generated_tasks("test", 60), 99) >= 0.92
