"""Every command: what it shows, what it prints as JSON, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml

from doors import Walker, rule
from mock_openai import answer_with, completion
from served import served
from skillwright import __version__
from skillwright.cli.training import limited
from skillwright.config import load_config
from skillwright.jobs.run import demo_file

TINY = (
    "--half", "text",
    "--set", "env.data={train: 6, val: 16, test: 6}",
    "--set", "env.max_turns=6",
    "--set", "train.batch_size=6",
    "--set", "train.epochs=1",
)  # fmt: skip


@pytest.fixture
def endpoint_config(write_config, monkeypatch):
    """A configuration whose agent stands behind HTTP."""
    with served(answer_with(Walker())) as server:
        monkeypatch.setenv("WALKER_KEY", server.api_key)
        llm = {"backend": "openai_chat", "model": "walker", "base_url": server.base_url}
        yield write_config(models={"target": {**llm, "api_key_env": "WALKER_KEY"}})


@pytest.fixture
def skill_file(tmp_path):
    path = tmp_path / "skill.md"
    path.write_text(f"{rule('attic')}\n{rule('cellar')}\n", encoding="utf-8")
    return path


def test_help_and_version_are_there(cli):
    assert cli("--version").stdout == f"skillwright {__version__}\n"
    said = cli("--help").stdout
    for command in ("train", "eval", "demo", "resume", "runs", "env", "models", "doctor", "config"):
        assert command in said


def test_no_command_shows_the_help_and_an_unknown_one_is_refused(cli):
    assert "Usage" in cli(code=2).output
    assert "No such command 'trian'" in cli("trian", code=2).stderr


def test_the_demo_trains_and_says_that_its_minds_are_scripted(cli, tmp_path):
    said = " ".join(cli("demo", *TINY).stdout.split())
    for words in (
        "target: scripted:household",
        "optimizer: scripted:analyst",
        "alfworld: 6 train, 16 val, 6 sealed test tasks",
        "initial skill on val:",
        "step 1 ",
        "Held-out test tasks solved (95% interval)",
        "placebo over initial:",
        "Scripted models took part",
        "(runs/demo/best_skill.md)",
    ):
        assert words in said
    assert (tmp_path / "runs" / "demo" / "best_skill.md").is_file()


def test_the_demo_as_json_is_one_object_and_its_progress_goes_elsewhere(cli):
    result = cli("demo", *TINY, "--json")
    report = json.loads(result.stdout)
    assert report["run"] == "runs/demo"
    assert report["scripted"] is True
    assert set(report) == {
        "steps", "epochs", "ran_out_of_patience", "baseline", "final", "test", "confirmation",
        "initial_skill", "best_skill", "final_skill", "run", "scripted", "turns",
        "causes", "memorized", "refuted",
    }  # fmt: skip
    assert set(report["test"]["tables"]) == {"initial", "best", "final", "placebo"}
    assert "initial skill on val:" in result.stderr


def test_a_run_is_trained_listed_shown_and_resumed(cli, write_config):
    said = cli("train", write_config()).stdout
    assert "(runs/doors/best_skill.md)" in said
    (row,) = json.loads(cli("runs", "list", "--json").stdout)
    assert (row["name"], row["job"], row["finished"]) == ("doors", "train", True)
    assert row["scripted"] is True
    listed = cli("runs", "list").stdout
    assert "doors" in listed
    assert "(scripted)" in listed
    shown = cli("runs", "show", "doors").stdout
    for words in (
        "doors  runs/doors",
        "Decisions",
        "step 1:",
        "Held-out test",
        "Consumed",
        "Scripted models took part",
    ):
        assert words in shown
    assert "0.0% cut" not in said + shown  # shares of nothing are not shown
    assert "SkillOpt" not in said + shown
    one = json.loads(cli("runs", "show", "doors", "--json").stdout)
    assert {**one, "turns": None} == row
    again = cli("resume", "runs/doors", "--json")
    assert json.loads(again.stdout)["test"] == row["test"]
    assert "continues at step" not in again.stderr
    assert json.loads(cli("runs", "show", "doors", "--json").stdout) == one


def test_a_second_run_gets_a_name_of_its_own(cli, write_config):
    config = write_config()
    for name in ("doors", "doors-1"):
        done = cli("train", config, "--json")
        assert json.loads(done.stdout)["run"] == f"runs/{name}"
        said = "there is a run doors already; this one is doors-1." in done.stderr
        assert said == (name == "doors-1")


def test_runs_are_listed_from_any_folder_even_an_empty_one(cli, tmp_path):
    assert "no runs in 'runs' yet; make one with:  skillwright demo" in cli("runs", "list").stdout
    assert cli("runs", "list", "--json").stdout == "[]\n"
    (tmp_path / "[bold]").mkdir()
    assert "no runs in '[bold]' yet" in cli("runs", "list", "--root", "[bold]").stdout


def test_an_evaluation_shows_rates_by_family_and_how_reliable_they_are(
    cli, endpoint_config, skill_file
):
    said = cli("eval", endpoint_config, "--skill", skill_file, "--trials", 2).stdout
    for words in (
        "attic",
        "cellar",
        "hall",
        "100% [51, 100]",
        "pass^1: ",
        "pass^2: ",
        "(12 tasks)",
    ):
        assert words in said
    assert "Scripted models" not in said  # the optimizer is scripted, and took no part


def test_an_evaluation_as_json_is_one_object(cli, endpoint_config, skill_file):
    result = cli("eval", endpoint_config, "--skill", skill_file, "--split", "val", "--json")
    report = json.loads(result.stdout)
    assert (report["split"], report["trials"], report["run"]) == ("val", 1, "runs/doors")
    assert report["table"]["task_types"]["attic"]["success_rate"] == 1.0
    kept = yaml.safe_load((skill_file.parent / "runs/doors/config.yaml").read_text())
    assert kept["skill"]["init"] == str(skill_file)
    (row,) = json.loads(cli("runs", "list", "--json").stdout)
    assert row["evaluation"]["table"] == report["table"]
    shown = cli("runs", "show", "doors").stdout
    for words in ("eval, started", "attic", "pass^1", "Consumed"):
        assert words in shown
    assert "cripted" not in shown


def test_an_evaluation_of_answers_that_nobody_could_read_is_an_error(cli, write_config):
    async def cut(body):
        return completion("<think>Which door", finish_reason="length")

    with served(cut, api_key=None) as server:
        llm = {"backend": "openai_chat", "model": "m", "base_url": server.base_url}
        ended = cli("eval", write_config(models={"target": llm}), code=2)
    assert "pass^1" not in ended.stdout
    assert "resume" not in ended.stderr  # which would end in the same way
    said = " ".join(ended.stderr.split())
    assert "100% of the answers say nothing about the agent" in said
    assert "raise models.target.max_tokens" in said


def test_an_evaluation_below_the_pass_mark_exits_with_1(cli, endpoint_config, skill_file):
    words = ("eval", endpoint_config, "--skill", skill_file)
    cli(*words, "--min-pass", 0.6)
    assert "pass^1" in cli(*words, "--min-pass", 0.99, code=1).stdout
    cli(*words, "--min-pass", 0.99, "--json", code=1)
    assert "pass^1" in cli("resume", "doors-1", code=1).stdout  # it remembers what it was asked


def test_a_resumed_evaluation_uses_its_own_skill_whatever_became_of_the_file(
    cli, endpoint_config, skill_file
):
    first = json.loads(cli("eval", endpoint_config, "--skill", skill_file, "--json").stdout)
    skill_file.unlink()
    assert json.loads(cli("resume", "doors", "--json").stdout) == first


def test_a_configuration_is_shown_as_it_is_understood(cli, write_config, tmp_path):
    write_config("base.yaml")
    child = tmp_path / "child.yaml"
    child.write_text("_base_: base.yaml\ntrain: {epochs: 7}\n")
    shown = yaml.safe_load(cli("config", "show", child, "--set", "run.seed=5").stdout)
    assert (shown["train"]["epochs"], shown["train"]["batch_size"]) == (7, 6)
    assert (shown["run"]["seed"], shown["run"]["name"]) == (5, "child")
    assert shown["evaluation"]["gate"]["kind"] == "explore"


def test_what_config_show_prints_can_be_used_as_a_configuration(cli, write_config, tmp_path):
    config = write_config()
    (tmp_path / "whole.yaml").write_text(cli("config", "show", config).stdout)
    assert load_config(tmp_path / "whole.yaml") == load_config(config)


def test_the_demo_file_is_a_configuration_like_any_other(cli):
    with demo_file() as path:
        assert yaml.safe_load(cli("config", "show", path).stdout)["run"]["name"] == "demo"


def test_environments_are_listed(cli):
    assert "alfworld" in cli("env", "list").stdout
    found = json.loads(cli("env", "list", "--json").stdout)
    assert found["alfworld"] == "skillwright.worlds.alfworld:AlfworldEnv"


def test_an_environment_is_checked(cli, tmp_path):
    (tmp_path / "bad.py").write_text(
        "from skillwright.envs import TextEnv\n"
        "class Bad(TextEnv):\n"
        "    def step(self, action):\n"
        "        return 'hello'\n"
    )
    result = cli("env", "check", "bad.py:Bad", code=1)
    assert "FAIL" in result.stdout
    report = json.loads(cli("env", "check", "bad.py:Bad", "--json", code=1).stdout)
    assert report["ok"] is False
    extras = json.dumps({"generated": {"split": "val", "index": 3}})
    assert "ok" in cli("env", "check", "alfworld", "--extras", extras).stdout


def test_model_backends_are_listed(cli):
    said = cli("models", "list").stdout
    assert "openai_chat" in said
    assert "scripted" in said
    names = [backend["name"] for backend in json.loads(cli("models", "list", "--json").stdout)]
    assert "openai_chat" in names


def test_doctor_looks_at_the_machine(cli):
    said = cli("doctor").stdout
    for words in (f"python: skillwright {__version__}", "disk: ", "env alfworld: ", "extra train"):
        assert words in said


def test_doctor_looks_at_a_configuration_and_asks_its_endpoints(cli, endpoint_config):
    findings = {f["name"]: f for f in json.loads(cli("doctor", endpoint_config, "--json").stdout)}
    assert findings["target"]["detail"] == "openai_chat: walker answers"
    assert findings["tasks and skill"]["detail"] == "12 train, 24 val, 12 test"
    assert findings["optimizer"]["health"] == "ok"


def test_doctor_ends_with_1_where_a_run_would_stop(cli, write_config, tmp_path, monkeypatch):
    llm = {"backend": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    llm["max_attempts"] = 1
    config = write_config(models={"target": llm}, skill={"init": "no.md"})
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "[nowhere]"))
    result = cli("doctor", config, code=1)
    assert "BAD  target: http://127.0.0.1:9/v1/chat/completions refused the connection" in (
        result.stdout
    )
    assert "BAD  tasks and skill: skill 'no.md' cannot be read" in result.stdout
    assert "[nowhere]" in result.stdout


def test_a_skillopt_configuration_is_understood(cli, tmp_path):
    (tmp_path / "flat.yaml").write_text(
        "env: alfworld\nnum_epochs: 2\nbatch_size: 8\noptimizer_model: a\ntarget_model: b\n"
    )
    shown = yaml.safe_load(cli("config", "show", "flat.yaml").stdout)
    train = {"epochs": 2, "batch_size": 8, "accumulation": 1, "patience": None}
    assert shown["train"] == train


def test_a_training_is_named_shortened_and_bounded_by_options(cli, tmp_path):
    messages = Path(__file__).parents[2] / "examples" / "table_data" / "messages.csv"
    cli("init", messages, "--offline", "--to", "queue.yaml")
    options = ("--name", "small", "--limit", 9, "--budget", 2)
    assert "9 train, 9 val, 9 sealed test tasks" in cli("train", "queue.yaml", *options).stdout
    kept = yaml.safe_load((tmp_path / "runs/small/config.yaml").read_text(encoding="utf-8"))
    assert (kept["run"]["name"], kept["budget"]["usd"]) == ("small", 2)


def test_a_limit_adds_no_tasks_and_is_refused_where_the_data_has_no_sizes(cli, write_config):
    with demo_file() as path:
        settings = load_config(path, ["env.data.train=4"])
    assert limited(settings, 9) == ["env.data.train=4", "env.data.val=9", "env.data.test=9"]
    said = cli("train", write_config(), "--limit", 5, code=2).stderr
    assert "--set evaluation.val_tasks=N" in said
