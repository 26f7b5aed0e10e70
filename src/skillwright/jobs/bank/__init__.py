"""Jobs on a bank of skills: distill, evolve, import, look."""
