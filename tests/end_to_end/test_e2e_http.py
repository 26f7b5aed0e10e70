"""The same job over HTTP: the endpoint changes nothing, and neither do its faults."""

import json

import pytest

from doors import ALL_RULES, ALL_WRONG, Coach, Walker, doors_config, look, story, trained
from mock_openai import MockOpenAI, answer_with, empty_choices, reset, status, truncated
from skillwright.core.jsonio import text_digest
from skillwright.jobs import RunConfig, Unwatched, run_training, start_run
from skillwright.jobs.config import validated
from skillwright.models import make_model
from skillwright.models.scripted import ScriptedAnalyst, ScriptedHousehold

PLAN = [[ALL_RULES], [ALL_WRONG]]
FAULTS = (status(429, retry_after="0"), status(500), reset(), truncated())


class FaultyOpenAI(MockOpenAI):
    """Every fifth question, by its content, meets a fault when it comes for the first time.

    Args:
        handler: As in `MockOpenAI`.
        target: The model that sometimes gets an answer without a choice in it, too; that is no
            passing fault of the line, and costs an episode its attempt.
    """

    def __init__(self, handler, target):
        super().__init__(handler)
        self.faults = 0
        self._target = target
        self._seen = set()

    async def _chat(self, request):
        body = await request.text()
        number = int(text_digest(body)[:8], 16)
        if number % 5 == 0 and body not in self._seen:
            self._seen.add(body)
            self.faults += 1
            more = (empty_choices(),) if json.loads(body)["model"] == self._target else ()
            choices = FAULTS + more
            return await choices[number // 5 % len(choices)](request)
        return await super()._chat(request)


async def no_wait(seconds):
    """Sleep no second."""


def behind(server: MockOpenAI, config: RunConfig, target: str, optimizer: str) -> RunConfig:
    """Return a configuration whose two minds are models of one endpoint."""
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
            run, Unwatched(), lambda mind, client: make_model(mind, client, sleep=no_wait)
        )
        return run.folder.path


def told(path):
    """Return a run's story without the episodes' keys, which name the mind that played."""
    tale = story(path)
    return tale | {"episodes": sorted(episode[1:] for episode in tale["episodes"])}


async def test_a_run_over_http_takes_the_decisions_of_one_in_this_process(tmp_path):
    here, _ = await trained(doors_config(tmp_path), Walker(), Coach(PLAN))
    minds = {"walker": Walker(), "coach": Coach(PLAN)}
    async with MockOpenAI(answer_with(minds)) as server:
        there = await trained_over_http(behind(server, doors_config(tmp_path), "walker", "coach"))
        assert all("seed" in body for body in server.bodies)
    assert told(there) == told(here)
    assert server.api_key not in (there / "config.yaml").read_text()


async def test_faults_of_an_endpoint_change_nothing_and_are_no_scores(tmp_path):
    here, _ = await trained(doors_config(tmp_path), Walker(), Coach(PLAN))
    minds = {"walker": Walker(), "coach": Coach(PLAN)}
    config = doors_config(tmp_path, rollout={"retries": 9})
    async with FaultyOpenAI(answer_with(minds), target="walker") as server:
        there = await trained_over_http(behind(server, config, "walker", "coach"))
    assert server.faults > len(server.bodies) / 10
    assert told(there) == told(here)
    with look(there) as store:
        assert store.counts()["failures"] == 0
        spent = store.usage_by_purpose()
    assert spent["rollout"].failed_calls > 0


@pytest.fixture
def houses(tmp_path):
    """A small run on generated houses, played by the scripted minds."""
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
        await run_training(run, Unwatched())
        return run.folder.path


@pytest.mark.heavy
@pytest.mark.parametrize("is_faulty", [False, True])
async def test_houses_are_played_alike_over_http(houses, is_faulty):
    minds = {"household": ScriptedHousehold(), "analyst": ScriptedAnalyst()}
    here = await run_of(houses)
    handler = answer_with(minds)
    async with FaultyOpenAI(handler, "household") if is_faulty else MockOpenAI(handler) as server:
        config = behind(server, houses, "household", "analyst")
        more = config.rollout.model_copy(update={"retries": 30})
        there = await trained_over_http(config.model_copy(update={"rollout": more}))
    assert told(there) == told(here)


@pytest.mark.heavy
async def test_houses_are_played_alike_at_any_concurrency(houses):
    tales = []
    for max_concurrent in (1, 64):
        bound = houses.rollout.model_copy(update={"max_concurrent": max_concurrent})
        tales.append(story(await run_of(houses.model_copy(update={"rollout": bound}))))
    assert tales[0] == tales[1]
