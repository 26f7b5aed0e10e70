"""Reads a run's configuration: ours or SkillOpt's, with inheritance and overrides."""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from skillwright.config.paths import key_paths
from skillwright.config.run import RunConfig, validated
from skillwright.config.skillopt.files import (
    is_skillopt,
    only_in_base,
    resolve_layers,
    translate,
)
from skillwright.config.skillopt.options import in_our_names, sort_options
from skillwright.config.yaml_files import (
    Layer,
    Values,
    dump_yaml,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
)
from skillwright.models.environment import settings_from_environment

_log = logging.getLogger(__name__)


def load_config(
    path: str | Path, overrides: Sequence[str] = (), their_options: Sequence[str] = ()
) -> RunConfig:
    """Read a configuration file.

    A file of SkillOpt's is translated, and what it sets without effect here is logged as a
    warning. Where no file names the run, it is called after the file.

    Args:
        path: A YAML file, ours or SkillOpt's (structured or flat).
        overrides: ``section.key=value`` settings, laid over the file in order; in our names, or
            in SkillOpt's where ours has no such name.
        their_options: The same in SkillOpt's names, as its ``--cfg-options`` takes them.

    Raises:
        ConfigError: A file is missing or malformed, inherits from itself, or sets something that
            is unknown or wrong; one line per problem, each with the nearest right name.
    """
    path = Path(path)
    layers = read_layers(path)
    values = merge_layers(layers)
    places = key_paths(RunConfig)
    known = [place.path for place in places]
    open_ = [place.path for place in places if place.is_open]
    is_theirs = is_skillopt(values)
    options = sort_options(overrides, their_options, known, is_theirs=is_theirs)
    ours = options.ours
    if is_theirs:
        read = [*layers, *_compatible(path, ours), *options.layer]
        values, warnings = translate(resolve_layers(read), quiet=only_in_base(read))
        for warning in warnings:
            _log.warning("%s: %s", path, warning)
    else:
        ours = [*in_our_names(options.theirs), *ours]
    values = merge(values, parse_overrides(ours, known, open_))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"
    values = merge({"run": {"name": name}}, values)
    return validated(_with_environment(values), str(path))


def _compatible(path: Path, overrides: Sequence[str]) -> list[Layer]:
    """Return what says that an adapter reads the file, and may bring its data."""
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
