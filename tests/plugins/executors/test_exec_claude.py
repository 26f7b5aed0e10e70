"""The claude program as an agent and as a chat model, against a fake that may behave badly."""

import json

import pytest
from exec_fixtures import CANARIES, MESSAGES, SKILL, fakes, turn

from skillwright.core import (
    ConfigError,
    ModelRefused,
    Purpose,
    ReplyInvalid,
    RequestRefused,
    Sampling,
    Usage,
)
from skillwright.models import ChatAgent, ContextOverflow, agent_of
from skillwright.plugins.executors.agent import ExecAgent
from skillwright.plugins.executors.report import ExecFault
from skillwright.plugins.executors.workspace import why_no_fence

__all__ = ["fakes"]

NO_FENCE = why_no_fence(nested=False)
needs_fence = pytest.mark.skipif(bool(NO_FENCE), reason=f"no bubblewrap: {NO_FENCE}")


async def ask(model, sampling=Sampling(), messages=MESSAGES):
    return await model.complete(messages, sampling=sampling, purpose=Purpose.REFLECT)


async def test_an_agent_acts_on_the_mounted_skill_with_reading_tools_only(fakes):
    agent = fakes.make("claude_code_exec", effort="low")
    [act] = await agent.act_batch([turn()])
    assert act.text == "4"
    assert act.usage.cost_usd == 0.0125
    assert (act.usage.input_tokens, act.usage.cached_tokens) == (1050, 700)
    [seen] = fakes.seen()
    assert SKILL in seen["prompt"]
    assert ".claude/skills/skillopt-target/SKILL.md" in seen["files"]
    assert seen["given"] == {
        "-p": True,
        "--output-format": "stream-json",
        "--verbose": True,
        "--model": "m-1",
        "--tools": "Read,Glob,Grep,Skill",
        "--allowedTools": "Read,Glob,Grep,Skill",
        "--permission-mode": "dontAsk",
        "--permission-prompts": "none",
        "--setting-sources": "project",
        "--strict-mcp-config": True,
        "--no-session-persistence": True,
        "--exclude-dynamic-system-prompt-sections": True,
        "--max-turns": "40",
        "--effort": "low",
    }


async def test_without_a_skill_no_skills_load(fakes):
    await fakes.make("claude_code_exec").act_batch([turn(skill="")])
    [seen] = fakes.seen()
    assert seen["given"]["--disable-slash-commands"] is True
    assert seen["files"] == []


async def test_wider_permissions_are_named(fakes):
    agent = fakes.make("claude_code_exec", sandbox="danger-full-access", web_search=True)
    await agent.act_batch([turn()])
    tools = fakes.seen()[0]["given"]["--allowedTools"]
    assert tools == "Read,Glob,Grep,Skill,Edit,Write,Bash,WebSearch,WebFetch"


def test_writing_without_bubblewrap_is_refused_when_the_settings_are_read(fakes):
    with pytest.raises(ConfigError, match="Claude Code has no sandbox of its own"):
        fakes.make("claude_code_exec", sandbox="workspace-write", isolation="none")


@needs_fence
async def test_a_writing_agent_is_fenced_by_itself(fakes):
    agent = fakes.make("claude_code_exec", sandbox="workspace-write", isolation="auto")
    [act] = await agent.act_batch([turn()])
    assert act.text == "4"


async def test_the_environment_is_quiet_and_holds_no_key_of_another(fakes):
    await fakes.make("claude_code_exec").act_batch([turn()])
    [seen] = fakes.seen()
    env = seen["env"]
    assert not [value for value in CANARIES.values() if value in json.dumps(seen)]
    assert "own-codex" not in json.dumps(env)
    assert env["ANTHROPIC_API_KEY"] == "own-anthropic_api_key-0123456789"
    assert env["DISABLE_TELEMETRY"] == env["DISABLE_AUTOUPDATER"] == "1"
    assert env["CLAUDE_CONFIG_DIR"].startswith(env["HOME"])
    assert "CLAUDECODE" not in env


async def test_a_token_is_passed_under_its_own_name(fakes, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "oauth-0123456789")
    await fakes.make("claude_code_exec").act_batch([turn()])
    env = fakes.seen()[0]["env"]
    assert env["CLAUDE_CODE_OAUTH_TOKEN"] == "oauth-0123456789"
    assert "ANTHROPIC_API_KEY" not in env


