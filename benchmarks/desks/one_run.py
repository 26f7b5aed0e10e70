"""Plays one condition with one seed to its end, or resumes it, and writes its result down."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from desks.conditions import (
    CONDITIONS,
    FIRST_SEED,
    MODEL,
    SHEETS,
    SHORT,
    SHORT_SIZES,
    SIZES,
    data_folder,
    folder_of,
    gguf_folder,
    run_name,
    settings_of,
    weights_folder,
)
from desks.data import write_data
from desks.outcomes import outcomes
from measuring.books import note_opening
from skillwright.bank import BankStore
from skillwright.core import ConfigError
from skillwright.core.jsonio import write_text
from skillwright.jobs.weights import ColdStartStep, RlReport, open_rl, run_rl, start_rl
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.models import find_weights
from skillwright.policy import load_checkpoint
from skillwright.policy.hf import HfPolicy, save_folder, save_gguf
from study.one_run import CpuCallback, made_by, result_of, settings_digest


class CurveCallback(CpuCallback):
    """Keeps the loss of each supervised step as well, and prints every tenth.

    Args:
        label: Begins each line.
        path: Where the seconds are kept; the losses lie beside them.
    """

    def __init__(self, label: str, path: Path) -> None:
        super().__init__(label, path)
        self._label, self._losses = label, path.with_suffix(".loss")
        known = json.loads(self._losses.read_text()) if self._losses.exists() else []
        self.losses: list[float] = known

    def on_event(self, event: object) -> None:
        """Take note of one event."""
        super().on_event(event)
        if isinstance(event, ColdStartStep):
            self.losses = [*self.losses[: event.step], round(event.surprise, 4)]
            if event.step % 10 == 9:
                print(f"{self._label}: step {event.step + 1}, {event.surprise:.2f}", flush=True)

    def keep(self) -> None:
        """Write down what was spent, and the losses."""
        super().keep()
        write_text(self._losses, json.dumps(self.losses))


def play(
    condition: str,
    seed: int,
    root: Path,
    *,
    short: bool = False,
    laid_over: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Return the result of a condition and a seed; what is finished is not run again.

    Raises:
        ConfigError: Its folder, or its result, was made with other settings.
        SkillwrightError: As `skillwright.jobs.weights.run_rl`; call again to resume.
    """
    torch.set_num_threads(1)
    sizes = SHORT_SIZES if short else SIZES
    over = (SHORT, laid_over) if short else (laid_over,)
    config = settings_of(CONDITIONS[condition], seed, root, sizes, *over)
    name = run_name(condition, seed)
    path, folder = root / f"{name}.json", root / name
    if (known := result_of(path, config)) is not None:
        return known
    root.mkdir(parents=True, exist_ok=True)
    write_data(data_folder(root, seed), FIRST_SEED + seed, sizes)
    callback = CurveCallback(name, root / f"{name}.cpu")
    with open_rl(folder) if folder.exists() else start_rl(config) as run:
        if settings_digest(run.config) != settings_digest(config):
            raise ConfigError(
                f"{folder} was begun with other settings than those of now. Name another folder "
                "with --root, or move it away"
            )
        try:
            report = asyncio.run(run_rl(run, callback))
        finally:
            callback.keep()
    if condition == "sft":
        keep_weights(folder, root, seed)
    facts = {"condition": condition, "seed": seed, "settings": settings_digest(config)}
    facts |= outcomes(folder, folder_of(CONDITIONS[condition], root, seed), SHEETS)
    result = {**facts, **_facts(report), "made_by": made_by(), "cpu_s": dict(callback.seconds)}
    result["losses"] = callback.losses
    note_opening(root, name, result["made_by"])
    write_text(path, json.dumps(result, indent=1))
    return result


def keep_weights(run: Path, root: Path, seed: int) -> None:
    """Write the weights that SFT ended with as a folder and as GGUF; what is there is kept."""
    folder = weights_folder(root, seed)
    with open_rl(run) as opened:
        policy = PolicyMaker(opened.config).make({"model": MODEL})
    with BankStore.open(run / "bank" / "bank.sqlite", read_only=True) as store:
        versions = {0, *store.versions()}
    kept = load_checkpoint(run / "checkpoints" / "iteration_00000.ckpt", versions)
    policy.load(kept.policy)
    if not isinstance(policy, HfPolicy):
        raise TypeError(f"{type(policy).__name__} is no language model")
    if not folder.exists():
        save_folder(policy, folder, f"SmolLM2-135M-Instruct after SFT on tickets, seed {seed}.\n")
    gguf = gguf_folder(root, seed)
    if not gguf.exists():
        # Read half again as fast as float16, and the reader's answers are what text is trained on.
        save_gguf(policy, find_weights(MODEL), gguf, "q8_0")


def _facts(report: RlReport) -> dict[str, Any]:
    whole = report.to_dict()
    return {
        "selected_iteration": report.iteration,
        "grpo": [[one["iteration"], one["success"]] for one in whole["iterations"]],
        "validations": whole["validations"],
        "cold_start": whole["cold_start"],
        "test": whole["test"],
    }
