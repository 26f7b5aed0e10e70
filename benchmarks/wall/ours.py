"""Our side of the job, in a process of its own: `ours.py BASE_URL TASKS OUT [OPTION]`.

The only option is ``hedge`` (`models.*.hedge`). The last line is a JSON object: seconds and CPU
seconds of the training alone.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import job

from skillwright.config.run import validated
from skillwright.core import Message
from skillwright.envs import TextEnv
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.models import HttpClient, dialect_of


class Letters(TextEnv):
    """One question, one answer."""

    def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Ask."""
        asked = job.question(self.extras["name"], self.extras["question"])
        opening = [
            Message(role="system", content=job.INSTRUCTIONS),
            Message(role="user", content=asked),
        ]
        return [*prompt, *opening], {"observation": asked}

    def step(self, action: str):
        """Mark the answer."""
        self.turns += 1
        right = action.strip() == self.extras["answer"]
        return self.finish("Right." if right else "Wrong.", reward=float(right))


def settings(base_url: str, tasks: str, out: str, *options: str) -> dict[str, Any]:
    """Return the run's configuration: SkillOpt's choices wherever ours differ."""
    # All workers from the first call on, as the original has them.
    workers = {"max_concurrent": job.WORKERS, "start_concurrent": job.WORKERS}
    hedge = {"hedge": job.HEDGE if "hedge" in options else None}
    endpoint = {"backend": "openai_chat", "base_url": base_url, **workers, **hedge}
    return {
        "run": {"name": "wall", "root": out, "seed": job.SEED, "parity": True},
        "env": {
            "name": f"{__file__}:Letters",
            "max_turns": 1,
            "data": {"kind": "split_dir", "path": tasks},
        },
        "models": {
            "target": {**endpoint, "model": "target"},
            "optimizer": {**endpoint, "model": "optimizer"},
        },
        "train": {
            "epochs": job.EPOCHS,
            "batch_size": job.BATCH,
        },
        "gradient": {
            "minibatch_size": job.MINIBATCH,
            "merge_batch_size": 8,
            "analyst_budget": "initial",
            "analyst_workers": job.ANALYSTS,
        },
        "optimizer": {
            "learning_rate": job.BUDGET,
            "min_learning_rate": job.MIN_BUDGET,
            "lr_scheduler": "cosine",
            "repair_anchors": False,
            "insert_after_fallback": True,
            "use_slow_update": True,
            "slow_update_samples": job.SLOW_SAMPLES,
            "gate_slow_update": False,
            "use_meta_skill": True,
            "memory_across_epochs": False,
        },
        "evaluation": {"gate": {"kind": "strict", "metric": "hard", "fresh_draws": False}},
        "rollout": {"max_concurrent": job.WORKERS},
    }


async def main(base_url: str, tasks: str, out: str, *options: str) -> None:
    """Train once, and say how long it took."""
    gc.set_threshold(10_000, 10, 10)  # as the command line does
    config = validated(settings(base_url, tasks, out, *options), "wall")
    # What talks to endpoints loads when it is first asked for, and imports are not part of the
    # training on the other side either.
    await HttpClient().aclose()
    dialect_of(config.models.target)
    started, cpu = time.perf_counter(), time.process_time()
    with start_run(config, "") as run:
        report = await run_training(run, NullCallback())
        train_s, train_cpu_s = time.perf_counter() - started, time.process_time() - cpu
    figures = {
        "train_s": train_s,
        "train_cpu_s": train_cpu_s,
        "actions": [step.action for step in report.state.steps],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    asyncio.run(main(*sys.argv[1:]))
