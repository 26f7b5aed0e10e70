"""Environments: their interface, registry and checks, and tables as environments."""

from skillwright.envs.about import AboutEnv, EnvReport, Evaluation, Judging
from skillwright.envs.adapter import EnvAdapter
from skillwright.envs.contract import Check, ContractReport, check_env
from skillwright.envs.registry import EnvSpec, deregister, make, register, spec, specs
from skillwright.envs.text_env import StepOutput, TextEnv

__all__ = [
    "AboutEnv",
    "Check",
    "ContractReport",
    "EnvAdapter",
    "EnvReport",
    "EnvSpec",
    "Evaluation",
    "Judging",
    "StepOutput",
    "TextEnv",
    "check_env",
    "deregister",
    "make",
    "register",
    "spec",
    "specs",
]
