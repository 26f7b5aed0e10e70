"""Skills as a proxy: what an agent says becomes skills, which it is then given unasked."""

import openai
import pytest

from mock_openai import MockOpenAI, answer_with
from serving import KEY, serve_here
from skillwright.bank import BankStore
from skillwright.config import study_settings
from skillwright.config.env import EnvSection
from skillwright.envs import make
from skillwright.envs.drive import open_env, step_env
from skillwright.jobs.bank import distill_runs, study_run
from skillwright.jobs.run import NullCallback, find_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold

pytestmark = pytest.mark.heavy
TURNS = 25


async def play(address, client, task):
    """Play a game by OpenAI's client as somebody's agent would, and judge it."""
    env = make("alfworld", extras={**task.extras, "max_turns": TURNS})
    reply = await open_env(env)
    talk, reward = list(reply.messages), 0.0
    for turn in range(TURNS):
        got = await client.chat.completions.with_raw_response.create(
            model="m", messages=talk, seed=turn
        )
        said = got.parse().choices[0].message.content
        reply = await step_env(env, said)
        reward += reply.reward
        talk += [{"role": "assistant", "content": said}, *reply.messages]
        if reply.done:
            break
    if episode := got.headers.get("x-skillwright-episode"):  # it is recorded
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY) as judge:
            said = {"episode": episode, "reward": reward}
            await judge.post("/feedback", body=said, cast_to=object)
    return reward


async def played(tasks, **settings):
    """Play tasks through a proxy; return the share solved, and the run."""
    async with (
        MockOpenAI(answer_with(ScriptedHousehold()), api_key=None) as upstream,
        serve_here(upstream=upstream.base_url, env="alfworld", **settings) as (address, served),
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k") as client,
    ):
        rewards = [await play(address, client, task) for task in tasks]
    return sum(rewards) / len(rewards), served.run


async def test_an_unchanged_agent_gets_better_by_the_skills_of_its_own_conversations(tmp_path):
    data = {"kind": "generated", "train": 12, "val": 6, "test": 8}
    section = EnvSection.model_validate({"name": "alfworld", "data": data})
    train, _, test = find_tasks(section)
    bank = tmp_path / "bank.sqlite"
    before, run = await played(train, record="first", root=tmp_path)
    settings = study_settings("scripted:household_teacher", None, [])
    outcome = await distill_runs([study_run(str(run))], bank, settings, NullCallback())
    assert (outcome.episodes, outcome.read) == (12, 12)
    with BankStore.open(bank, read_only=True) as store:
        skills = store.load().active
    assert {one.category for one in skills} > {"", "clean"}
    without, _ = await played(test)
    with_bank, _ = await played(test, bank=str(bank))
    assert before < 0.5
    assert with_bank >= without + 0.3
