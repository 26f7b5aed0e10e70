# As somebody else writes it.
# ruff: noqa: PTH110, PTH118, PTH123, BLE001
"""Adapters that continue from files of their own, score what they catch, or ask in processes."""

import json
import multiprocessing
import os

from skillopt.datasets.base import SplitDataLoader
from skillopt.envs.base import EnvAdapter
from skillopt.model import chat_target, get_target_backend, is_target_exec_backend


class Rereading(EnvAdapter):
    """Scores what it catches as a silent zero, and continues from its results.jsonl."""

    def __init__(self, split_dir: str = ""):
        self.dataloader = SplitDataLoader(split_dir=split_dir, split_mode="split_dir")

    def setup(self, cfg):
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload)

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.dataloader.build_train_batch(batch_size, seed).payload

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.dataloader.build_eval_batch(env_num, split, seed).payload

    def get_task_types(self):
        return []

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        path, done = os.path.join(out_dir, "results.jsonl"), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                done = {row["id"]: row for row in map(json.loads, file)}
        with open(path, "a", encoding="utf-8") as file:
            for number, item in enumerate(env_manager):
                if item["id"] not in done:
                    row = self._one(number, item, skill_content)
                    done[row["id"]] = row
                    file.write(json.dumps(row) + "\n")
                    file.flush()
        return [done[item["id"]] for item in env_manager]

    def _one(self, number, item, skill):
        why = ""
        try:
            text = chat_target(skill, f"You are in the {item['room']}. Name a door.")[0]
        except Exception as error:
            text, why = "", self._said(number, error)
        hard = int(text.strip() == str(item["door"]))
        return {"id": item["id"], "hard": hard, "soft": float(hard), "fail_reason": why}

    def _said(self, number, error):
        return "the agent failed"


class HalfTelling(Rereading):
    """Quotes the fault in every other row."""

    def _said(self, number, error):
        return str(error) if number % 2 else "the agent failed"


class Letting(Rereading):
    """Lets a fault out, and continues where it stopped."""

    def _said(self, number, error):
        raise error


def ask_in_a_process(asked):
    try:
        return chat_target(*asked)[0]
    except Exception:
        return ""


class Forking(Rereading):
    """Asks in processes of its own, in which it scores what it catches."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        asked = [(skill_content, f"You are in the {item['room']}.") for item in env_manager]
        with multiprocessing.get_context("fork").Pool(1) as pool:
            said = pool.map(ask_in_a_process, asked)
        return [
            {"id": item["id"], "hard": 0, "soft": 0.0, "said": text}
            for item, text in zip(env_manager, said, strict=True)
        ]


class Informed(Rereading):
    """Reads which model it will ask when it is built and set up; asks it there if told to."""

    def __init__(self, split_dir: str = "", early: bool = False):
        super().__init__(split_dir)
        self.early = early
        assert not is_target_exec_backend()

    def setup(self, cfg):
        super().setup(cfg)
        assert get_target_backend() == cfg["target_backend"]
        if self.early:
            chat_target("", "now")
