"""A language model of ours behind OpenAI's protocol, spoken to by OpenAI's own client."""

import asyncio
import json
import os
import sys
from pathlib import Path

import openai
import pytest

from gguf_files import tiny_gguf
from hf_world import write_tiny
from policy.tiny_models import TEMPLATE, tiny_model, tiny_tokenizer
from rl_world import lanes_config, recipe
from serving import KEY, serve_here
from skillwright.core import ConfigError, DataError
from skillwright.core.loopback import bound_socket
from skillwright.plugins.local import server as local_server
from skillwright.plugins.serve.batching import Spoken, Ticket
from skillwright.plugins.serve.chat import PolicyChat
from skillwright.plugins.serve.connections import listening
from skillwright.plugins.serve.front import Bounds, Front
from skillwright.plugins.serve.opened import _refuse_too_large
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.policy.hf.sampling import Answer

FAKE = (sys.executable, str(Path(__file__).parents[2] / "fake_gguf_server.py"))
HELLO = [{"role": "user", "content": "go to the mug"}]
WITH_TOOLS = "{% for t in tools or [] %}<|im_start|>{{ t['function']['name'] }}{% endfor %}" + (
    TEMPLATE.replace("<|im_end|>", "{% for c in m['tool_calls'] or [] %}{{ c['function']"
    "['arguments']['at'] }}{% endfor %}<|im_end|>")
)  # fmt: skip
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("served") / "tiny")


def client_at(address):
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)


async def test_a_stream_says_what_the_whole_answer_says(folder):
    async with serve_here(policy=str(folder)) as (address, _), client_at(address) as client:

        async def ask(**fields):
            asked = {"max_tokens": 24, "seed": 5, "logprobs": True, "top_logprobs": 2, **fields}
            return await client.chat.completions.create(model="any", messages=HELLO, **asked)

        whole = await ask()
        pieces = [
            one async for one in await ask(stream=True, stream_options={"include_usage": True})
        ]
        models = await client.models.list()
    choice = whole.choices[0]
    text = "".join(one.choices[0].delta.content or "" for one in pieces if one.choices)
    finish = [c.finish_reason for one in pieces for c in one.choices][-1]
    assert (text, finish) == (choice.message.content, choice.finish_reason)
    tokens = [
        one for piece in pieces for c in piece.choices if c.logprobs for one in c.logprobs.content
    ]
    assert [one.logprob for one in tokens] == pytest.approx(
        [one.logprob for one in choice.logprobs.content], abs=1e-4
    )
    assert len(tokens) == whole.usage.completion_tokens == pieces[-1].usage.completion_tokens > 2
    assert all(len(one.top_logprobs) == 2 for one in tokens)
    assert [one.id for one in models.data] == ["tiny"]


async def test_many_clients_at_once_get_the_answers_that_each_gets_alone(folder):
    async def ask(client, seed):
        talk = [{"role": "user", "content": "go " * (seed % 5) + "mug"}]
        got = await client.chat.completions.create(
            model="any", messages=talk, max_tokens=12, seed=seed
        )
        return got.choices[0].message.content

    settings = {"policy": str(folder), "in_flight": 4}
    async with serve_here(**settings) as (address, _), client_at(address) as client:
        alone = [await ask(client, seed) for seed in range(8)]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(client, seed)) for seed in range(8)]
    assert [one.result() for one in asked] == alone
    assert len(set(alone)) > 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "messages is a list"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "other than text"),
        ({"n": 2}, "n is 2"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [TOOL]}, "takes no tools"),
        ({"temperature": 3}, "from 0 to 2"),
        ({"stop": [""]}, "not empty"),
        ({"messages": [{"role": "user", "content": "x" * 3000}]}, "maximum context length is 2048"),
    ],
)  # fmt: skip
async def test_what_a_policy_cannot_do_is_refused_by_name(folder, change, words):
    async with serve_here(policy=str(folder)) as (address, _), client_at(address) as client:
        with pytest.raises(openai.BadRequestError, match=words):
            await client.chat.completions.create(**{"model": "m", "messages": HELLO, **change})
        with pytest.raises(openai.NotFoundError, match="a policy has POST"):
            await client.embeddings.create(model="m", input="x")


class Recited:
    """A batch that says given texts, whatever it is asked."""

    def __init__(self, policy, *texts):
        self._policy, self._texts = policy, list(texts)
        self.prompts = []

    def ask(self, wanted, hear):
        self.prompts.append(self._policy.speech.tokenizer.decode(list(wanted.prompt)))
        ids = self._policy.speech.answer_ids(self._texts.pop(0))
        for number, token in enumerate(ids, start=1):
            hear(Spoken(token, -0.5, (), number == len(ids)))
        return Ticket(wanted, hear, Answer(None, None))


