"""Scripted teachers: they read the prompts of a skill bank's learner, offline."""
