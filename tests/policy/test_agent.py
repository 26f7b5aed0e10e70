"""The agent of a policy: it plays in lockstep, and gives back what it sampled."""

from dataclasses import replace

import pytest

from policy.errands import Errand, played, specs
from policy.fake_policies import CoinPolicy
from skillwright.core import ConfigError, ContractError, PlainSkill
from skillwright.policy import PolicyAgent
from skillwright.rollout import Limits, LocalEngine


async def test_rows_carry_task_episode_and_turn():
    results, agent = await played(CoinPolicy(), specs())
    for result in results:
        rows = agent.rows(result)
        assert [row.turn for row in rows] == list(range(len(result.trajectory.turns)))
        assert {row.group for row in rows} == {result.task_id}
        assert [row.token_ids for row in rows] == [
            turn.act.token_ids for turn in result.trajectory.turns
        ]
    names = {row.episode for result in results for row in agent.rows(result)}
    assert len(names) == len(results)


async def test_a_turn_that_was_not_sampled_here_is_never_made_up():
    results, _ = await played(CoinPolicy(), specs())
    with pytest.raises(ContractError, match="turn 0 of episode 't0#0' was not sampled"):
        PolicyAgent(CoinPolicy()).rows(results[0])


async def test_what_was_learned_from_is_forgotten():
    results, agent = await played(CoinPolicy(), specs())
    agent.forget()
    with pytest.raises(ContractError, match="not sampled"):
        agent.rows(results[0])


async def test_two_turns_of_one_seed_are_distinguished_by_their_prompts():
    same = [replace(one, seed=5) for one in specs(tasks=3, draws=1)]
    results, agent = await played(CoinPolicy(), same)
    for result in results:
        assert [row.context for row in agent.rows(result)] == [
            tuple(turn.prompt[-1]["content"] for _ in [0]) for turn in result.trajectory.turns
        ]


async def test_an_agent_that_only_plays_keeps_nothing():
    agent = PolicyAgent(CoinPolicy(), remembers=False)
    engine = LocalEngine(
        agent,
        lambda task: Errand(extras=dict(task.extras)),
        limits=Limits(max_turns=2),
        mode="lockstep",
    )
    (result,) = await engine.run(specs(1, 1), PlainSkill(""))
    with pytest.raises(ContractError, match="not sampled"):
        agent.rows(result)


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature):
    with pytest.raises(ConfigError, match="temperature is"):
        PolicyAgent(CoinPolicy(), temperature)


def test_the_identity_changes_with_weights_and_temperature():
    backend = CoinPolicy()
    names = {PolicyAgent(backend).identity, PolicyAgent(backend, 0.5).identity}
    backend.optim_step(1.0)
    names.add(PolicyAgent(backend).identity)
    assert len(names) == 3
