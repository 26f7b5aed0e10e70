"""Run what was written for SkillOpt: its names, configurations and decisions."""

from skillwright.plugins.skillopt.alias import alias_names, skillopt_alias

__all__ = ["alias_names", "skillopt_alias"]
