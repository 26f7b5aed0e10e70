"""Environments of verifiers, imported and exported."""

from skillwright.plugins.verifiers.envs import VerifiersEnv
from skillwright.plugins.verifiers.export import as_taskset, as_verifiers

__all__ = ["VerifiersEnv", "as_taskset", "as_verifiers"]
