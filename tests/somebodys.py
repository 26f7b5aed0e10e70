"""Benchmarks as somebody else writes them: rooms with doors, whose rules the skill must know.

config = adapter_config(tmp_path, Documented)         # 12 train, 24 val, 12 test episodes
path, report = await trained(config, Walker(), Coach([[ALL_RULES]]))
rollouts()                                            # every folder that was rolled out
"""

import asyncio
import json
import random
import threading
from pathlib import Path
from typing import Any

from doors import ROOMS, doors_settings, rule, write_tasks
from skillwright.config import RunConfig
from skillwright.config.run import validated
from skillwright.datasets import SplitDataLoader
from skillwright.envs import EnvAdapter

CALLS: list[tuple[str, dict[str, Any]]] = []
"""What adapters were asked, as (method, facts), since the latest `adapter_config`."""


def rollouts() -> list[str]:
    """Return the folders that were rolled out, below the adapter's own, in order."""
    return [facts["folder"] for method, facts in CALLS if method == "rollout"]


def played(item: dict[str, Any], skill: str, out_dir: str) -> dict[str, Any]:
    """Play one episode: the door opens to whom the skill says which one it is."""
    passed = rule(item["room"]) in skill
    folder = Path(out_dir) / "predictions" / str(item["id"])
    folder.mkdir(parents=True, exist_ok=True)
    said = [
        {"role": "user", "content": f"You are in the {item['room']}."},
        {"role": "assistant", "content": "I take the door of the rule." if passed else "I guess."},
        {"role": "user", "content": "It opens." if passed else "It is locked."},
    ]
    (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
    return {
        "id": item["id"],
        "hard": int(passed),
        "soft": 1.0 if passed else 0.25,
        "task_type": item["room"],
        "room": item["room"],
        "n_turns": 1,
        "fail_reason": "" if passed else "locked: the door did not open",
    }


def noted(method: str, **facts: Any) -> None:
    """Write down a call, and in which thread it came."""
    CALLS.append((method, {**facts, "thread": threading.current_thread().name}))


def below(out_dir: str) -> str:
    """Return a folder without the run's part of it."""
    return out_dir.partition("/adapter/")[2]


class RoomsLoader(SplitDataLoader):
    """As the page shows it: only the reading of a split is its own."""

    def load_split_items(self, split_path: str) -> list[dict[str, Any]]:
        """Read the items, with what only analysts may know."""
        text = (Path(split_path) / "items.json").read_text(encoding="utf-8")
        return [{**item, "reference_text": rule(item["room"])} for item in json.loads(text)]


class Documented(EnvAdapter):
    """As the older reference documents it: the five methods, a loader, and nothing else."""

    def __init__(self, split_dir: str, workers: int = 4) -> None:
        noted("init", split_dir=split_dir, workers=workers)
        self.loader = RoomsLoader(split_dir=split_dir, split_mode="split_dir")

    def setup(self, cfg):
        super().setup(cfg)
        noted("setup", cfg=dict(cfg))

    def get_dataloader(self):
        return self.loader

    def build_train_env(self, batch_size, seed, **kwargs):
        return list(self.loader.build_train_batch(batch_size, seed).payload)

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return list(self.loader.build_eval_batch(env_num, split, seed).payload)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        noted("rollout", folder=below(out_dir), skill=skill_content, **kwargs)
        return [played(item, skill_content, out_dir) for item in env_manager]

    def reflect(self, results, skill_content, out_dir, **kwargs):
        noted("reflect", folder=below(out_dir), rows=results, **kwargs)
        lost = sorted({row["room"] for row in results if not row["hard"]})
        edits = [{"op": "append", "content": rule(room)} for room in lost]
        return [None, {"patch": {"edits": edits}, "source_type": "failure"}] if edits else []

    def get_task_types(self):
        return list(ROOMS)


class Chosen(Documented):
    """Rolls out the very items of a batch, as most benchmarks with data do."""

    def build_env_from_batch(self, batch, **kwargs):
        noted("build_env_from_batch", **kwargs)
        return list(batch.payload)


class Seeded(EnvAdapter):
    """Of the later release: no reflect, no loader; seeds choose the episodes."""

    def build_train_env(self, batch_size, seed, **kwargs):
        rng = random.Random(seed)
        return {"split": "train", "rooms": [rng.choice(list(ROOMS)) for _ in range(batch_size)]}

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return {"split": split, "rooms": list(ROOMS) * 8 if env_num == 0 else list(ROOMS)[:env_num]}

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        noted("rollout", folder=below(out_dir), skill=skill_content, **kwargs)
        return [
            played({"id": f"{env_manager['split']}-{at}", "room": room}, skill_content, out_dir)
            for at, room in enumerate(env_manager["rooms"])
        ]

    def get_task_types(self):
        return []


class Awaited(Chosen):
    """Written for an event loop: rollout and reflect are asynchronous."""

    async def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        noted("rollout", folder=below(out_dir), skill=skill_content, **kwargs)

        async def one(item):
            await asyncio.sleep(0)
            return played(item, skill_content, out_dir)

        return await asyncio.gather(*map(one, env_manager))  # noqa: TID251 - somebody else's code

    async def reflect(self, results, skill_content, out_dir, **kwargs):
        await asyncio.sleep(0)
        return super().reflect(results, skill_content, out_dir, **kwargs)


def adapter_settings(folder: Path, adapter: type[EnvAdapter], **sections: Any) -> dict[str, Any]:
    """Return settings of a run of an adapter of this module, or of another one."""
    CALLS.clear()
    settings = doors_settings(folder)
    has_data = issubclass(adapter, Documented)
    tasks = folder / "tasks"
    settings["env"] = {
        "name": f"{adapter.__module__}:{adapter.__name__}",
        "config": {"split_dir": str(tasks.resolve())} if has_data else {},
        "data": {"kind": "adapter"} if has_data else {"kind": "adapter", "train": 12},
    }
    for name, values in sections.items():
        settings[name] = {**settings.get(name, {}), **values}
    return settings


def adapter_config(folder: Path, adapter: type[EnvAdapter], **sections: Any) -> RunConfig:
    """Return the configuration of a run, some keys of its sections changed."""
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks")
    return validated(adapter_settings(folder, adapter, **sections), "adapter")
