# As somebody else writes it.
# ruff: noqa: PTH103, PTH118, PTH123, BLE001, E501
"""A benchmark exactly as SkillOpt's API reference documents one: all five methods, an own loader."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

from skillopt.datasets.base import BaseDataLoader, BatchSpec, SplitDataLoader
from skillopt.envs.base import EnvAdapter
from skillopt.model import chat_optimizer, chat_target
from skillopt.types import Edit, Patch


class RoomsLoader(SplitDataLoader):
    def load_split_items(self, split_path: str) -> list[dict]:
        with open(os.path.join(split_path, "items.json"), encoding="utf-8") as file:
            return json.load(file)


class RoomsAdapter(EnvAdapter):
    def __init__(
        self, split_dir: str = "", workers: int = 4, seed: int = 42, limit: int = 0, **kwargs
    ):
        self.workers = workers
        self.dataloader = RoomsLoader(
            split_dir=split_dir, split_mode="split_dir", seed=seed, limit=limit
        )

    def setup(self, cfg: dict) -> None:
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self) -> BaseDataLoader | None:
        return self.dataloader

    def build_env_from_batch(self, batch: BatchSpec, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size: int, seed: int, **kwargs):
        batch = self.dataloader.build_train_batch(batch_size=batch_size, seed=seed, **kwargs)
        return self.build_env_from_batch(batch)

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs):
        batch = self.dataloader.build_eval_batch(env_num=env_num, split=split, seed=seed, **kwargs)
        return self.build_env_from_batch(batch)

    def rollout(self, env_manager, skill_content: str, out_dir: str, **kwargs) -> list[dict]:
        from skillopt.utils import skill_hash  # late, as many do

        assert len(skill_hash(skill_content)) == 16
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            return list(pool.map(lambda item: self._one(item, skill_content, out_dir), env_manager))

    def reflect(self, results, skill_content: str, out_dir: str, **kwargs) -> list[dict | None]:
        lost = sorted({row["room"] for row in results if not row["hard"]})
        if not lost:
            return [None]
        text, usage = chat_optimizer("Name the doors.", ", ".join(lost), stage="analyst")
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        patch = Patch(edits=[Edit("append", line) for line in text.splitlines()], reasoning="seen")
        return [None, {"patch": patch.to_dict(), "source_type": "failure"}]

    def get_task_types(self) -> list[str]:
        return ["attic", "cellar", "hall"]

    def _one(self, item: dict, skill: str, out_dir: str) -> dict:
        folder = os.path.join(out_dir, "predictions", str(item["id"]))
        os.makedirs(folder, exist_ok=True)
        text, _ = chat_target(skill, f"You are in the {item['room']}. Name a door.")
        passed = text.strip() == str(item["door"])
        said = [
            {"role": "user", "content": f"You are in the {item['room']}."},
            {"role": "assistant", "content": text},
        ]
        with open(os.path.join(folder, "conversation.json"), "w", encoding="utf-8") as file:
            json.dump(said, file)
        return {
            "id": str(item["id"]),
            "hard": int(passed),
            "soft": 1.0 if passed else 0.0,
            "room": item["room"],
            "task_type": item["room"],
            "fail_reason": "" if passed else "locked: it did not open",
        }


class Swallowing(RoomsAdapter):
    """Scores what it catches as a zero, as many do."""

    def _one(self, item, skill, out_dir):
        try:
            return super()._one(item, skill, out_dir)
        except Exception as error:
            told = {} if item["id"] == "silent" else {"fail_reason": f"error: {error}"}
            return {"id": str(item["id"]), "hard": 0, "soft": 0.0, "room": item["room"], **told}
