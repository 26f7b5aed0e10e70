"""What `skillwright serve` injects into conversations, and what it records of them."""

import asyncio
import json
from contextlib import AsyncExitStack

import anthropic
import openai
import pytest

from mock_anthropic import MockAnthropic, message
from mock_openai import MockOpenAI, completion, raw, replies, status, truncated
from serving import KEY, serve_here
from skillwright.bank import Add, BankStore
from skillwright.core import BankSkill, ConfigError, DataError, FailureCause, SkillKind
from skillwright.jobs.bank import study_run
from skillwright.jobs.inspect import read_run
from skillwright.plugins.serve.dialects import ANTHROPIC, OPENAI
from skillwright.runs import RunStore

SKILL = "## Skill\n\nBe brief."
TEXT = {"type": "text", "text": "You help."}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER], [{"role": "system", "content": SKILL}, USER]),
        (
            [{"role": "system", "content": "You help."}, USER],
            [{"role": "system", "content": f"You help.\n\n{SKILL}"}, USER],
        ),
        (
            [{"role": "developer", "content": [TEXT]}, USER],
            [{"role": "developer", "content": [TEXT, {"type": "text", "text": SKILL}]}, USER],
        ),
    ],
)
def test_a_skill_stands_below_the_system_text_of_chat_completions(messages, expected):
    body = {"model": "m", "messages": messages, "tools": [{}]}
    assert OPENAI.with_skill(body, "Be brief.") == {**body, "messages": expected}
    assert body["messages"] == messages


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (None, SKILL),
        ("You help.", f"You help.\n\n{SKILL}"),
        ([MARKED], [MARKED, {"type": "text", "text": SKILL}]),
    ],
)
def test_a_skill_stands_below_the_system_text_of_messages(system, expected):
    body = {"model": "m", "messages": [USER]} | ({"system": system} if system else {})
    assert ANTHROPIC.with_skill(body, "Be brief.") == {**body, "system": expected}


def test_both_vendors_conversations_read_the_same():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    ours = [
        {"role": "system", "content": "You help."},
        USER,
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": "a mug", "tool_call_id": "c1"},
        {"role": "user", "content": "and now?"},
    ]
    used = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "a mug"}],
    }
    thought = {"type": "thinking", "thinking": "?"}
    theirs = [
        {"role": "user", "content": [{**TEXT, "text": "hello"}]},
        {"role": "assistant", "content": [thought, {**TEXT, "text": "I look."}, used]},
        {"role": "user", "content": [result, {**TEXT, "text": "and now?"}]},
    ]
    read = OPENAI.conversation({"messages": ours})
    assert list(read) == ours
    assert ANTHROPIC.conversation({"system": [MARKED], "messages": theirs}) == read


@pytest.mark.parametrize("junk", [None, 3, "text", [1], [{"role": ["x"], "content": 5}], [{}]])
def test_junk_in_the_place_of_messages_is_read_without_an_error(junk):
    for dialect in (OPENAI, ANTHROPIC):
        dialect.conversation({"messages": junk, "system": junk})


def write_bank(path):
    refund, parcel = "Ask for the order number before a refund.", "Weigh the parcel in the cellar."
    task = SkillKind.TASK_SPECIFIC
    skills = [
        BankSkill("a", "Look first", "Look before you act.", "always", SkillKind.GENERAL),
        BankSkill("b", "Refund", refund, "a customer wants a refund", task, "refunds"),
        BankSkill("c", "Parcel", parcel, "a parcel is to be sent", task, "parcels"),
    ]
    with BankStore.open(path) as store:
        store.commit(tuple(map(Add, skills)), reason="test")
    return path


async def test_skills_are_those_for_what_the_user_said_last(clients, tmp_path):
    bank, skill = write_bank(tmp_path / "bank.sqlite"), tmp_path / "skill.md"
    skill.write_text("Be brief.", encoding="utf-8")
    talk = [USER, {"role": "assistant", "content": "yes?"}]
    async with MockOpenAI(api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "bank": str(bank), "skill": str(skill)}
        async with serve_here(**settings) as (address, _):
            client = clients(address, "k")
            for said in ("I want a refund for my order", "how do I send this parcel?"):
                last = {"role": "user", "content": said}
                await client.chat.completions.create(model="m", messages=[*talk, last])
    first, second = (body["messages"][0]["content"] for body in upstream.bodies)
    for text in (first, second):
        assert text.startswith("## Skill\n\nBe brief.")
        assert "Look before you act." in text
    assert ("order number" in first, "cellar" in first) == (True, False)
    assert ("order number" in second, "cellar" in second) == (False, True)


