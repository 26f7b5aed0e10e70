"""Translation of SkillOpt's configuration files."""
