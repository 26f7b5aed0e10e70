"""Reads the configuration of the recipe: inheritance, overrides, environment variables."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from skillwright.config.paths import key_paths
from skillwright.config.rl import RlConfig, validated_rl
from skillwright.config.yaml_files import (
    dump_yaml,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
)
from skillwright.models.environment import settings_from_environment

_OWN_SECTIONS = {"policy", "cold_start", "grpo"}


def load_rl_config(path: str | Path, overrides: Sequence[str] = ()) -> RlConfig:
    """Read a configuration file of the recipe; where it does not name the run, the file does.

    Args:
        path: A YAML file.
        overrides: ``section.key=value`` settings, laid over the file in order.

    Raises:
        ConfigError: A file is missing or malformed, inherits from itself, or sets something that
            is unknown or wrong; one line per problem, each with the nearest right name.
    """
    path = Path(path)
    values = merge_layers(read_layers(path))
    places = key_paths(RlConfig)
    known = [place.path for place in places]
    open_ = [place.path for place in places if place.is_open]
    values = merge(values, parse_overrides(overrides, known, open_))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"
    values = merge({"run": {"name": name}}, values)
    models = values.get("models")
    if isinstance(models, dict):
        values["models"] = {
            role: settings_from_environment(mind, role, os.environ)
            if isinstance(mind, dict) and role != "prices"
            else mind
            for role, mind in models.items()
        }
    return validated_rl(values, str(path))


def is_rl_config(path: str | Path) -> bool:
    """Tell whether a file configures the recipe: it has a section that nothing else has.

    Raises:
        ConfigError: The file is missing or malformed.
    """
    return bool(_OWN_SECTIONS & merge_layers(read_layers(Path(path))).keys())


def dump_rl_config(config: RlConfig) -> str:
    """Return the whole configuration as YAML, defaults included and API keys left out."""
    return dump_yaml(config.model_dump(mode="json"))
