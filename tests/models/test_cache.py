"""Replies that are kept: who gets them again, who does not, and what a broken file does."""

import asyncio
import sqlite3
import subprocess
import sys

import pytest

from skillwright.core import (
    Completion,
    ConfigError,
    ModelTimeout,
    Purpose,
    Sampling,
    TokenLogprob,
    ToolCall,
    Usage,
)
from skillwright.models.cache import CachedModel, ReplyCache, _written, cached

HELLO = [{"role": "user", "content": "hello"}]


class Counting:
    """Answers with the number of the call."""

    def __init__(self, identity="model", **fields):
        self.identity = identity
        self.calls = 0
        self._fields = fields

    async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
        del messages, tools, sampling, purpose
        self.calls += 1
        await asyncio.sleep(0)
        usage = Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.5)
        return Completion(str(self.calls), usage=usage, **self._fields)


@pytest.fixture
def cache(tmp_path):
    with ReplyCache(tmp_path / "deep" / "replies.sqlite") as cache:
        yield cache


def ask(model, messages=HELLO, *, seed=1, tools=(), purpose=Purpose.ROLLOUT, **sampling):
    settings = Sampling(seed=seed, **sampling)
    return model.complete(messages, tools=tools, sampling=settings, purpose=purpose)


async def test_a_second_run_pays_nothing_and_its_hits_are_counted_apart(cache):
    first, second = Counting(), Counting()
    paid = await ask(CachedModel(first, cache))
    again = await ask(CachedModel(second, cache))
    assert (paid.text, again.text) == ("1", "1")
    assert (first.calls, second.calls) == (1, 0)
    assert again.usage == Usage(cache_hits=1, cost_usd=0.0)
    assert (again.usage.calls, again.usage.input_tokens) == (0, 0)


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [{"role": "user", "content": "hello!"}]},
        {"seed": 2},
        {"tools": [{"type": "function", "function": {"name": "look"}}]},
        {"temperature": 0.5},
    ],
)
async def test_whatever_can_change_an_answer_is_another_question(cache, other):
    model = CachedModel(Counting(), cache)
    await ask(model)
    assert (await ask(model, **other)).text == "2"


async def test_another_model_or_other_settings_are_another_question(cache):
    await ask(CachedModel(Counting("m#1"), cache))
    other = Counting("m#2")
    await ask(CachedModel(other, cache))
    assert other.calls == 1


async def test_what_a_call_is_for_changes_no_answer(cache):
    model = CachedModel(Counting(), cache)
    await ask(model)
    assert (await ask(model, purpose=Purpose.JUDGE)).usage.cache_hits == 1


async def test_draws_without_a_seed_are_distinct_and_the_next_process_gets_them_in_order(cache):
    model = CachedModel(Counting(), cache)
    assert [(await ask(model, seed=None)).text for _ in range(3)] == ["1", "2", "3"]
    later = CachedModel(Counting(), cache)
    assert [(await ask(later, seed=None)).text for _ in range(3)] == ["1", "2", "3"]
    assert (await ask(later, seed=None)).usage.calls == 1


async def test_asked_at_the_same_time_it_is_asked_once(cache):
    llm = Counting()
    model = CachedModel(llm, cache)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(model)) for _ in range(5)]
    assert {task.result().text for task in tasks} == {"1"}
    assert llm.calls == 1


class Failing(Counting):
    async def complete(self, messages, **about):
        await super().complete(messages, **about)
        raise ModelTimeout("late")


async def test_an_error_is_not_kept_and_goes_to_everybody_who_asked(cache):
    llm = Failing()
    model = CachedModel(llm, cache)
    for _ in range(2):
        with pytest.raises(ModelTimeout):
            await ask(model)
    assert llm.calls == 2


@pytest.mark.parametrize("reason", ["length", "content_filter", "other"])
async def test_an_answer_that_is_not_whole_is_not_kept(cache, reason):
    model = CachedModel(Counting(finish_reason=reason), cache)
    await ask(model)
    assert (await ask(model)).text == "2"


async def test_a_reply_comes_back_as_it_was(cache):
    reply = {
        "finish_reason": "tool_calls",
        "model": "m-2026",
        "reasoning": "because",
        "tool_calls": (ToolCall("c1", "look", '{"at": '),),
        "logprobs": (TokenLogprob("a", -0.5, (("a", -0.5), ("b", -1.0))),),
        "native": {"dialect": "d", "content": {"x": [1]}},
    }
    model = CachedModel(Counting(**reply), cache)
    paid, again = await ask(model), await ask(model)
    assert again == Completion(paid.text, usage=Usage(cache_hits=1), **reply)
    assert again.native == reply["native"]


def test_two_processes_share_a_file(cache, tmp_path):
    asyncio.run(ask(CachedModel(Counting(), cache)))
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from skillwright.core import Purpose, Sampling\n"
        "from skillwright.models.cache import CachedModel, ReplyCache\n"
        "class Model:\n identity = 'model'\n"
        "cache = ReplyCache(Path(sys.argv[1]))\n"
        "asked = CachedModel(Model(), cache).complete([{'role': 'user', 'content': 'hello'}],"
        " sampling=Sampling(seed=1), purpose=Purpose.ROLLOUT)\n"
        "print(asyncio.run(asked).text)\n"
    )
    file = tmp_path / "deep" / "replies.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


@pytest.mark.parametrize("content", [b"no database at all" * 100, None])
def test_a_file_that_is_something_else_is_refused_with_the_next_move(tmp_path, content):
    path = tmp_path / "x.sqlite"
    if content:
        path.write_bytes(content)
    else:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE mine (x)")
        other.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"cannot be used as the reply cache: .* or leave it out"):
        ReplyCache(path)
    assert path.read_bytes() == before


async def test_a_damaged_cache_costs_money_and_no_answer(cache, caplog):
    model = CachedModel(Counting(), cache)
    cache._connection.execute("DROP TABLE replies")
    assert (await ask(model)).text == "1"
    assert (await ask(model)).text == "2"
    assert len(caplog.records) == 1


def test_without_a_file_nothing_stands_before_the_model(tmp_path):
    llm = Counting()
    with cached(llm, None) as model:
        assert model is llm
    with cached(llm, str(tmp_path / "c.sqlite")) as model:
        assert model.identity == "model"


async def test_an_answer_that_says_nothing_is_asked_for_again(cache):
    class Silent(Counting):
        async def complete(self, messages, **settings):
            return Completion(" \n", usage=(await super().complete(messages, **settings)).usage)

    llm = Silent()
    model = CachedModel(llm, cache)
    for _ in range(2):
        await ask(model)
    assert llm.calls == 2


@pytest.mark.parametrize("wrong", [{"text": 1}, {"native": 5}, {"tool_calls": [["a", "f", 3]]}])
def test_a_stored_reply_of_another_form_is_none(wrong, cache, monkeypatch):
    written = _written(Completion("hi"))
    monkeypatch.setattr("skillwright.models.cache._written", lambda _: {**written, **wrong})
    cache.keep("ab" * 32, Completion("hi"))
    assert cache.find("ab" * 32) is None


async def test_a_secret_of_the_environment_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "canary-0123456789")
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        cache.keep("00", Completion("use canary-0123456789", reasoning="canary-0123456789"))
        found = cache.find("00")
    assert (found.text, found.reasoning) == ("use <redacted>", "<redacted>")
