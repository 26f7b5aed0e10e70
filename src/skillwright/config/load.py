"""Load configuration files of text training (ours or SkillOpt's) and of RL."""

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from skillwright.config.readers import Reading, read_with_all, settings_from_environment
from skillwright.config.rl import RlConfig, validated_rl
from skillwright.config.run import RunConfig, validated
from skillwright.config.yaml_files import (
    Layer,
    Values,
    dump_yaml,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
    validated_section,
)
from skillwright.core import ConfigError

_log = logging.getLogger(__name__)
ConfigT = TypeVar("ConfigT", RunConfig, RlConfig)

_RECIPE_ONLY = ("grpo", "policy", "cold_start", "models.expert", "models.base")
_RECIPE = frozenset({"grpo", "policy", "cold_start"})
_TRAINING_ONLY = (
    *("train", "gradient", "optimizer", "skill", "model"),
    *("models.target", "models.optimizer"),
)


def as_overrides(settings: Mapping[str, Any] | None) -> dict[str, str]:
    """Return settings by dotted path as overrides of `load_config`.

    Raises:
        ConfigError: They are no mapping.
    """
    if not isinstance(settings or {}, Mapping):
        raise ConfigError('settings must map dotted paths to values: {"train.epochs": 1}')
    found = (settings or {}).items()
    return {str(path): f"{path}={json.dumps(value, default=str)}" for path, value in found}


def load_config(
    path: str | Path, overrides: Sequence[str] = (), their_options: Sequence[str] = ()
) -> RunConfig:
    """Read a configuration file of text training.

    A file of SkillOpt's is translated; its keys without effect here are logged as warnings. A run
    without a name is named after the file.

    Args:
        path: A YAML file, ours or SkillOpt's (structured or flat).
        overrides: ``section.key=value`` settings that override the file, in order; in our names,
            or in SkillOpt's where there is no such name of ours.
        their_options: The same in SkillOpt's names, as in its ``--cfg-options``.

    Raises:
        ConfigError: A file is missing or malformed, inherits from itself, or has an unknown key
            or a wrong value; one line per problem, each with the nearest right name.
    """
    path = Path(path)
    layers = _read(path)
    values = merge_layers(layers)
    _refuse_other_kind(path, values, _RECIPE_ONLY, _TRAINING_ONLY, "rl")
    read = read_with_all(Reading(path, layers, values, overrides, their_options))
    for warning in read.warnings:
        _log.warning("%s: %s", path, warning)
    return validated(_completed(path, read.values, read.overrides, RunConfig), str(path))


def load_rl_config(path: str | Path, overrides: Sequence[str] = ()) -> RlConfig:
    """Read a configuration file of RL; a run without a name is named after the file.

    Args:
        path: A YAML file.
        overrides: ``section.key=value`` settings that override the file, in order.

    Raises:
        ConfigError: A file is missing or malformed, inherits from itself, or has an unknown key
            or a wrong value; one line per problem, each with the nearest right name.
    """
    path = Path(path)
    values = merge_layers(_read(path))
    _refuse_other_kind(path, values, _TRAINING_ONLY, _RECIPE_ONLY, "train")
    return validated_rl(_completed(path, values, overrides, RlConfig), str(path))


_ELSEWHERE = {"backend": "openai_chat", "model": "elsewhere", "base_url": "http://localhost"}
_NOT_HERE: Mapping[type[BaseModel], Values] = {
    RunConfig: dict.fromkeys(("target", "optimizer"), _ELSEWHERE),
    RlConfig: dict.fromkeys(("base", "teacher", "expert"), _ELSEWHERE),
}
_ENV_NOT_HERE = {
    "name": "table",
    "config": {"prompt": "{{ question }}", "answer": "answer"},
    "data": {"kind": "table", "path": "elsewhere.csv"},
}


