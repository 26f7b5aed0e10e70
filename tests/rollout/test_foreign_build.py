"""An adapter is found by its name and built of what its constructor asks for."""

import sys

import pytest

from skillwright.core import ConfigError, DataError
from skillwright.rollout.foreign import build_adapter, constructor_arguments, load_adapter

SOURCE = """
from skillwright.envs import EnvAdapter

class Four(EnvAdapter):
    def __init__(self, split_dir, workers=3, mood="calm", **kwargs):
        self.given = (split_dir, workers, mood, kwargs)
    def build_train_env(self, batch_size, seed, **kwargs): ...
    def build_eval_env(self, env_num, split, seed, **kwargs): ...
    def rollout(self, env_manager, skill_content, out_dir, **kwargs): ...
    def get_task_types(self): ...

class Three(EnvAdapter):
    def build_train_env(self, batch_size, seed, **kwargs): ...
    def build_eval_env(self, env_num, split, seed, **kwargs): ...
    def get_task_types(self): ...

class OnRay(Four):
    def requires_ray(self):
        return True

class Broken(Four):
    def __init__(self):
        raise OSError("no server at port 1")

def make(): ...
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "bench.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def test_an_adapter_is_found_by_its_file_and_told_from_an_environment(module):
    assert load_adapter(f"{module}:Four").__name__ == "Four"
    assert load_adapter("alfworld") is None
    assert load_adapter(f"{module}:make") is None
    with pytest.raises(DataError, match="Fuor"):
        load_adapter(f"{module}:Fuor")


def test_an_adapter_that_is_not_finished_is_refused_with_what_it_lacks(module):
    with pytest.raises(ConfigError, match=r"does not write rollout\(\)"):
        load_adapter(f"{module}:Three")


def test_a_constructor_gets_each_parameter_that_the_configuration_names(module):
    four = load_adapter(f"{module}:Four")
    cfg = {"split_dir": "data", "workers": 9, "batch_size": 4}
    assert constructor_arguments(four, cfg, "four") == {"split_dir": "data", "workers": 9}


def test_a_parameter_that_nobody_gives_is_named_with_the_nearest_key(module):
    four = load_adapter(f"{module}:Four")
    with pytest.raises(
        ConfigError, match=r"needs 'split_dir'.*'splits_dir'.*env\.config\.split_dir"
    ):
        constructor_arguments(four, {"splits_dir": "data"}, "four")


async def test_an_adapter_that_needs_ray_is_refused_where_there_is_none(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    name = f"{module}:OnRay"
    with pytest.raises(ConfigError, match=r"requires_ray.*pip install 'skillwright\[ray\]'"):
        await build_adapter(load_adapter(name), {"split_dir": "data"}, name)


async def test_a_constructor_that_raises_is_reported_with_what_it_was_given(module):
    name = f"{module}:Broken"
    with pytest.raises(ConfigError, match=r"OSError: no server at port 1.*no arguments"):
        await build_adapter(load_adapter(name), {}, name)
