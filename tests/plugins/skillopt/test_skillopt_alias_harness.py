"""The target as a command-line agent in an adapter's folder, and a run that was stopped."""

import asyncio

import pytest
from skillopt_runs import DOCUMENTED, Doorman

from doors import ALL_RULES, Walker, llms, look, write_tasks
from fake_clis import install
from skillwright.config.run import BudgetSection, validated
from skillwright.core import ConfigError, DataError
from skillwright.jobs import NullCallback, open_run, run_training, start_run
from skillwright.jobs.run.money import Budget
from skillwright.jobs.text.adapters.models import AdapterCalls
from skillwright.models import HttpClient, make_model, parse_model_config
from skillwright.plugins.skillopt import skillopt_alias
from skillwright.plugins.skillopt.session import ModelSession, SessionModel
from skillwright.runs import RunStore

with skillopt_alias():
    from skillopt.model import is_target_exec_backend
    from skillopt.model.codex_harness import prepare_workspace, render_skill_md, run_target_exec


@pytest.fixture
async def session(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_API_KEY", "canary-codex-0123456789")
    program = install("codex", tmp_path / "bin")
    settings = {"backend": "codex_exec", "model": "m", "path": str(program), "isolation": "none"}
    model = make_model(parse_model_config(settings), HttpClient())
    with RunStore.open(tmp_path / "run.sqlite") as store:
        calls = AdapterCalls(model, store, NullCallback(), Budget(BudgetSection(), store))
        llm = SessionModel("m", "codex_exec", lambda: calls)
        made = ModelSession(llm, llm, asyncio.get_running_loop())
        made.store = store
        yield made
        made.close()


async def test_a_program_works_in_the_folder_that_was_prepared(session, tmp_path):
    def work():
        assert is_target_exec_backend()
        folder = tmp_path / "work"
        skill_path, task_path = prepare_workspace(folder, render_skill_md(ALL_RULES), "Do it.")
        assert skill_path.is_file()
        assert task_path.read_text() == "Do it."
        return run_target_exec(folder, "You are in the cellar.", model="m", timeout=60)

    text, trace = await asyncio.to_thread(work)
    assert text == "2"
    assert trace
    spent = session.store.usage_by_purpose()["rollout"]
    assert (spent.calls, spent.input_tokens) == (1, 900)
    with pytest.raises(DataError, match="no folder"):
        await asyncio.to_thread(run_target_exec, tmp_path / "nowhere", "x")


async def test_a_model_behind_an_endpoint_is_no_program(tmp_path):
    llm = SessionModel("m", "openai_chat", Walker)
    session = ModelSession(llm, llm, asyncio.get_running_loop())
    (tmp_path / "work").mkdir()
    try:
        with pytest.raises(ConfigError, match="openai_chat"):
            await asyncio.to_thread(run_target_exec, tmp_path / "work", "x")
    finally:
        session.close()


async def test_a_run_that_was_stopped_asks_nothing_twice_and_decides_the_same(tmp_path):
    write_tasks(tmp_path / "tasks")

    def config(name):
        return validated(
            {
                "run": {"root": str(tmp_path / "runs"), "name": name},
                "models": {
                    "target": {"backend": "scripted", "model": "household"},
                    "optimizer": {"backend": "scripted", "model": "analyst"},
                },
                "env": {
                    "name": DOCUMENTED,
                    "compat": "skillopt",
                    "config": {"split_dir": str(tmp_path / "tasks"), "workers": 1},
                },
                "train": {"epochs": 1, "batch_size": 6},
                "rollout": {"retries": 0},
            },
            name,
        )

    with start_run(config("whole"), "") as run:
        whole = Walker()
        report = await run_training(run, NullCallback(), llms(whole, Doorman()))

    def stop(number):
        if number == 40:
            training.cancel()  # as Ctrl-C does

    with start_run(config("halted"), "") as run:
        path, first = run.folder.path, Walker(stop)
        works = run_training(run, NullCallback(), llms(first, Doorman()))
        training = asyncio.ensure_future(works)
        with pytest.raises(asyncio.CancelledError):
            await training
    with open_run(path) as run:
        second = Walker()
        resumed = await run_training(run, NullCallback(), llms(second, Doorman()))
    assert resumed.best_skill == report.best_skill
    assert resumed.test.to_dict() == report.test.to_dict()
    assert len(second.calls) < len(whole.calls)
    with look(path) as store:
        assert store.counts()["failures"] == 0
