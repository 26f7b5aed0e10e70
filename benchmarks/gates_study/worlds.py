"""Simulated worlds: tasks with known success rates, and edits with known effects.

Edits act on the rates of the current skill, so a better skill leaves less to gain.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]
Rng = np.random.Generator

OTHERS = 300
"""Further tasks of the same kind; the true gain is the mean gain in rate on these."""

MEASURED = Path(__file__).with_name("measured_rates.json")

WORLDS = {
    "beta(.6,.6)": (0.6, 0.6),
    "uniform": (1.0, 1.0),
    "low beta(.5,5)": (0.5, 5.0),
    "high beta(5,.5)": (5.0, 0.5),
    "measured": None,  # rates of generated houses under the noisy scripted agent
}
MAIN = "beta(.6,.6)"

MIXTURES = {  # shares of edits that are useless, useful, harmful
    "mixed": (0.5, 0.3, 0.2),
    "mostly useless": (0.8, 0.1, 0.1),
    "mostly harmful": (0.3, 0.1, 0.6),
    "all useless": (1.0, 0.0, 0.0),
}
TRAIN, BATCH = 40, 20
"""Train tasks, and train rollouts of a step."""

TASK_TYPES = 4
USEFUL, HARMFUL = (0.05, 0.35), (0.05, 0.25)  # the share of tasks that an edit hits, uniform
STRENGTH = (0.5, 1.0)  # how far a hit moves a rate towards 1 or 0, uniform


@dataclass(frozen=True)
class Cell:
    """One condition of the study.

    Attributes:
        world: Source of success rates, a key of `WORLDS`.
        mixture: Shares of the kinds of edits, a key of `MIXTURES`.
        tasks: Validation tasks.
        budget: Total cost that a run may not exceed, in rollouts.
        optimizer: Cost of the optimizer's calls in a step, in rollouts.
        edits: How an edit acts on rates, a key of `EDITS`.
    """

    world: str
    mixture: str
    tasks: int
    budget: int
    optimizer: int = 20
    edits: str = "share"

    @property
    def step(self) -> int:
        """The cost of proposing a candidate, in rollouts."""
        return BATCH + self.optimizer

    def generator(self, number: int, purpose: str) -> Rng:
        """Return the random numbers of a run for one purpose; budgets and prices share them."""
        name = f"{self.world}, {self.mixture}, {self.tasks}, {self.edits}"
        return np.random.default_rng([crc32(name.encode()), number, crc32(purpose.encode())])


class Run:
    """A simulated run of known truth; it counts what it costs.

    Args:
        cell: The condition.
        number: Number of the run. Under every rule it has the same tasks and the same edits.
        rule: Name of the rule, which draws its own random results.
    """

    def __init__(self, cell: Cell, number: int, rule: str) -> None:
        truth = cell.generator(number, "truth")
        size = cell.tasks + OTHERS + TRAIN
        self.cell, self.number = cell, number
        self.tasks = cell.tasks
        self.initial = draw_rates(cell.world, size, truth)
        self.task_types = truth.integers(0, TASK_TYPES, size)
        self.cost = 0
        self._edits = cell.generator(number, "edits")
        self._results = cell.generator(number, rule)

    @property
    def left(self) -> int:
        """What is left of the budget, in rollouts."""
        return self.cell.budget - self.cost

    def train(self, rates: Rates) -> tuple[float, int]:
        """Return sum and number of the rewards of a step's train batch, which `propose` pays."""
        batch = self._results.choice(rates[-TRAIN:], BATCH, replace=False)
        return float((self._results.random(BATCH) < batch).sum()), BATCH

    def propose(self, rates: Rates) -> Rates:
        """Pay for a step, and return the rates of its candidate."""
        self.cost += self.cell.step
        kind = int(self._edits.choice([0, 1, -1], p=MIXTURES[self.cell.mixture]))
        edited = EDITS[self.cell.edits](rates, kind, self.task_types, self._edits)
        return edited if kind else rates.copy()

    def draw(self, rates: Rates, places: NDArray[np.int64]) -> Rates:
        """Pay for rollouts of validation tasks, by their places, and return the rewards."""
        self.cost += len(places)
        return (self._results.random(len(places)) < rates[places]).astype(np.float64)

    def draw_all(self, rates: Rates) -> Rates:
        """Draw every validation task once."""
        return self.draw(rates, np.arange(self.tasks))

    def gain(self, rates: Rates) -> float:
        """Return the true gain of a skill over the initial one, on the further tasks."""
        return float((rates - self.initial)[self.tasks : -TRAIN].mean())