@pytest.mark.parametrize("backend", ["claude_code_exec", "claude_chat"])
@pytest.mark.parametrize(
    ("behavior", "kind", "match"),
    [
        ("api_error", ExecFault, "529 overloaded"),
        ("logged_out", ModelRefused, "Sign in"),
        ("max_turns", ReplyInvalid, "raise max_turns"),
        ("prompt_too_long", ContextOverflow, "Shorten"),
        ("refuses", RequestRefused, "withheld its answer"),
    ],
)
async def test_every_bad_end_is_a_typed_failure(backend, behavior, kind, match, fakes):
    transport = {"transport": "cli"} if backend == "claude_chat" else {}
    model = fakes.make(backend, behavior, max_attempts=1, **transport)
    with pytest.raises(kind, match=match) as caught:
        await ask(model)
    assert type(caught.value) is kind


async def test_a_program_that_does_not_end_behind_its_result_is_read(fakes, monkeypatch):
    monkeypatch.setattr("skillwright.plugins.executors.model._LINGERS_S", 0.2)
    [act] = await fakes.make("claude_code_exec", "lingers").act_batch([turn()])
    assert (act.text, act.usage.cost_usd) == ("4", 0.0125)
    said = await ask(fakes.make("claude_chat", "lingers", transport="cli"))
    assert (said.text, said.usage.cost_usd) == ("ready", 0.0125)


async def test_a_cost_that_the_program_guessed_is_unknown(fakes):
    [act] = await fakes.make("claude_code_exec", "guessed_cost").act_batch([turn()])
    assert act.usage.cost_usd is None


async def test_another_endpoint_is_named_and_its_cost_is_unknown(fakes):
    agent = fakes.make("claude_code_exec", base_url="http://localhost:1")
    [act] = await agent.act_batch([turn()])
    env = fakes.seen()[0]["env"]
    assert env["ANTHROPIC_BASE_URL"] == "http://localhost:1"
    assert env["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "m-1"
    assert act.usage.cost_usd is None


async def test_a_chat_model_has_no_tools_and_a_system_prompt_of_its_own(fakes):
    fakes.unfence()
    model = fakes.make("claude_chat", transport="cli", effort="high")
    completion = await ask(model, Sampling(max_tokens=4096, seed=3))
    assert completion.text == "ready"
    assert completion.usage.cost_usd == 0.0125
    [seen] = fakes.seen()
    assert seen["system"] == MESSAGES[0]["content"]
    assert "number of a door" not in seen["prompt"]
    assert seen["files"] == []
    assert seen["env"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4096"
    given = seen["given"]
    assert given["--tools"] == ""
    assert given["--output-format"] == "json"
    assert given["--disable-slash-commands"] is True
    assert "--allowedTools" not in given
    assert not [word for word in seen["argv"] if "door" in word]


@needs_fence
async def test_a_chat_model_is_fenced_where_that_works(fakes):
    completion = await ask(fakes.make("claude_chat", transport="cli"))
    assert completion.text == "ready"
    assert fakes.seen() == []  # it could not write its notes


async def test_a_schema_holds_the_answer_of_a_chat_model(fakes):
    fakes.unfence()
    model = fakes.make("claude_chat", transport="cli")
    completion = await ask(model, Sampling(json_schema={"type": "object"}))
    assert json.loads(completion.text) == {"door": 4}
    assert json.loads(fakes.seen()[0]["given"]["--json-schema"]) == {"type": "object"}


@pytest.mark.parametrize(
    "vain", [{"temperature": 0.5}, {"thinking": "adaptive"}, {"headers": {"x": "y"}}]
)
def test_what_the_program_cannot_do_is_refused_by_name(vain, fakes):
    with pytest.raises(ConfigError, match=f"transport 'cli' takes no {next(iter(vain))}"):
        fakes.make("claude_chat", transport="cli", **vain)


async def test_who_acts_with_a_model(fakes):
    executor = fakes.make("claude_code_exec")
    assert isinstance(executor, ExecAgent)
    assert agent_of(executor) is executor
    chat = agent_of(fakes.make("claude_chat", transport="cli"))
    assert isinstance(chat, ChatAgent)
    assert chat.identity.startswith("claude_chat:m-1@2.1.329 (Claude Code)#")


async def test_counts_and_costs_that_cannot_be_are_left_out(fakes, caplog):
    for behavior in ("endless_tokens", "endless_cost"):
        [act] = await fakes.make("claude_code_exec", behavior).act_batch([turn()])
        assert act.text == "ok"
        assert act.usage == Usage(calls=1, cost_usd=None)
    assert caplog.text.count("cannot be") == 2
