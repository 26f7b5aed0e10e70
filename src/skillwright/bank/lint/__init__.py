"""What may not be in a skill."""
