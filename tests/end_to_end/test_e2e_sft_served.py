"""Weights in, weights out: sft, rl, saved, served by another program, evaluated over HTTP."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hf_world import hf_config, write_tiny
from rl_world import recipe
from skillwright.config.run import validated
from skillwright.jobs import EvalPlan, NullCallback, run_evaluation, start_run
from skillwright.jobs.weights import supervised
from skillwright.jobs.weights.saving import save_run_policy
from skillwright.runs import RunStore

pytestmark = pytest.mark.heavy
LORA = {"lora": {"rank": 4, "alpha": 8}}


@contextmanager
def serving(folder):
    """Serve a saved folder by the command line of transformers; its process ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if "Uvicorn running on" in line:
                    break
            else:
                pytest.fail(f"it did not start: {''.join(said)}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


async def evaluated(folder, config, url):
    """Evaluate what is served at an address on the test tasks of a run; return its answers."""
    settings = config.model_dump(mode="json")
    chat = {"backend": "openai_chat", "base_url": url, "api_key": "none", "model": str(folder)}
    own = {"temperature": 0, "max_tokens": settings["policy"]["max_new_tokens"]}
    plain = validated(
        {
            "run": {"name": "served", "root": settings["run"]["root"]},
            "env": settings["env"],
            "models": {"target": chat | own, "optimizer": chat},
            "rollout": {"max_concurrent": 1},
        },
        "served",
    )
    plan = EvalPlan(split="test", trials=1)
    with start_run(plain, "", plan) as run:
        report = await run_evaluation(run, plan, NullCallback())
        assert report.table.overall.failures == 0
        return answers(run.folder.path, None)


def answers(path, phase):
    """Return what was answered in each episode of a phase, by task.

    Without the blanks at its end: the server leaves them out of an answer that is cut off.
    """
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        played = {one.task_id: store.load_episode(one.id) for one in store.episodes(phase=phase)}
    return {
        task: [turn.act.text.rstrip() for turn in one.trajectory.turns]
        for task, one in played.items()
    }


@pytest.mark.parametrize("lora", [{}, LORA], ids=["full", "lora"])
async def test_what_was_trained_answers_the_same_where_another_program_serves_it(tmp_path, lora):
    base = write_tiny(tmp_path / "base")
    config = supervised(hf_config(tmp_path, base, run={"name": "sft"}, policy=lora))
    taught, _ = await recipe(config)
    config = hf_config(
        tmp_path,
        base,
        run={"name": "rl"},
        policy={"start": str(taught), **lora},
        cold_start={"steps": 25 if lora else 5},  # an adapter learns more slowly
        evaluation={"select": "last"},
    )
    path, report = await recipe(config)
    assert report.iteration == 1
    saved = save_run_policy(path, tmp_path / "saved", which="final")
    assert "Sealed test" in (saved.path / "README.md").read_text(encoding="utf-8")
    # The final weights are played last, after those of the cold start.
    tested = answers(path, "test")
    with serving(saved.path) as url:
        over_http = await evaluated(saved.path, config, url)
    assert over_http == tested
    assert any("take door" in text for texts in tested.values() for text in texts)
