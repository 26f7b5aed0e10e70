"""A complete benchmark of SkillOpt's shape: send support tickets to the right queue.

    skillwright train examples/tickets.yaml

It runs offline, without a key: the clerk who reads the skill is a small program in the place of
your agent, and so is the analyst of `TicketsOffline`. No ticket says which queue it belongs to;
each subject has a habit of its own, and those sentences are the skill to be found.
"""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from skillwright.datasets import BatchSpec, SplitDataLoader
from skillwright.envs import EnvAdapter

Item = dict[str, Any]
Row = dict[str, Any]

FRONT_DESK = "front desk"
RULE = re.compile(r"Send tickets about (\w+) to ([\w ]+)\.")


class Tickets(EnvAdapter):
    """Tickets with a subject and a text; the answer is the name of a queue.

    Args:
        split_dir: A folder with ``train``, ``val`` and ``test``; ``env.data.path`` says which.
        workers: Tickets that are answered at once.
    """

    def __init__(self, split_dir: str, workers: int = 4) -> None:
        self._loader = SplitDataLoader(split_dir=split_dir, split_mode="split_dir")
        self._workers = workers

    def get_dataloader(self) -> SplitDataLoader:
        """Return what reads the items and plans batches of them."""
        return self._loader

    def get_task_types(self) -> list[str]:
        """Return the subjects; results are broken down by them."""
        return ["invoice", "login", "parcel", "screen"]

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> list[Item]:
        """Return the very items of a batch. What comes back is what `rollout` is given."""
        return list(cast("Sequence[Item]", batch.payload))

    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> list[Item]:
        """Return items that a seed chooses, for trainers that plan no batches."""
        return self.build_env_from_batch(self._loader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> list[Item]:
        """Return the first items of a split; 0 is all of them."""
        return self.build_env_from_batch(self._loader.build_eval_batch(env_num, split, seed))

    def rollout(
        self, env_manager: Sequence[Item], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row]:
        """Answer every ticket with a skill. A ticket that a fault ended has no row."""
        predictions = Path(out_dir) / "predictions"
        with ThreadPoolExecutor(self._workers) as pool:
            return list(
                pool.map(lambda item: self._play(item, skill_content, predictions), env_manager)
            )

    def build_reference_text(self, item: Mapping[str, Any]) -> str:
        """Return what analysts may know and the clerk may not."""
        return f"The right queue is {item['queue']}."

    def _play(self, item: Item, skill: str, predictions: Path) -> Row:
        answer = clerk(skill, item["text"])  # your agent stands here
        passed = answer == item["queue"]
        verdict = "Solved there." if passed else f"{answer} cannot help."
        said = [
            {"role": "user", "content": item["text"]},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": verdict},
        ]
        folder = predictions / item["id"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
        return {
            "id": item["id"],
            "hard": int(passed),
            "soft": 1.0 if passed else 0.5 if answer == FRONT_DESK else 0.0,
            "task_type": item["task_type"],
            "task_description": item["text"],
            "predicted_answer": answer,
            "n_turns": 1,
            "fail_reason": "" if passed else f"wrong queue: {answer}",
        }


class TicketsOffline(Tickets):
    """The same benchmark with an analyst of its own, so that no optimizer is asked."""

    def reflect(
        self, results: list[Row], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row | None]:
        """Propose a rule for the subject that failed most often, if there is one."""
        lost = [row for row in results if not row["hard"]]
        if not lost:
            return []
        subjects = [row["task_type"] for row in lost]
        worst = max(sorted(set(subjects)), key=subjects.count)
        seen = [row for row in lost if row["task_type"] == worst]
        queue = seen[0]["reference_text"].removeprefix("The right queue is ")
        edit = {"op": "append", "content": f"Send tickets about {worst} to {queue}"}
        return [
            {
                "patch": {"edits": [edit], "reasoning": f"{worst} failed {len(seen)} times"},
                "source_type": "failure",
                "ids": [row["id"] for row in seen],
            }
        ]


def clerk(skill: str, ticket: str) -> str:
    """Return the queue that the skill names for a subject of the ticket, or the front desk."""
    rules = dict(RULE.findall(skill))
    return next((queue for subject, queue in rules.items() if subject in ticket), FRONT_DESK)
