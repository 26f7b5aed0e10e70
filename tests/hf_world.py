"""A tiny language model in the world of `rl_world`: it learns to name a room's door."""

from pathlib import Path
from typing import Any

from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import lanes_config
from skillwright.config import RlConfig


def write_tiny(folder: Path, kind: str = "qwen", **changes: Any) -> Path:
    """Write a random model with its tokenizer, as `save_pretrained` does."""
    tiny_model(kind, initializer_range=0.1, **changes).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def hf_config(folder: Path, model: Path, **sections: Any) -> RlConfig:
    """Return the configuration of a run that trains a tiny model, without skills, in float32.

    Its answers are free text: whoever serves it elsewhere holds it to no list of commands.
    """
    policy = {
        "kind": "hf",
        "model": str(model),
        "max_new_tokens": 32,
        "precision": "float32",
        "device": "cpu",
        "restrict": False,
        **sections.pop("policy", {}),
    }
    cold = {"steps": 60, "batch_rows": 24, "learning_rate": 0.01, "tasks": 12, "episodes": 2}
    small = {"iterations": 1, "tasks_per_iteration": 2, "group_size": 2, "learning_rate": 0.0005}
    given = {name: sections.pop(name, {}) for name in ("cold_start", "grpo", "bank")}
    return lanes_config(
        folder,
        policy=policy,
        cold_start=cold | given["cold_start"],
        grpo=small | given["grpo"],
        bank={"inject": "none"} | given["bank"],
        distill=None,
        evolve=None,
        **sections,
    )
