"""Users that a model plays: what it is told, what it remembers, what the agent hears of it."""

import asyncio
import threading

import pytest

from fakes import ScriptedReplies
from skillwright.core import (
    Completion,
    DataError,
    ModelError,
    ModelRefused,
    Purpose,
    ReplyInvalid,
    Usage,
    UsageError,
)
from skillwright.worlds.tau_bench import STOP, UserSetting, make_user, read_config, user_strategies
from skillwright.worlds.tau_bench.line import leaks, swaps_roles
from skillwright.worlds.tau_bench.user_model import (
    ModelUser,
    ReactUser,
    ReflectingUser,
    VerifyingUser,
    role_prompt,
    split_thought,
)
from skillwright.worlds.tau_bench.users import GREETING, HumanUser
from tau_store import make_env, write_store

TASK = "You are Ann {Ash} in 80279. You want to return the red lamp of order #W2 to your PayPal."


def setting(seed=None, **config):
    return UserSetting(read_config(config), "test", 3, seed)


def played(kind, *replies, seed=None, **config):
    llm = ScriptedReplies(replies)
    return kind(setting(seed, **config), llm), llm


def shown(llm, number=-1):
    return [(one["role"], one["content"]) for one in llm.asked[number].messages]


def test_all_strategies_are_built_by_name_without_a_network():
    kinds = {
        "llm": ModelUser,
        "react": ReactUser,
        "verify": VerifyingUser,
        "reflection": ReflectingUser,
        "human": HumanUser,
    }
    assert kinds.keys() | {"scripted"} <= set(user_strategies())
    assert {name: type(make_user(name, setting())) for name in kinds} == kinds


# llm


async def test_the_roles_are_turned_round_and_the_history_grows():
    user, llm = played(ModelUser, "Hi, a lamp.", "It is #W2.", STOP)
    assert await user.areset(TASK) == "Hi, a lamp."
    assert await user.astep("Which order?") == "It is #W2."
    assert await user.astep("Done.") == STOP
    (_, role), *said = shown(llm)
    assert role == role_prompt(TASK, "parity")
    assert said == [
        ("user", GREETING),
        ("assistant", "Hi, a lamp."),
        ("user", "Which order?"),
        ("assistant", "It is #W2."),
        ("user", "Done."),
    ]
    assert {asked.purpose for asked in llm.asked} == {Purpose.USER}


def test_the_instruction_stands_behind_the_first_sentence():
    first, _, rest = role_prompt(TASK, "parity").partition("\n\n")
    assert first.endswith("agent.")
    assert rest.startswith(f"Instruction: {TASK}\n")
    assert STOP in rest
    longer = role_prompt(TASK, "completion_boundary")
    assert longer.startswith(role_prompt(TASK, "parity"))
    assert "Confirm first" in longer.removeprefix(role_prompt(TASK, "parity"))


async def test_the_second_prompt_is_the_one_that_was_chosen():
    user, llm = played(ModelUser, "Hi", user_prompt="completion_boundary")
    await user.areset(TASK)
    assert shown(llm)[0][1] == role_prompt(TASK, "completion_boundary")


async def test_a_new_conversation_forgets_the_old_one():
    user, llm = played(ModelUser, STOP, "Hi")
    await user.areset(TASK)
    await user.areset(TASK)
    assert [role for role, _ in shown(llm)] == ["system", "user"]


async def test_what_was_heard_without_an_answer_is_forgotten():  # U11
    user, llm = played(ModelUser, "Hi", ModelError("gone"), "Again", " ", "", "Fine")
    await user.areset(TASK)
    with pytest.raises(ModelError, match="gone"):
        await user.astep("first")
    assert await user.astep("second") == "Again"
    with pytest.raises(ReplyInvalid):
        await user.astep("third")
    await user.astep("fourth")
    said = [content for _, content in shown(llm)[1:]]
    assert said == [GREETING, "Hi", "second", "Again", "fourth"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("<think>Hm.</think> It is #W2.", "It is #W2."),
        ("what they want</think>It is #W2.", "It is #W2."),
        (f"<think>not {STOP} yet</think>Wait.", "Wait."),
        ("Yes \ud83d", "Yes \ufffd"),
    ],
)
async def test_thinking_is_neither_said_nor_remembered(written, said):  # U6
    user, llm = played(ModelUser, written, "next")
    assert await user.areset(TASK) == said
    await user.astep("x")
    assert ("assistant", said) in shown(llm)


