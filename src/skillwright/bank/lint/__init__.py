"""What may not stand in a skill, whoever wrote it."""
