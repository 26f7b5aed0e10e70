"""Experiment trackers."""