@pytest.mark.parametrize("nothing", ["", " \n", "<think>all of it</think>", "<think>cut off"])
async def test_nothing_is_asked_for_again_once(nothing):  # U5, U6
    user, llm = played(ModelUser, nothing, "Hi")
    assert await user.areset(TASK) == "Hi"
    user, llm = played(ModelUser, nothing, nothing, "too late")
    with pytest.raises(ReplyInvalid, match="user_sim_max_tokens"):
        await user.areset(TASK)
    assert len(llm.asked) == 2


async def test_what_it_costs_is_summed():  # U12
    failed = ModelError("gone")
    failed.failed_calls = 3
    answer = Completion("Hi", usage=Usage(1, 10, 2, cost_usd=0.5))
    user, _ = played(ModelUser, answer, answer, failed)
    await user.areset(TASK)
    await user.astep("x")
    with pytest.raises(ModelError):
        await user.astep("y")
    assert user.usage == Usage(2, 20, 4, failed_calls=3, cost_usd=1.0)


async def test_seeds_come_from_the_episode_and_the_request():  # U10
    async def seeds(seed):
        user, llm = played(ModelUser, "", "Hi", "Yes", seed=seed)
        await user.areset(TASK)
        await user.astep("x")
        return [asked.sampling.seed for asked in llm.asked]

    first = await seeds(7)
    assert first == await seeds(7)
    assert len({*first, *await seeds(8)}) == 6
    assert await seeds(None) == [None] * 3


async def test_a_turn_has_a_deadline_with_all_its_requests():
    class Asleep:
        identity = "asleep"

        async def complete(self, messages, **_):
            await asyncio.Event().wait()

    user = VerifyingUser(setting(user_deadline_s=0.01), Asleep())
    with pytest.raises(ModelError, match="longer than user_deadline_s"):
        await user.areset(TASK)
    assert user.usage == Usage(failed_calls=1)


# react


async def test_a_thought_is_remembered_and_not_said():
    written = "Thought: Only the lamp.\nUser Response: I want to return a lamp."
    user, llm = played(ReactUser, written, f"Thought: All done. {STOP}\nUser Response: Bye")
    assert await user.areset(TASK) == "I want to return a lamp."
    assert user.backstage == {"thought": "Only the lamp."}
    assert await user.astep("Done.") == STOP
    assert shown(llm)[2] == ("assistant", written)
    assert "User Response:" in shown(llm)[0][1]


async def test_a_mere_thought_is_never_said():
    user, _ = played(ReactUser, "Thought: hm", "Thought: hm\nUser Response:", "no")
    with pytest.raises(ReplyInvalid):
        await user.areset(TASK)


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("Just this.", ("", "Just this.")),
        ("**Thought:** a\n**User Response:** b\nc", ("a", "b\nc")),
        ("User Response: b", ("", "b")),
        ("Thought: a\nUser Response:\nUser Response: b\nThought: d\nUser Response: e", ("a", "b")),
        ("Thought: a User Response: soon\nUser response : b", ("a User Response: soon", "b")),
    ],
)
def test_thoughts_are_told_apart(written, parts):
    assert split_thought(written) == parts


# verify and reflection


async def test_a_draft_that_is_good_is_said_and_the_judge_sees_who_spoke():
    user, llm = played(VerifyingUser, "Hi", "True", "It is {draft} #W2.", "it is true")
    await user.areset(TASK)
    assert await user.astep("Which {role}?") == "It is {draft} #W2."
    ((_, asked),) = shown(llm)
    assert f"Agent: {GREETING}\nCustomer: Hi\nAgent: Which {{role}}?\n" in asked
    assert "It is {draft} #W2." in asked
    assert TASK in asked
    assert user.backstage == {}


async def test_a_third_draft_is_said_and_remembered():
    user, llm = played(VerifyingUser, "a", "false", "b", "False.", "c", "no", "d", "true")
    assert await user.areset(TASK) == "c"
    assert user.backstage == {"refused": ["a", "b", "c"]}
    await user.astep("x")
    assert shown(llm, 6)[1:] == [("user", GREETING), ("assistant", "c"), ("user", "x")]
    assert user.usage.calls == 8


