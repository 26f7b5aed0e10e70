"""A benchmark and a loader written from the API reference alone walk through a step."""

import json
from pathlib import Path

from skillwright.core import RawPatch, RolloutResult, apply_patch
from skillwright.datasets import SplitDataLoader
from skillwright.envs import EnvAdapter
from skillwright.evaluation import compute_score, evaluate_gate

LESSON = {"op": "append", "content": "Always carry."}


class SumsLoader(SplitDataLoader):
    def load_split_items(self, split_path: str) -> list[dict]:
        lines = (Path(split_path) / "data.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


class SumsAdapter(EnvAdapter):
    def __init__(self, split_dir):
        self.loader = SumsLoader(split_dir=split_dir, split_mode="split_dir")

    def setup(self, cfg):
        self.loader.setup(cfg)

    def get_dataloader(self):
        return self.loader

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.loader.build_train_batch(batch_size, seed).payload

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.loader.build_eval_batch(env_num, split, seed).payload

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        passed = int("carry" in skill_content)
        return [
            {"id": item["id"], "hard": passed, "soft": 0.5, "digits": item["digits"]}
            for item in env_manager
        ]

    def reflect(self, results, skill_content, out_dir, **kwargs):
        failed = [row for row in results if not row["hard"]]
        return [None, {"patch": {"edits": [LESSON]}, "source_type": "failure"}] if failed else []

    def get_task_types(self):
        return ["sum"]


def test_an_adapter_and_a_loader_written_from_the_page_walk_through_a_step(tmp_path):
    for split, count in (("train", 6), ("val", 3), ("test", 3)):
        (tmp_path / split).mkdir()
        rows = [json.dumps({"id": f"{split}{i}", "digits": i}) for i in range(count)]
        (tmp_path / split / "data.jsonl").write_text("\n".join(rows), encoding="utf-8")
    adapter = SumsAdapter(str(tmp_path))
    adapter.setup({"env": "sums"})

    batch, _ = adapter.get_dataloader().plan_train_epoch(
        epoch=1, steps_per_epoch=2, accumulation=1, batch_size=3, seed=42, out_root="out"
    )
    env = adapter.build_env_from_batch(batch, out_root="out")
    rows = adapter.rollout(env, "", "out/rollout", use_eval_feedback=True)
    assert [RolloutResult.from_dict(row).extras["digits"] for row in rows] == [
        item["digits"] for item in batch.payload
    ]

    raw = adapter.reflect(rows, "", "out", prediction_dir="out/rollout", random_seed=batch.seed)
    dropped, patch = [RawPatch.from_dict(one) for one in raw]
    assert (dropped, patch.source_type) == (None, "failure")
    candidate = apply_patch("# Sums", patch.patch)
    assert candidate == "# Sums\n\nAlways carry.\n"

    held_out = adapter.build_eval_env(0, "valid_seen", 42)
    scores = [
        compute_score(adapter.rollout(held_out, skill, "out"))[0] for skill in ("# Sums", candidate)
    ]
    result = evaluate_gate(candidate, scores[1], "# Sums", scores[0], "# Sums", scores[0], 0, 1)
    assert (result.action, result.current_skill) == ("accept_new_best", candidate)
