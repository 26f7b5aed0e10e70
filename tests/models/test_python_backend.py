"""A model that is a Python class of one's own, named by file or import path."""

import json

import pytest

from doors import doors_settings
from skillwright.config.run import validated
from skillwright.core import ConfigError, DataError, Purpose, Usage
from skillwright.jobs.run.money import priced_model
from skillwright.jobs.text.launch.preflight import ask_if_ready
from skillwright.models import (
    HttpClient,
    PythonConfig,
    ScriptedConfig,
    is_scripted_model,
    make_model,
    parse_model_config,
)

ECHO = """
from skillwright.core import Completion, Usage

class Echo:
    identity = "its own"
    def __init__(self, prefix=""):
        self.prefix = prefix
    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        text = self.prefix + messages[-1]["content"]
        return Completion(text, usage=Usage(calls=1, input_tokens=1_000_000, cost_usd=0.25))

class Mute:
    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        return "text"

class Blocking:
    def complete(self, messages, *, tools=(), sampling=None, purpose):
        return Completion("text")

class Dead:
    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        raise RuntimeError("asked")

class Shut:
    pass
"""
SAID = [{"role": "user", "content": "hello"}]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_models.py"
    path.write_text(ECHO, encoding="utf-8")
    return path


def made(model, **more):
    config = parse_model_config({"backend": "python", "model": str(model), **more})
    return make_model(config, HttpClient())


async def test_a_class_in_a_file_answers_with_its_settings(file):
    model = made(f"{file}:Echo", settings={"prefix": "so: "})
    answer = await model.complete(SAID, purpose=Purpose.ROLLOUT)
    assert answer.text == "so: hello"
    assert answer.usage.cost_usd == 0.25


async def test_a_class_of_an_installed_package_answers_too():
    model = made("skillwright.worlds.search.scripted.reader:ScriptedReader", scripted=True)
    assert (await model.complete(SAID, purpose=Purpose.CHECK)).text.startswith("<answer>")


def test_its_identity_changes_with_its_file_and_its_settings_alone(file):
    first = made(f"{file}:Echo").identity
    assert first == made(f"{file}:Echo").identity
    assert first.startswith(f"python:{file}:Echo#")
    assert made(f"{file}:Echo", settings={"prefix": "x"}).identity != first
    file.write_text(ECHO + "# changed\n", encoding="utf-8")
    assert made(f"{file}:Echo").identity != first


async def test_prices_of_the_settings_take_the_place_of_what_it_tells(file):
    prices = {"input_usd_per_mtok": 3.0, "output_usd_per_mtok": 1.0}
    answer = await made(f"{file}:Echo", prices=prices).complete(SAID, purpose=Purpose.ROLLOUT)
    assert answer.usage == Usage(calls=1, input_tokens=1_000_000, cost_usd=3.0)


@pytest.mark.parametrize(
    "model", ["my_models.py", "my_models.Echo", "my_models.py:", ":Echo", "a b:Echo"]
)
def test_what_names_no_class_is_refused_with_both_ways(model):
    with pytest.raises(ConfigError, match=r"path/to/file\.py:Class"):
        parse_model_config({"backend": "python", "model": model})


@pytest.mark.parametrize(
    ("name", "settings", "error", "said"),
    [
        ("Ecko", {}, DataError, "Did you mean 'Echo'"),
        ("Shut", {}, ConfigError, "no chat model: it needs a class with async complete"),
        ("Echo", {"sufix": "x"}, ConfigError, "It was given sufix."),
    ],
)
def test_what_cannot_answer_is_refused_before_a_run(file, name, settings, error, said):
    with pytest.raises(error) as raised:
        made(f"{file}:{name}", settings=settings)
    assert said in str(raised.value)


async def test_an_answer_that_is_none_names_what_is_needed(file):
    with pytest.raises(ConfigError, match="answered with a str"):
        await made(f"{file}:Mute").complete(SAID, purpose=Purpose.ROLLOUT)
    with pytest.raises(ConfigError, match=r"with a Completion; complete\(\) is async"):
        await made(f"{file}:Blocking").complete(SAID, purpose=Purpose.ROLLOUT)


async def test_a_check_asks_a_model_and_only_builds_a_stand_in(file):
    config = PythonConfig(model=f"{file}:Dead", scripted=True)
    async with HttpClient() as client:
        assert await ask_if_ready(config, client) == config.model
        with pytest.raises(RuntimeError, match="asked"):
            await ask_if_ready(config.model_copy(update={"scripted": False}), client)
        with pytest.raises(DataError):
            await ask_if_ready(PythonConfig(model=f"{file}:Gone", scripted=True), client)


def test_a_stand_in_is_free_and_owned_up_to_and_a_model_tells_its_cost():
    scripted_model, model = PythonConfig(model="a:B", scripted=True), PythonConfig(model="a:B")
    assert is_scripted_model(scripted_model)
    assert is_scripted_model(ScriptedConfig(model="reader"))
    assert not is_scripted_model(model)
    assert priced_model("target", scripted_model).is_free
    assert priced_model("target", model).is_priced
    assert not priced_model("target", model).is_free


def test_a_configuration_with_such_a_mind_is_read_back_as_it_was(tmp_path):
    settings = doors_settings(tmp_path)
    settings["models"]["target"] = {"backend": "python", "model": "a.b:C", "settings": {"n": 1}}
    config = validated(settings, "test")
    assert validated(json.loads(config.model_dump_json()), "test") == config
