"""What a simulated run is made of: tasks with known success rates, and edits with known effects."""

import json
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]

OTHERS = 300  # further tasks of the same kind: the true gain is the mean gain in rate on these
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
    "all useless": (1.0, 0.0, 0.0),
    "mostly useless": (0.8, 0.1, 0.1),
    "mixed": (0.5, 0.3, 0.2),
    "mostly harmful": (0.3, 0.1, 0.6),
    "one useful step": (0.0, 1.0, 0.0),  # the first edit gains +15 points, the others nothing
}
USEFUL, HARMFUL = (0.05, 0.35), (0.05, 0.25)  # the share of tasks that an edit hits, uniform
STRENGTH = (0.5, 1.0)  # how far a hit moves a rate towards 1 or 0, uniform
ONE_STEP = 0.15


@dataclass(frozen=True)
class Cell:
    """One condition of the study."""

    world: str  # where success rates come from, a key of `WORLDS`
    mixture: str  # what edits do, a key of `MIXTURES`
    tasks: int  # validation tasks
    steps: int  # candidates that a run judges
    lost: float = 0.0  # the chance that an episode is lost to a fault
    decisions: int = 0  # how many decisions the run's alpha is planned for; 0 means ``steps``

    @property
    def planned(self) -> int:
        """Over how many decisions a gate that proves each step shares its alpha."""
        return self.decisions or self.steps

    @property
    def name(self) -> str:
        """What people call it."""
        faults = f", {self.lost:.0%} of episodes lost" if self.lost else ""
        planned = f", alpha for {self.decisions}" if self.decisions else ""
        sizes = f"{self.tasks} tasks, {self.steps} steps"
        return f"{self.world}, {self.mixture}, {sizes}{planned}{faults}"

    def generator(self, run: int, purpose: str) -> np.random.Generator:
        """Return the random numbers of a run for one purpose; each purpose has its own."""
        return np.random.default_rng([crc32(self.name.encode()), run, crc32(purpose.encode())])


@dataclass(frozen=True)
class Edit:
    """What a candidate changes: rates of the tasks that it hits move towards 1 or 0."""

    kind: int  # 0 changes nothing, 1 helps, -1 harms
    hit: NDArray[np.bool_]  # which tasks it touches, shape ``[tasks + OTHERS]``
    strength: float  # how far a rate moves, in [0, 1]

    def of(self, rates: Rates) -> Rates:
        """Return the rates after the edit."""
        if self.kind == 0:
            return rates
        moved = rates * (1 - self.strength)
        return np.where(self.hit, moved + self.strength if self.kind > 0 else moved, rates)


@dataclass(frozen=True)
class Run:
    """A run whose truth is known; every rule sees the same edits of the same tasks."""

    cell: Cell  # the condition
    number: int  # which of its runs
    rates: Rates  # success rates under the initial skill: validation tasks first, then `OTHERS`
    edits: list[Edit]  # what each step proposes to do to the current skill

    def gain(self, rates: Rates) -> float:
        """Return the true gain of a skill over the initial one."""
        return float((rates - self.rates)[self.cell.tasks :].mean())

    def gain_on_val(self, rates: Rates) -> float:
        """Return the gain of a skill on the validation tasks, from the rates, not from draws."""
        return float((rates - self.rates)[: self.cell.tasks].mean())

    def generator(self, rule: str) -> np.random.Generator:
        """Return the random numbers of episodes under a rule."""
        return self.cell.generator(self.number, rule)


def make_run(cell: Cell, number: int) -> Run:
    """Make a run of a cell; equal numbers make equal runs."""
    rng = cell.generator(number, "truth")
    rates = draw_rates(cell.world, cell.tasks + OTHERS, rng)
    edits = [_edit(cell, step, len(rates), rng) for step in range(cell.steps)]
    return Run(cell, number, rates, edits)


def _edit(cell: Cell, step: int, size: int, rng: np.random.Generator) -> Edit:
    if cell.mixture == "one useful step":
        # A hit task always succeeds from then on, so the share follows from the mean rate.
        share = ONE_STEP / (1 - mean_rate(cell.world))
        return Edit(1 if step == 0 else 0, rng.random(size) < share, 1.0)
    kind = int(rng.choice([0, 1, -1], p=MIXTURES[cell.mixture]))
    share = rng.uniform(*(USEFUL if kind > 0 else HARMFUL))
    return Edit(kind, rng.random(size) < share, rng.uniform(*STRENGTH))


def draw_rates(world: str, size: int, rng: np.random.Generator) -> Rates:
    """Draw success rates of so many tasks of a world."""
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
