"""A whole run against an endpoint that fails a fifth of the calls: nothing changes, nothing hides.

Each kind of fault comes in its turn: 429 with Retry-After, 500, no answer before the client's
deadline, a connection that is reset, half an answer, and an answer without a choice. Nothing here
waits but the time-outs themselves: only a call that will never be answered gets a short deadline.
"""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, look, story
from mock_openai import FaultyOpenAI, answer_with, hold, line_faults
from skillwright.cli.app import app
from skillwright.config.run import validated
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.models import HttpClient, make_model

PLAN = [[ALL_RULES], [ALL_WRONG], ["Be quick."], [ALL_WRONG]]
LONG = {"train": {"epochs": 2, "batch_size": 6}}
NEVER = 0.4  # long enough for a busy machine to have sent the call


class Foreseeing(HttpClient):
    """A client with a short deadline for the calls that will never be answered."""

    def __init__(self, server):
        super().__init__()
        self._server = server

    async def post_json(self, url, body, *, headers, timeout_s):
        if self._server.fault_for(body.decode()) == "no answer":
            timeout_s = NEVER
        return await super().post_json(url, body, headers=headers, timeout_s=timeout_s)


async def no_wait(seconds):
    """Sleep no second."""


async def run_behind(server, client, folder):
    """Train against the server, and return the run's folder."""
    endpoint = {
        "backend": "openai_chat",
        "base_url": server.base_url,
        "api_key": server.api_key,
        "max_concurrent": 64,
    }
    settings = doors_config(folder, **LONG).model_dump(mode="json")
    settings["models"] = {
        "target": {**endpoint, "model": "walker"},
        "optimizer": {**endpoint, "model": "coach"},
    }
    with start_run(validated(settings, "faults"), "") as run:
        await run_training(
            run, NullCallback(), lambda llm, _: make_model(llm, client, sleep=no_wait)
        )
        return run.folder.path


@pytest.fixture
async def runs(tmp_path):
    """The same run at the same endpoint, in health and with faults."""
    llms = {"walker": Walker(), "coach": Coach(PLAN)}
    faults = {**line_faults(), "no answer": hold(asyncio.Event())}
    handler = answer_with(llms)
    async with FaultyOpenAI(handler, faults) as server, Foreseeing(server) as client:
        server.is_healthy = True
        healthy = await run_behind(server, client, tmp_path / "healthy")
        server.bodies.clear()
        server.is_healthy = False
        faulty = await run_behind(server, client, tmp_path / "faulty")
    return healthy, faulty, server


async def test_faults_change_no_decision_and_every_one_is_counted(runs):
    healthy, faulty, server = runs
    failed = server.failed
    assert {kind for _, kind in failed} == {*line_faults(), "no answer"}
    assert {model for model, _ in failed} == {"walker", "coach"}
    assert failed.total() > 0.19 * len(server.bodies)
    assert story(faulty) == story(healthy)
    with look(faulty) as store:
        assert store.counts()["failures"] == 0
        spent = store.usage_by_purpose()
    at_rollouts = sum(count for (model, _), count in failed.items() if model == "walker")
    assert spent["rollout"].failed_calls == at_rollouts
    assert sum(usage.failed_calls for usage in spent.values()) == failed.total()
    with look(healthy) as store:
        assert not any(usage.failed_calls for usage in store.usage_by_purpose().values())


async def test_what_a_run_says_at_its_end_tells_of_every_failed_call(runs):
    _, faulty, server = runs
    # A finished run says again what it came to; the line breaks are the terminal's.
    done = await asyncio.to_thread(CliRunner().invoke, app, ["resume", str(faulty)])
    assert done.exit_code == 0, done.output
    assert f"{server.failed.total():,} calls failed" in " ".join(done.output.split())
    done = await asyncio.to_thread(CliRunner().invoke, app, ["runs", "show", str(faulty), "--json"])
    told = json.loads(done.stdout)["usage"]
    assert sum(usage["failed_calls"] for usage in told.values()) == server.failed.total()