async def test_a_bank_that_is_missing_or_has_nothing_is_refused_before_anything_is_served(tmp_path):
    with pytest.raises(ConfigError, match="there is no bank"):
        async with serve_here(upstream="http://127.0.0.1:9", bank=str(tmp_path / "no.sqlite")):
            pass
    with pytest.raises(DataError, match="no environment 'alfwrld'"):
        async with serve_here(upstream="http://127.0.0.1:9", env="alfwrld"):
            pass


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
SECRET = "sk-proj-0123456789abcdef"


@pytest.fixture
async def clients():
    """Make OpenAI's clients, which are closed after the test."""
    async with AsyncExitStack() as held:
        made = []

        def make(address, key, **settings):
            made.append(openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, **settings))
            held.push_async_callback(made[-1].close)
            return made[-1]

        yield make


async def ask(client, messages, **settings):
    got = await client.chat.completions.with_raw_response.create(
        model="m", messages=messages, **settings
    )
    return got.headers["x-skillwright-episode"], got.parse().choices[0].message


async def feedback(address, key=KEY, **said):
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
        return await client.post("/feedback", body=said, cast_to=object)


def stored(path):
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        return [store.load_episode(one.id) for one in store.episodes()]


async def test_a_conversation_with_tools_becomes_one_judged_episode(clients, tmp_path):
    skill = tmp_path / "skill.md"
    skill.write_text("Be brief.", encoding="utf-8")
    answers = replies(completion("", tool_calls=[CALL], finish_reason="tool_calls"), "Done.")
    async with MockOpenAI(answers, api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "skill": str(skill), "record": "talk"}
        async with serve_here(**settings, root=tmp_path) as (address, served):
            client = clients(address, SECRET)
            talk = [
                {"role": "system", "content": "Today is Monday."},
                {"role": "user", "content": f"Find it. My key is {SECRET}."},
            ]
            first, said = await ask(client, talk)
            result = {"role": "tool", "content": "a mug", "tool_call_id": "c1"}
            talk[0] = {"role": "system", "content": "Today is Tuesday."}
            again, _ = await ask(client, [*talk, said.model_dump(exclude_none=True), result])
            assert again == first
            judged = await feedback(address, reward=0.5)
            assert judged == {"episode": first, "reward": 0.5, "turns": 2}
    (episode,) = stored(served.run)
    assert (episode.reward, episode.failure, episode.spec.task.split) == (0.5, None, "train")
    one, two = episode.trajectory.turns
    assert [call.name for call in one.act.tool_calls] == ["look"]
    assert (one.observation, two.act.text, two.observation) == ("a mug", "Done.", "")
    assert one.prompt[0]["content"] == "Today is Monday.\n\n## Skill\n\nBe brief."
    assert two.prompt[0]["content"].startswith("Today is Tuesday.")
    assert episode.trajectory.opening == "Find it. My key is <redacted>."
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in served.run.iterdir())
    assert study_run(str(served.run)).episodes == (episode,)
    assert read_run(served.run).result == "1 conversations judged, 0 not"


async def test_equal_questions_are_kept_apart_by_their_answers(clients, tmp_path):
    async with MockOpenAI(replies("left", "right", "ok", "ok"), api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "record": "talk", "root": tmp_path}
        async with serve_here(**settings) as (address, served):
            client = clients(address, "k")
            names = [(await ask(client, [USER]))[0] for _ in range(2)]
            for said, name in (("right", names[1]), ("left", names[0])):
                talk = [USER, {"role": "assistant", "content": said}, USER]
                assert (await ask(client, talk))[0] == name
            await feedback(address, episode=names[1], reward=1)
            with pytest.raises(openai.NotFoundError, match="waits to be judged"):
                await feedback(address, episode=names[1], reward=0)
            with pytest.raises(openai.BadRequestError, match="0 to 1"):
                await feedback(address, reward=2)
            with pytest.raises(openai.BadRequestError, match="0 to 1"):
                await feedback(address, reward=10**400)
            with pytest.raises(openai.AuthenticationError):
                await feedback(address, "somebody's", reward=1)
    found = {one.task_id: one for one in stored(served.run)}
    assert found[names[1]].reward == 1.0
    assert [turn.act.text for turn in found[names[1]].trajectory.turns] == ["right", "ok"]
    # What nobody judged has no score, and says so.
    assert found[names[0]].failure.cause is FailureCause.JUDGE
    assert [turn.act.text for turn in found[names[0]].trajectory.turns] == ["left", "ok"]