async def test_a_draft_is_thought_over_once_and_no_trace_of_it_is_remembered():
    reflection = "Reflection: too much.\nResponse: Say less."
    user, llm = played(ReflectingUser, "a", "false", reflection, "b", "true", "c", "true")
    assert await user.areset(TASK) == "b"
    assert user.backstage == {"refused": ["a"], "reflection": reflection}
    role, advice = shown(llm, 3)[-1]
    assert role == "user"
    assert "Say less." in advice
    assert "too much" not in advice
    await user.astep("x")
    assert shown(llm, 5)[1:] == [("user", GREETING), ("assistant", "b"), ("user", "x")]


async def test_the_first_draft_is_said_where_no_better_one_is_found():
    user, llm = played(ReflectingUser, "a", "false", "Anything.", "b", "false", "c", "true")
    assert await user.areset(TASK) == "a"
    await user.astep("x")
    assert shown(llm, 5)[2] == ("assistant", "a")


async def test_a_reflection_without_a_response_is_asked_for_again():
    user, llm = played(ReflectingUser, "a", "false", "Response: ", "Response: b", "b", "true")
    assert await user.areset(TASK) == "b"
    assert len(llm.asked) == 6


# human


async def test_a_person_is_asked_and_a_blank_line_is_asked_for_again():
    lines, prompts = iter([" ", "A lamp.", "Yes"]), []

    def read_line(prompt):
        prompts.append(prompt)
        return next(lines)

    user = HumanUser(setting(), read_line)
    assert await user.areset(TASK) == "A lamp."
    assert await user.astep("This one?") == "Yes"
    assert TASK in prompts[0]
    assert "Agent: This one?" in prompts[2]
    assert user.usage == Usage()


async def test_without_a_person_the_run_stops():
    def closed(prompt):
        raise EOFError

    with pytest.raises(ModelRefused, match="nobody is at the terminal"):
        await HumanUser(setting(), closed).areset(TASK)


async def test_two_episodes_do_not_ask_at_once():
    inside = threading.Semaphore(1)

    def read_line(prompt):
        assert inside.acquire(blocking=False)
        inside.release()
        return "Hi"

    users = [HumanUser(setting(), read_line) for _ in range(8)]
    waiting = [asyncio.create_task(user.areset(TASK)) for user in users]
    assert [await one for one in waiting] == ["Hi"] * 8


# Lapses


@pytest.mark.parametrize(
    "reply",
    ["How can I help you today?", "Agent: done", "Is there anything else I can assist with?"],
)
def test_one_who_speaks_as_the_agent_is_noticed(reply):
    assert swaps_roles(reply)


@pytest.mark.parametrize(
    "reply", ["Can you help me with my order?", "I have ordered a lamp.", STOP]
)
def test_one_who_speaks_as_a_customer_is_not(reply):
    assert not swaps_roles(reply)


@pytest.mark.parametrize(
    ("reply", "is_leak"),
    [
        (f"ok: {TASK.upper()}", True),
        ("My instruction says so.", True),
        ("I am Ann Ash and want to return the red lamp of order #W2.", False),
        ("", False),
    ],
)
def test_one_who_recites_is_noticed(reply, is_leak):
    assert leaks(reply, TASK) is is_leak


def test_lapses_are_counted_and_change_nothing(tmp_path):  # U9
    shop = write_store(tmp_path)
    task = "You are Ann Ash and want something."
    env = make_env(shop, 2, replies=[f"Hi. {task}", "How may I help you?", STOP])
    env.init([])
    env.step("Hello")
    assert env.step("Bye")["reward"] == 1.0
    metrics = env.get_metrics()
    assert (metrics["user_leaks"], metrics["user_role_swaps"]) == (1, 1)


# Settings


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"user_simulator_endpoint": "localhost:80"}, "user_simulator_endpoint"),
        ({"user_backend": "opnai_chat"}, "Did you mean 'openai_chat'"),
        ({"user_backend": "codex_exec"}, "user_backend is 'codex_exec'"),
        ({"user_backend": "claude_chat", "user_settings": {"transport": "cli"}}, "program"),
        ({"user_settings": {"tmperature": 1}}, "temperature"),
        ({"user_settings": {"api_key": "sk"}}, "user_api_key_env"),
    ],
)
def test_wrong_settings_of_the_model_are_told_before_anything_is_asked(config, message):
    with pytest.raises(UsageError, match=message):
        make_user("llm", setting(**config))


def test_settings_must_be_a_mapping():
    with pytest.raises(DataError, match="user_settings"):
        read_config({"user_settings": ["temperature"]})
