"""Text training with the language model as the agent: one new shop, whose sheet starts blank.

The reader that supervised training ended with answers at temperature 1. The scripted optimizer
sees failed tickets with the right desk, and proposes rules; the default gate and the release test
decide.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import skillwright as sw
from desks.conditions import FIRST_SEED, HERE, gguf_folder, new_shop_folder
from desks.data import new_shop, read_splits, write_new_shop
from desks.outcomes import outcomes
from desks.programs import programs
from measuring.books import note_opening
from skillwright.core.jsonio import digest, write_text
from skillwright.policy.hf.saving import GGUF_NAME
from study.one_run import made_by

OPTIMIZERS: Mapping[str, dict[str, Any]] = {
    "says": {"backend": "scripted", "model": "clerk_analyst"},
    "belongs": {
        "backend": "python",
        "model": f"{HERE / 'forms.py'}:BelongsAnalyst",
        "scripted": True,
    },
}
"""Form of the sentences -> the scripted optimizer that writes it."""


SIDES = {"initial": "blank sheet", "best": "released sheet"}
"""Artifact of a run's test -> the sheet of its agent."""


def text_kind(form: str) -> str:
    """Return the name that begins those of the runs of a form."""
    return "text" if form == "says" else f"text_{form}"


def reader(root: Path, seed: int) -> dict[str, Any]:
    """Return the reader of a seed, as ``models.target`` names it: the weights of SFT, served."""
    return {
        "backend": "local",
        "model": str(gguf_folder(root, seed) / GGUF_NAME),
        "context": 512,
        "temperature": 1.0,
        "max_tokens": 4,
        "threads": 1,
    }


def train_sheet(
    seed: int,
    root: Path,
    *,
    short: bool = False,
    target: Mapping[str, Any] | None = None,
    form: str = "says",
) -> dict[str, Any]:
    """Return what a training of the new shop's sheet came to; what is finished is not run again.

    Args:
        seed: From 0; gives the shop, its tickets and every draw.
        root: The folder of all runs and results.
        short: Few tickets, and a gate that so few can pass; no score means anything.
        target: Another agent than `reader`, as ``models.target`` names it.
        form: Of the optimizer's sentences; see `desks.forms`.
    """
    name = f"{text_kind(form)}-s{seed}"
    path = root / f"{name}.json"
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    shop, data = new_shop(FIRST_SEED + seed), new_shop_folder(root, seed)
    write_new_shop(data, FIRST_SEED + seed, short=short)
    values: dict[str, Any] = {
        "run": {"name": name, "root": str(root), "seed": seed},
        "env": {
            "name": f"{HERE / 'env.py'}:Desks",
            "max_turns": 1,
            "data": {"kind": "split_dir", "path": str(data)},
        },
        "models": {
            "target": dict(target or reader(root, seed)),
            "optimizer": OPTIMIZERS[form],
        },
        "gradient": {"minibatch_size": 40},
    }
    if short:
        values |= {"train": {"epochs": 1}, "evaluation": {"gate": {"kind": "strict"}}}
    began = time.monotonic()
    run = sw.resume(name, str(root)) if (root / name).exists() else sw.train(values, progress=False)
    took = time.monotonic() - began
    report, gain = run.test, run.gain
    result = {
        "seed": seed,
        "form": form,
        "sheet": shop.sheet,
        "desks": dict(shop.desks),
        "released": run.skill,
        "test": report.to_dict() if report else None,
        "gain": gain.to_dict() if gain else None,
        **outcomes(root / name, data, SIDES),
        "programs": programs(read_splits(data), run.skill),
        "settings": digest(values),
        "wall_s": round(took, 1),
        "made_by": made_by(),
    }
    note_opening(root, name, result["made_by"])
    write_text(path, json.dumps(result, indent=1))
    return result
