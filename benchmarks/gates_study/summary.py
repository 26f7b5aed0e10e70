"""What simulated runs say: gains, errors and costs by cell and rule, and the targets."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gates_study.rules import STRICT_DRAWS, Outcome
from gates_study.worlds import MAIN, MIXTURES, Cell
from skillwright.evaluation import wilson_interval

Table = NDArray[np.float64]  # shape [runs, fields of Outcome]
Row = dict[str, Any]

NOTHING = 1e-12  # gains up to this are none
WORTH_A_RATIO = 0.01  # where strict gains less than this, a ratio to it says nothing

DECISIVE = {(40, 8): 0.9, (100, 8): 0.95, (40, 20): 0.97, (100, 20): 0.97}
"""The least share of strict's gain that is released, by tasks and steps."""
ONE_STEP_RULES = {7: "explore", 1: "explore, 4 release draws"}
"""Whose release of one useful step counts, by the steps of the run.

The alpha of `paired` is for seven decisions. In a run of one step alone the release test is most of
the cost, so it is set to as many draws as `paired` has there.
"""
FALSE, FALSE_BOUND, NOT_BETTER, FOUND = 0.05, 0.065, 0.02, 0.6
TARGETS = {
    "current": "mixed world: true gain of current at least that of strict at equal rollouts",
    "released": "mixed world: true gain of released at least .9 of it (40 tasks, 8 steps), .95 "
    "(100 tasks, 8 steps), .97 (20 steps)",
    "false_releases": f"all edits useless: released in at most {FALSE:.0%} of runs in every cell, "
    f"upper 95% bound at most {FALSE_BOUND:.1%}",
    "not_better": f"every other cell: released and truly not better in at most {NOT_BETTER:.0%}",
    "one_step": f"one step worth +15 points on 40 tasks: released in at least {FOUND:.0%} of runs, "
    "at no more than the rollouts of `paired` with 4 draws; in a run of one step alone, with "
    "release_draws: 4",
}


def cell_summary(cell: Cell, tables: Mapping[str, Table]) -> Row:
    """Summarize a cell.

    Args:
        cell: The condition.
        tables: Outcomes by rule; run by run in the same order.
    """
    row: Row = {
        "world": cell.world,
        "mixture": cell.mixture,
        "tasks": cell.tasks,
        "steps": cell.steps,
        "lost": cell.lost,
        "planned": cell.planned,
        "rules": {rule: rule_summary(table, cell.steps) for rule, table in tables.items()},
    }
    if "explore" in tables:
        row["rules"]["explore"] |= against_strict(tables)
    return row


def rule_summary(table: Table, steps: int) -> Row:
    """Summarize what runs under one rule end with."""
    columns = dict(zip(Outcome._fields, table.T, strict=True))
    runs, out = len(table), columns["out"] > 0
    not_better = out & (columns["released"] <= NOTHING)
    row = {
        "runs": runs,
        "rollouts": float(columns["rollouts"].mean()),
        "current": float(columns["current"].mean()),
        "current_se": _error(columns["current"]),
        "released": float(columns["released"].mean()),
        "released_se": _error(columns["released"]),
        "out": float(out.mean()),
        "not_better": float(not_better.mean()),
        "not_better_95": list(wilson_interval(int(not_better.sum()), runs)),
        "worse": float((out & (columns["released"] < -NOTHING)).mean()),
        "current_worse": float((columns["current"] < -NOTHING).mean()),
        "accepts": float(columns["accepts"].mean()),
    }
    if not np.isnan(columns["waves"]).all():
        row["waves_a_step"] = float(columns["waves"].mean() / steps)
    tested = ~np.isnan(columns["error"])
    if tested.any():
        row["release"] = {
            "tests": int(tested.sum()),
            "waves": float(columns["release_waves"][tested].mean()),
            "rollouts": float(columns["release_rollouts"][tested].mean()),
            "error": float(columns["error"][tested].mean()),
            "error_on_val": float(columns["error_on_val"][tested].mean()),
            "error_if_released": float(columns["error"][out].mean()) if out.any() else None,
            "covered": float(np.nanmean(columns["covered"][tested])),
        }
    return _rounded(row)


def against_strict(tables: Mapping[str, Table]) -> Row:
    """Compare explore's gains with those of strict at explore's mean rollouts, interpolated."""
    rollouts, current, released = (
        Outcome._fields.index(name) for name in ("rollouts", "current", "released")
    )
    explore = tables["explore"]
    strict = [tables[name] for m in STRICT_DRAWS if (name := strict_name(m)) in tables]
    costs = [float(table[:, rollouts].mean()) for table in strict]
    took = float(explore[:, rollouts].mean())
    if not strict or (len(strict) < len(STRICT_DRAWS) and took > costs[-1]):
        return {}  # strict was not played with as many rollouts
    at = float(np.interp(took, costs, range(len(costs))))
    low = min(int(at), len(costs) - 1)
    high = min(low + 1, len(costs) - 1)
    runs = min(len(explore), *map(len, strict))
    theirs = (1 - at + low) * strict[low][:runs, current] + (at - low) * strict[high][
        :runs, current
    ]
    row: Row = {"strict_draws": at + 1, "strict": float(theirs.mean())}
    if theirs.mean() >= WORTH_A_RATIO:
        for name, column in (("current", current), ("released", released)):
            ours = explore[:runs, column]
            ratio = ours.mean() / theirs.mean()
            spread = _error(ours - ratio * theirs) / theirs.mean()
            row |= {f"{name}_of_strict": float(ratio), f"{name}_of_strict_se": float(spread)}
    return _rounded(row)


