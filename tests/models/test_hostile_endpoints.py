"""Hostile and broken endpoints: whatever they send, it is no score, and it fills no memory."""

from pathlib import Path

import pytest
from hostile_replies import SPOKEN, big_kinds, http_kinds, printed_answer, printed_kinds

from samples import heavy
from skillwright.core import Completion, EpisodeSpec, ModelError, PlainSkill, Purpose, Task
from skillwright.envs import TextEnv
from skillwright.models import ChatAgent, HttpClient, make_model, parse_model_config
from skillwright.rollout import Limits, LocalEngine

HELLO = [{"role": "user", "content": "hello"}]
PROGRAM = """#!/bin/sh
[ "$1" = --version ] && echo 1.0 && exit
cat > /dev/null
cat {printed}
"""
CLEAR = Path("/proc/self/clear_refs")


class Door(TextEnv):
    """Opens at any word, also at none."""

    def init(self, prompt):
        return [*prompt, {"role": "user", "content": "A door."}], {"observation": "A door."}

    def step(self, action):
        return self.finish("It opens.", reward=1.0)


@pytest.fixture(params=SPOKEN)
async def spoken(request):
    """A dialect, its server, and what makes a model that has met nobody yet."""
    dialect = SPOKEN[request.param]()
    async with dialect.server() as server:
        settings = {"model": "m", "base_url": server.base_url, "api_key": server.api_key}
        yield dialect, server, {**settings, **dialect.settings, "max_attempts": 2, "timeout_s": 60}


async def ask(settings, clock):
    async with HttpClient() as client:
        model = make_model(parse_model_config(settings), client, sleep=clock.sleep, clock=clock)
        return await model.complete(HELLO, purpose=Purpose.ROLLOUT)


async def outcome(server, settings, clock, *faults):
    """Return the answer, or the error that there is in its place."""
    server.next(*faults)
    try:
        return await ask(settings, clock)
    except ModelError as error:
        return error
    finally:
        server.heal()


async def test_no_reply_that_is_none_is_taken_for_an_answer(spoken, clock):
    dialect, server, settings = spoken
    kinds = list(dialect.kinds())
    assert len(kinds) >= 20
    found = {name: await outcome(server, settings, clock, kind, kind) for name, kind in kinds}
    assert not {name: one for name, one in found.items() if isinstance(one, Completion)}


@pytest.mark.parametrize(
    "spoken",
    [
        "openai_chat, streamed",
        "claude_chat",
        *heavy(*(one for one in SPOKEN if one not in ("openai_chat, streamed", "claude_chat"))),
    ],
    indirect=True,
)
async def test_nothing_that_is_wrong_in_http_is_taken_for_an_answer(spoken, clock):
    _, server, settings = spoken
    kinds = list(http_kinds())
    assert len(kinds) >= 50
    found = {name: await outcome(server, settings, clock, kind, kind) for name, kind in kinds}
    assert not {name: one for name, one in found.items() if isinstance(one, Completion)}


async def test_a_garbled_reply_is_asked_for_again(spoken, clock):
    dialect, server, settings = spoken
    for name, kind in dialect.kinds():
        answer = await outcome(server, settings, clock, kind)
        assert isinstance(answer, Completion), name
        assert (answer.text, answer.usage.failed_calls) == ("ok", 1), name


async def test_an_odd_answer_is_an_answer(spoken, clock):
    dialect, server, settings = spoken
    for name, kind in dialect.proper():
        answer = await outcome(server, settings, clock, kind)
        assert isinstance(answer, Completion), (name, answer)
        assert answer.text == ("" if "no words" in name else "look")
        assert answer.usage.failed_calls == 0


async def test_an_episode_that_met_no_answer_has_a_failure_and_no_reward(spoken, clock):
    dialect, server, settings = spoken
    kinds = {name: kind for name, kind in dialect.kinds() if name.startswith(("words", "end"))}
    limits = Limits(retries=0, give_up_after=None, max_failure_share=None, max_concurrent=1)
    async with HttpClient() as client:
        model = make_model(parse_model_config(settings), client, sleep=clock.sleep, clock=clock)
        engine = LocalEngine(ChatAgent(model), lambda task: Door(), limits=limits)
        for kind in kinds.values():
            server.next(kind, kind)
        specs = [EpisodeSpec(Task(name, env="door"), seed=0) for name in kinds]
        results = await engine.run(specs, PlainSkill(""))
    assert [result.reward for result in results] == [None] * len(kinds)
    assert {result.failure.cause.value for result in results} == {"model"}


@pytest.mark.heavy
@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux tells the most memory since a moment")
async def test_no_reply_fills_the_memory(spoken, clock):
    _, server, settings = spoken
    grown = {}
    for name, kind in big_kinds():
        before_mb = begin_to_measure()
        found = await outcome(server, settings, clock, kind, kind)
        grown[name] = resident_mb("VmHWM") - before_mb
        assert isinstance(found, ModelError), name
    assert not {name: size for name, size in grown.items() if size > 50}


def begin_to_measure():
    CLEAR.write_text("5")  # the most memory is told anew
    return resident_mb("VmRSS")


def resident_mb(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["codex_exec", "claude_code_exec"])
async def test_nothing_else_that_a_program_prints_is_an_answer(
    backend, tmp_path, monkeypatch, clock
):
    monkeypatch.setenv("A_KEY", "sk-test-0123456789")
    program, printed = tmp_path / "program", tmp_path / "printed"
    program.write_text(PROGRAM.format(printed=printed))
    program.chmod(0o755)
    settings = {"backend": backend, "model": "m", "path": str(program), "api_key_env": "A_KEY"}
    bounds = {"isolation": "none", "max_attempts": 1, "empty_retries": 0}
    config = parse_model_config({**settings, **bounds})
    kinds = dict(printed_kinds(backend))
    assert len(kinds) >= 100
    async with HttpClient() as client:
        model = make_model(config, client, sleep=clock.sleep)
        found = {}
        for name, body in kinds.items():
            printed.write_bytes(body)
            try:
                found[name] = await model.complete(HELLO, purpose=Purpose.ROLLOUT)
            except ModelError:
                continue
        assert not found
        printed.write_bytes(printed_answer(backend))
        assert (await model.complete(HELLO, purpose=Purpose.ROLLOUT)).text == "look"
