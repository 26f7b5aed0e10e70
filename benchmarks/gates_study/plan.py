"""The simulated cells, rules and numbers of runs, in the order in which they are played."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from gates_study.rules import (
    BEFORE,
    DEFAULT,
    ORACLE,
    POWER,
    RULES,
    SKILLOPT,
    SMALL_CHUNKS,
)
from gates_study.worlds import EDITS, MAIN, MIXTURES, WORLDS, Cell

LOW, HIGH = "low beta(.5,5)", "high beta(5,.5)"
NULL = "all useless"
TASKS = (20, 40, 100, 200)
BUDGETS = (1600, 3000)
CURVE = (400, 800, 1600, 3000)
"""Total costs of the figure."""

GOALS = {  # least share of SkillOpt's unproven gain that is released and proven, by budget
    (MAIN, 40, "mixed"): (1.20, 1.50),
    (MAIN, 100, "mixed"): (0.95, 1.20),
    (MAIN, 20, "mixed"): (1.10, 1.60),
    (LOW, 40, "mixed"): (1.10, 1.17),
    (MAIN, 40, "mostly useless"): (1.00, 1.35),
    (MAIN, 40, "mostly harmful"): (1.15, 1.45),
    (HIGH, 40, "mixed"): (None, None),  # at least what the earlier default released
}
SHOWN = {  # panels of the figure
    (MAIN, 40, "mixed"): "beta(.6,.6), 40 tasks, mixed",
    (MAIN, 100, "mixed"): "beta(.6,.6), 100 tasks, mixed",
    (LOW, 40, "mixed"): "low rates, 40 tasks, mixed",
    (MAIN, 40, "mostly harmful"): "beta(.6,.6), 40 tasks, mostly harmful",
}
COMPARED = (DEFAULT, BEFORE, SKILLOPT)
PART = 100
"""Runs of one piece of work."""


ROUNDS = (100, 300, 600, 1000)
"""Runs of every cell and rule after each round of the plan."""


@dataclass(frozen=True)
class Work:
    """Runs of one cell under one rule, with numbers ``first`` to ``last`` - 1."""

    cell: Cell
    rule: str
    first: int
    last: int


def whole(runs: int) -> list[Work]:
    """Return the whole study; what decides comes first.

    Args:
        runs: Maximum runs of a cell and rule.
    """
    goals = [_cell(*key, budget) for budget in BUDGETS for key in GOALS]
    null = [
        Cell(world, NULL, tasks, budget)
        for budget in BUDGETS
        for world, tasks in [*product([MAIN], (40, 20, 100)), *product(WORLDS, (40,))]
    ]
    curves = [_cell(*key, budget) for key in SHOWN for budget in CURVE]
    kinds = [
        Cell(MAIN, mixture, 40, budget, edits=edits)
        for budget, edits in product(BUDGETS, EDITS)
        for mixture in ("mixed", "mostly harmful")
    ]
    prices = [
        Cell(MAIN, mixture, 40, budget, optimizer=price)
        for price in (0, 60)
        for mixture in ("mixed", "mostly useless")
        for budget in BUDGETS
    ]
    power = [
        Cell(world, "mixed", tasks, 0)  # gains of high rates are too small to be proven
        for world, tasks in product(WORLDS, TASKS)
        if world != HIGH
    ]
    others = [
        Cell(world, mixture, tasks, budget)
        for budget, world, mixture, tasks in product(BUDGETS, WORLDS, MIXTURES, TASKS)
    ]
    sections = [
        (goals, COMPARED),
        (null, (DEFAULT,)),
        (goals, RULES),
        (curves, RULES),
        (kinds, (*COMPARED, ORACLE)),
        ([_cell(*key, 1600) for key in SHOWN], (SMALL_CHUNKS,)),
        (power, (POWER,)),
        (prices, COMPARED),
    ]
    last = (others, COMPARED)
    few, some, *many = ROUNDS
    rounds = [(*section, few) for section in sections]
    rounds += [(goals, COMPARED, some), (null, (DEFAULT,), some), (others, COMPARED, few)]
    rounds += [(*section, size) for size in (some, *many) for section in (*sections, last)]
    return list(_parts(runs, *rounds))


def short() -> list[Work]:
    """Return a few cells with few runs: seconds, to see that all of it works."""
    mixed, null = (Cell(MAIN, mixture, 40, 1600) for mixture in ("mixed", NULL))
    dense = Cell(MAIN, "mixed", 20, 1600, edits="dense")
    return list(
        _parts(
            200,
            ([mixed, dense], COMPARED, 80),
            ([mixed], RULES, 20),
            ([null], (DEFAULT,), 150),
            ([null], (SKILLOPT,), 60),
        )
    )


def _cell(world: str, tasks: int, mixture: str, budget: int) -> Cell:
    return Cell(world, mixture, tasks, budget)


Section = tuple[list[Cell], Iterable[str], int]
"""Cells, rules, and runs of each."""


def _parts(most: int, *sections: Section) -> Iterator[Work]:
    """Cut sections into pieces of work; of what is in several, each piece comes once."""
    found = set[Work]()
    for cells, rules, runs in sections:
        for first in range(0, min(runs, most), PART):
            for cell, rule in product(cells, rules):
                work = Work(cell, rule, first, min(first + PART, runs, most))
                if work not in found:
                    found.add(work)
                    yield work
