"""Scripted models for questions over passages."""
