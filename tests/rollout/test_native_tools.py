"""An environment with native tools in the engine: what is shown, kept, refused and stored."""

import json

import pytest

from rollout_worlds import NO_SKILL, Bisector, Worlds
from skillwright.core import Act, ConfigError, EpisodeSpec, Task, ToolCall
from skillwright.envs import TextEnv, check_env
from skillwright.rollout import Limits, LocalEngine, PromptStyle
from skillwright.rollout.transcript import conversation, read_episodes
from skillwright.runs import RunStore

TOOLS = [{"type": "function", "function": {"name": "open", "parameters": {"type": "object"}}}]
RIGHT = 3


class Doors(TextEnv):
    """Behind one of the doors is the prize; every call in a turn is answered."""

    def init(self, prompt):
        return [*prompt, {"role": "user", "content": "Which door?"}], {}

    def native_tools(self):
        return TOOLS

    def step_native(self, said, calls):
        self.turns += 1
        won = [one.arguments == f'{{"door": {RIGHT}}}' for one in calls]
        if any(won):
            return self.finish("The prize.", reward=1.0)
        output = self.reply("Call a tool.")
        if calls:
            output["observations"] = [
                {"role": "tool", "tool_call_id": one.id, "content": "Empty."} for one in calls
            ]
        return output


class Opener:
    """Opens doors by native calls, one turn after the other."""

    identity = "test:opener"
    takes_tools = True

    def __init__(self, *turns):
        self.turns = turns
        self.contexts = []

    async def act_batch(self, contexts):
        self.contexts += contexts
        return [self._act(context) for context in contexts]

    def _act(self, context):
        taken = sum(one["role"] == "assistant" for one in context.messages)
        calls = self.turns[min(taken, len(self.turns) - 1)]
        return Act(f"turn {taken}", tool_calls=tuple(calls), native={"dialect": "d", "content": {}})


def opened(door, call_id="a"):
    return ToolCall(call_id, "open", json.dumps({"door": door}))


WIN = (opened(RIGHT, "w"),)


async def played(agent, env=Doors, **more):
    engine = LocalEngine(agent, Worlds(env), limits=Limits(retries=0), **more)
    spec = EpisodeSpec(Task("t", "doors", {}), seed=1)
    (result,) = await engine.run([spec], NO_SKILL)
    return result


async def test_the_agent_is_offered_the_tools_and_its_calls_are_the_action():
    agent = Opener([opened(1)], WIN)
    result = await played(agent)
    assert result.reward == 1.0
    assert [context.tools for context in agent.contexts] == [tuple(TOOLS)] * 2
    assert list(agent.contexts[1].messages)[1:] == [
        {
            "role": "assistant",
            "content": "turn 0",
            "tool_calls": [opened(1).to_dict()],
            "native": {"dialect": "d", "content": {}},
        },
        {"role": "tool", "tool_call_id": "a", "content": "Empty."},
    ]


async def test_ids_that_come_twice_are_told_apart_in_call_and_result():
    agent = Opener([opened(1), opened(2)], [opened(1)], WIN)
    await played(agent)
    said = [one for one in agent.contexts[2].messages if one["role"] != "user"]
    asked = [call["id"] for one in said for call in one.get("tool_calls", ())]
    answered = [one["tool_call_id"] for one in said if one["role"] == "tool"]
    assert asked == answered
    assert len(set(asked)) == 3


async def test_a_short_history_leaves_calls_and_results_out_together():
    agent = Opener([opened(1)], [opened(2, "b")], WIN)
    await played(agent, prompt=PromptStyle(history_turns=1))
    assert [one["role"] for one in agent.contexts[2].messages] == ["user", "assistant", "tool"]
    assert agent.contexts[2].messages[1]["tool_calls"][0]["id"] == "b"


