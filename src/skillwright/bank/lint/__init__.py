"""What may not be in a skill, whoever wrote it."""
