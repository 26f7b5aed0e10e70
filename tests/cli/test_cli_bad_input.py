"""Bad input: a message that names the thing, the nearest right one and the next move; code 2."""

import json
import re
import subprocess
import sys

import pytest

from doors import write_tasks
from mock_openai import error
from official_games import to_game_json
from served import served
from skillwright.core.jsonio import dumps
from skillwright.jobs.text import open_run
from skillwright.worlds.alfworld import generate_problem

GRAMMAR = 'task: "Your task is to: UNKNOWN GOAL." move: "move {o} to {r}"'
ENDPOINT = {"backend": "openai_chat", "model": "mock-1"}


def test_an_unknown_key_is_named_with_the_nearest_one(refused, write_config):
    said = refused("train", write_config(train={"epoch": 3}))
    assert "doors.yaml: " in said
    assert "train.epoch" in said
    assert "epochs" in said


def test_an_unknown_override_is_named_with_the_nearest_one(refused, write_config):
    said = refused("train", write_config(), "--set", "train.batchsize=3")
    assert "no key 'train.batchsize'. Did you mean 'train.batch_size'?" in said


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["compare", "a", "b", "--metric", "sotf"], "there is no 'sotf'. Did you mean 'soft'?"),
        (["demo", "--half", "qqq"], "there is no 'qqq'. Known: text, weights."),
        (["eval", "x.yaml", "--split", "vl"], "there is no 'vl'. Did you mean 'val'?"),
        (["bank", "export", "--to", "it's"], "Known: agents, claude, codex."),
    ],
)
def test_a_wrong_choice_is_answered_with_the_nearest_one(cli, words, problem):
    said = " ".join(cli(*words, code=2).stderr.replace("│", " ").split())
    assert problem in said


@pytest.mark.parametrize("command", ["train", "eval", "doctor"])
def test_a_missing_configuration_is_named_with_the_nearest_file(refused, write_config, command):
    write_config()
    said = refused(command, "dors.yaml")
    assert "there is no config file 'dors.yaml'. Did you mean 'doors.yaml'?" in said


def test_a_skill_that_no_optimizer_prompt_holds_is_refused_before_any_rollout(
    refused, write_config, tmp_path
):
    (tmp_path / "long.md").write_text("- Look first.\n" * 30_000)
    said = refused("train", write_config(skill={"init": str(tmp_path / "long.md")}))
    assert "a prompt of the optimizer has 60,000" in " ".join(said.split())
    assert not list(tmp_path.glob("runs/*"))


def test_a_circle_of_bases_is_shown(refused, tmp_path):
    (tmp_path / "a.yaml").write_text("_base_: b.yaml")
    (tmp_path / "b.yaml").write_text("_base_: a.yaml")
    said = refused("train", "a.yaml")
    assert "Circular _base_ inheritance: a.yaml -> b.yaml -> a.yaml. Remove one _base_." in said


def test_a_task_in_two_splits_is_named_with_both(refused, write_config, tmp_path):
    config = write_config()
    items = json.loads((tmp_path / "tasks" / "train" / "items.json").read_text())
    (tmp_path / "tasks" / "val" / "items.json").write_text(json.dumps(items))
    said = refused("train", config)
    assert "id 'train-00' overlaps: it is in 'train' and in 'val'" in said
    assert "leave it in one split" in said


def test_a_task_that_stands_twice_is_named_with_both_places(refused, write_config, tmp_path):
    config = write_config()
    file = tmp_path / "tasks" / "test" / "items.json"
    items = json.loads(file.read_text())
    file.write_text(json.dumps([*items, items[3]]))
    assert "id 'test-03' stands at item 3 and at item 12; remove one" in refused("train", config)


def test_a_damaged_task_file_is_named_with_the_place(refused, write_config, tmp_path):
    config = write_config()
    (tmp_path / "tasks" / "val" / "items.json").write_text('[{"id": "a"},\n {"id": }]')
    said = refused("train", config)
    assert re.search(r"val/items\.json', line 2, column 9", said)


