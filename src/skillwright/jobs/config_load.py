"""Reads a run's configuration: ours or SkillOpt's, with inheritance and overrides."""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from skillwright.jobs.config import RunConfig, validated
from skillwright.jobs.config_paths import key_paths
from skillwright.jobs.config_yaml import (
    Layer,
    Values,
    dump_yaml,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
)
from skillwright.jobs.skillopt_config import is_skillopt, resolve_layers, translate
from skillwright.models.environment import settings_from_environment

_log = logging.getLogger(__name__)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a configuration file.

    A file of SkillOpt's is translated, and what it sets without effect here is logged as a
    warning. Where no file names the run, it is called after the file.

    Args:
        path: A YAML file, ours or SkillOpt's (structured or flat).
        overrides: ``section.key=value`` settings in our names, laid over the file in order.

    Raises:
        ConfigError: A file is missing or malformed, inherits from itself, or sets something that
            is unknown or wrong; one line per problem, each with the nearest right name.
    """
    path = Path(path)
    layers = read_layers(path)
    values = merge_layers(layers)
    if is_skillopt(values):
        values, warnings = translate(resolve_layers([*layers, *_compatible(path, overrides)]))
        for warning in warnings:
            _log.warning("%s: %s", path, warning)
    places = key_paths(RunConfig)
    known = [place.path for place in places]
    open_ = [place.path for place in places if place.is_open]
    values = merge(values, parse_overrides(overrides, known, open_))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"
    values = merge({"run": {"name": name}}, values)
    return validated(_with_environment(values), str(path))


def _compatible(path: Path, overrides: Sequence[str]) -> list[Layer]:
    """Return what says that the adapter brings its data: a file of SkillOpt's is read by it."""
    said = [one.partition("=")[2] for one in overrides if one.startswith("env.compat=")]
    return [Layer(path, {"env": {"compat": said[-1]}})] if said else []


def _with_environment(values: Values) -> Values:
    """Fill in what the settings of models leave open and environment variables say."""
    models = values.get("models")
    if not isinstance(models, dict):
        return values
    filled = {
        role: settings_from_environment(mind, role, os.environ) if isinstance(mind, dict) else mind
        for role, mind in models.items()
    }
    return {**values, "models": filled}


def dump_config(config: RunConfig) -> str:
    """Return the whole configuration as YAML, defaults included and API keys left out.

    `load_config` reads it back as an equal configuration, but for those keys.
    """
    return dump_yaml(config.model_dump(mode="json"))
