"""Settings of the bank commands: the teacher, distillation, evolution, retrieval."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from skillwright.config.bank import BankSection, DistillSection, EvolveSection
from skillwright.config.load import load_config
from skillwright.config.readers import settings_from_environment
from skillwright.config.run import BudgetSection, RunConfig
from skillwright.config.yaml_files import (
    Values,
    merge,
    merge_layers,
    parse_overrides,
    read_layers,
    validated_section,
)
from skillwright.core import ConfigError
from skillwright.core.jsonio import dumps, read_text
from skillwright.core.settings import Settings
from skillwright.models import ModelConfig

_TEACHER_HINT = (
    "Name the teacher: --teacher BACKEND:MODEL, such as openai_chat:NAME, or a YAML file with "
    "the settings of a model"
)
_ENDPOINT_KEYS = ("base_url", "api_key_env", "server", "region", "headers", "transport", "path")


class StudyModels(Settings):
    """Models of commands that learn from stored episodes."""

    teacher: ModelConfig
    """Model that writes the skills."""


class StudySettings(Settings):
    """Settings of a teacher that learns from stored episodes."""

    models: StudyModels
    distill: DistillSection = DistillSection()
    evolve: EvolveSection = EvolveSection()
    bank: BankSection = BankSection()
    budget: BudgetSection = BudgetSection()


class SearchSettings(Settings):
    """Settings of bank search."""

    bank: BankSection = Field(default_factory=BankSection)


def read_teacher(said: str, models: Mapping[str, Any] = {}) -> Values:
    """Read the teacher's settings from ``backend:model``, a YAML file, or inline YAML or JSON.

    Args:
        said: The value of ``--teacher``.
        models: The models of the run. ``backend:model`` uses the endpoint of a model with the
            same backend.

    Raises:
        ConfigError: It is none of these.
    """
    path = Path(said)
    if path.suffix.lower() in (".yaml", ".yml"):
        values = _parsed(read_text(path, "teacher"), said) if path.is_file() else None
        if values is None:
            raise ConfigError(f"--teacher: there is no file {said!r}. {_TEACHER_HINT}")
        inner = values.get("models", values)
        found = inner.get("teacher", inner) if isinstance(inner, Mapping) else None
    elif said.lstrip().startswith("{"):
        found = _parsed(said, "--teacher")
    else:
        backend, colon, model = said.partition(":")
        found = {**_endpoint(backend, models), "model": model} if colon and model else None
    if not isinstance(found, Mapping) or "backend" not in found:
        raise ConfigError(f"--teacher {said!r} names no backend. {_TEACHER_HINT}")
    return dict(found)


def _endpoint(backend: str, models: Mapping[str, Any]) -> Values:
    """Return the endpoint settings of the run's model with this backend, or only the backend."""
    roles = (models.get(role) for role in ("teacher", "optimizer", "target"))
    same = [one for one in roles if isinstance(one, Mapping) and one.get("backend") == backend]
    known = same[0] if same else {}
    return {"backend": backend, **{name: known[name] for name in _ENDPOINT_KEYS if name in known}}


def _parsed(text: str, where: str) -> Values:
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is no YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{where} holds no settings of a model. {_TEACHER_HINT}")
    return values


def study_settings(
    teacher: str | None, run_config: Path | None, overrides: Sequence[str]
) -> StudySettings:
    """Return the settings of a teacher that learns from runs or from exported rollouts.

    Args:
        teacher: The value of ``--teacher`` (`read_teacher`); ``None`` takes the teacher, or else
            the optimizer, of ``run_config``.
        run_config: Configuration file of the first run; ``None`` without a run.
        overrides: Settings such as ``distill.lessons=8``.

    Raises:
        ConfigError: No teacher is named, or a setting is unknown or wrong.
    """
    llm = read_teacher(teacher, _models_of(run_config)) if teacher else _teacher_of(run_config)
    base: Values = {"models": {"teacher": llm}} if llm else {}
    values = merge(base, parse_overrides(overrides, StudySettings))
    llm = values.get("models", {}).get("teacher")
    if not llm:
        raise ConfigError(f"no teacher is named. {_TEACHER_HINT}")
    values["models"]["teacher"] = settings_from_environment(llm, "teacher")
    return validated_section(StudySettings, values)


def search_settings(overrides: Sequence[str]) -> SearchSettings:
    """Return the settings of bank search, with overrides such as ``bank.delta=0.4``.

    Raises:
        ConfigError: A setting is unknown or wrong.
    """
    return validated_section(SearchSettings, parse_overrides(overrides, SearchSettings))


def load_with_teacher(path: Path, teacher: str | None, overrides: Sequence[str]) -> RunConfig:
    """Read a run's configuration with the teacher that the command names.

    Raises:
        ConfigError: The file, the teacher or a setting is wrong.
    """
    models = merge_layers(read_layers(path)).get("models") or {} if teacher else {}
    named = [f"models.teacher={dumps(read_teacher(teacher, models))}"] if teacher else []
    return load_config(path, [*named, *overrides])


def teacher_of(config: RunConfig) -> ModelConfig:
    """Return the model that writes skills: the teacher, or else the optimizer.

    Raises:
        ConfigError: There is no teacher, and the optimizer is scripted and writes no skills.
    """
    if config.models.teacher is not None:
        return config.models.teacher
    if config.models.optimizer.backend == "scripted":
        raise ConfigError(
            f"models.teacher is unset, and the scripted {config.models.optimizer.model!r} writes "
            f"no skills. {_TEACHER_HINT}"
        )
    return config.models.optimizer


def _models_of(run_config: Path | None) -> Values:
    if run_config is None:
        return {}
    return _parsed(read_text(run_config, "configuration"), str(run_config)).get("models") or {}


def _teacher_of(run_config: Path | None) -> Values | None:
    models = _models_of(run_config)
    own, other = models.get("teacher"), models.get("optimizer")
    if own:
        return dict(own)
    return dict(other) if other and other.get("backend") != "scripted" else None