async def test_a_client_may_name_its_conversation(clients, tmp_path):
    async with MockOpenAI(api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "record": "talk", "root": tmp_path}
        async with serve_here(**settings) as (address, served):
            client = clients(address, "k")
            for said in ("one thing", "and another"):
                talk = [{"role": "user", "content": said}]
                await ask(client, talk, extra_headers={"x-skillwright-episode": "task-7"})
            await feedback(address, episode="task-7", reward=1)
    (episode,) = stored(served.run)
    assert (episode.task_id, len(episode.trajectory.turns)) == ("task-7", 2)
    assert episode.trajectory.turns[0].observation == "and another"


async def test_what_fails_or_breaks_off_is_not_recorded(clients, tmp_path):
    async with MockOpenAI(api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "record": "talk", "root": tmp_path}
        async with serve_here(**settings) as (address, served):
            client = clients(address, "k", max_retries=0)
            for fault in (status(500), truncated()):
                upstream.next(fault)
                with pytest.raises(openai.APIError):
                    await ask(client, [USER])
            with pytest.raises(openai.NotFoundError, match="no conversation waits"):
                await feedback(address, reward=1)
    assert not stored(served.run)


async def test_streams_of_both_vendors_are_recorded_as_whole_answers_are(clients, tmp_path):
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}}

    async def answer(body):
        return message("hi", call)

    async with MockAnthropic(answer) as server:
        settings = {"upstream": server.base_url, "record": "claude", "root": tmp_path}
        async with (
            serve_here(**settings) as (address, served),
            anthropic.AsyncAnthropic(base_url=address, api_key=server.api_key) as client,
            client.messages.stream(model="m", max_tokens=9, messages=[USER]) as pieces,
        ):
            await pieces.get_final_message()
    (act,) = [turn.act for one in stored(served.run) for turn in one.trajectory.turns]
    assert (act.text, [one.arguments for one in act.tool_calls]) == ("hi", ['{"at": 1}'])

    delta = {"role": "assistant", "content": "hi"}
    event = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    body = b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"
    async with MockOpenAI(api_key=None) as upstream:
        upstream.next(raw(body, "text/event-stream"))
        settings = {"upstream": upstream.base_url, "record": "gpt", "root": tmp_path}
        async with serve_here(**settings) as (address, served):
            client = clients(address, "k")
            asked = {"model": "m", "messages": [USER], "stream": True}
            pieces = await client.chat.completions.create(**asked)
            assert [one.choices[0].delta.content async for one in pieces] == ["hi"]
    (act,) = [turn.act for one in stored(served.run) for turn in one.trajectory.turns]
    assert act.text == "hi"


async def test_thirty_clients_at_once_are_recorded_one_by_one(clients, tmp_path):
    async def answer(body):
        return body["messages"][-1]["content"].upper()

    async def talk(client, name):
        asked = [{"role": "user", "content": name}]
        episode, said = await ask(client, asked)
        asked += [
            {"role": "assistant", "content": said.content},
            {"role": "user", "content": "more"},
        ]
        assert (await ask(client, asked))[0] == episode

    async with MockOpenAI(answer, api_key=None) as upstream:
        settings = {"upstream": upstream.base_url, "record": "talk", "root": tmp_path}
        async with serve_here(**settings, in_flight=8, silent_s=60.0) as (address, served):
            client = clients(address, "k", max_retries=9)
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(talk(client, f"client {number}"))
    assert upstream.most_in_flight <= 8
    played = [one.trajectory for one in stored(served.run)]
    said = {one.opening: [turn.act.text for turn in one.turns] for one in played}
    assert said == {f"client {n}": [f"CLIENT {n}", "MORE"] for n in range(30)}
    assert json.loads((served.run / "run.lock").read_text() or "null") is None