@pytest.fixture
def official_games(tmp_path):
    """A folder as the official download leaves it, with two games in each split."""
    for split in ("train", "valid_seen", "valid_unseen"):
        for index in range(2):
            problem = generate_problem("test", index)
            folder = tmp_path / "official" / "json_2.1.1" / split / f"{problem.task_type}-{index}"
            (folder / "trial_1").mkdir(parents=True)
            game = dumps(to_game_json(problem, "(define)", GRAMMAR), indent=1)
            (folder / "trial_1" / "game.tw-pddl").write_text(game, encoding="utf-8")
    return tmp_path / "official"


@pytest.fixture
def official_config(write_config, official_games):
    data = {"kind": "alfworld_data", "root": str(official_games)}
    return write_config(env={"name": "alfworld", "max_turns": 3, "data": data})


def damage(folder, old, new):
    game = next(folder.glob("*/valid_unseen/*/*/game.tw-pddl"))
    text = game.read_text(encoding="utf-8")
    assert old in text
    game.write_text(text.replace(old, new, 1), encoding="utf-8")
    return game


def test_a_damaged_game_file_is_named_with_the_place(refused, official_config, official_games):
    game = damage(official_games, '"grammar"', "grammar")
    said = refused("eval", official_config)
    assert str(game) in said
    assert re.search(r"line \d+,? column \d+", said)


def test_a_game_that_is_damaged_inside_stops_the_run_with_the_place_and_the_way_on(
    cli, official_config, official_games
):
    game = damage(official_games, "(:init", "(:inyt")
    result = cli("eval", official_config, code=2)
    assert str(game) in result.stderr
    assert "continue with:  skillwright resume runs/doors" in result.stderr
    damage(official_games, "(:inyt", "(:init")
    assert "solved" in cli("resume", "doors").stdout


def test_official_games_are_played_where_they_are_whole(cli, official_config):
    result = cli("eval", official_config, "--json")
    assert json.loads(result.stdout)["table"]["overall"]["episodes"] == 2


def test_a_folder_of_games_that_is_not_there_is_named_with_the_way_to_get_it(
    refused, write_config, monkeypatch
):
    config = write_config(env={"name": "alfworld", "data": {"kind": "alfworld_data"}})
    assert "ALFWORLD_DATA" in refused("eval", config)
    monkeypatch.setenv("ALFWORLD_DATA", "/nowhere/alfworld")
    said = refused("eval", config)
    assert "'/nowhere/alfworld'" in said
    assert "alfworld-download" in said


@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_skill_that_is_not_utf8_is_named_with_the_byte(refused, write_config, tmp_path, command):
    (tmp_path / "skill.md").write_bytes(b"# Caf\xe9\n")
    config = write_config(skill={"init": "skill.md"})
    said = refused(command, config)
    assert "skill 'skill.md' is not UTF-8: byte 5 is 0xe9. Save it as UTF-8" in said


def test_a_skill_that_is_not_there_is_named(refused, write_config):
    said = refused("eval", write_config(), "--skill", "no/skill.md")
    assert "skill 'no/skill.md' cannot be read: there is no such file" in said


@pytest.mark.parametrize("command", ["train", "eval"])
def test_an_endpoint_that_refuses_the_key_is_named_with_the_variable(
    refused, write_config, monkeypatch, command
):
    monkeypatch.setenv("MY_KEY", "sk-wrong-key")
    with served(api_key="sk-right-key") as server:
        llm = {**ENDPOINT, "base_url": server.base_url, "api_key_env": "MY_KEY"}
        config = write_config(models={"target": llm, "optimizer": llm})
        said = refused(command, config)
    assert "answered 401 to model 'mock-1'" in said
    assert "Check the key in the environment variable MY_KEY" in said
    assert "sk-wrong-key" not in said


def test_a_missing_key_is_named_by_its_variable(refused, write_config):
    config = write_config(models={"target": ENDPOINT, "optimizer": ENDPOINT})
    assert "set the environment variable OPENAI_API_KEY" in refused("train", config)


def test_an_evaluation_asks_nothing_of_the_optimizer(cli, write_config):
    cli("eval", write_config(models={"optimizer": ENDPOINT}))


