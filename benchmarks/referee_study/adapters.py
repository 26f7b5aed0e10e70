"""A world as a benchmark of SkillOpt's interface, which Skillwright trains too.

Only the base classes differ. Edits of a step come as one patch within the edit budget, so that no
trainer asks a model to merge or rank them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from referee_study.worlds import Bench, Item, Row
from skillwright.envs import EnvAdapter

OPEN: dict[str, Bench] = {}
"""Benches by name: configurations hold text only."""


def write_items(items: Mapping[str, Sequence[Item]], folder: Path) -> None:
    """Write the tasks as a trainer's loader reads them; no trainer opens test, which is sealed."""
    for split, of_split in items.items():
        (folder / split).mkdir(parents=True)
        shown = of_split[:1] if split == "test" else of_split
        (folder / split / "items.json").write_text(json.dumps(list(shown)), encoding="utf-8")


class Methods:
    """The methods of an adapter, over a bench and a loader of items."""

    bench: Bench
    loader: Any

    def get_dataloader(self) -> Any:
        """Return the loader of the items."""
        return self.loader

    def build_env_from_batch(self, batch: Any, **kwargs: Any) -> list[Item]:
        """Return the items of a batch."""
        del kwargs
        return list(batch.payload)

    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> list[Item]:
        """Return items that a seed chooses."""
        del kwargs
        return self.build_env_from_batch(self.loader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> list[Item]:
        """Return the first items of a split; 0 means all."""
        del kwargs
        return self.build_env_from_batch(self.loader.build_eval_batch(env_num, split, seed))

    def rollout(
        self, env_manager: Sequence[Item], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row]:
        """Play a batch."""
        del kwargs
        return self.bench.play(skill_content, env_manager, Path(out_dir))

    def reflect(
        self, results: Sequence[Row], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Any]:
        """Return the optimizer's edits as one patch."""
        folder = Path(kwargs.get("prediction_dir") or Path(out_dir) / "predictions").parent
        edits = self.bench.propose(skill_content, results, folder)
        listed = [{"op": e.op, "content": e.content, "target": e.target} for e in edits]
        return [{"patch": {"edits": listed}, "source_type": "failure"}] if listed else [None]

    def get_task_types(self) -> list[str]:
        """Return the types of the train tasks."""
        return sorted({item["task_type"] for item in self.bench.world.items["train"]})


class RefereeAdapter(Methods, EnvAdapter):
    """The adapter that Skillwright trains."""

    def __init__(self, bench: str, split_dir: str) -> None:
        from skillwright.datasets import SplitDataLoader

        self.bench = OPEN[bench]
        self.loader = SplitDataLoader(split_dir=split_dir, split_mode="split_dir")
