"""Noisy agents, their tasks and an optimizer; the true success rate of a skill is known.

A world is the same for every trainer: equal tasks, and an optimizer whose replies follow from the
skill, the batch and the number of the call. Each play of a task is random on its own.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from skillwright.core import Edit, Patch, apply_patch
from skillwright.core.jsonio import text_digest
from skillwright.core.seeds import derive_seed

Item = dict[str, Any]
Row = dict[str, Any]
SPLITS = ("train", "val", "test")
MOST_EDITS = 4
"""Edits per step, constant in a run: the learning rate that SkillOpt and Skillwright start with."""


class World(Protocol):
    """Tasks, an agent, and an optimizer of its skill."""

    items: Mapping[str, Sequence[Item]]
    """The tasks by split; those of ``test`` are sealed, and only `value` reads them."""
    is_exact: bool
    """Whether `value` is computed; else it is drawn, which takes seconds."""

    def play(
        self, skill: str, items: Sequence[Item], draws: Sequence[int], folder: Path
    ) -> list[Row]:
        """Play each task once; ``draws`` numbers the plays of equal task and skill.

        Returns:
            A row per task, with ``id``, ``hard`` (0 or 1), ``soft`` and ``task_type``.
        """
        ...

    def propose(self, skill: str, rows: Sequence[Row], number: int, folder: Path) -> list[Edit]:
        """Return at most `MOST_EDITS` edits of a skill, from the rows of a batch played with it.

        Args:
            skill: The skill.
            rows: What `play` returned.
            number: Number of the call in this run.
            folder: The folder that `play` was given.
        """
        ...

    def value(self, skill: str) -> float:
        """Return the true success rate on the sealed tasks."""
        ...


class Bench:
    """A world as one training sees it: counts plays, and numbers those of equal skill and task."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = 0
        self._drawn: Counter[tuple[str, str]] = Counter()
        self._proposed = 0
        self._values: dict[str, float] = {}

    def play(self, skill: str, items: Sequence[Item], folder: Path) -> list[Row]:
        """Play each task once more with a skill."""
        draws = []
        for item in items:
            draws.append(self._drawn[skill, item["id"]])
            self._drawn[skill, item["id"]] += 1
        self.calls += len(items)
        return self.world.play(skill, items, draws, folder)

    def propose(self, skill: str, rows: Sequence[Row], folder: Path) -> list[Edit]:
        """Ask the optimizer for edits."""
        self._proposed += 1
        return self.world.propose(skill, rows, self._proposed, folder)

    def improve(self, skill: str, rows: Sequence[Row], folder: Path) -> str:
        """Ask the optimizer for edits, and return the text with them."""
        return apply_patch(skill, Patch(self.propose(skill, rows, folder)))

    def value(self, skill: str) -> float:
        """Return the true success rate of a skill; this is not counted."""
        if skill not in self._values:
            self._values[skill] = self.world.value(skill)
        return self._values[skill]


class Rates(NamedTuple):
    """Success rates with a good, half or bad rule for a task's kind, or none."""

    good: float = 0.75
    half: float = 0.5
    none: float = 0.3
    bad: float = 0.1


class Proposals(NamedTuple):
    """How often a proposed rule is good, half right, useless or bad."""

    good: float = 0.3
    half: float = 0.2
    none: float = 0.25
    bad: float = 0.25


RATES, PROPOSALS = Rates(), Proposals()


class Rules:
    """An agent that follows rules, one per kind of task, and solves a task by chance.

    The optimizer names kinds of failed tasks, and for each a procedure at random; no text says how
    good a procedure is. A skill has one rule per kind: a new rule replaces the old one.

    Args:
        seed: Chooses what the optimizer proposes, which procedures are good, and all outcomes.
        kinds: Kinds of tasks.
        rates: Success rates by the quality of a task's rule.
        proposals: How often proposed rules have each quality.
        powers: The difficulties of tasks, equally likely: a task's rate is raised to its power.
        sizes: Numbers of train, val and test tasks.
    """

    is_exact = True

    def __init__(
        self,
        seed: int,
        *,
        kinds: int = 8,
        rates: Rates = RATES,
        proposals: Proposals = PROPOSALS,
        powers: Sequence[float] = (1.0,),
        sizes: Sequence[int] = (40, 40, 200),
    ) -> None:
        self._seed = seed
        self._rates = rates
        self._proposals = proposals
        self.items = {
            split: [
                {
                    "id": f"{split}-{number:03d}",
                    "task_type": f"kind{number % kinds}",
                    "power": Random(derive_seed("power", seed, split, number)).choice(powers),
                }
                for number in range(size)
            ]
            for split, size in zip(SPLITS, sizes, strict=True)
        }

    def play(
        self, skill: str, items: Sequence[Item], draws: Sequence[int], folder: Path
    ) -> list[Row]:
        """Draw the outcome of each task."""
        del folder
        rates, name = self._chances(skill), text_digest(skill)
        rows = []
        for item, draw in zip(items, draws, strict=True):
            drawn = Random(derive_seed("play", self._seed, name, item["id"], draw)).random()
            won = int(drawn < rates[item["task_type"]] ** item["power"])
            rows.append({**item, "hard": won, "soft": float(won)})
        return rows

    def propose(self, skill: str, rows: Sequence[Row], number: int, folder: Path) -> list[Edit]:
        """Propose a random procedure for each of several kinds, those that failed often first."""
        del folder
        rng = Random(derive_seed("propose", self._seed, number))
        lost = [row["task_type"] for row in rows if not row["hard"]]
        rng.shuffle(lost)
        lines = dict(_lines(skill))
        edits = []
        for kind in list(dict.fromkeys(lost))[:MOST_EDITS]:
            line = f"- {kind}: follow procedure {rng.randrange(10_000)}."
            old = lines.get(kind)
            edits.append(Edit("replace", line, old) if old else Edit("append", line))
        return edits

    def value(self, skill: str) -> float:
        """Return the mean chance over the sealed tasks."""
        rates = self._chances(skill)
        return fmean(rates[item["task_type"]] ** item["power"] for item in self.items["test"])

    def _chances(self, skill: str) -> Mapping[str, float]:
        found: defaultdict[str, float] = defaultdict(lambda: self._rates.none)
        for kind, line in _lines(skill):
            rng = Random(derive_seed("procedure", self._seed, line))
            (quality,) = rng.choices(Proposals._fields, self._proposals)
            found[kind] = getattr(self._rates, quality)
        return found


def _lines(skill: str) -> list[tuple[str, str]]:
    """Return kind and line of every rule in a skill."""
    return [
        (line[2:].partition(":")[0], line)
        for line in map(str.strip, skill.splitlines())
        if line.startswith("- kind")
    ]
