"""The same job over HTTP: the endpoint changes nothing, and neither do its faults.

Every kind of fault, and how it is counted, is in test_e2e_faults.py.
"""

import pytest

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, story, trained
from mock_openai import FaultyOpenAI, MockOpenAI, answer_with, line_faults
from skillwright.config import RunConfig
from skillwright.config.run import validated
from skillwright.jobs import NullCallback, run_training, start_run
from skillwright.models import make_model
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst

PLAN = [[ALL_RULES], [ALL_WRONG]]


async def no_wait(seconds):
    """Sleep no second."""


def behind(server: MockOpenAI, config: RunConfig, target: str, optimizer: str) -> RunConfig:
    """Return a configuration whose two models are models of one endpoint."""
    settings = config.model_dump(mode="json")
    endpoint = {"backend": "openai_chat", "base_url": server.base_url, "api_key": server.api_key}
    settings["models"] = {
        "target": {**endpoint, "model": target},
        "optimizer": {**endpoint, "model": optimizer},
    }
    return validated(settings, "http")


async def trained_over_http(config):
    with start_run(config, "") as run:
        await run_training(
            run, NullCallback(), lambda llm, client: make_model(llm, client, sleep=no_wait)
        )
        return run.folder.path


def told(path):
    """Return a run's story without the episodes' keys, which name the model that played."""
    tale = story(path)
    return tale | {"episodes": sorted(episode[1:] for episode in tale["episodes"])}


async def test_a_run_over_http_takes_the_decisions_of_one_in_this_process(tmp_path):
    here, _ = await trained(doors_config(tmp_path), Walker(), Coach(PLAN))
    llms = {"walker": Walker(), "coach": Coach(PLAN)}
    async with MockOpenAI(answer_with(llms)) as server:
        there = await trained_over_http(behind(server, doors_config(tmp_path), "walker", "coach"))
        assert all("seed" in body for body in server.bodies)
    assert told(there) == told(here)
    assert server.api_key not in (there / "config.yaml").read_text()


@pytest.fixture
def houses(tmp_path):
    """A small run on generated houses, played by the scripted models."""
    return validated(
        {
            "run": {"name": "houses", "root": str(tmp_path / "runs")},
            "env": {"max_turns": 20, "data": {"train": 12, "val": 20, "test": 12}},
            "models": {
                "target": {"backend": "scripted", "model": "household"},
                "optimizer": {"backend": "scripted", "model": "analyst"},
            },
            "train": {"epochs": 1, "batch_size": 6},
        },
        "houses",
    )


async def run_of(config):
    with start_run(config, "") as run:
        await run_training(run, NullCallback())
        return run.folder.path


@pytest.mark.heavy
@pytest.mark.parametrize("is_faulty", [False, True])
async def test_houses_are_played_alike_over_http(houses, is_faulty):
    llms = {"household": ScriptedHousehold(), "analyst": ScriptedAnalyst()}
    here = await run_of(houses)
    handler = answer_with(llms)
    async with FaultyOpenAI(handler, line_faults()) as server:
        server.is_healthy = not is_faulty
        there = await trained_over_http(behind(server, houses, "household", "analyst"))
    assert bool(server.failed) is is_faulty
    assert told(there) == told(here)


@pytest.mark.heavy
async def test_houses_are_played_alike_at_any_concurrency(houses):
    tales = []
    for max_concurrent in (1, 64):
        bound = houses.rollout.model_copy(update={"max_concurrent": max_concurrent})
        tales.append(story(await run_of(houses.model_copy(update={"rollout": bound}))))
    assert tales[0] == tales[1]
