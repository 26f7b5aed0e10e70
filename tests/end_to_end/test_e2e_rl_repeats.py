"""One seed, one run: the weights that come out hang on neither cores, nor load, nor threads."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from rl_world import story

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a processor"
    ),
]

CONFIG = """
env: {data: {kind: households, train: 48, val: 12, test: 6, homes: 2}}
models:
  base: {backend: scripted, model: searcher}
  teacher: {backend: scripted, model: household_teacher}
  expert: {backend: scripted, model: searcher}
distill: {max_turns: 50}
cold_start: {tasks: 24, steps: 6, batch_rows: 64, learning_rate: 0.004}
grpo: {iterations: 2, tasks_per_iteration: 8, group_size: 4, learning_rate: 0.0005}
evaluation: {gate: {kind: strict}, val_every: 2}
"""


@contextmanager
def busy_processors():
    """Keep two processors busy meanwhile."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def played(folder, threads, *, processors=None):
    """Run the recipe in a process of its own; return all that it measured, and its weights."""
    folder.mkdir()
    (folder / "small.yaml").write_text(CONFIG, encoding="utf-8")
    pinned = f"import os; os.sched_setaffinity(0, {processors}); " if processors else ""
    code = f"{pinned}from skillwright.cli.app import app; app(['rl', 'small.yaml'])"
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True)
    run = folder / "runs" / "small"
    weights = {one.name: one.read_bytes() for one in (run / "checkpoints").iterdir()}
    return story(run), weights


def test_two_runs_under_unlike_load_and_processors_have_equal_weights(tmp_path):
    with busy_processors():
        busy = played(tmp_path / "busy", "4")
    alone = played(tmp_path / "alone", "1", processors={min(os.sched_getaffinity(0))})
    assert busy[1]
    assert busy == alone
