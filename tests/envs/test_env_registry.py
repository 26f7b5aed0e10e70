"""Environments by name, import path and file."""

import os
import pickle
import sys
from pathlib import Path

import pytest

from skillwright.core import DataError
from skillwright.envs import EnvSpec, TextEnv, deregister, make, register, spec, specs

TESTS = Path(__file__).resolve().parent.parent
GUESS = f"{TESTS / 'rollout_worlds.py'}:Guess"

EMPTY_ENV = """
from skillwright.envs import TextEnv

class Empty(TextEnv):
    pass
"""


@pytest.fixture
def guess():
    register("test_guess", GUESS, env_config={"voice": "calm"})
    yield "test_guess"
    deregister("test_guess")


def test_a_registered_environment_is_made_by_name_with_its_settings(guess):
    env = make(guess, extras={"seed": 1, "upper": 3})
    assert isinstance(env, TextEnv)
    assert env.env_config == {"voice": "calm"}
    assert env.upper == 3
    assert make(guess, env_config={"voice": "loud"}, extras={"seed": 1}).env_config == {
        "voice": "loud"
    }


def test_registering_the_same_again_is_harmless_and_another_class_is_refused(guess):
    register(guess, GUESS, env_config={"voice": "calm"})
    with pytest.raises(DataError, match=r"'test_guess' is already.*deregister it first"):
        register(guess, "skillwright.envs:TextEnv")


def test_a_deregistered_name_is_unknown():
    register("test_gone", GUESS)
    deregister("test_gone")
    with pytest.raises(DataError, match="no environment 'test_gone'"):
        spec("test_gone")


def test_deregistering_an_unknown_name_names_the_nearest(guess):
    with pytest.raises(DataError, match="Did you mean 'test_guess'"):
        deregister("test_gess")


def test_an_unknown_name_names_the_nearest_and_the_other_ways(guess):
    with pytest.raises(DataError, match=r"Did you mean 'test_guess'.*package\.module:Class"):
        spec("test_guss")


def test_listed_environments_are_sorted_and_include_installed_ones(guess):
    listed = specs()
    assert list(listed) == sorted(listed)
    assert guess in listed
    assert listed["alfworld"] == EnvSpec("alfworld", "skillwright.worlds.alfworld:AlfworldEnv")
    assert spec("alfworld") == listed["alfworld"]


def test_installed_packages_are_searched_once_and_not_for_every_episode(monkeypatch):
    first = spec("alfworld")
    monkeypatch.setattr(os, "listdir", None)
    assert spec("alfworld") == first


def test_registration_beats_an_installed_environment_of_the_same_name():
    register("alfworld", GUESS)
    try:
        assert spec("alfworld").entry_point == GUESS
        assert specs()["alfworld"].entry_point == GUESS
    finally:
        deregister("alfworld")
    assert spec("alfworld").entry_point.startswith("skillwright.")


def test_an_environment_is_found_by_import_path():
    assert spec("skillwright.envs.text_env:TextEnv").load() is TextEnv
    assert make("skillwright.envs.text_env:TextEnv", extras={"max_turns": 4}).max_turns == 4


def test_an_environment_is_found_by_file_and_survives_pickling(tmp_path):
    file = tmp_path / "empty_env.py"
    file.write_text(EMPTY_ENV, encoding="utf-8")
    found = spec(f"{file}:Empty")
    env = found.load()(extras={"max_turns": 2})
    assert pickle.loads(pickle.dumps(found)) == found
    assert pickle.loads(pickle.dumps(env)).max_turns == 2
    assert found.load() is type(env)


@pytest.mark.parametrize(
    ("entry_point", "why"),
    [
        ("no_such_package.envs:Env", "No module named 'no_such_package'"),
        ("skillwright.envs.text_env:TxtEnv", "there is no 'TxtEnv' in"),
        ("no/such/file.py:Env", "No such file"),
        (":Env", "Empty module name"),
        (".envs:Env", "'package' argument is required"),
        ("skillwright.envs:make", "is not a text environment"),
        ("pathlib:Path", "needs init() and step()"),
    ],
)
def test_what_cannot_be_loaded_is_a_data_error_with_the_reason(entry_point, why):
    with pytest.raises(DataError) as raised:
        spec(entry_point).load()
    assert why in str(raised.value)
    assert entry_point in str(raised.value)


def test_a_module_that_is_a_file_here_is_pointed_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_here").mkdir()
    (tmp_path / "mine_here" / "env.py").write_text(EMPTY_ENV, encoding="utf-8")
    with pytest.raises(DataError, match=r"name the file: 'mine_here/env\.py:Empty'"):
        spec("mine_here.env:Empty").load()
    assert spec("mine_here/env.py:Empty").load().__name__ == "Empty"


def test_a_file_imports_the_one_beside_it(tmp_path):
    (tmp_path / "house_rules.py").write_text("MOST = 3\n", encoding="utf-8")
    file = tmp_path / "env.py"
    file.write_text("from .house_rules import MOST\n" + EMPTY_ENV, encoding="utf-8")
    assert spec(f"{file}:Empty").load().__name__ == "Empty"


def test_a_file_that_broke_can_be_mended_and_loaded(tmp_path):
    file = tmp_path / "mended_env.py"
    file.write_text("class Empty(:", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(DataError, match="invalid syntax"):
            spec(f"{file}:Empty").load()
    file.write_text(EMPTY_ENV + "\n# mended\n", encoding="utf-8")
    found = spec(f"{file}:Empty").load()
    assert found.__name__ == "Empty"
    assert found.__module__ in sys.modules


def test_files_of_one_name_in_two_folders_do_not_replace_each_other(tmp_path):
    envs = []
    for folder in ("mine", "yours"):
        file = tmp_path / folder / "env.py"
        file.parent.mkdir()
        file.write_text(EMPTY_ENV, encoding="utf-8")
        envs.append(spec(f"{file}:Empty").load()())
    for env in envs:
        assert type(pickle.loads(pickle.dumps(env))) is type(env)
