"""Worlds: the episode environment, the registry, and the worlds themselves."""

from skillwright.envs.registry import EnvSpec, deregister, make, register, spec, specs
from skillwright.envs.text_env import StepOutput, TextEnv

__all__ = [
    "EnvSpec",
    "StepOutput",
    "TextEnv",
    "deregister",
    "make",
    "register",
    "spec",
    "specs",
]
