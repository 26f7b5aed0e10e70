"""Run adapters and configurations that were written for SkillOpt."""

from skillwright.plugins.skillopt.alias import alias_names, skillopt_alias

__all__ = ["alias_names", "skillopt_alias"]
