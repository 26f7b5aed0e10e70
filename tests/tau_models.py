"""Models for the small shop of `tau_store`, and runs in it that take a tenth of a second."""

import re
from pathlib import Path
from typing import Any

from doors import llms
from skillwright.config import RunConfig
from skillwright.config.run import validated
from skillwright.core import Completion, Sampling, Usage
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, EvalReport, run_evaluation, start_run
from tau_store import CANCEL, OPENING, task, tool_call, write_store

RULE = "Cancel the order #W1 at once."
TRANSFER = ("transfer_to_human_agents", {"summary": "nothing to be done"})


class Clerk:
    """Cancels the order where its skill says so; then says what it was told to say.

    Args:
        farewell: Its last message; by default one that says nothing that is asked for.
        turns: Its turns in order, instead of all that.
    """

    identity = "scripted:clerk"

    def __init__(self, farewell: str = "Good bye.", turns: list[str] | None = None) -> None:
        self.calls = 0
        self._farewell = farewell
        self._turns = turns

    async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
        del tools, sampling, purpose
        self.calls += 1
        taken = sum(message["role"] == "assistant" for message in messages)
        told = any(RULE in message["content"] for message in messages)
        turns = self._turns or [*([tool_call(CANCEL[0], **CANCEL[1])] if told else [])]
        usage = Usage(calls=1, input_tokens=100, output_tokens=10)
        text = turns[taken] if taken < len(turns) else self._farewell
        return Completion(re.sub("^$", "ready", text), usage=usage)


def shop(folder: Path, count: int = 12, **files: Any) -> Path:
    """Write a shop in whose splits every customer wants the same order cancelled."""
    wanted = [task(CANCEL) for _ in range(count)]
    tasks = {f"tasks_{split}": wanted for split in ("train", "val", "test")}
    return write_store(folder, **{**tasks, **files})


def tau_settings(folder: Path, data: Path, **config: Any) -> dict[str, Any]:
    """Return settings of a run in a folder."""
    user = {"user_strategy": "scripted", "user_replies": [OPENING]}
    return {
        "run": {"name": "tau", "root": str(folder / "runs")},
        "env": {"name": "tau_bench", "config": {"data_dir": str(data), **user, **config}},
        "models": {
            "target": {"backend": "scripted", "model": "household"},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "train": {"epochs": 1, "batch_size": 6},
        "gradient": {"minibatch_size": 3},
    }


def tau_config(folder: Path, data: Path, **config: Any) -> RunConfig:
    """Return the configuration of a run; keyword arguments are the environment's settings."""
    return validated(tau_settings(folder, data, **config), "tau")


async def tau_evaluated(
    config: RunConfig, plan: EvalPlan, target: Any, skill: str = ""
) -> tuple[Path, EvalReport]:
    """Evaluate in a new run; return its folder and the report."""
    with start_run(config, skill, plan) as run:
        return run.folder.path, await run_evaluation(run, plan, NullCallback(), llms(target))
