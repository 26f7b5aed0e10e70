"""The configuration: its schema, and reading files."""

from skillwright.config.bank_settings import StudySettings as StudySettings
from skillwright.config.bank_settings import study_settings as study_settings
from skillwright.config.load import as_overrides as as_overrides
from skillwright.config.load import dump_config as dump_config
from skillwright.config.load import dump_rl_config as dump_rl_config
from skillwright.config.load import is_rl_config as is_rl_config
from skillwright.config.load import load_config as load_config
from skillwright.config.load import load_rl_config as load_rl_config
from skillwright.config.readers import mode_of as mode_of
from skillwright.config.rl import RlConfig as RlConfig
from skillwright.config.rl import validated_rl as validated_rl
from skillwright.config.run import RunConfig as RunConfig
