"""Worlds of episodes: the scripted household and the scripted clerk with noise, and their analysts.

Both analysts read transcripts as in a run of Skillwright: failures and successes in minibatches of
eight, merged, and the best supported edits kept. They see no earlier steps, as not every trainer
tells of them.
"""

import asyncio
import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from referee_study.worlds import MOST_EDITS, Item, Row
from skillwright.core import ChatModel, Edit, EpisodeResult, EpisodeSpec, PlainSkill, Task
from skillwright.core.seeds import derive_seed
from skillwright.envs import make
from skillwright.models import ChatAgent
from skillwright.rollout import LocalEngine
from skillwright.rollout.transcript import read_episodes
from skillwright.textopt import Optimizer, StepContext, StepSettings, TrainRollouts, propose
from skillwright.worlds.alfworld import generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst
from skillwright.worlds.scripted.clerk import ClerkAnalyst, ScriptedClerk, read_rules
from skillwright.worlds.scripted.skilltext import read_conduct, read_habits

VALUES = Path(__file__).with_name("household_values.jsonl")
MESSAGES = Path(__file__).parents[2] / "examples" / "table_data" / "messages.csv"
SEALED = 100
"""Test tasks; values of fewer household games are not kept."""
QUEUES = ("billing", "cancellation", "delivery", "login", "repair")


class Episodes(ABC):
    """Plays tasks of an environment with a scripted agent, and asks a scripted analyst."""

    env: str
    env_config: object | None = None
    agent: ChatModel
    analyst: ChatModel
    items: Mapping[str, Sequence[Item]]
    is_exact = True

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._seen: dict[tuple[str, str], EpisodeResult] = {}

    def play(
        self, skill: str, items: Sequence[Item], draws: Sequence[int], folder: Path
    ) -> list[Row]:
        """Play each task, and keep the latest transcript of each skill and task."""
        del folder
        results = self._played(skill, items, draws)
        rows = []
        for item, result in zip(items, results, strict=True):
            self._seen[skill, item["id"]] = result
            won = int(result.is_success(1.0))
            rows.append({"id": item["id"], "hard": won, "soft": float(won)})
            rows[-1]["task_type"] = item["task_type"]
        return rows

    def propose(self, skill: str, rows: Sequence[Row], number: int, folder: Path) -> list[Edit]:
        """Let the analysts read the episodes of a batch."""
        del folder
        read = read_episodes([self._seen[skill, row["id"]] for row in rows])
        seed = derive_seed("propose", self._seed, number)

        async def batch() -> TrainRollouts:
            return TrainRollouts(read, seed=seed)

        coming: Awaitable[TrainRollouts] = batch()
        context = StepContext(name="step", skill=skill, budget=MOST_EDITS, seed=seed)
        found = asyncio.run(propose(Optimizer(self.analyst), StepSettings(), context, [coming]))
        return [one.edit for one in found.selection.proposals]

    def _played(
        self, skill: str, items: Sequence[Item], draws: Sequence[int]
    ) -> list[EpisodeResult]:
        specs = [
            EpisodeSpec(
                Task(item["id"], self.env, item["extras"], item["task_type"]),
                seed=derive_seed("play", self._seed, item["id"], draw),
            )
            for item, draw in zip(items, draws, strict=True)
        ]
        engine = LocalEngine(
            ChatAgent(self.agent),
            lambda task: make(task.env, self.env_config, extras=dict(task.extras)),
        )
        return asyncio.run(engine.run(specs, PlainSkill(skill)))

    @abstractmethod
    def value(self, skill: str) -> float:
        """Return the true success rate on the sealed tasks."""


def _items(tasks: Sequence[Task]) -> list[Item]:
    return [
        {"id": task.id, "task_type": task.task_type, "extras": dict(task.extras)} for task in tasks
    ]


class Household(Episodes):
    """Generated houses; the agent takes a random admissible action in a share of its turns.

    The seed chooses the houses of train and val. The sealed ones are the same for all seeds, so
    that skills which state the same rules share one value: the mean of four draws of each game.
    """

    env = "alfworld"
    is_exact = False
    draws = 4

    def __init__(
        self, seed: int, *, noise: float = 0.2, sizes: Sequence[int] = (40, 40, SEALED)
    ) -> None:
        super().__init__(seed)
        self._noise = noise
        self.agent = ScriptedHousehold(noise)
        self.analyst = ScriptedAnalyst()
        train, val, test = sizes
        self.items = {
            "train": _items(generated_tasks("train", train, seed=seed + 1)),
            "val": _items(generated_tasks("val", val, seed=seed + 1)),
            "test": _items(generated_tasks("test", test)),
        }

    def value(self, skill: str) -> float:
        """Return the mean success over many draws, which are kept by what the skill states."""
        name = json.dumps([self._noise, len(self.items["test"]), self.draws, _statements(skill)])
        known = _known_values()
        if name not in known:
            kept, self._seed = self._seed, 0
            items = [item for item in self.items["test"] for _ in range(self.draws)]
            draws = [draw for _ in self.items["test"] for draw in range(self.draws)]
            won = [one.is_success(1.0) for one in self._played(skill, items, draws)]
            self._seed = kept
            known[name] = fmean(won)
            if len(self.items["test"]) == SEALED:
                with VALUES.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"skill": name, "value": known[name]}) + "\n")
        return known[name]


_VALUES: dict[str, float] = {}


def _known_values() -> dict[str, float]:
    if not _VALUES and VALUES.is_file():
        lines = map(json.loads, VALUES.read_text(encoding="utf-8").splitlines())
        _VALUES.update({line["skill"]: line["value"] for line in lines})
    return _VALUES


def _statements(skill: str) -> list[Any]:
    """Return all that the household agent reads of a skill."""
    stances = read_conduct(skill).stances
    rules = sorted((str(rule), stance.wanted) for rule, stance in stances.items())
    return [rules, [str(habit) for habit in read_habits(skill)]]


class Clerk(Episodes):
    """Messages of customers and their queues; the clerk gives a share of its answers at random."""

    env = "table"
    env_config: object = {
        "prompt": "{{ message }}\nAnswer with one of: " + ", ".join(QUEUES),
        "answer": "queue",
        "task_type": "queue",
    }

    def __init__(
        self, seed: int, *, noise: float = 0.3, sizes: Sequence[int] = (40, 40, SEALED)
    ) -> None:
        super().__init__(seed)
        self._noise = noise
        self.agent = ScriptedClerk(noise)
        self._sure = ScriptedClerk()
        self.analyst = ClerkAnalyst()
        with MESSAGES.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        Random(derive_seed("clerk", seed)).shuffle(rows)
        train, val, test = sizes
        ends = {"train": (0, train), "val": (train, train + val), "test": (train + val, None)}
        self.items = {
            split: [
                {
                    "id": f"{split}-{number:03d}",
                    "task_type": row["queue"],
                    "extras": {"row": {"id": f"{split}-{number:03d}", **row}},
                }
                for number, row in enumerate(rows[first:last][: test if split == "test" else None])
            ]
            for split, (first, last) in ends.items()
        }

    def value(self, skill: str) -> float:
        """Return the exact success rate: sure answers, and random ones among the queues."""
        items = self.items["test"]
        kept, self.agent = self.agent, self._sure
        won = fmean(one.is_success(1.0) for one in self._played(skill, items, [0] * len(items)))
        self.agent = kept
        by_chance = 0.0 if read_rules(skill).whole_sentences else 1 / len(QUEUES)
        return (1 - self._noise) * won + self._noise * by_chance
