# As somebody else writes it.
# ruff: noqa: PTH103, PTH110, PTH118, PTH123
"""A benchmark as SkillOpt's later release documents one: no `reflect`, a helper per rollout."""

import json
import os

from skillopt.datasets.base import SplitDataLoader
from skillopt.envs.base import EnvAdapter


class RoomsAdapter(EnvAdapter):
    def __init__(
        self,
        split_dir: str = "",
        data_path: str = "",
        split_mode: str = "ratio",
        split_ratio: str = "2:1:7",
        split_seed: int = 42,
        split_output_dir: str = "",
        workers: int = 4,
        analyst_workers: int = 16,
        failure_only: bool = False,
        minibatch_size: int = 8,
        edit_budget: int = 4,
        max_completion_tokens: int = 64,
        seed: int = 42,
        limit: int = 0,
    ) -> None:
        self.analyst_workers = analyst_workers
        self.failure_only = failure_only
        self.minibatch_size = minibatch_size
        self.edit_budget = edit_budget
        self.max_completion_tokens = max_completion_tokens
        self.dataloader = SplitDataLoader(
            split_dir=split_dir,
            data_path=data_path,
            split_mode=split_mode,
            split_ratio=split_ratio,
            split_seed=split_seed,
            split_output_dir=split_output_dir,
            seed=seed,
            limit=limit,
        )

    def setup(self, cfg: dict) -> None:
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_eval_batch(env_num, split, seed))

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        from skillopt.model import chat_target_messages, get_target_backend, is_target_exec_backend

        assert get_target_backend() == "openai_chat"
        assert not is_target_exec_backend()
        done = {}
        path = os.path.join(out_dir, "results.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                done = {row["id"]: row for row in map(json.loads, file)}
        with open(path, "a", encoding="utf-8") as file:
            for item in env_manager:
                if item["id"] in done:
                    continue
                asked = [
                    {"role": "system", "content": skill_content},
                    {"role": "user", "content": f"You are in the {item['room']}. Name a door."},
                ]
                message, _ = chat_target_messages(
                    asked, max_completion_tokens=self.max_completion_tokens, return_message=True
                )
                passed = message.content.strip() == str(item["door"])
                folder = os.path.join(out_dir, "predictions", item["id"])
                os.makedirs(folder, exist_ok=True)
                said = [*asked[1:], {"role": "assistant", "content": message.content}]
                with open(os.path.join(folder, "conversation.json"), "w", encoding="utf-8") as told:
                    json.dump(said, told)
                row = {"id": item["id"], "hard": int(passed), "soft": float(passed), "n_turns": 1}
                row["fail_reason"] = "" if passed else "locked: it did not open"
                done[item["id"]] = row
                file.write(json.dumps(row) + "\n")
        return [done[item["id"]] for item in env_manager]

    def get_task_types(self):
        return []
