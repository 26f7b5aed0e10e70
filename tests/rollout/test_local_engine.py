"""What an engine returns when all goes well, freely and in lockstep."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs, guess_task
from skillwright.core import Act, EpisodeSpec, PlainSkill, StopReason
from skillwright.core.seeds import derive_seed
from skillwright.rollout import (
    Limits,
    LocalEngine,
    MemoryRecorder,
    PromptStyle,
)

MODES = pytest.mark.parametrize("mode", ["free", "lockstep"])


def timeless(results):
    return [replace(result, wall_s=0.0) for result in results]


async def played(specs, skills=NO_SKILL, agent=None, worlds=None, **settings):
    engine = LocalEngine(agent or Bisector(), worlds or Worlds(), **settings)
    return await engine.run(specs, skills)


@MODES
async def test_an_episode_is_told_turn_by_turn(mode):
    (result,) = await played(guess_specs(1), PlainSkill("Halve."), mode=mode)
    assert result.reward == 1.0
    assert result.failure is None
    assert result.stop_reason is StopReason.DONE
    assert result.attempts == 1
    assert result.skill_version == PlainSkill("Halve.").context(result.spec.task).version
    assert result.wall_s >= 0
    turns = result.trajectory.turns
    assert result.metrics == {"guesses": float(len(turns))}
    assert result.trajectory.opening == "I think of a number from 1 to 8."
    assert result.trajectory.metadata["high"] == 8
    assert result.trajectory.usage.calls == len(turns)
    assert [turn.index for turn in turns] == list(range(len(turns)))
    assert [turn.seed for turn in turns] == [derive_seed("turn", 0, i) for i in range(len(turns))]
    assert turns[0].prompt[0]["content"] == "Guess the number.\n\n## Skill\n\nHalve."
    assert turns[-1].observation == "Correct."
    assert turns[-1].messages == ({"role": "user", "content": "Correct."},)


async def test_an_agent_sees_the_metadata_of_the_last_observation():
    agent = Bisector()
    (result,) = await played([EpisodeSpec(guess_task("t", upper=99), seed=4)], agent=agent)
    seen = [contexts[0].metadata for contexts in agent.batches]
    turns = result.trajectory.turns
    assert len(turns) > 1
    assert seen == [result.trajectory.metadata, *(turn.metadata for turn in turns[:-1])]


@MODES
async def test_results_come_in_the_order_of_the_specs_and_close_every_environment(mode):
    specs = guess_specs(10)
    worlds = Worlds()
    results = await played(specs, worlds=worlds, mode=mode, limits=Limits(max_concurrent=3))
    assert [result.spec for result in results] == specs
    assert worlds.all_closed
    assert len(worlds.built) == 10


@settings(max_examples=20, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    wide=st.sampled_from([2, 5, 64]),
    history=st.none() | st.just(2),
)
def test_mode_and_concurrency_never_change_a_result(seeds, wide, history):
    specs = [EpisodeSpec(guess_task(f"t{i}", upper=30), seed=seed) for i, seed in enumerate(seeds)]

    async def outcome(mode, max_concurrent):
        limits = Limits(max_turns=6, max_concurrent=max_concurrent)
        style = PromptStyle(history_turns=history)
        return timeless(await played(specs, mode=mode, limits=limits, prompt=style))

    async def compare():
        alone = await outcome("free", 1)
        assert await outcome("free", wide) == alone
        assert await outcome("lockstep", wide) == alone

    asyncio.run(compare())


async def test_lockstep_asks_for_all_live_episodes_at_once_in_their_order():
    agent = Bisector()
    specs = guess_specs(5, upper=50)
    results = await played(specs, agent=agent, mode="lockstep", limits=Limits(max_concurrent=3))
    lengths = [len(result.trajectory.turns) for result in results]
    for wave in (range(3), range(3, 5)):
        for turn in range(max(lengths[i] for i in wave)):
            asked = agent.batches.pop(0)
            live = [i for i in wave if lengths[i] > turn]
            assert [context.seed for context in asked] == [
                derive_seed("turn", specs[i].seed, turn) for i in live
            ]
    assert agent.batches == []


async def test_an_environment_is_given_the_seed_of_the_episode_unless_the_task_fixes_one():
    worlds = Worlds()
    own, fixed = guess_task("own"), guess_task("fixed", seed=7)
    await played([EpisodeSpec(own, seed=3), EpisodeSpec(fixed, seed=3)], worlds=worlds)
    assert [env.extras["seed"] for env in worlds.built] == [3, 7]


@MODES
@pytest.mark.parametrize(
    ("of_task", "of_engine", "turns"), [(None, 2, 2), (2, None, 2), (3, 2, 2), (2, 3, 2)]
)
async def test_the_smaller_turn_limit_cuts_an_episode_and_its_reward_stands(
    mode, of_task, of_engine, turns
):
    extras = {} if of_task is None else {"max_turns": of_task}
    task = guess_task("t", upper=10**6, **extras)
    (result,) = await played(
        [EpisodeSpec(task, seed=0)], mode=mode, limits=Limits(max_turns=of_engine)
    )
    assert result.stop_reason is StopReason.MAX_TURNS
    assert result.reward == 0.0
    assert len(result.trajectory.turns) == turns


async def test_the_turn_limit_holds_against_an_environment_that_ignores_it():
    class Endless(Guess):
        def step(self, action):
            self.turns += 1
            return {"observations": [], "reward": 0.25, "done": False, "metadata": {}}

    (result,) = await played(
        guess_specs(1), worlds=Worlds(Endless), limits=Limits(max_turns=3), agent=Parrot("x")
    )
    assert result.stop_reason is StopReason.MAX_TURNS
    assert result.reward == 0.75  # the sum of the step rewards


async def test_a_conversation_that_outgrows_the_prompt_limit_is_cut():
    opening = "Guess the number." + "I think of a number from 1 to 999999.\n\nYour guess?"
    limits = Limits(max_prompt_chars=len(opening) + len("x" + "That is no number."))
    (result,) = await played(guess_specs(1, upper=999999), agent=Parrot("x"), limits=limits)
    assert result.stop_reason is StopReason.CONTEXT
    assert result.reward == 0.0
    assert len(result.trajectory.turns) == 2


async def test_an_environment_written_for_skyrl_gym_is_driven_too():
    class Theirs:
        def __init__(self, env_config=None, extras=None):
            self.turns = 0

        def init(self, prompt):
            return [*prompt, {"role": "user", "content": "Say yes."}], {}

        def step(self, action):
            reward = float(action == "yes")
            return {"observations": [], "reward": reward, "done": True, "metadata": {}}

        def close(self):
            pass

        def get_metrics(self):
            return {}

    (result,) = await played(guess_specs(1), worlds=Worlds(Theirs), agent=Parrot("yes"))
    assert result.reward == 1.0
    assert result.trajectory.opening == "Say yes."


async def test_episodes_that_never_wait_leave_room_for_others():
    order = []

    class Noted(Bisector):
        async def act_batch(self, contexts):
            order.append("turn")
            return await super().act_batch(contexts)

    async def other():
        order.append("other")

    async with asyncio.TaskGroup() as group:
        group.create_task(played(guess_specs(1, upper=10**6), agent=Noted()))
        group.create_task(other())
    assert order.index("other") <= 1


@MODES
async def test_a_recorded_reward_is_used_again_under_the_new_spec(mode):
    recorder = MemoryRecorder()
    first = await played(guess_specs(3), recorder=recorder, mode=mode)
    worlds = Worlds()
    again = [replace(spec, phase="gate") for spec in guess_specs(3)]
    second = await played(again, recorder=recorder, worlds=worlds, mode=mode)
    assert worlds.built == []
    assert [result.spec.phase for result in second] == ["gate"] * 3
    assert [replace(r, spec=f.spec) for r, f in zip(second, first, strict=True)] == first
    assert len(recorder.results) == 3


async def test_another_skill_is_another_question():
    recorder = MemoryRecorder()
    await played(guess_specs(1), recorder=recorder)
    await played(guess_specs(1), PlainSkill("Halve."), recorder=recorder)
    assert len({result.key for result in recorder.results}) == 2


class Parrot:
    """Always says the same."""

    def __init__(self, text):
        self.text = text
        self.identity = f"test:parrot:{text}"

    async def act_batch(self, contexts):
        return [Act(self.text) for _ in contexts]