def look_at_config(path: str | Path, kind: type[ConfigT]) -> ConfigT:
    """Read a run's configuration, perhaps of another machine, to show what was done with it.

    If it names a model, an environment or a gate that is not installed here, something else is in
    their place; the sections from which a run's state is rebuilt stay.

    Raises:
        ConfigError: The file cannot be read, or more is wrong with it.
    """
    try:
        load = load_config if kind is RunConfig else load_rl_config
        return cast(ConfigT, load(path))
    except ConfigError:
        values = merge_layers(_read(Path(path)))
    named = ("env", "models", "rollout", "skill", "bank")
    kept = {name: section for name, section in values.items() if name not in named}
    kept |= {"env": _ENV_NOT_HERE, "models": _NOT_HERE[kind]}
    run = kept.get("run")
    if isinstance(run, Mapping):
        kept["run"] = {name: value for name, value in run.items() if name != "trackers"}
    try:
        return validated_section(kind, _completed(Path(path), kept, (), kind), str(path))
    except ConfigError:
        evaluation = kept.get("evaluation")
        if not isinstance(evaluation, Mapping) or "gate" not in evaluation:
            raise
        kept["evaluation"] = {name: one for name, one in evaluation.items() if name != "gate"}
        return validated_section(kind, _completed(Path(path), kept, (), kind), str(path))


def config_of(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> RunConfig | RlConfig:
    """Read a configuration given as a mapping.

    Args:
        values: Sections, as in a file.
        overrides: ``section.key=value`` settings that override them, in order.

    Raises:
        ConfigError: A key is unknown or a value wrong; one line per problem, each with the nearest
            right name.
    """
    where, named = Path("config"), merge({"run": {"name": "run"}}, values)
    if _RECIPE & values.keys():
        return validated_rl(_completed(where, named, overrides, RlConfig), str(where))
    return validated(_completed(where, named, overrides, RunConfig), str(where))


def is_rl_config(path: str | Path) -> bool:
    """Tell whether a file configures RL: it has a section that only RL has.

    Raises:
        ConfigError: The file is missing or malformed.
    """
    return bool(_RECIPE & merge_layers(read_layers(Path(path))).keys())


def dump_config(config: RunConfig | RlConfig) -> str:
    """Return the whole configuration as YAML, with defaults and without API keys.

    Reading it gives an equal configuration, apart from those keys.
    """
    return dump_yaml(config.model_dump(mode="json"))


dump_rl_config = dump_config


def _read(path: Path) -> list[Layer]:
    """Read a file and the files it inherits from; refuse a file of `skillwright serve`."""
    layers = read_layers(path)
    if "serve" in merge_layers(layers):
        raise ConfigError(
            f"{path}: these are conversations of `skillwright serve`, which cannot be "
            f"trained on; `skillwright bank distill {path.parent}` learns from them"
        )
    return layers


def _refuse_other_kind(
    path: Path, values: Values, theirs: Iterable[str], ours: Iterable[str], command: str
) -> None:
    found = _keys_in(values, theirs)
    if found and not _keys_in(values, ours):
        kind = "the weights of a policy" if command == "rl" else "a skill"
        raise ConfigError(
            f"{path}: this file trains {kind} (it has {found[0]!r}); run "
            f"`skillwright {command} {path}`"
        )


def _keys_in(values: Values, paths: Iterable[str]) -> list[str]:
    models = values.get("models")
    keys = {*values, *(f"models.{role}" for role in models or () if isinstance(models, Mapping))}
    return [path for path in paths if path in keys]


def _completed(
    path: Path, values: Values, overrides: Sequence[str], model: type[BaseModel]
) -> Values:
    """Apply overrides; fill in the run's name and settings from environment variables."""
    values = merge(values, parse_overrides(overrides, model))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "run"
    return _with_environment(merge({"run": {"name": name}}, values))


def _with_environment(values: Values) -> Values:
    """Fill in unset settings of models from environment variables."""
    models = values.get("models")
    if not isinstance(models, Mapping):
        return values
    filled: dict[str, Any] = {
        role: settings_from_environment(model, role)
        if isinstance(model, Mapping) and role != "prices"
        else model
        for role, model in models.items()
    }
    return {**values, "models": filled}