async def test_calls_that_the_environment_leaves_out_are_not_shown_again():
    class OnlyFirst(Doors):
        def step_native(self, said, calls):
            output = super().step_native(said, calls)
            return {**output, "observations": output["observations"][:1]}

    agent = Opener([opened(1), opened(2, "b")], WIN)
    result = await played(agent, OnlyFirst)
    assert [one["id"] for one in agent.contexts[1].messages[1]["tool_calls"]] == ["a"]
    assert len(result.trajectory.turns[0].act.tool_calls) == 2


@pytest.mark.parametrize(
    "answers",
    [
        lambda calls: [{"role": "tool", "tool_call_id": "other", "content": "?"}],
        lambda calls: [{"role": "tool", "content": "?"}],
        lambda calls: [{"role": "tool", "tool_call_id": calls[1].id, "content": "?"}],
        lambda calls: [
            {"role": "user", "content": "first"},
            {"role": "tool", "tool_call_id": calls[0].id, "content": "?"},
        ],
    ],
)
async def test_results_that_a_strict_endpoint_refuses_are_the_environments_fault(answers):
    class Strange(Doors):
        def step_native(self, said, calls):
            return {**super().step_native(said, calls), "observations": answers(calls)}

    result = await played(Opener([opened(1), opened(2, "b")], WIN), Strange)
    assert result.failure is not None
    assert "results come first, one for each call" in result.failure.message


async def test_an_agent_that_takes_no_tools_is_refused_before_the_episode_opens():
    class Unopened(Doors):
        def init(self, prompt):
            raise AssertionError("nothing may be asked of a user")

    with pytest.raises(ConfigError, match=r"takes none.*tools: tags"):
        await played(Bisector(), Unopened)


async def test_tools_that_are_none_are_the_environments_fault():
    class NoTools(Doors):
        def native_tools(self):
            return [{"name": "open"}]

    result = await played(Opener(WIN), NoTools)
    assert "native_tools() is" in result.failure.message


async def test_the_size_of_calls_counts_against_the_bound_on_prompts():
    long = ToolCall("a", "open", json.dumps({"door": "x" * 500}))
    engine = LocalEngine(
        Opener([long], WIN), Worlds(Doors), limits=Limits(retries=0, max_prompt_chars=400)
    )
    (result,) = await engine.run([EpisodeSpec(Task("t", "doors", {}), seed=1)], NO_SKILL)
    assert result.stop_reason == "context"


async def test_native_calls_are_stored_and_read_back_as_they_were(tmp_path):
    odd = ToolCall("", "open the door", "\ud800 7")
    result = await played(Opener([odd, opened(2)], WIN))
    with RunStore.open(tmp_path / "run.sqlite") as store:
        store.record_episode(result, agent="a")
        (summary,) = store.episodes()
        again = store.load_episode(summary.id)
    assert again.trajectory == result.trajectory
    assert again.trajectory.turns[0].act.tool_calls == (odd, opened(2))
    assert again.trajectory.turns[0].act.native == {"dialect": "d", "content": {}}


async def test_analysts_and_adapters_read_what_was_called():
    result = await played(Opener([opened(1)], WIN))
    call = '<tool_call>{"name": "open", "arguments": {"door": 1}}</tool_call>'
    assert conversation(result.trajectory)[1]["action"] == f"turn 0\n{call}"
    (transcript,) = read_episodes([result]).rows
    assert call in next(line.text for line in transcript.lines if line.kind == "action")


def test_an_environment_with_native_tools_can_be_checked():
    report = check_env(f"{__file__}:Doors", extras_list=[{}], fuzz=200)
    assert report.ok, [check for check in report.checks if not check.ok]


def test_one_that_raises_for_a_call_fails_the_check():
    report = check_env(f"{__file__}:Fragile", extras_list=[{}], fuzz=200)
    assert "survives any action" in [check.name for check in report.checks if not check.ok]


class Fragile(Doors):
    """Trusts what a model writes."""

    def step_native(self, said, calls):
        if calls:
            json.loads(calls[0].arguments)["door"]
        return super().step_native(said, calls)
