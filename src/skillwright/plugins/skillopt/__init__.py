"""Run adapters and configurations that were written for SkillOpt."""

from skillwright.plugins.skillopt.alias import alias_names as alias_names
from skillwright.plugins.skillopt.alias import skillopt_alias as skillopt_alias
