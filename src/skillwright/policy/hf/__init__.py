"""A policy over any causal language model of the `transformers` library."""

from skillwright.core.policy_settings import Lora
from skillwright.policy.hf.loading import gguf_source, load_pretrained
from skillwright.policy.hf.model import HfSettings
from skillwright.policy.hf.policy import HfPolicy
from skillwright.policy.hf.saving import save_folder, save_gguf

__all__ = [
    "HfPolicy",
    "HfSettings",
    "Lora",
    "gguf_source",
    "load_pretrained",
    "save_folder",
    "save_gguf",
]
