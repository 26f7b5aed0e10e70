"""A recorded episode is played back: equal to the last value, or the first difference is named."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds
from skillwright.core import (
    Act,
    EnvError,
    EpisodeSpec,
    Failure,
    FailureCause,
    PlainSkill,
    StopReason,
    Task,
    TurnContext,
    Usage,
)
from skillwright.envs import TextEnv
from skillwright.rollout import Limits, LocalEngine, PromptStyle, render
from skillwright.rollout.playback import RecordedStart, continuing, play_back
from skillwright.rollout.prompt import recorded_skill

LIMITS = Limits(max_turns=9, retries=0)
WHOLE = PromptStyle()


async def recorded(skill=NO_SKILL, env=Guess, seed=3, upper=64, agent=None, style=WHOLE):
    """Play one episode, and return its record."""
    engine = LocalEngine(agent or Bisector(), Worlds(env), limits=LIMITS, prompt=style)
    spec = EpisodeSpec(Task("t", "guess", {"upper": upper}), seed)
    (result,) = await engine.run([spec], skill)
    return result


def changed(base=Guess, **methods):
    return type("Changed", (base,), methods)


async def played(record, env=Guess, turns=None, style=WHOLE):
    return await play_back(record, Worlds(env), LIMITS, style, turns)


@pytest.mark.parametrize("skill", ["", "Begin in the middle."])
@pytest.mark.parametrize("style", [WHOLE, PromptStyle(history_turns=1)])
async def test_an_unchanged_environment_repeats_all_of_a_record(skill, style):
    record = await recorded(PlainSkill(skill), style=style, upper=8)
    found = await played(record, style=style)
    assert found.differences == ()
    assert (found.reward, found.skill) == (record.reward, skill)
    assert found.turns == len(record.trajectory.turns)


@pytest.mark.parametrize("seed", range(8))
async def test_clumsy_turns_and_truncations_are_repeated_too(seed):
    class Noisy(Bisector):
        def guess(self, context):
            return str(1 + context.seed % 64) if context.seed % 3 else "eleven\x1b[31m"

    record = await recorded(seed=seed, agent=Noisy())
    assert record.stop_reason in (StopReason.DONE, StopReason.MAX_TURNS)
    assert (await played(record)).differences == ()


def opens_otherwise(self, prompt):
    messages, metadata = Guess.init(self, prompt)
    messages[0]["content"] = "Guess the number now."
    return messages, metadata


def says_more(self, action):
    output = Guess.step(self, action)
    if not output["done"]:
        output["metadata"]["observation"] += " Go on."
    return output


def shows_more(self, action):
    output = Guess.step(self, action)
    output["observations"][0]["content"] += "\n\nYour guess?"
    return output


def reports_more(self, action):
    output = Guess.step(self, action)
    output["metadata"]["hint"] = {"warm": True}
    return output


def pays_less(self, action):
    output = Guess.step(self, action)
    return {**output, "reward": output["reward"] / 2}


def never_ends(self, action):
    output = Guess.step(self, action)
    return {**output, "done": False}


def ends_at_once(self, action):
    return {**Guess.step(self, action), "done": True}


def breaks(self, action):
    raise OSError("gone")


@pytest.mark.parametrize(
    ("change", "field", "then", "now"),
    [
        ({"init": opens_otherwise}, "prompt[0].content", "Guess the number.", "number now."),
        ({"step": says_more}, "observation", "er.", "er. Go on."),
        ({"step": shows_more}, "messages[0].content", "er.", "Your guess?"),
        ({"step": reports_more}, "metadata.hint", "nothing", '{"warm": true}'),
        ({"step": pays_less}, "reward", "1.0", "0.5"),
        ({"step": never_ends}, "end", "it is over", "the episode continues"),
        ({"step": ends_at_once}, "end", "the episode continues", "it is over"),
        ({"step": breaks}, "environment", "answered", "OSError: gone"),
        ({"get_metrics": lambda self: {"guesses": 99}}, "metrics.guesses", "", "99"),
    ],
)
async def test_the_first_difference_is_named_with_both_values(change, field, then, now):
    record = await recorded(upper=8)
    assert len(record.trajectory.turns) > 1
    assert record.reward == 1.0
    found = (await played(record, changed(**change))).difference
    assert found.field == field
    assert then in found.recorded
    assert now in found.now


async def test_a_skill_in_the_prompt_does_not_hide_a_changed_opening():
    record = await recorded(PlainSkill("Begin in the middle."), upper=8)
    found = await played(record, changed(init=opens_otherwise))
    assert (found.difference.turn, found.difference.field) == (None, "prompt[0].content")
    assert found.skill is None


async def test_a_long_text_is_cut_around_the_difference():
    long = changed(step=lambda self, action: self.reply("x" * 5000 + "y" + "x" * 5000))
    other = changed(step=lambda self, action: self.reply("x" * 5000 + "z" + "x" * 5000))
    found = (await played(await recorded(env=long), other)).difference
    assert found.recorded.count("y") == 1
    assert found.now.count("z") == 1
    assert max(len(found.recorded), len(found.now)) < 200


async def test_metrics_that_are_not_the_environments_doing_are_not_compared():
    counted = iter(range(99))
    timed = changed(
        outside_metrics=frozenset({"waited_s"}),
        get_metrics=lambda self: {"waited_s": next(counted), "guesses": self.turns},
    )
    assert (await played(await recorded(env=timed), timed)).differences == ()
    careless = changed(timed, outside_metrics=frozenset())
    record = await recorded(env=careless)
    assert (await played(record, careless)).difference.field == "metrics.waited_s"


async def test_a_failure_is_compared_as_far_as_it_went():
    record = await recorded()
    failed = replace(
        record,
        reward=None,
        failure=Failure(FailureCause.MODEL, "503"),
        stop_reason=StopReason.FAILURE,
        trajectory=replace(record.trajectory, turns=record.trajectory.turns[:2]),
    )
    found = await played(failed)
    assert (found.turns, found.reward, found.differences) == (2, None, ())
    over = replace(failed, trajectory=record.trajectory)
    assert (await played(over)).difference.now == "it is over"


async def test_an_episode_that_outgrew_the_window_is_cut_there_again():
    record = await recorded()
    turns = record.trajectory.turns[:2]
    cut = replace(
        record,
        reward=0.0,
        stop_reason=StopReason.CONTEXT,
        trajectory=replace(record.trajectory, turns=turns),
        metrics={"guesses": 2},
    )
    assert (await played(cut)).differences == ()


async def test_some_turns_are_played_and_the_end_is_not_looked_at():
    record = await recorded(upper=8)
    found = await played(record, changed(get_metrics=lambda self: {"guesses": 99}), turns=1)
    assert (found.turns, found.differences, found.reward) == (1, (), None)


@given(
    opening=st.lists(
        st.fixed_dictionaries(
            {
                "role": st.sampled_from(["system", "user"]),
                "content": st.sampled_from(["", "x", "## Skill", "## Skill\n\nx", "a\n\n## Skill"]),
            }
        ),
        min_size=1,
        max_size=3,
    ),
    skill=st.text(max_size=9) | st.sampled_from(["x", "## Skill\n\nx", "\n"]),
)
def test_the_skill_in_a_prompt_is_found_again(opening, skill):
    prompt = render(PromptStyle(), opening, (), skill)
    found = recorded_skill(prompt, opening)
    assert found == (skill if skill.strip() else "")
    other = [*opening, {"role": "user", "content": "more"}]
    assert recorded_skill(prompt, other) is None


class Forgetful(Bisector):
    """Acts after a record: counts what it was asked."""

    identity = "test:forgetful"


def continued(record, turns, env=Guess, agent=None, **more):
    agent = RecordedStart(agent or Forgetful(), record, turns)
    make = continuing(Worlds(env), record.trajectory, turns)
    return LocalEngine(agent, make, limits=LIMITS, **more)


@pytest.mark.parametrize("mode", ["free", "lockstep"])
async def test_a_record_is_continued_from_a_turn_by_another_agent(mode):
    record = await recorded()
    assert len(record.trajectory.turns) > 3
    engine = continued(record, 2, mode=mode)
    task = replace(record.spec.task, extras={**record.spec.task.extras, "seed": record.spec.seed})
    specs = [EpisodeSpec(task, seed=100 + draw, draw=draw) for draw in range(4)]
    results = await engine.run(specs, PlainSkill("Be quick."))
    for one in results:
        then, now = record.trajectory.turns[:2], one.trajectory.turns[:2]
        assert [turn.act.text for turn in then] == [turn.act.text for turn in now]
        assert [turn.observation for turn in then] == [turn.observation for turn in now]
        assert [turn.act.usage for turn in now] == [Usage(), Usage()]
        assert "Be quick." in now[0].prompt[0]["content"]
    asked = [context.turn for batch in engine.agent.agent.batches for context in batch]
    assert min(asked) == 2
    assert len({one.trajectory.turns[2].act.text for one in results}) > 1
    assert len({one.key for one in results}) == 4


async def test_an_environment_that_does_not_repeat_itself_is_a_failure_and_no_score():
    record = await recorded()
    moody = changed(step=lambda self, action: self.reply("Who knows."))
    (result,) = await continued(record, 2, moody).run([record.spec], NO_SKILL)
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert "turn 0 was not answered as it is recorded" in result.failure.message


async def test_what_an_environment_asks_of_others_is_taken_from_the_record():
    class Asks(TextEnv):
        """Repeats what somebody outside says; the record says it where there is one."""

        said = 0
        record = None

        def use_record(self, record, turns=None):
            self.record = record

        def init(self, prompt):
            return [*prompt, {"role": "user", "content": "Ask."}], {}

        def step(self, action):
            self.turns += 1
            if self.record is not None:
                return self.reply(self.record.turns[self.turns - 1].observation)
            type(self).said += 1
            return self.reply(f"answer {self.said}")

    class Asker(Bisector):
        async def act_batch(self, contexts):
            return [Act("?") for _ in contexts]

    record = await recorded(env=Asks, agent=Asker())
    asked = Asks.said
    assert (await played(record, Asks)).differences == ()
    assert Asks.said == asked


def test_a_turn_knows_its_number():
    assert TurnContext([], 0).turn == 0


async def test_an_agent_refuses_to_continue_another_episode():
    record = await recorded()
    start = RecordedStart(Bisector(), record, 2)
    with pytest.raises(EnvError, match="nothing can continue"):
        await start.act_batch([TurnContext([{"role": "user", "content": "x"}], 0, turn=1)])
