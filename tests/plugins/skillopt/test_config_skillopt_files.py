"""Files as SkillOpt ships them, its names on the command line, and its split files of ALFWorld."""

import json

import pytest
import yaml

from official_games import to_game_json
from skillwright.config import load_config
from skillwright.config.env import BENCHMARKS, EnvSection, SplitDirData
from skillwright.core import ConfigError, DataError
from skillwright.jobs.run import find_adapter, make_splits
from skillwright.worlds.alfworld import generate_problem

GRAMMAR = 'task: "Your task is to: UNKNOWN GOAL." move: "move {o} to {r}"'
SHIPPED_BASE = {
    "model": {
        "backend": "azure_openai",
        "target_backend": "openai_chat",
        "azure_openai_endpoint": "https://a.openai.azure.com",
        "azure_openai_auth_mode": "azure_cli",
        "codex_exec_profile": "work",
        "codex_exec_use_sdk": "auto",
        "codex_exec_approval_policy": "never",
    },
    "train": {"num_epochs": 4},
    "gradient": {"max_analyst_rounds": 3},
    "optimizer": {"use_slow_update": False},
    "env": {"name": "", "split_mode": "ratio", "exec_timeout": 120},
    "human_feedback": {"enabled": True, "timeout_seconds": 9},
    "a_section_of_later": {"enabled": False},
}
ALFWORLD = {
    "_base_": "../_base_/default.yaml",
    "optimizer": {"learning_rate": 4, "use_meta_reflect": False},
    "evaluation": {"sel_env_num": 0, "test_env_num": 0},
    "env": {
        "name": "alfworld",
        "split_mode": "split_dir",
        "split_dir": "split",
        "max_steps": 50,
        "workers": 8,
        "max_api_workers": 8,
        "limit": 0,
    },
}


@pytest.fixture
def written(tmp_path):
    """Write a file beside the folder of their base file, and return its path."""

    def write(child, base=None):
        for name, values in (("_base_", base or SHIPPED_BASE), ("mine", child)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "default.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
        return tmp_path / "mine" / "default.yaml"

    return write


@pytest.fixture
def houses(tmp_path, monkeypatch):
    """Three official-looking games below $ALFWORLD_DATA, and a split file of theirs for each."""
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "data"))
    for number, (split, kept) in enumerate(
        {"train": "train", "val": "valid_seen", "test": "valid_unseen"}.items()
    ):
        problem = generate_problem("train", number)
        name = f"json_2.1.1/{kept}/{problem.task_type}-x/trial_{number}/game.tw-pddl"
        game = tmp_path / "data" / name
        game.parent.mkdir(parents=True)
        game.write_text(json.dumps(to_game_json(problem, "", GRAMMAR)), encoding="utf-8")
        (tmp_path / "split" / split).mkdir(parents=True)
        rows = [{"id": f"{split}-0", "gamefile": name}]
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def test_what_only_their_base_file_sets_is_not_warned_of(written, caplog):
    config = load_config(written(ALFWORLD))
    assert caplog.messages == []
    assert config.env.data == SplitDirData(path="split")
    assert (config.env.max_turns, config.rollout.max_concurrent) == (50, 8)


def test_what_the_file_itself_sets_is(written, caplog):
    own = {"model": {"codex_exec_profile": "mine"}, "human_feedback": {"enabled": True}}
    load_config(written({**ALFWORLD, **own}))
    told = "\n".join(caplog.messages)
    assert "model.codex_exec_profile has no effect here" in told
    assert "human_feedback.enabled has no effect here: no person is asked at a gate here." in told
    assert len(caplog.messages) == 2
    with pytest.raises(ConfigError, match="unknown key 'a_section_of_later'"):
        load_config(written({**ALFWORLD, "a_section_of_later": {}}))


def test_their_alfworld_split_is_read(written, houses, monkeypatch):
    monkeypatch.chdir(houses)
    splits = make_splits(load_config(written(ALFWORLD)))
    [task] = splits.train.tasks
    assert task.id == "train-0"
    assert task.extras["game_file"].startswith(str(houses / "data" / "json_2.1.1" / "train"))
    assert task.task_type == generate_problem("train", 0).task_type
    assert task.description