Edit = Callable[[Rates, int, NDArray[np.int64], Rng], Rates]
"""Returns rates after an edit, by the rates before, its kind (1 helps, -1 harms), the tasks' types
and random numbers; kind 0 draws the same random numbers and is discarded."""


def _moved(rates: Rates, kind: int, share: float | Rates) -> Rates:
    return rates + (1 - rates) * share if kind > 0 else rates * (1 - share)


def _on_a_share(rates: Rates, kind: int, types: NDArray[np.int64], rng: Rng) -> Rates:
    share = rng.uniform(*(USEFUL if kind > 0 else HARMFUL))
    hit, strength = rng.random(rates.shape) < share, rng.uniform(*STRENGTH)
    return _moved(rates, kind, np.where(hit, strength, 0.0))


def _on_all(rates: Rates, kind: int, types: NDArray[np.int64], rng: Rng) -> Rates:
    known = np.clip(rates, 0.002, 0.998)
    shift = kind * rng.uniform(0.2, 1.4) + rng.normal(0, 0.7, rates.shape)
    return np.asarray(1 / (1 + (1 - known) / known * np.exp(-shift)), np.float64)


def _small(rates: Rates, kind: int, types: NDArray[np.int64], rng: Rng) -> Rates:
    return _moved(rates, kind, rng.uniform(0.02, 0.2))


def _on_a_type(rates: Rates, kind: int, types: NDArray[np.int64], rng: Rng) -> Rates:
    hit = types == rng.integers(TASK_TYPES)
    return _moved(rates, kind, np.where(hit, rng.uniform(0.2, 0.8), 0.0))


def _trade(rates: Rates, kind: int, types: NDArray[np.int64], rng: Rng) -> Rates:
    better, worse = rng.permutation(TASK_TYPES)[:2]
    small, large = sorted(rng.uniform(0.1, 0.8, 2))
    up, down = (large, small) if kind > 0 else (small, large)
    return np.where(
        types == better,
        rates + (1 - rates) * up,
        np.where(types == worse, rates * (1 - down), rates),
    )


EDITS: dict[str, Edit] = {
    "share": _on_a_share,  # a random share of the tasks, as the gate's own model assumes
    "dense": _on_all,  # all tasks, some up and some down, on the logit scale
    "small": _small,  # a small part of what is left to gain, on all tasks
    "type": _on_a_type,  # one of four task types
    "trade": _trade,  # one task type better, another one worse
}


def draw_rates(world: str, size: int, rng: Rng) -> Rates:
    """Draw success rates of tasks of a world, shape ``[size]``."""
    shape = WORLDS[world]
    return rng.choice(measured_rates(), size) if shape is None else rng.beta(*shape, size)


def mean_rate(world: str) -> float:
    """Return the mean success rate of a world."""
    shape = WORLDS[world]
    return float(measured_rates().mean()) if shape is None else shape[0] / sum(shape)


_measured: list[Rates] = []


def measured_rates() -> Rates:
    """Return the success rates that `gates_study.measure` found in generated houses."""
    if not _measured:
        measured = json.loads(MEASURED.read_text(encoding="utf-8"))
        _measured.append(np.array(measured["rates"]))
    return _measured[0]
