"""The scoring policy plays real household games in the engine."""

import pytest
import torch

from skillwright.core import EpisodeSpec, PlainSkill, TurnContext
from skillwright.policy import PolicyAgent
from skillwright.policy.scorer import ScorerPolicy
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.alfworld import AlfworldEnv, habits_text, household
from skillwright.worlds.alfworld.generate import household_tasks

TASKS = household_tasks("train", 6, homes=[3])
SKILL = habits_text(household(3))


@pytest.fixture(scope="module")
def policy():
    torch.set_num_threads(1)
    contexts = []
    for task in TASKS:
        messages, metadata = AlfworldEnv(None, dict(task.extras)).init([])
        contexts.append(TurnContext(messages, 0, metadata, SKILL))
    return ScorerPolicy.for_turns(contexts)


async def played(policy, at_once):
    agent = PolicyAgent(policy, 1.0)
    engine = LocalEngine(
        agent,
        lambda task: AlfworldEnv(None, dict(task.extras)),
        limits=Limits(max_concurrent=at_once),
        mode="lockstep",
    )
    specs = [EpisodeSpec(task, seed=draw, draw=draw) for task in TASKS for draw in range(2)]
    results = await engine.run(specs, PlainSkill(SKILL))
    return results, [agent.rows(result) for result in results]


async def test_an_evaluation_is_the_same_however_many_games_are_played_at_once(policy):
    whole, _ = await played(policy, at_once=12)
    parts, _ = await played(policy, at_once=5)
    for one, other in zip(whole, parts, strict=True):
        assert one.failure is None
        assert one.reward == other.reward
        assert [turn.act.text for turn in one.trajectory.turns] == [
            turn.act.text for turn in other.trajectory.turns
        ]


async def test_every_turn_is_an_admissible_command_and_has_its_row(policy):
    results, rows = await played(policy, at_once=12)
    for result, mine in zip(results, rows, strict=True):
        played_out = result.trajectory
        offered = [played_out.metadata, *(turn.metadata for turn in played_out.turns)]
        for turn, row, before in zip(played_out.turns, mine, offered, strict=False):
            assert before["admissible_commands"][row.token_ids[0]] == turn.act.text
        assert len({row.context.fixed.name for row in mine}) == 1
        assert len(played_out.turns) <= result.spec.task.extras["max_turns"]
