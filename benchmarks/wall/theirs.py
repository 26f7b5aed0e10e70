"""SkillOpt's side of the job, in a process and a virtual environment of its own.

`theirs.py BASE_URL TASKS OUT`, with the `skillopt` package from PyPI. The adapter is as its guide
asks for: a thread pool of workers, a prediction folder per item, its own reflection. The last line
is a JSON object: seconds and CPU seconds of the training alone.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import job
from skillopt.datasets.base import SplitDataLoader
from skillopt.engine.trainer import ReflACTTrainer
from skillopt.envs.base import EnvAdapter
from skillopt.model import chat_target


class Letters(EnvAdapter):
    """One question, one answer."""

    analyst_workers = job.ANALYSTS
    failure_only = False
    minibatch_size = job.MINIBATCH
    edit_budget = job.BUDGET

    def __init__(self, tasks: str) -> None:
        self._loader = SplitDataLoader(split_dir=tasks, split_mode="split_dir", seed=job.SEED)

    def setup(self, cfg: dict) -> None:
        """Read the items."""
        super().setup(cfg)
        self._loader.setup(cfg)

    def get_dataloader(self) -> SplitDataLoader:
        """Return the items."""
        return self._loader

    def build_env_from_batch(self, batch, **kwargs) -> list[dict]:
        """Play the items of a batch."""
        return list(batch.payload or [])

    def build_train_env(self, batch_size: int, seed: int, **kwargs) -> list[dict]:
        """Draw items to train on."""
        return self.build_env_from_batch(self._loader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs) -> list[dict]:
        """Take the items of a split."""
        return self.build_env_from_batch(self._loader.build_eval_batch(env_num, split, seed))

    def rollout(self, env_manager: list[dict], skill_content: str, out_dir: str, **kwargs):
        """Ask all items at once, by a thread each, and return their rows in order."""
        system = job.INSTRUCTIONS
        if skill_content.strip():
            system = f"{system}\n\n## Skill\n\n{skill_content}"

        def play(item: dict) -> dict:
            asked = job.question(item["id"], item["question"])
            answer, _ = chat_target(system=system, user=asked, stage="rollout")
            right = int(answer.strip() == item["answer"])
            folder = Path(out_dir) / "predictions" / item["id"]
            folder.mkdir(parents=True, exist_ok=True)
            turns = [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": answer},
                {"role": "user", "content": "Right." if right else "Wrong."},
            ]
            (folder / "conversation.json").write_text(json.dumps(turns), encoding="utf-8")
            return {
                "id": item["id"],
                "hard": right,
                "soft": float(right),
                "task_type": item["task_type"],
                "task_description": asked,
                "fail_reason": "" if right else "wrong letter",
                "n_turns": 1,
            }

        with ThreadPoolExecutor(job.WORKERS) as pool:
            rows = list(pool.map(play, env_manager))
        lines = [json.dumps(row) for row in rows]
        (Path(out_dir) / "results.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return rows

    def get_task_types(self) -> list[str]:
        """Name the task types."""
        return ["letters"]


def settings(base_url: str, out: str) -> dict:
    """Return the flat configuration, its defaults where they are not named."""
    return {
        "out_root": out,
        "skill_init": str(Path(out) / "no-initial-skill.md"),
        "seed": job.SEED,
        "num_epochs": job.EPOCHS,
        "batch_size": job.BATCH,
        "accumulation": 1,
        "train_size": 0,
        "merge_batch_size": 8,
        "edit_budget": job.BUDGET,
        "min_edit_budget": job.MIN_BUDGET,
        "lr_scheduler": "cosine",
        "analyst_workers": job.ANALYSTS,
        "sel_env_num": job.COUNTS["val"],
        "test_env_num": job.COUNTS["test"],
        "eval_test": True,
        "use_slow_update": True,
        "slow_update_samples": job.SLOW_SAMPLES,
        "use_meta_skill": True,
        "optimizer_backend": "openai_chat",
        "target_backend": "openai_chat",
        "optimizer_model": "optimizer",
        "target_model": "target",
        "azure_openai_endpoint": base_url,
        "azure_openai_api_key": "none",
        "azure_openai_auth_mode": "openai_compatible",
    }


def main(base_url: str, tasks: str, out: str) -> None:
    """Train once, and say how long it took."""
    adapter = Letters(tasks)
    started, cpu = time.perf_counter(), time.process_time()
    ReflACTTrainer(settings(base_url, out), adapter).train()
    figures = {
        "train_s": time.perf_counter() - started,
        "train_cpu_s": time.process_time() - cpu,
        "actions": [row["action"] for row in json.loads((Path(out) / "history.json").read_text())],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:4])
