"""A policy over any causal language model of the `transformers` library."""

from skillwright.policy.hf.model import HfSettings, LoraSettings
from skillwright.policy.hf.policy import HfPolicy

__all__ = ["HfPolicy", "HfSettings", "LoraSettings"]
