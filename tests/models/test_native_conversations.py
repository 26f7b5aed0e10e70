"""Native calls in every dialect: each request of an episode is one that a strict server takes."""

import importlib
import importlib.util
import json

import pytest
from pydantic import TypeAdapter

from skillwright.core import EpisodeSpec, PlainSkill, Sampling, Task
from skillwright.models import ChatAgent, make_model, parse_model_config
from skillwright.rollout import LocalEngine
from skillwright.worlds.tau_bench import TauBenchEnv
from strict_tools import STRICT, THOUGHT, Turn, call, say
from tau_store import CANCEL, OPENING, TASKS, task, write_store

GOLD = call(*CANCEL, call_id="call_gold")
LOOK = call("get_order_details", {"order_id": "#W1"})
FAREWELL = say("It is cancelled.")


@pytest.fixture
def shop(tmp_path):
    return write_store(tmp_path / "shop", tasks_test=[task(CANCEL), *TASKS])


FORMS = {
    "openai_chat": "openai.types.chat.completion_create_params.CompletionCreateParams",
    "responses": "openai.types.responses.response_create_params.ResponseCreateParams",
    "claude_chat": "anthropic.types.message_create_params.MessageCreateParams",
}
"""Dialect -> what the vendor's own client takes for a request."""


@pytest.fixture(params=STRICT)
def strict(request):
    return STRICT[request.param]


@pytest.fixture
def refuse_other_forms(request):
    """Refuse requests that the vendor's own client would not know, where it is installed."""
    form = FORMS.get(request.node.callspec.params["strict"])
    if form is None or importlib.util.find_spec(form.partition(".")[0]) is None:
        return lambda bodies: None
    module, _, name = form.rpartition(".")
    adapter = TypeAdapter(getattr(importlib.import_module(module), f"{name}NonStreaming"))

    def refuse(bodies):
        for body in bodies:
            _walk(adapter.validate_python(body))

    return refuse


def _walk(value):
    """Walk through what was validated: a list is checked only then."""
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str | bytes | int | float | None):
        for part in value:
            _walk(part)


@pytest.fixture
def play(strict, shop, client, clock, refuse_other_forms):
    """Play task 0 with an agent whose server follows a script; return server and result."""
    kind, settings = strict

    async def play(*script, skill="", **env):
        async with kind(script) as server:
            model = make_model(
                parse_model_config(
                    {
                        "model": "m",
                        "base_url": server.base_url,
                        "api_key": server.api_key,
                        "max_attempts": 1,
                        **settings,
                    }
                ),
                client,
                sleep=clock.sleep,
                clock=clock,
            )
            config = {
                "data_dir": str(shop),
                "user_strategy": "scripted",
                "user_replies": [OPENING],
                "tools": "native",
                **env,
            }
            engine = LocalEngine(
                ChatAgent(model, Sampling(max_tokens=100)),
                lambda one: TauBenchEnv(config, dict(one.extras)),
            )
            spec = EpisodeSpec(
                Task("t", "tau_bench", {"task_index": 0, "task_split": "test"}), seed=1
            )
            (result,) = await engine.run([spec], PlainSkill(skill))
        refuse_other_forms(server.bodies)
        return server, result

    return play


def observations(result):
    return [turn.observation for turn in result.trajectory.turns]


async def test_an_episode_is_won_by_native_calls_and_every_conversation_is_valid(play):
    server, result = await play(
        Turn(calls=(LOOK,), thinks=True),
        Turn("I look once more.", (call("think", {"thought": "hm"}, "call_b"),)),
        Turn(calls=(GOLD,), thinks=True),
        FAREWELL,
        skill="Be kind.",
    )
    assert server.refused == []
    assert result.failure is None
    assert result.reward == 1.0
    assert [turn.act.finish_reason for turn in result.trajectory.turns] == ["stop"] * 4
    assert "pending" in observations(result)[0]
    assert result.metrics["mixed_turns"] == 1
    sent = json.dumps(server.bodies[0])
    assert "Be kind." in sent
    assert "cancel_pending_order" in sent
    assert "<tool_call>" not in sent
    # The text beside a call is still there in the next request, and so is the thought.
    assert "I look once more." in json.dumps(server.bodies[2])