def brief(row: Row) -> Row:
    """Return a cell without what can be read elsewhere in it, for a file of all cells.

    Rules without a release test release what is current. More draws of strict than three are kept
    where they are needed: in the cells that decide.
    """
    decides = (row["tasks"], row["steps"]) in DECISIVE and row["mixture"] == "mixed"
    most = len(STRICT_DRAWS) if decides and row["world"] == MAIN else 3
    dropped = [strict_name(m) for m in STRICT_DRAWS[most:]]
    return row | {
        "rules": {
            rule: result if "explore" in rule else {name: result[name] for name in _OF_OTHERS}
            for rule, result in row["rules"].items()
            if rule not in dropped
        }
    }


_OF_OTHERS = ("runs", "rollouts", "current", "current_se", "out", "not_better", "worse")


def strict_name(draws: int) -> str:
    """Return the name of the strict rule over a number of draws."""
    return f"strict, {draws} draw{'s' * (draws > 1)}"


def targets(rows: Sequence[Row]) -> dict[str, Row]:
    """Return for every target whether it is met, and the numbers; missing cells do not meet it."""
    mixed = {
        (row["tasks"], row["steps"]): row["rules"]["explore"]
        for row in rows
        if (row["world"], row["mixture"], row["lost"]) == (MAIN, "mixed", 0)
    }
    ratios = {
        name: {
            f"{tasks} tasks, {steps} steps": _ratio(mixed.get((tasks, steps), {}), name, least)
            for (tasks, steps), share in DECISIVE.items()
            for least in [1.0 if name == "current" else share]
        }
        for name in ("current", "released")
    }
    null = [row for row in rows if row["mixture"] == "all useless"]
    other = [row for row in rows if row["mixture"] in MIXTURES and row not in null]
    steps = [row for row in rows if row["mixture"] == "one useful step"]
    return {
        **{
            name: {"ok": all(one["ok"] for one in cells.values()), "cells": cells}
            for name, cells in ratios.items()
        },
        "false_releases": _held(null, FALSE, FALSE_BOUND),
        "not_better": _held(other, NOT_BETTER, 1.0),
        "one_step": _one_step(steps),
    }


def short_bounds(rows: Sequence[Row]) -> dict[str, Row]:
    """Return what must hold of few runs of few cells: only a fault of the code misses it."""
    explore = [(row["mixture"], row["rules"].get("explore", {})) for row in rows]
    mixed = next(one for mixture, one in explore if mixture == "mixed")
    null = [row["rules"] for row in rows if row["mixture"] == "all useless"]
    steps = [one for mixture, one in explore if mixture == "one useful step"]
    naive = min(one["out"] for rules in null for rule, one in rules.items() if rule != "explore")
    bounds = {
        "current": (mixed["current_of_strict"], 0.85),
        "released": (mixed["released_of_strict"], 0.7),
        "not_false": (1 - max(one["explore"]["not_better_95"][0] for one in null), 1 - FALSE),
        "better": (
            1
            - max(one["not_better_95"][0] for mixture, one in explore if mixture != "all useless"),
            1 - NOT_BETTER,
        ),
        "one_step": (min(one["out"] for one in steps), 0.5),
        "others_are_wrong": (naive, 0.3),
    }
    return {
        name: {"value": round(value, 4), "least": least, "ok": value >= least}
        for name, (value, least) in bounds.items()
    }


def _ratio(explore: Row, name: str, least: float) -> Row:
    value = explore.get(f"{name}_of_strict")
    error = explore.get(f"{name}_of_strict_se")
    return {"ratio": value, "se": error, "least": least, "ok": value is not None and value >= least}


def _held(rows: Sequence[Row], most: float, bound: float) -> Row:
    """Say in which cells explore released wrongly more often than allowed, and where most often."""
    results = [(row["rules"]["explore"], row) for row in rows]
    above = [
        (explore, row)
        for explore, row in results
        if explore["not_better"] > most or explore["not_better_95"][1] > bound
    ]
    worst = max(results, key=lambda one: one[0]["not_better"], default=None)
    return {
        "ok": bool(results) and not above,
        "cells": len(results),
        "above": [_where(*one) for one in above],
        "worst": worst and _where(*worst),
        "mean": round(float(np.mean([one["not_better"] for one, _ in results])), 4)
        if results
        else None,
    }


def _where(explore: Row, row: Row) -> Row:
    names = ("world", "mixture", "tasks", "steps", "lost")
    figures = ("runs", "not_better", "not_better_95")
    return {name: row[name] for name in names} | {name: explore[name] for name in figures}


def _one_step(rows: Sequence[Row]) -> Row:
    cells = {}
    for row in rows:
        rule = ONE_STEP_RULES[row["steps"]]
        ours, theirs = row["rules"][rule], row["rules"]["paired, 4 draws"]
        cells[f"{row['steps']} steps"] = {
            "rule": rule,
            "released": ours["out"],
            "rollouts": ours["rollouts"],
            "paired_released": theirs["out"],
            "paired_rollouts": theirs["rollouts"],
            "ok": ours["out"] >= FOUND and ours["rollouts"] <= theirs["rollouts"],
        }
    return {"ok": bool(cells) and all(cell["ok"] for cell in cells.values()), "cells": cells}


def _error(values: Table) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


def _rounded(row: Row) -> Row:
    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(one) for one in value]
        return round(value, 4) if isinstance(value, float) else value

    return {
        name: short(value) if not isinstance(value, dict) else _rounded(value)
        for name, value in row.items()
    }
