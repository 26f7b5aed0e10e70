"""A policy over any causal language model of the `transformers` library.

`tokens` turns conversations into prompts, `cache` keeps what was read of them, `sampling` draws
answers, `logprobs` reads rows for training, `model` holds the weights and their reference, and
`policy` is the backend that puts these together.
"""

from skillwright.policy.hf.model import HfSettings, LoraSettings
from skillwright.policy.hf.policy import HfPolicy

__all__ = ["HfPolicy", "HfSettings", "LoraSettings"]