async def recite(texts, ask):
    """Have texts said by a policy whose template knows tools; return what was asked, and got."""
    policy = HfPolicy(tiny_model(), tiny_tokenizer(WITH_TOOLS), HfSettings(device="cpu"))
    batch = Recited(policy, *texts)
    front = Front(PolicyChat(policy, "tiny", batch), KEY, Bounds(2, 2, 60.0))
    with bound_socket(0) as bound:
        port = bound.getsockname()[1]
        async with (
            listening(front.handle, bound, 9),
            client_at(f"http://127.0.0.1:{port}") as client,
        ):
            return batch.prompts, await ask(client)


CALLING = 'I look.<tool_call>\n{"name": "look", "arguments": {"at": "mug"}}\n</tool_call>'


async def test_tools_are_shown_to_the_model_and_its_calls_to_the_client():
    async def ask(client):
        create = client.chat.completions.create
        whole = await create(model="m", messages=HELLO, tools=[TOOL])
        said = whole.choices[0].message
        result = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "a mug"}
        talk = [*HELLO, said.model_dump(exclude_none=True), result]
        asked = {"messages": talk, "tools": [TOOL], "stream": True}
        pieces = [one async for one in await create(model="m", **asked)]
        return whole.choices[0], [one.choices[0] for one in pieces]

    prompts, (whole, pieces) = await recite([CALLING, CALLING], ask)
    assert prompts[0].startswith("<|im_start|>look<|im_start|>user")
    assert "mug<|im_end|>\n<|im_start|>tool\na mug" in prompts[1]
    for said, calls, finish in (
        (whole.message.content, whole.message.tool_calls, whole.finish_reason),
        (
            "".join(one.delta.content or "" for one in pieces),
            [call for one in pieces for call in one.delta.tool_calls or ()],
            pieces[-1].finish_reason,
        ),
    ):
        assert (said, finish) == ("I look.", "tool_calls")
        (call,) = calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"at": "mug"})


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_ends_before_a_stop_text_of_which_nothing_is_sent(streamed):
    async def ask(client):
        got = await client.chat.completions.create(
            model="m", messages=HELLO, stop=["<END>", "never"], stream=streamed
        )
        if not streamed:
            return got.choices[0].message.content, got.choices[0].finish_reason
        pieces = [one.choices[0] async for one in got]
        return "".join(one.delta.content or "" for one in pieces), pieces[-1].finish_reason

    texts = ["né <EN <END> more", "a <tool_call>{broken</tool_call>"]
    assert (await recite(texts, ask))[1] == ("né <EN ", "stop")
    assert (await recite(texts[1:], ask))[1] == (texts[1], "stop")


async def test_a_gguf_file_is_served_by_its_own_server_under_a_key_that_nobody_sees(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(local_server, "PROGRAM", FAKE)
    (tmp_path / "tiny.gguf").write_bytes(tiny_gguf())
    skill = tmp_path / "skill.md"
    skill.write_text("Be brief.", encoding="utf-8")
    settings = {"policy": str(tmp_path / "tiny.gguf"), "skill": str(skill), "in_flight": 2}
    async with serve_here(**settings) as (address, _), client_at(address) as client:
        got = await client.chat.completions.create(model="any", messages=HELLO)
    heard = json.loads(got.choices[0].message.content)
    assert heard["asked"]["messages"] == [
        {"role": "system", "content": "## Skill\n\nBe brief."},
        *HELLO,
    ]
    assert (heard["slots"], heard["path"]) == (2, settings["policy"])
    assert heard["key"] != KEY
    with pytest.raises(ProcessLookupError):
        os.kill(heard["pid"], 0)  # it ended with the server


async def refused(policy, **settings):
    async with serve_here(policy=str(policy), **settings):
        pass


async def test_what_is_no_policy_that_can_converse_is_refused(tmp_path, folder):
    with pytest.raises(ConfigError, match=r"is no policy: .* nor an installed package"):
        await refused("nothing-of-that-name")
    with pytest.raises(DataError, match=r"there is no file .*none\.gguf"):
        await refused(tmp_path / "none.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="neither config"):
        await refused(tmp_path / "empty")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="LoRA adapter"):
        await refused(tmp_path / "adapter")
    huge = {"model_type": "qwen2", "hidden_size": 10**6, "num_hidden_layers": 10**4}
    huge |= {"num_attention_heads": 64, "intermediate_size": 10**7, "vocab_size": 10**6}
    (tmp_path / "huge").mkdir()
    (tmp_path / "huge" / "config.json").write_text(json.dumps(huge), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"GB as it is loaded, and .* GB are free"):
        await refused(tmp_path / "huge")
    _refuse_too_large(str(folder))


@pytest.mark.heavy
async def test_a_scorer_is_refused_because_it_cannot_converse(tmp_path):
    small = {"iterations": 0}
    cold = {"steps": 2, "tasks": 4, "episodes": 1}
    path, _ = await recipe(
        lanes_config(tmp_path, grpo=small, cold_start=cold, distill=None, evolve=None)
    )
    with pytest.raises(ConfigError, match=r"a command scorer, .* cannot converse"):
        await refused(path)
