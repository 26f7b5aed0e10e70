"""What may be said in a configuration: its schema, how files are read, and parity with SkillOpt."""

from skillwright.config.bank_settings import StudySettings, study_settings
from skillwright.config.load import (
    dump_config,
    dump_rl_config,
    is_rl_config,
    load_config,
    load_rl_config,
)
from skillwright.config.parity import DIFFERENCES, KEPT_OUT, Difference
from skillwright.config.rl import RlConfig, validated_rl
from skillwright.config.run import RunConfig
from skillwright.plugins.skillopt.parity_report import (
    ParitySetting,
    mode_line,
    parity_settings,
    say_mode,
)

__all__ = [
    "DIFFERENCES",
    "KEPT_OUT",
    "Difference",
    "ParitySetting",
    "RlConfig",
    "RunConfig",
    "StudySettings",
    "dump_config",
    "dump_rl_config",
    "is_rl_config",
    "load_config",
    "load_rl_config",
    "mode_line",
    "parity_settings",
    "say_mode",
    "study_settings",
    "validated_rl",
]
