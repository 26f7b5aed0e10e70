"""Settings of commands about a bank: the teacher, and how much it reads and writes."""

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

_WHO = (
    "Say who writes skills: --teacher BACKEND:MODEL, such as openai_chat:NAME, or a YAML file with "
    "the settings of a model"
)
_PLACE = ("base_url", "api_key_env", "server", "region", "headers", "transport", "path")


class StudyModels(Settings):
    """Who is asked about episodes that were played already."""

    teacher: ModelConfig
    """Writes the skills."""


class StudySettings(Settings):
    """How a teacher learns from episodes that were played already."""

    models: StudyModels
    distill: DistillSection = DistillSection()
    evolve: EvolveSection = EvolveSection()
    bank: BankSection = BankSection()
    budget: BudgetSection = BudgetSection()


class SearchSettings(Settings):
    """How a bank is searched."""

    bank: BankSection = Field(default_factory=BankSection)


def read_teacher(said: str, models: Mapping[str, Any] = {}) -> Values:
    """Read who the teacher is: ``backend:model``, a YAML file with a model's settings, or these.

    Args:
        said: What the command was given.
        models: The models of the run; ``backend:model`` is asked where one of that backend is.

    Raises:
        ConfigError: It is none of these.
    """
    path = Path(said)
    if path.suffix.lower() in (".yaml", ".yml"):
        values = _parsed(read_text(path, "teacher"), said) if path.is_file() else None
        if values is None:
            raise ConfigError(f"--teacher: there is no file {said!r}. {_WHO}")
        inner = values.get("models", values)
        found = inner.get("teacher", inner) if isinstance(inner, Mapping) else None
    elif said.lstrip().startswith("{"):
        found = _parsed(said, "--teacher")
    else:
        backend, colon, model = said.partition(":")
        found = {**_place(backend, models), "model": model} if colon and model else None
    if not isinstance(found, Mapping) or "backend" not in found:
        raise ConfigError(f"--teacher {said!r} names no backend. {_WHO}")
    return dict(found)


def _place(backend: str, models: Mapping[str, Any]) -> Values:
    """Return where the run's own model of a backend is asked; the vendor's address for none."""
    roles = (models.get(role) for role in ("teacher", "optimizer", "target"))
    same = [one for one in roles if isinstance(one, Mapping) and one.get("backend") == backend]
    known = same[0] if same else {}
    return {"backend": backend, **{name: known[name] for name in _PLACE if name in known}}


def _parsed(text: str, where: str) -> Values:
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is no YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{where} holds no settings of a model. {_WHO}")
    return values


def study_settings(
    teacher: str | None, run_config: Path | None, overrides: Sequence[str]
) -> StudySettings:
    """Return how a teacher learns from the episodes of runs, or from exported rollouts.

    Args:
        teacher: Who is asked (`read_teacher`); else who was in the first of the runs.
        run_config: The configuration file of that run; ``None`` where no run is studied.
        overrides: ``models.teacher.max_tokens=4096``, ``distill.lessons=8`` and their like.

    Raises:
        ConfigError: No teacher is named, or a setting is unknown or wrong.
    """
    llm = read_teacher(teacher, _models_of(run_config)) if teacher else _teacher_of(run_config)
    base: Values = {"models": {"teacher": llm}} if llm else {}
    values = merge(base, parse_overrides(overrides, StudySettings))
    llm = values.get("models", {}).get("teacher")
    if not llm:
        raise ConfigError(f"no teacher is named. {_WHO}")
    values["models"]["teacher"] = settings_from_environment(llm, "teacher")
    return validated_section(StudySettings, values)


def search_settings(overrides: Sequence[str]) -> SearchSettings:
    """Return how a bank is searched, by ``bank.delta=0.4`` and its like.

    Raises:
        ConfigError: A setting is unknown or wrong.
    """
    return validated_section(SearchSettings, parse_overrides(overrides, SearchSettings))


def load_with_teacher(path: Path, teacher: str | None, overrides: Sequence[str]) -> RunConfig:
    """Read a run's configuration, and put the teacher that the command names into it.

    Raises:
        ConfigError: The file, the teacher or a setting is wrong.
    """
    models = merge_layers(read_layers(path)).get("models") or {} if teacher else {}
    named = [f"models.teacher={dumps(read_teacher(teacher, models))}"] if teacher else []
    return load_config(path, [*named, *overrides])


def teacher_of(config: RunConfig) -> ModelConfig:
    """Return who writes skills: the teacher, or else the optimizer's model.

    Raises:
        ConfigError: The optimizer is a script, which writes no skills.
    """
    if config.models.teacher is not None:
        return config.models.teacher
    if config.models.optimizer.backend == "scripted":
        raise ConfigError(
            f"models.teacher is unset, and the scripted {config.models.optimizer.model!r} writes "
            f"no skills. {_WHO}"
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
