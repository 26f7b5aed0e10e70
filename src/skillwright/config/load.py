"""Reads the configuration of a training, ours or SkillOpt's, or of the recipe for weights."""

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillwright.config.removed import without_removed
from skillwright.config.rl import RlConfig, validated_rl
from skillwright.config.run import RunConfig, validated
from skillwright.config.yaml_files import (
    Layer,
    Values,
    dump_yaml,
    key_paths,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
)
from skillwright.core import ConfigError
from skillwright.models.environment import settings_from_environment
from skillwright.plugins.skillopt.config.files import (
    is_skillopt,
    only_in_base,
    resolve_layers,
    translate,
)
from skillwright.plugins.skillopt.config.reading import in_our_names, sort_options

_log = logging.getLogger(__name__)

_STORE = "run.sqlite"  # beside it lies the configuration of a run; no run is opened here
_RECIPE_ONLY = ("grpo", "policy", "cold_start", "models.expert", "models.base")
_USUAL_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "QWEN_CHAT_API_KEY", "MINIMAX_API_KEY")
_RECIPE = frozenset({"grpo", "policy", "cold_start"})
_TRAINING_ONLY = (
    *("train", "gradient", "optimizer", "skill", "model"),
    *("models.target", "models.optimizer"),
)


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
    layers = _noted(path)
    values = merge_layers(layers)
    _refuse_other_kind(path, values, _RECIPE_ONLY, _TRAINING_ONLY, "rl")
    is_theirs = is_skillopt(values)
    known = [place.path for place in key_paths(RunConfig)]
    options = sort_options(overrides, their_options, known, is_theirs=is_theirs)
    ours = options.ours
    if is_theirs:
        read = [*layers, *_compatible(path, ours), *options.layer]
        values, warnings = translate(resolve_layers(read), quiet=only_in_base(read))
        for warning in warnings:
            _log.warning("%s: %s", path, warning)
    else:
        ours = [*in_our_names(options.theirs), *ours]
    return validated(_completed(path, values, ours, RunConfig), str(path))


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
    values = merge_layers(_noted(path))
    _refuse_other_kind(path, values, _TRAINING_ONLY, _RECIPE_ONLY, "train")
    return validated_rl(_completed(path, values, overrides, RlConfig), str(path))


def config_of(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> RunConfig | RlConfig:
    """Read a configuration that is a mapping: what a file would say.

    Args:
        values: Sections, as a file has them.
        overrides: ``section.key=value`` settings, laid over them in order.

    Raises:
        ConfigError: Something is unknown or wrong; one line per problem, with the nearest name.
    """
    where, named = Path("config"), merge({"run": {"name": "run"}}, values)
    if _RECIPE & values.keys():
        return validated_rl(_completed(where, named, overrides, RlConfig), str(where))
    return validated(_completed(where, named, overrides, RunConfig), str(where))


def is_rl_config(path: str | Path) -> bool:
    """Tell whether a file configures the recipe: it has a section that nothing else has.

    Raises:
        ConfigError: The file is missing or malformed.
    """
    return bool(_RECIPE & merge_layers(read_layers(Path(path))).keys())


def dump_config(config: RunConfig | RlConfig) -> str:
    """Return the whole configuration as YAML, defaults included and API keys left out.

    Reading it gives an equal configuration, but for those keys.
    """
    return dump_yaml(without_removed(config.model_dump(mode="json"), "", stored=True))


dump_rl_config = dump_config


def _noted(path: Path) -> list[Layer]:
    """Read a file and what it inherits from; say which of its names are old, but of no run."""
    layers = read_layers(path)
    if "serve" in merge_layers(layers):
        raise ConfigError(
            f"{path}: these are conversations of `skillwright serve`, and nothing of them can be "
            f"played again; `skillwright bank distill {path.parent}` learns from them"
        )
    for note in () if _is_stored(path) else (note for layer in layers for note in layer.notes):
        _log.warning(note)
    return layers


def _is_stored(path: Path) -> bool:
    return (path.parent / _STORE).exists()


def _refuse_other_kind(
    path: Path, values: Values, theirs: Iterable[str], ours: Iterable[str], command: str
) -> None:
    found = _said_of(values, theirs)
    if found and not _said_of(values, ours):
        kind = "the weights of a policy" if command == "rl" else "a skill"
        raise ConfigError(
            f"{path}: this file trains {kind} (it has {found[0]!r}); run "
            f"`skillwright {command} {path}`"
        )


def _said_of(values: Values, paths: Iterable[str]) -> list[str]:
    models = values.get("models")
    said = {*values, *(f"models.{role}" for role in models or () if isinstance(models, Mapping))}
    return [path for path in paths if path in said]


def _completed(
    path: Path, values: Values, overrides: Sequence[str], model: type[BaseModel]
) -> Values:
    """Lay overrides over a file's values, and fill in its name and the environment's settings."""
    values = merge(values, parse_overrides(overrides, model))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"
    values = without_removed(values, str(path), stored=_is_stored(path))
    if _is_stored(path):
        values = _without_usual_keys(values)
    return _with_environment(merge({"run": {"name": name}}, values))


def _without_usual_keys(values: Values) -> Values:
    """Earlier runs stored the usual variable where nobody had named one, which must be set."""
    models = {
        role: {
            name: value
            for name, value in model.items()
            if name != "api_key_env" or value not in _USUAL_KEYS
        }
        if isinstance(model, Mapping)
        else model
        for role, model in values.get("models", {}).items()
    }
    return {**values, "models": models}


def _compatible(path: Path, overrides: Sequence[str]) -> list[Layer]:
    """Return what says that an adapter reads the file, and may bring its data."""
    said = [one.partition("=")[2] for one in overrides if one.startswith("env.compat=")]
    return [Layer(path, {"env": {"compat": said[-1]}})] if said else []


def _with_environment(values: Values) -> Values:
    """Fill in what the settings of models leave open and environment variables say."""
    models = values.get("models")
    if not isinstance(models, Mapping):
        return values
    filled: dict[str, Any] = {
        role: settings_from_environment(model, role, os.environ)
        if isinstance(model, Mapping) and role != "prices"
        else model
        for role, model in models.items()
    }
    return {**values, "models": filled}
