"""A whole training run on models behind each dialect, with a fifth of the attempts failing."""

import pytest

import mock_anthropic
import mock_openai
import mock_responses
from doors import ALL_RULES, Coach, Walker, doors_config, look
from mock_openai import reset, status
from samples import heavy
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.models import make_model

KEY = "sk-canary-4711"
DIALECTS = {
    "openai_chat": (mock_openai.MockOpenAI, mock_openai, {"backend": "openai_chat"}),
    "responses": (
        mock_responses.MockResponses,
        mock_responses,
        {"backend": "openai_chat", "transport": "responses"},
    ),
    "claude_chat": (mock_anthropic.MockAnthropic, mock_anthropic, {"backend": "claude_chat"}),
    "qwen_chat": (mock_openai.MockOpenAI, mock_openai, {"backend": "qwen_chat"}),
    "minimax_chat": (mock_openai.MockOpenAI, mock_openai, {"backend": "minimax_chat"}),
}


async def nothing(request):
    return None


async def at_once(seconds):
    return None


async def train(folder, dialect, faults=()):
    kind, mock, settings = DIALECTS[dialect]
    walks_and_coaches = {"walker": Walker(), "coach": Coach([[ALL_RULES], ["Be quick."]])}
    async with kind(mock.answer_with(walks_and_coaches), api_key=KEY) as server:
        server.next(*faults)
        known = {**settings, "base_url": server.base_url, "api_key": KEY}
        roles = {"target": "walker", "optimizer": "coach"}
        llms = {role: {**known, "model": name} for role, name in roles.items()}
        with start_run(doors_config(folder, models=llms), "") as run:
            path = run.folder.path
            await run_training(
                run,
                NullCallback(),
                lambda config, client: make_model(config, client, sleep=at_once),
            )
    with look(path) as store:
        skills = [store.skill(version.version) for version in store.skills()]
        failed = sum(usage.failed_calls for usage in store.usage_by_purpose().values())
    return path, skills, failed


@pytest.mark.parametrize(
    "dialect",
    ["responses", "claude_chat", *heavy("openai_chat", "qwen_chat", "minimax_chat")],
)
async def test_a_run_decides_alike_whether_attempts_fail_or_not(tmp_path, dialect):
    _, sound, failed = await train(tmp_path / "sound", dialect)
    assert failed == 0
    assert any(ALL_RULES in skill for skill in sound)
    faults = [status(500), nothing, nothing, nothing, nothing]
    faults += [reset(), nothing, nothing, nothing, nothing]
    path, shaken, failed = await train(tmp_path / "shaken", dialect, faults * 100)
    assert shaken == sound
    assert failed > 20
    kept = [file.read_bytes() for file in path.rglob("*") if file.is_file()]
    assert kept
    assert not [held for held in kept if KEY.encode() in held]
