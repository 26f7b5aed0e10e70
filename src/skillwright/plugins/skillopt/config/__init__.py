"""Files that were written for SkillOpt, read as ours."""
