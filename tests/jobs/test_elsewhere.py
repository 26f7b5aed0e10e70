"""What a job hands to workers, here over workers of the same process."""

import pickle
from dataclasses import replace

import pytest

from skillwright.config.run import validated
from skillwright.core import ConfigError, EpisodeSpec, PlainSkill
from skillwright.jobs import NullCallback
from skillwright.jobs.run.memory import EngineEvents
from skillwright.jobs.run.opened import Elsewhere, make_engine
from skillwright.jobs.run.resuming import refuse_all_but_budget
from skillwright.jobs.run.tasks import make_splits
from skillwright.models import HttpClient, LocalConfig, agent_of, make_model
from skillwright.rollout.pool import PooledEngine, WorkerPool, WorkersHere

MODELS = {
    "target": {"backend": "scripted", "model": "household", "noise": 0.2},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}


def config(**env):
    return validated({"models": MODELS, "env": {"data": {"train": 6}, **env}}, "test")


def engine_of(settings, mode="free"):
    agent = agent_of(make_model(settings.models.target, HttpClient()))
    return make_engine(settings, agent, None, EngineEvents(NullCallback()), mode=mode)


async def test_houses_are_played_elsewhere_as_they_are_here():
    settings = config(max_turns=20)
    specs = [EpisodeSpec(task, 7) for task in make_splits(settings).train.tasks]
    here = engine_of(settings)
    async with WorkerPool(WorkersHere(2)) as pool:
        there = Elsewhere(pool, make_model, settings.env).placed(here, settings.models.target)
        assert isinstance(there, PooledEngine)
        played = await there.run(specs, PlainSkill("Look into drawers."))
    local = await here.run(specs, PlainSkill("Look into drawers."))
    assert [replace(one, wall_s=0) for one in played] == [replace(one, wall_s=0) for one in local]


async def test_policies_and_models_of_this_process_stay_here():
    settings = config()
    async with WorkerPool(WorkersHere(1)) as pool:
        elsewhere = Elsewhere(pool, make_model, settings.env)
        policy = engine_of(settings, mode="lockstep")
        assert elsewhere.placed(policy, settings.models.target) is policy
        with pytest.raises(ConfigError, match="skillwright serve"):
            elsewhere.placed(engine_of(settings), LocalConfig(model="m.gguf"))
    local = engine_of(settings)
    nobody = Elsewhere(None, make_model, settings.env)
    assert nobody.placed(local, settings.models.target) is local


async def test_files_that_the_settings_name_and_modules_of_ones_own_are_sent(tmp_path):
    module = tmp_path / "world.py"
    module.write_text("from skillwright.envs import TextEnv\nclass World(TextEnv): ...\n", "utf-8")
    data = tmp_path / "data"
    data.mkdir()
    (data / "orders.json").write_text("{}", "utf-8")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"id": "{n}"}}\n' for n in range(30)), "utf-8")
    settings = config(
        name=f"{module}:World",
        config={"orders": str(data), "shown": True},
        data={"kind": "ratio", "path": str(rows)},
    )
    here = WorkersHere(1)
    here.has_other_machines = True
    async with WorkerPool(here) as pool:
        elsewhere = Elsewhere(pool, make_model, settings.env)
        there = elsewhere.placed(engine_of(settings), settings.models.target)
        assert {file.name for file in there.files} == {"orders.json", "world.py"}
        sent = pickle.loads(here._shared[len(here._shared) - 1])
        assert {file.path for file in sent.files} == {str(module), str(data / "orders.json")}


def test_a_run_may_be_resumed_on_other_machines():
    refuse_all_but_budget(["rollout.engine=local", "rollout.ray.workers=8"])
    with pytest.raises(ConfigError, match=r"rollout\.engine and rollout\.ray can"):
        refuse_all_but_budget(["rollout.retries=8"])
