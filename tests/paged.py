"""Episodes with hostile text, and the configuration of a run whose pages are looked at."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from skillwright.core import (
    Act,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Message,
    StopReason,
    Task,
    Trajectory,
    Turn,
)

TOKEN = "a-token-of-the-tests"
CONFIG = """\
env:
  name: alfworld
  data: {kind: generated, train: 12, val: 10, test: 10}
models:
  target: {backend: scripted, model: household, noise: 0.1}
  optimizer: {backend: scripted, model: analyst}
train: {epochs: 1, batch_size: 4}
evaluation: {placebo: true}
run: {name: trained, root: ROOT, seed: 2}
"""
HOSTILE = "<script>document.title='owned'</script>\x1b]0;owned\x07<img src=x onerror=alert(1)>"


def played(number, text="fine", *, reward=1.0, failure=None, turns=1, task="task-1"):
    """Return an episode whose prompt, actions and observations say a text."""
    system: Message = {"role": "system", "content": text}
    prompt = (system, {"role": "user", "content": "Go."})
    done = tuple(
        Turn(index, prompt, Act(text=f"act {index} {text}"), f"saw {index} {text}", 0.0)
        for index in range(turns)
    )
    spec = EpisodeSpec(
        Task(id=task, env="doors", task_type="door", split="val"), 1, number, "gate", 1
    )
    return EpisodeResult(
        spec=spec,
        reward=None if failure else reward,
        failure=Failure(FailureCause.MODEL, failure) if failure else None,
        stop_reason=StopReason.FAILURE if failure else StopReason.DONE,
        trajectory=Trajectory(opening=text, turns=done),
        skill_version="s0",
        key=f"{number:064x}",
    )


def ablation(version, **changes):
    """Return what `skill ablate` writes of a skill's first lines."""
    section = {
        "title": "Searching <script>",
        "first_line": 1,
        "last_line": 4,
        "value": 0.25,
        "interval": [0.1, 0.4],
        "pairs": 12,
        "lost": 0,
        "proposal": "keep",
    }
    found = {"skill": "best_skill.md", "skill_version": version, "split": "val"}
    return json.dumps({**found, "sections": [section | changes]})


def run_apart(work):
    """Run a coroutine in a thread of its own: a browser's loop may be running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
