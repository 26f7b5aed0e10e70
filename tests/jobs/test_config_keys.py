"""A configuration has few keys, and a file of another kind of job is named as such."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from skillwright.config import load_config, load_rl_config
from skillwright.core import ConfigError

ROOT = Path(__file__).parents[2]
MODELS = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}
MOST_KEYS, MOST_ROWS = 215, 215


def test_a_configuration_has_few_keys():
    file = ROOT / "docs" / "generate_configuration.py"
    found = importlib.util.spec_from_file_location("generate_configuration", file)
    generator = importlib.util.module_from_spec(found)
    found.loader.exec_module(generator)
    assert len(generator.keys()) <= MOST_KEYS
    assert generator.page().count("\n| `") <= MOST_ROWS


@pytest.mark.parametrize(
    ("load", "sections", "command"),
    [
        (load_config, {"grpo": {"iterations": 3}}, "rl"),
        (load_rl_config, {"train": {"epochs": 1}}, "train"),
        (load_rl_config, {}, "train"),
    ],
)
def test_a_file_of_the_other_kind_names_the_command_that_takes_it(
    tmp_path, load, sections, command
):
    path = tmp_path / "file.yaml"
    given = sections if command == "rl" else {"models": MODELS, **sections}
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"run `skillwright {command} ") as caught:
        load(path)
    assert "unknown key" not in str(caught.value)
