"""A policy over any causal language model of the `transformers` library."""

from skillwright.core.policy_settings import Lora as Lora
from skillwright.policy.hf.loading import gguf_source as gguf_source
from skillwright.policy.hf.loading import load_pretrained as load_pretrained
from skillwright.policy.hf.model import HfSettings as HfSettings
from skillwright.policy.hf.policy import HfPolicy as HfPolicy
from skillwright.policy.hf.saving import save_folder as save_folder
from skillwright.policy.hf.saving import save_gguf as save_gguf