def test_an_endpoint_that_does_not_answer_is_named(cli, write_config, tmp_path):
    llm = {**ENDPOINT, "base_url": "http://127.0.0.1:9/v1", "max_attempts": 1}
    config = write_config(models={"target": llm})
    result = cli("train", config, code=1)
    assert "http://127.0.0.1:9/v1/chat/completions refused the connection" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_key_that_is_refused_in_the_middle_stops_the_run_with_the_way_on(
    cli, write_config, monkeypatch
):
    asked = []

    async def until_the_key_expires(body):
        asked.append(body)
        return error(401, "expired") if len(asked) > 10 else "1"

    with served(until_the_key_expires) as server:
        llm = {**ENDPOINT, "base_url": server.base_url, "api_key_env": "MOCK_KEY"}
        config = write_config(models={"target": llm})
        monkeypatch.setenv("MOCK_KEY", server.api_key)
        result = cli("train", config, code=2)
    assert "answered 401" in result.stderr
    assert "MOCK_KEY" in result.stderr
    assert "continue with:  skillwright resume runs/doors" in result.stderr


def test_a_run_that_another_process_works_on_is_named_with_it(cli, refused, write_config):
    cli("train", write_config())
    with open_run("runs/doors"):
        said = refused("resume", "doors")
    assert re.search(r"run 'doors' is in use by process \d+ on ", said)
    assert "skillwright runs show runs/doors" in said


@pytest.mark.parametrize("words", [["resume"], ["runs", "show"]])
def test_an_unknown_run_is_named_with_the_nearest(cli, refused, write_config, words):
    cli("train", write_config())
    said = refused(*words, "dors")
    assert "no run 'dors' here or in 'runs'. Did you mean 'doors'?" in said


def test_an_unknown_environment_is_named_with_the_nearest(refused, write_config):
    said = refused("train", write_config(env={"name": "alfwrld"}))
    assert "no environment 'alfwrld'. Did you mean 'alfworld'?" in said
    assert "no environment 'alfwrld'" in refused("env", "check", "alfwrld")


def test_extras_that_are_no_json_object_are_refused(refused):
    assert "is not JSON" in refused("env", "check", "alfworld", "--extras", "{")
    assert "is no JSON object" in refused("env", "check", "alfworld", "--extras", "[1]")


def test_an_unknown_split_or_number_is_refused_by_the_parser(cli, write_config):
    assert "'dev'" in cli("eval", write_config(), "--split", "dev", code=2).stderr
    cli("eval", write_config(), "--trials", "0", code=2)
    cli("eval", write_config(), "--min-pass", "1.5", code=2)


def test_a_gate_that_nothing_could_pass_is_refused_before_a_game_is_played(
    refused, write_config, tmp_path
):
    write_tasks(tmp_path / "few", val=5)
    data = {"kind": "split_dir", "path": str(tmp_path / "few")}
    said = refused("train", write_config(env={"data": data}))
    assert "cannot prove a gain on 5 val tasks" in said
    assert "evaluation.gate.kind 'strict'" in said


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
sys.dont_write_bytecode = True  # a compiled module that is cut off would break later processes
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from skillwright.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_disk_that_is_full_from_the_start_is_named_and_nothing_is_left(write_config, tmp_path):
    words = [sys.executable, "-c", LIMITED, "100", "train", str(write_config())]
    stopped = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (stopped.returncode, stopped.stdout) == (2, "")
    assert stopped.stderr.startswith(
        "error: 'runs/doors/config.yaml' cannot be written: File too large. Make room"
    )
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("limit", [100_000, 300_000])
def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(
    cli, write_config, tmp_path, limit
):
    # Writing past the limit fails as a full disk does.
    config = write_config(env={"max_turns": 9})
    words = [sys.executable, "-c", LIMITED, str(limit), "train", str(config)]
    stopped = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert stopped.returncode == 2, stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert "the disk is full or failing" in stopped.stderr
    if (tmp_path / "runs" / "doors").exists():
        assert "continue with:  skillwright resume runs/doors" in stopped.stderr
        cli("resume", "doors")
    else:
        cli("train", config)
    assert json.loads(cli("runs", "show", "doors", "--json").stdout)["finished"]


def test_what_is_refused_is_also_refused_as_json_with_an_empty_output(refused, write_config):
    assert refused("train", write_config(train={"epoch": 3}), "--json")


def test_a_name_that_no_file_can_have_is_refused(refused):
    assert "File name too long" in refused("train", f"{'x' * 300}.yaml")
