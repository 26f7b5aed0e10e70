"""Tickets that are routed by a policy sheet: the small text task of `benchmarks/lm_study.py`."""
