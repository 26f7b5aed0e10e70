"""Planted faults: how many of a stored list of faults the tests notice."""