def test_a_game_that_is_not_there_is_named(written, houses, monkeypatch):
    monkeypatch.chdir(houses)
    (houses / "split" / "val" / "items.json").write_text('[{"id": "v", "gamefile": "no/game"}]')
    with pytest.raises(DataError, match=r"row 'v': there is no game '.*/data/no/game'.*alfworld-d"):
        make_splits(load_config(written(ALFWORLD)))


FLAT = {"env": "rooms", "num_epochs": 2, "split_mode": "split_dir", "split_dir": "x"}


def test_a_flat_file_may_hold_keys_of_an_adapters_own(tmp_path, caplog):
    path = tmp_path / "flat.yaml"
    own = {"batch_sise": 3, "my_rooms": 4, "doors": {"open": True}}
    path.write_text(yaml.safe_dump({**FLAT, **own, "model_backend": "openai_chat"}))
    config = load_config(path)
    assert config.env.config == own
    said = "env.batch_sise is passed on to the environment. Did you mean 'batch_size'?"
    assert [one for one in caplog.messages if "passed on" in one] == [f"{path}: {said}"]
    path.write_text(yaml.safe_dump({**FLAT, "trian": {"batch_size": 3}}))
    with pytest.raises(ConfigError, match="Did you mean 'train'"):
        load_config(path)


@pytest.mark.parametrize("name", sorted(BENCHMARKS.keys() - {"alfworld"}))
def test_a_name_of_theirs_says_by_which_option_it_is_played(name):
    hint = rf"--adapter skillopt\.envs\.{name}\.adapter:{BENCHMARKS[name]} --compat skillopt"
    env = EnvSection(name=name, data=SplitDirData(path="x"))
    with pytest.raises(DataError, match=hint):
        find_adapter(env)
    with pytest.raises(ValueError, match=hint):
        EnvSection(name=name)


def test_their_alfworld_has_an_adapter_beside_ours():
    env = EnvSection(name="alfworld", compat="skillopt", data=SplitDirData(path="x"))
    with pytest.raises(ConfigError, match=r"--adapter skillopt\.envs\.alfworld\.adapter:ALFW"):
        find_adapter(env)


def test_their_names_are_understood_on_the_command_line(written, caplog):
    options = ["train.num_epochs=2", "evaluation.use_gate=no", "env.workers=3", "env.my_own=x"]
    child = {**ALFWORLD, "env": {**ALFWORLD["env"], "name": "rooms"}}
    config = load_config(written(child), ["optimizer.learning_rate=9", "batch_size=5"], options)
    assert (config.train.epochs, config.train.batch_size) == (2, 5)
    assert (config.evaluation.gate.kind, config.rollout.max_concurrent) == ("open", 3)
    assert config.optimizer.learning_rate == 9
    assert config.env.config["my_own"] == "x"


def test_a_file_of_ours_takes_their_names_where_they_mean_one_of_ours(tmp_path):
    path = tmp_path / "ours.yaml"
    llm = {"backend": "scripted", "model": "household"}
    llms = {"target": llm, "optimizer": {"backend": "scripted", "model": "analyst"}}
    path.write_text(yaml.safe_dump({"models": llms}))
    config = load_config(path, ["train.num_epochs=3"], ["seed=7", "evaluation.eval_test=false"])
    assert (config.train.epochs, config.run.seed, config.evaluation.test) == (3, 7, False)
    with pytest.raises(ConfigError, match=r"use_gate' is a key of SkillOpt's.*evaluation\.gate"):
        load_config(path, ["evaluation.use_gate=false"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("train.num_epoch=2", r"no key 'train\.num_epoch'\. Did you mean 'train\.num_epochs'"),
        ("train.num_epochs", "has no '='"),
    ],
)
def test_a_misspelled_option_of_theirs_is_refused(written, option, words):
    with pytest.raises(ConfigError, match=words):
        load_config(written(ALFWORLD), [], [option])
