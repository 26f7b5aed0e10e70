"""Skillwright from Python: train, evaluate, resume and look, with and without a running loop."""

import asyncio
import json
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import skillwright as sw
from doors import doors_settings
from skillwright.core import ConfigError, DataError, RunError
from skillwright.core.found_code import keep_code
from skillwright.jobs.text import open_run, start_run
from skillwright.rollout import EngineDown

ROOT = Path(__file__).parents[1]


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """A configuration as a mapping: the household that every core install has, few games."""
    monkeypatch.chdir(tmp_path)
    return {
        "models": {
            "target": {"backend": "scripted", "model": "household", "noise": 0.1},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "env": {"name": "alfworld", "max_turns": 8, "data": {"train": 6, "val": 16, "test": 6}},
        "train": {"epochs": 1, "batch_size": 6},
    }


def test_a_run_is_trained_looked_at_and_evaluated(doors, capsys):
    run = sw.train(doors, {"run.name": "first"})
    assert "first  runs/first" in capsys.readouterr().out
    assert run.name == "first"
    assert run.summary.is_finished
    assert run.score.episodes == 6
    assert run.skill == (run.path / "best_skill.md").read_text(encoding="utf-8")
    assert repr(run).startswith("<Run 'first': train, ")
    rows = run.episodes()
    assert [row["episode"] for row in rows] == [f"e{n}" for n in range(1, len(rows) + 1)]
    tested = run.episodes(phase="test")
    assert {row["split"] for row in tested} == {"test"}
    assert all(not row["solved"] for row in run.episodes(unsolved=True, split="train"))
    assert run.episode(rows[0]["episode"]).turns

    measured = sw.evaluate(doors, run.skill, {"run.name": "measured"}, progress=False)
    assert capsys.readouterr().out == ""
    assert measured.score == measured.summary.evaluation.table.overall
    assert measured.test is None
    assert measured.gain is None
    with pytest.raises(RunError, match="trains no skill document"):
        _ = measured.skill
    assert sw.open("latest").name == "measured"


def test_a_cell_that_runs_twice_makes_two_runs_also_where_a_loop_is_running(doors):
    async def notebook():
        return [sw.evaluate(doors, "", progress=False) for _ in range(2)]

    first, second = asyncio.run(notebook())
    assert (first.name, second.name) == ("run", "run-1")
    assert first.score == second.score


async def test_the_awaited_verbs_do_the_same(doors):
    run = await sw.atrain(doors, progress=False)
    measured = await sw.aevaluate(doors, run.skill, progress=False)
    assert measured.score.episodes == 6


def test_a_run_that_was_stopped_is_resumed(doors):
    config = sw.load(doors)
    with start_run(config, "") as begun:
        path = begun.folder.path
    assert sw.open(path).score is None
    finished = sw.resume(sw.open(path), progress=False)
    assert finished.path == path
    assert finished.summary.is_finished
    with open_run(path):
        pass  # nobody holds it any more


def test_a_file_a_mapping_and_a_loaded_configuration_are_one(tmp_path, doors):
    file = tmp_path / "my.yaml"
    file.write_text(str(doors), encoding="utf-8")
    by_file = sw.load(file, {"train.epochs": 2})
    assert by_file.train.epochs == 2
    assert by_file.run.name == "my"
    assert sw.load(by_file) == by_file
    assert sw.load(doors, {"train.epochs": 2, "run.name": "my"}) == by_file


def test_a_server_of_ones_own_needs_no_key_however_often_its_settings_are_loaded(
    doors, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    target = {"backend": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    config = sw.load(sw.load({**doors, "models": {**doors["models"], "target": target}}))
    assert "api_key_env" not in config.models.target.model_fields_set


def test_what_is_wrong_is_said_with_the_nearest_right_name(doors):
    with pytest.raises(ConfigError, match=r"Did you mean 'train\.epochs'"):
        sw.load(doors, {"train.epoch": 1})
    with pytest.raises(ConfigError, match="Did you mean 'models'"):
        sw.load({"modles": {}})
    with pytest.raises(ConfigError, match="this configuration trains weights"):
        sw.evaluate(ROOT / "examples" / "rl" / "alfworld.yaml", "")
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = sw.trian


def test_a_failure_of_the_adapter_reaches_the_caller(tmp_path):
    settings = doors_settings(tmp_path)
    settings["env"]["data"]["path"] = str(tmp_path / "nowhere")
    with pytest.raises(Exception, match="nowhere"):
        sw.train(settings, progress=False)
    assert not (tmp_path / "runs").exists()


def test_the_package_is_imported_without_its_jobs():
    code = "import sys, skillwright as sw; sw.__version__; print('skillwright.jobs' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


# Rows and a function

QUEUES = {"invoice": "billing", "parcel": "delivery", "password": "login"}
ROWS = [
    {"text": f"My {word} number {n} is wrong.", "queue": queue}
    for n in range(24)
    for word, queue in QUEUES.items()
]
SCRIPTED = {
    "target": {"backend": "scripted", "model": "clerk", "noise": 0.1},
    "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
}
PROMPT = "{{ text }}\nAnswer with one of: billing, delivery, login"


def right_queue(row, reply):
    found = re.sub(r"</?answer>", "", reply).strip()
    return float(found == row["queue"]), f'Expected "{row["queue"]}", and you answered "{found}".'


def test_a_skill_is_optimized_by_rows_and_a_function(doors):
    run = sw.optimize("", ROWS, right_queue, **SCRIPTED, prompt=PROMPT, progress=False)
    assert run.gain.gain > 0.3
    assert 'answer "billing"' in run.skill
    [row] = run.episodes(phase="test")[:1]
    assert row["env"] == "table"
    again = sw.optimize("", ROWS, right_queue, **SCRIPTED, prompt=PROMPT, progress=False)
    assert (again.name, again.skill) == ("optimize-1", run.skill)
    assert len(list((run.path.parent / ".tasks").iterdir())) == 1


def test_functions_of_a_notebook_are_models_and_metrics_and_the_call_goes_on(doors, monkeypatch):
    asked = []

    def target(messages):
        asked.append(messages)
        return "billing"

    async def metric(row, reply):
        return reply == row["queue"]

    def call():
        short = {"train.epochs": 1, "env.data.val": 12}
        optimizer = SCRIPTED["optimizer"]
        return sw.optimize(
            "", ROWS, metric, target=target, optimizer=optimizer, prompt=PROMPT, progress=False,
            settings=short,
        )  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skillwright.api.run_training", stopped)
        with pytest.raises(KeyboardInterrupt):
            call()
    run = call()
    assert run.name == "optimize"
    assert 0.2 < run.score.success_rate < 0.5  # it says the same to everybody
    assert {message["role"] for message in asked[0]} <= {"system", "user"}
    assert any("My parcel" in message["content"] for one in asked for message in one)

    monkeypatch.delitem(sys.modules, "skillwright_session")
    config = sw.load(run.path / "config.yaml")
    with pytest.raises(DataError, match="made in a Python session that is over"):
        sw.train(config, progress=False)


async def stopped(*args, **settings):
    raise KeyboardInterrupt


def test_the_call_goes_on_with_the_run_of_its_own_skill_also_with_a_later_one(doors):
    def call(skill):
        return sw.optimize(
            skill, ROWS, right_queue, **SCRIPTED, prompt=PROMPT, settings={"train.epochs": 1},
            progress=False,
        )  # fmt: skip

    def interrupted(skill):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("skillwright.api.run_training", stopped)
            with pytest.raises(KeyboardInterrupt):
                call(skill)

    assert call("").name == "optimize"
    interrupted("Be brief.")
    interrupted("Be kind.")
    kind = call("Be kind.")
    assert kind.name == "optimize-2"
    assert kind.skill.startswith("Be kind.")
    assert call("Be brief.").name == "optimize-1"


def test_functions_that_differ_in_what_they_were_made_with_are_two():
    def made(queue):
        return lambda row, reply: float(queue in reply)

    names = {keep_code(made(queue)) for queue in ("billing", "login", "billing")}
    assert len(names) == 2
    bound = {keep_code(partial(right_queue, one)) for one in ({}, {"queue": "login"}, {})}
    assert len(bound) == 2


def test_an_agent_that_raises_now_and_then_is_a_recorded_failure(doors):
    class Agent:
        calls = 0

        def answer(self, messages):
            self.calls += 1
            if self.calls % 9 == 0:
                raise TimeoutError("no answer in 60 s")
            return "billing"

    models = {**SCRIPTED, "target": Agent().answer}
    run = sw.optimize(
        "", ROWS, right_queue, **models, prompt=PROMPT, progress=False,
        settings={"train.epochs": 1, "rollout.retries": 0, "env.data.val": 12},
    )  # fmt: skip
    failed = run.episodes(faults=True)
    assert failed
    assert "answer raised TimeoutError: no answer in 60 s" in failed[0]["failure"]["message"]


def test_a_metric_that_raises_or_returns_nonsense_is_no_score(doors):
    def metric(row, reply):
        if "parcel" in row["text"]:
            raise ValueError("no such queue")
        return float("nan")

    with pytest.raises(EngineDown, match="gave no score: ValueError: "):
        sw.optimize("", ROWS, metric, **SCRIPTED, prompt=PROMPT, progress=False)
    rows = sw.open("optimize").episodes(faults=True)
    assert {row["reward"] for row in rows} == {None}
    said = str([row["failure"]["message"] for row in rows])
    assert re.search(r"ValueError: no such queue \(line \d+ of test_api\.py\)", said)
    assert "it returned nan; a score is a number from 0 to 1" in said


def test_rows_may_be_given_by_split_and_bad_ones_are_refused(doors):
    tasks = {"train": ROWS[:12], "val": ROWS[12:36], "test": ROWS[36:]}
    run = sw.optimize(
        "", tasks, right_queue, **SCRIPTED, prompt=PROMPT, settings={"train.epochs": 1},
        progress=False,
    )  # fmt: skip
    assert run.score.tasks == 36
    with pytest.raises(DataError, match="must be valid JSON"):
        sw.optimize("", [{"text": object()}], right_queue, **SCRIPTED, prompt=PROMPT)
    with pytest.raises(DataError, match="Write None where a value is missing"):
        sw.optimize("", [{"text": float("nan")}], right_queue, **SCRIPTED, prompt=PROMPT)
    with pytest.raises(DataError, match="surrogates not allowed"):
        sw.optimize("", [{"text": "\ud800"}], right_queue, **SCRIPTED, prompt=PROMPT)
    with pytest.raises(DataError, match="Did you mean 'text'"):
        sw.optimize("", ROWS, right_queue, **SCRIPTED, prompt="{{ txt }}")
    with pytest.raises(ConfigError, match="cannot prove a gain on"):
        sw.optimize("", ROWS[:6], right_queue, **SCRIPTED, prompt=PROMPT)


# The page and the notebook


def test_the_example_of_the_page_improves_the_clerk_as_it_says(monkeypatch, tmp_path, capsys):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = re.search(r'```python title="optimize"\n(.*?)```', page, re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    file = tmp_path / "page.py"
    file.write_text(code, encoding="utf-8")
    runpy.run_path(str(file))
    promised = re.search(r"^<Run .*?\n.*?\n", page, re.MULTILINE)[0]
    assert capsys.readouterr().out.endswith(promised)


@pytest.mark.heavy
def test_the_notebook_runs_as_it_is(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    shutil.copytree(ROOT / "examples" / "table_data", tmp_path / "table_data")
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = json.dumps(notebook.cells)
    assert "<Run 'optimize': train, " in said
    assert sw.open(tmp_path / "runs" / "optimize").score.success_rate > 0.8


def test_a_skill_file_that_is_not_there_is_refused_by_name(doors, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.md"):
        sw.evaluate(doors, tmp_path / "nowhere.md", progress=False)


def test_a_model_without_a_backend_is_refused_in_words_of_this_call(doors):
    models = {**SCRIPTED, "target": "gpt-5-mini"}
    with pytest.raises(ConfigError, match="write backend:model, such as openai_chat:gpt-5-mini"):
        sw.optimize("", ROWS, right_queue, **models, prompt=PROMPT)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"train.epoch": 2}, "settings[\"train.epoch\"]: no key 'train.epoch'. Did you mean"),
        ({"it's": "it's"}, 'settings["it\'s"]: no key'),
        ({"train.epochs": "two"}, "train.epochs: Input should be a valid integer, not 'two'"),
        (["train.epochs=2"], "settings must map dotted paths to values"),
    ],
)
def test_a_wrong_setting_is_named_as_python_writes_it(settings, said):
    with pytest.raises(ConfigError) as refused:
        sw.load({}, settings)
    assert said in str(refused.value)
    assert "--set" not in str(refused.value)
