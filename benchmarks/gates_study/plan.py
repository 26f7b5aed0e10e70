"""Which cells are simulated, under which rules, how often."""

from dataclasses import dataclass

from gates_study.rules import STRICT_DRAWS
from gates_study.summary import DECISIVE, ONE_STEP_RULES, strict_name
from gates_study.worlds import MAIN, WORLDS, Cell

TASKS, STEPS = (20, 40, 100, 200), (4, 8, 20)
MIXED = ("all useless", "mostly useless", "mixed", "mostly harmful")
LOST = 0.03
DECISIONS = 7  # of the run in which one step is worth 15 points

STRICT = tuple(map(strict_name, STRICT_DRAWS))
PLAIN = (*STRICT, "gain above 1 SE")


Plan = list[tuple[Cell, tuple[str, ...], int]]
"""Cells, rules and numbers of runs."""


@dataclass(frozen=True)
class Work:
    """Runs of one cell, with numbers ``first`` to ``last`` - 1, under some rules."""

    cell: Cell
    rules: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True)
class Sizes:
    """How many runs: where a target of gains is decided, elsewhere, and of rules that prove."""

    decisive: int = 4_000
    usual: int = 1_000
    proving: int = 200
    part: int = 250


def whole(sizes: Sizes) -> Plan:
    """Return the whole study; what decides comes first."""
    plan: Plan = []
    for tasks, steps in DECISIVE:
        cell = Cell(MAIN, "mixed", tasks, steps)
        plan.append((cell, ("explore", *PLAIN), sizes.decisive))
        plan.append((cell, ("paired", "paired, 4 draws"), sizes.usual))
    plan += one_step(sizes.decisive)
    done = {cell for cell, _, _ in plan}
    sizes_of_cells = [(tasks, steps) for tasks in TASKS for steps in STEPS]
    for mixture in MIXED:
        for world in WORLDS:
            for tasks, steps in sizes_of_cells:
                cell = Cell(world, mixture, tasks, steps)
                if cell not in done:
                    plan.append((cell, ("explore",), _of_explore(cell, sizes)))
                    plan.append((cell, _plain(mixture), sizes.usual))
                    plan.append((cell, ("paired",), sizes.proving))
    for mixture in ("all useless", "mixed"):
        for tasks, steps in sizes_of_cells:
            cell = Cell(MAIN, mixture, tasks, steps, lost=LOST)
            plan.append((cell, ("explore",), sizes.usual))
            plan.append((cell, ("paired", "strict gate"), sizes.proving))
    return plan


def _plain(mixture: str) -> tuple[str, ...]:
    # More draws are needed only where explore's gain is set beside strict's at equal rollouts.
    return PLAIN if mixture == "mixed" else (*STRICT[:4], PLAIN[-1])


def _of_explore(cell: Cell, sizes: Sizes) -> int:
    # Where nearly all edits are useless and few, a release is most often of useless edits alone.
    near_limit = cell.mixture == "mostly useless" and cell.steps == min(STEPS)
    return sizes.decisive // 2 if near_limit else sizes.usual


def one_step(runs: int) -> Plan:
    """Return runs in which one step is worth 15 points: alone, and before steps worth nothing."""
    rules = ("explore", "explore, 4 release draws", "paired, 4 draws")
    return [
        (Cell(MAIN, "one useful step", 40, steps, decisions=DECISIONS), rules, runs)
        for steps in ONE_STEP_RULES
    ]


def short() -> Plan:
    """Return a few cells with few runs: seconds, to see that all of it works."""
    mixed, null = (Cell(MAIN, mixture, 40, 8) for mixture in ("mixed", "all useless"))
    faults = Cell(MAIN, "all useless", 20, 8, lost=LOST)
    return [
        (mixed, ("explore", *PLAIN), 200),
        (mixed, ("paired",), 60),
        (null, ("explore", "gain above 1 SE", STRICT[0]), 200),
        (faults, ("explore",), 150),
        (faults, ("strict gate",), 60),
        (Cell("high beta(5,.5)", "mostly harmful", 40, 8), ("explore",), 100),
        (Cell("measured", "mixed", 100, 4), ("explore",), 60),
        *one_step(100),
    ]


def parts(plan: Plan, size: int) -> list[Work]:
    """Cut a plan into pieces of work of at most ``size`` runs."""
    return [
        Work(cell, rules, first, min(first + size, runs))
        for cell, rules, runs in plan
        for first in range(0, runs, size)
    ]
