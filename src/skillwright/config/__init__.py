"""The configuration: its schema, and reading files."""

from skillwright.config.bank_settings import StudySettings, study_settings
from skillwright.config.load import (
    as_overrides,
    dump_config,
    dump_rl_config,
    is_rl_config,
    load_config,
    load_rl_config,
)
from skillwright.config.readers import ConfigReader, Mode, Reading, mode_of
from skillwright.config.rl import RlConfig, validated_rl
from skillwright.config.run import RunConfig

__all__ = [
    "ConfigReader",
    "Mode",
    "Reading",
    "RlConfig",
    "RunConfig",
    "StudySettings",
    "as_overrides",
    "dump_config",
    "dump_rl_config",
    "is_rl_config",
    "load_config",
    "load_rl_config",
    "mode_of",
    "study_settings",
    "validated_rl",
]
