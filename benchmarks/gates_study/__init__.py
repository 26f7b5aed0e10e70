"""Simulated runs whose truth is known, judged by the project's own gates."""
