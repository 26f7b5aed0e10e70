"""What may not are in a skill, whoever wrote it."""
