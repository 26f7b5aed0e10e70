"""Environments of verifiers, imported and exported."""

from skillwright.plugins.verifiers.envs import VerifiersEnv as VerifiersEnv
from skillwright.plugins.verifiers.export import as_taskset as as_taskset
from skillwright.plugins.verifiers.export import as_verifiers as as_verifiers
