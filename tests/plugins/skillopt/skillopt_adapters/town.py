# As somebody else writes it.
# ruff: noqa: PTH103, PTH118, PTH123
"""A benchmark that plays itself, without chance: an errand goes as the skill's last rule says."""

import json
import os
import re

from skillopt.datasets.base import SplitDataLoader
from skillopt.envs.base import EnvAdapter

SOFT = {"done": 1.0, "half": 0.5, "lost": 0.0}


def outcome(item, skill):
    """Say how an errand ends: no rule does for easy ones only, and hard ones are never done."""
    rules = re.findall(rf"^- {item['kind']}: (right|nearly|wrong)$", skill, re.MULTILINE)
    if not rules:
        return "done" if item["level"] == 0 else "lost"
    if rules[-1] == "right":
        return "half" if item["level"] == 3 else "done"
    return "half" if rules[-1] == "nearly" else "lost"


class TownAdapter(EnvAdapter):
    def __init__(
        self,
        split_dir: str = "",
        split_mode: str = "split_dir",
        analyst_workers: int = 1,
        failure_only: bool = False,
        minibatch_size: int = 8,
        edit_budget: int = 4,
        seed: int = 42,
    ) -> None:
        self.analyst_workers = analyst_workers
        self.failure_only = failure_only
        self.minibatch_size = minibatch_size
        self.edit_budget = edit_budget
        self.loader = SplitDataLoader(split_dir=split_dir, split_mode=split_mode, seed=seed)

    def setup(self, cfg):
        super().setup(cfg)
        self.loader.setup(cfg)

    def get_dataloader(self):
        return self.loader

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size, seed, **kwargs):
        return list(self.loader.build_train_batch(batch_size=batch_size, seed=seed).payload)

    def build_eval_env(self, env_num, split, seed, **kwargs):
        batch = self.loader.build_eval_batch(env_num=env_num, split=split, seed=seed)
        return list(batch.payload)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = []
        for item in env_manager:
            end = outcome(item, skill_content)
            said = f"{'WON' if end == 'done' else 'LOST'}-{item['kind']}"
            folder = os.path.join(out_dir, "predictions", item["id"])
            os.makedirs(folder, exist_ok=True)
            told = [
                {"role": "user", "content": f"Errand {item['id']}."},
                {"role": "assistant", "content": end},
                {"role": "user", "content": said},
            ]
            with open(os.path.join(folder, "conversation.json"), "w", encoding="utf-8") as file:
                json.dump(told, file)
            rows.append(
                {
                    "id": item["id"],
                    "hard": int(end == "done"),
                    "soft": SOFT[end],
                    "task_type": item["kind"],
                    "task_description": f"Errand {item['id']}.",
                    "fail_reason": "" if end == "done" else said,
                    "n_turns": 1,
                }
            )
        return rows

    def get_task_types(self):
        return [f"k{number}" for number in range(8)]
