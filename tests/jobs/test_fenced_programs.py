"""No program that acts, proposes or teaches sees the run that it works for, nor the run's data."""

import os

import pytest

from bank_doors import bank_config, proposing
from doors import Walker, doors_config, evaluated
from rl_world import lanes_config
from skillwright.config import StudySettings
from skillwright.datasets import cache_dir
from skillwright.jobs.bank import bank_session, distill_runs, study_run
from skillwright.jobs.run import NullCallback, bank_work, open_model, work_folder
from skillwright.jobs.text import EvalPlan, assemble, assemble_session
from skillwright.jobs.weights.wiring import rl_parts
from skillwright.runs import RunStore

PROGRAM = {"backend": "codex_exec"}
FETCHED = cache_dir()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SKILLWRIGHT_")]:
        monkeypatch.delenv(name)


class Recorder:
    """Makes one model for all roles, and keeps what the configurations of programs say."""

    def __init__(self, model=None):
        self.made, self._model = {}, model or Walker()

    def __call__(self, config, client):
        if config.backend == PROGRAM["backend"]:
            self.made[config.model] = config
        return self._model

    def expect(self, roles, folder, *others):
        assert set(self.made) == set(roles)
        for config in self.made.values():
            assert config.hidden == (str(folder), *map(str, others))
            assert (config.keep_output, config.keep_failures) == (str(folder / "exec"), 20)


def programs(*roles):
    """Let a program play each role; its model's name is the role's."""
    return {"models": {role: {**PROGRAM, "model": role} for role in roles}}


@pytest.mark.parametrize(
    ("opened", "make_config", "roles"),
    [
        (assemble, doors_config, ("target", "optimizer")),
        (assemble_session, doors_config, ("target",)),
        (rl_parts, lanes_config, ("teacher", "expert")),
    ],
)
async def test_the_programs_of_a_run_see_neither_its_folder_nor_its_tasks(
    tmp_path, opened, make_config, roles
):
    config, make = make_config(tmp_path, **programs(*roles)), Recorder()
    folder = tmp_path / "run"
    folder.mkdir()
    with RunStore.open(folder / "run.sqlite") as store:
        async with opened(config, store, NullCallback(), make):
            pass
    make.expect(roles, folder, tmp_path / "tasks", FETCHED)


async def test_what_an_environment_is_told_to_read_is_hidden_too(tmp_path, monkeypatch):
    work, store = tmp_path / "work", tmp_path / "store"
    for one in (work, store):
        one.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", str(store))
    told = {"list": [str(store), "no such place"], "here": ".", "long": "x" * 5000, "n": 3}
    config = doors_config(tmp_path, env={"config": told}, **programs("target"))
    make = Recorder()
    with (
        RunStore.open(work / "run.sqlite") as opened,
        open_model(config.models.target, None, make, opened, config.env),
    ):
        pass
    make.expect(("target",), work, tmp_path / "tasks", store, store, FETCHED)


async def test_the_programs_that_play_and_teach_for_a_bank_see_neither(tmp_path):
    roles = ("target", "optimizer", "teacher")
    config, make = bank_config(tmp_path, **programs(*roles)), Recorder()
    bank = tmp_path / "bank.sqlite"
    with bank_work(bank) as store:
        async with bank_session(config, store, NullCallback(), make):
            pass
    make.expect(("target", "teacher"), work_folder(bank), tmp_path / "tasks", FETCHED)


async def test_a_program_that_distills_runs_sees_none_of_them(tmp_path):
    run, _ = await evaluated(bank_config(tmp_path), EvalPlan("train", 1), Walker())
    settings = StudySettings.model_validate(programs("teacher"))
    make, bank = Recorder(proposing()), tmp_path / "bank.sqlite"
    await distill_runs([study_run(run)], bank, settings, NullCallback(), make)
    make.expect(("teacher",), work_folder(bank), run)


async def test_a_folder_that_is_named_keeps_what_programs_print(tmp_path):
    kept = {"model": "target", "keep_output": "kept", "hidden": ("secrets",)}
    config = doors_config(tmp_path, models={"target": {**PROGRAM, **kept}})
    make = Recorder()
    with RunStore.open(tmp_path / "run.sqlite") as store:
        async with assemble_session(config, store, NullCallback(), make):
            pass
    target = make.made["target"]
    assert (target.keep_output, target.keep_failures) == ("kept", None)
    assert target.hidden == ("secrets", str(tmp_path), str(tmp_path / "tasks"), str(FETCHED))
