"""The plug-in of the examples: installed with pip, its gate and its backend train by name."""

import shutil
import subprocess
import sys

import pytest

from doors import Coach, doors_settings, rule
from skillwright.config.run import validated
from skillwright.core import ConfigError
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.models import list_backends, make_model
from test_docs import ROOT

EXAMPLE = ROOT / "examples" / "plugin"
FOLLOWS_RULES = r"In the (\w+) take door (\d+)\.(?=.*You are in the \1\.)"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The plug-in, installed into a folder on the path."""
    source, target = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(EXAMPLE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True)
    monkeypatch.syspath_prepend(target)
    yield target
    for name in [one for one in sys.modules if one.partition(".")[0] == "example_plugin"]:
        del sys.modules[name]


def configured(folder, **gate):
    settings = doors_settings(folder)
    settings["models"]["target"] = {
        "backend": "patterns",
        "replies": {FOLLOWS_RULES: r"\2"},
        "default": "1",
    }
    settings["evaluation"] = {**settings.get("evaluation", {}), "gate": gate}
    return validated(settings, "doors")


async def test_the_gate_and_the_backend_of_the_example_train_by_name(installed, tmp_path):
    config = configured(tmp_path, kind="sign_test", draws=1)
    assert type(config.evaluation.gate).__name__ == "SignTestGate"
    coach = Coach([[rule("attic")], ["Be quick."]])

    def make(llm, client):
        return coach if llm.model == "analyst" else make_model(llm, client)

    with start_run(config, "") as run:
        report = await run_training(run, NullCallback(), make)
    assert report.best_skill.strip() == rule("attic")
    assert "patterns" in [one.name for one in list_backends()]


def test_wrong_keys_of_a_plug_in_are_refused_as_those_of_built_in_ones(installed, tmp_path):
    with pytest.raises(
        ConfigError, match=r"unknown key 'evaluation.gate.drawz'. Did you mean 'draws'"
    ):
        configured(tmp_path, kind="sign_test", drawz=1)


def test_without_the_package_the_names_are_unknown(tmp_path):
    with pytest.raises(ConfigError) as refused:
        configured(tmp_path, kind="sign_test")
    assert "models.target: no backend 'patterns'." in str(refused.value)
    assert "evaluation.gate: no gate 'sign_test'." in str(refused.value)