async def test_the_first_of_several_calls_is_run_and_the_others_are_forgotten(play):
    server, result = await play(
        Turn("Both.", (LOOK, {**GOLD, "id": "call_b"}, call("think", {}, "call_c")), thinks=True),
        FAREWELL,
    )
    assert server.refused == []
    assert result.reward == 0.0  # the second, which would have won, was not run
    assert result.metrics["extra_tool_calls"] == 2
    assert len(result.trajectory.turns[0].act.tool_calls) == 3  # the record has all
    assert "cancel_pending_order" not in json.dumps(
        server.bodies[1].get("messages", server.bodies[1].get("input"))
    )


HOSTILE = {
    "no id": {"name": "think", "arguments": "{}"},
    "an id that is taken": {**LOOK, "id": "call_first"},
    "an empty id": {**LOOK, "id": ""},
    "an id of blanks": {**LOOK, "id": "a b"},
    "a huge id": {**LOOK, "id": "x" * 100_000},
    "a number as id": {**LOOK, "id": 7},
    "no arguments": {"id": "call_h", "name": "think"},
    "empty arguments": {**LOOK, "arguments": ""},
    "a number as arguments": {**LOOK, "arguments": "7"},
    "zero as arguments": {**LOOK, "arguments": "0"},
    "a list as arguments": {**LOOK, "arguments": "[1]"},
    "half of the arguments": {**LOOK, "arguments": '{"order_id": "#W'},
    "NaN in the arguments": {**LOOK, "arguments": '{"order_id": NaN}'},
    "an endless number": {**LOOK, "arguments": '{"order_id": 1e999}'},
    "deep arguments": {**LOOK, "arguments": '{"a":' * 400 + "1" + "}" * 400},
    "huge arguments": {**LOOK, "arguments": json.dumps({"order_id": "x" * 1_000_000})},
    "half a character": {**LOOK, "arguments": '{"order_id": "\\ud800"}'},
    "an unknown tool": call("order_pizza", {"size": "L"}),
    "a name with blanks": call("get order details", {}),
    "a name of 1 MB": call("x" * 1_000_000, {}),
    "a name of another alphabet": call("注文", {}),
    "a name with a tag": call("</tool_call><script>", {}),
    "wrong arguments": call("get_order_details", {"id": "#W1"}),
    "a key that is data": call("get_order_details", {"data": {}}),
    "respond": call("respond", {"content": "Which order?"}),
    "respond without words": call("respond", {"content": 5}),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_call_is_answered_and_the_conversation_goes_on(play, kind):
    """Whatever the call is: an observation, a valid next request, and the task can still be won."""
    first = {**LOOK, "id": "call_first"}
    script = (Turn("Hm.", (first,)), Turn("Hm.", (HOSTILE[kind],)), Turn(calls=(GOLD,)), FAREWELL)
    replies = [OPENING, "The first one."] if kind == "respond" else [OPENING]
    server, result = await play(*script, user_replies=replies)
    assert server.refused == []
    assert result.failure is None, result.failure
    assert result.reward == 1.0
    assert len(result.trajectory.turns) == 4
    if kind == "respond":
        assert observations(result)[1] == "The first one."
    assert max(len(json.dumps(body)) for body in server.bodies) < 300_000


async def test_a_call_without_a_name_is_answered_as_tau_bench_answers_it(play):
    server, result = await play(
        Turn("Hm.", ({"id": "call_h", "name": "", "arguments": "{}"}, LOOK)), FAREWELL
    )
    assert server.refused == []
    assert observations(result)[0] == "Unknown action "


async def test_unread_arguments_get_the_environments_own_error_under_the_calls_id(play):
    server, result = await play(
        Turn("Hm.", ({**LOOK, "arguments": "[1]"},)), Turn(calls=(GOLD,)), FAREWELL
    )
    error = "Error: could not parse tool call (its arguments are not a JSON object)"
    assert observations(result)[0] == error
    assert error in json.dumps(server.bodies[1])
    assert result.metrics["parse_errors"] == 1
    assert result.reward == 1.0


async def test_thoughts_come_back_with_their_calls(play, strict):
    server, result = await play(Turn(calls=(LOOK,), thinks=True), Turn(calls=(GOLD,)), FAREWELL)
    assert result.reward == 1.0
    came_back = json.dumps(server.bodies[1])
    assert THOUGHT in came_back or '"encrypted_content": "e"' in came_back
