"""Gains, errors and costs by cell and rule, and the targets."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gates_study.plan import BUDGETS, GOALS, NULL
from gates_study.rules import BEFORE, DEFAULT, PROVING, SKILLOPT, Outcome
from gates_study.worlds import Cell
from skillwright.evaluation import wilson_interval

Table = NDArray[np.float64]  # shape [runs, fields of Outcome]
Row = dict[str, Any]

NOTHING = 1e-12  # gains up to this are none
WORTH_A_RATIO = 0.004  # if SkillOpt's rule gains less than this, a ratio to it says nothing
ENOUGH = 100  # proofs without which nothing is said about their intervals
MANY = 300  # runs without which nothing is said about wrong releases of a cell
FALSE, FALSE_BOUND, NOT_BETTER = 0.05, 0.065, 0.02
COVERED, BIAS = (0.93, 0.97), 0.01

TARGETS = {
    "released": "proven gain of the default as a share of the unproven gain of SkillOpt's rule, at "
    "equal total cost",
    "before": "no cell in which the default releases less than the default before it, by more than "
    "two standard errors of the difference",
    "false_releases": f"all edits useless: released in at most {FALSE:.0%} of runs in every cell, "
    f"upper 95% bound at most {FALSE_BOUND:.1%}",
    "not_better": f"every other cell: released and truly not better in at most {NOT_BETTER:.0%}",
    "coverage": "the interval printed with a proven gain holds the true gain in 93 to 97% of runs "
    "of a world",
    "bias": f"the printed gain is within {BIAS} of the true gain, on average over a world",
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
        "budget": cell.budget,
        "optimizer": cell.optimizer,
        "edits": cell.edits,
        "rules": {rule: rule_summary(rule, table) for rule, table in tables.items()},
    }
    if DEFAULT in tables:
        for name, rule in (("strict", SKILLOPT), ("before", BEFORE)):
            if rule in tables:
                row[f"of_{name}"] = _compared(tables[DEFAULT], tables[rule])
    return row


def rule_summary(rule: str, table: Table) -> Row:
    """Summarize the ends of runs under one rule."""
    columns = dict(zip(Outcome._fields, table.T, strict=True))
    runs, out, released = len(table), columns["out"] > 0, columns["released"]
    not_better = out & (released <= NOTHING)
    row = {
        "runs": runs,
        "released": float(released.mean()),
        "released_se": _error(released),
        "current": float(columns["current"].mean()),
        "out": float(out.mean()),
        "not_better": float(not_better.mean()),
        "not_better_95": list(wilson_interval(int(not_better.sum()), runs)),
        "cost": float(columns["cost"].mean()),
        "tests": float(columns["tests"].mean()),
        "steps": float(columns["steps"].mean()),
    }
    if not np.isnan(columns["waves"]).all():
        row["waves"] = float(np.nanmean(columns["waves"]))
    if rule in PROVING and not np.isnan(columns["printed"]).all():
        row["proofs"] = _proofs(columns)
    return _rounded(row)


def _proofs(columns: Mapping[str, Table]) -> Row:
    """Compare what is printed with proven gains, and what the test measured, to the truth."""
    there = ~np.isnan(columns["printed"])
    gain = columns["released"][there]
    row: Row = {"proofs": int(there.sum())}
    for name, value, low, high in (
        ("", "printed", "low", "high"),
        ("measured_", "measured", "measured_low", "measured_high"),
    ):
        error = columns[value][there] - gain
        holds = (columns[low][there] <= gain) & (gain <= columns[high][there])
        row |= {
            f"{name}bias": float(error.mean()),
            f"{name}squared": float((error**2).mean()),
            f"{name}covered": float(holds.mean()),
            f"{name}width": float((columns[high] - columns[low])[there].mean()),
        }
    return row


def _compared(ours: Table, theirs: Table) -> Row:
    """Compare the gains that two rules release in the same runs."""
    runs, at = min(len(ours), len(theirs)), Outcome._fields.index("released")
    a, b = ours[:runs, at], theirs[:runs, at]
    row = {"runs": runs, "difference": float((a - b).mean()), "difference_se": _error(a - b)}
    if b.mean() >= WORTH_A_RATIO:
        share = a.mean() / b.mean()
        row |= {"share": float(share), "share_se": _error(a - share * b) / float(b.mean())}
    return _rounded(row)


def targets(rows: Sequence[Row]) -> dict[str, Row]:
    """Return for every target whether it is met, and the numbers; missing cells do not meet it."""
    mine = [row for row in rows if DEFAULT in row["rules"]]
    null = [row for row in mine if row["mixture"] == NULL]
    other = [row for row in mine if row["mixture"] != NULL]
    proofs = proofs_by(other, "world")
    low, high = COVERED
    wide = [world for world, one in proofs.items() if not low <= one["covered"] <= high]
    biased = [world for world, one in proofs.items() if abs(one["bias"]) > BIAS]
    return {
        "released": _goals(rows),
        "before": _not_below(other),
        "false_releases": _held(null, FALSE, FALSE_BOUND),
        "not_better": _held(other, NOT_BETTER, 1.0),
        "coverage": {"ok": bool(proofs) and not wide, "cells": len(proofs), "missed": wide},
        "bias": {"ok": bool(proofs) and not biased, "cells": len(proofs), "missed": biased},
    }


def proofs_by(rows: Sequence[Row], name: str) -> dict[Any, Row]:
    """Return what was printed with proven gains of the default: means over the proofs of a group.

    A group with fewer than `ENOUGH` proofs is left out.

    Args:
        rows: Cells.
        name: What is equal in a group: ``world``, ``mixture`` or ``tasks``.
    """
    found: dict[Any, list[Row]] = {}
    for row in rows:
        one = row["rules"].get(DEFAULT, {}).get("proofs")
        if one and row["mixture"] != NULL:
            found.setdefault(row[name], []).append(one)
    pooled = {}
    for group, proofs in found.items():
        total = sum(one["proofs"] for one in proofs)
        if total < ENOUGH:
            continue
        mean = {
            key: sum(one[key] * one["proofs"] for one in proofs) / total
            for key in proofs[0]
            if key != "proofs"
        }
        errors = {
            f"{kind}bias_se": math.sqrt((mean[f"{kind}squared"] - mean[f"{kind}bias"] ** 2) / total)
            for kind in ("", "measured_")
        }
        pooled[group] = {**mean, **errors, "proofs": total}
    return pooled


def goal_row(rows: Sequence[Row], key: tuple[str, int, str], budget: int) -> Row | None:
    """Return the cell of a goal, with the optimizer's usual price and edits."""
    for row in rows:
        usual = (row["optimizer"], row["edits"]) == (20, "share")
        same = (row["world"], row["tasks"], row["mixture"], row["budget"]) == (*key, budget)
        if usual and same and DEFAULT in row["rules"]:
            return row
    return None


def _goals(rows: Sequence[Row]) -> Row:
    missed, cells = [], 0
    for key, least in GOALS.items():
        for budget, share in zip(BUDGETS, least, strict=True):
            row = goal_row(rows, key, budget)
            cells += row is not None
            if row is None or not _reached(row, share):
                missed.append(", ".join(map(str, (*key, budget))))
    return {"ok": not missed, "cells": cells, "missed": missed}


def _reached(row: Row, share: float | None) -> bool:
    if share is None:
        before = row.get("of_before", {"difference": -1.0, "difference_se": 0.0})
        return bool(before["difference"] >= -before["difference_se"])
    return bool(row.get("of_strict", {}).get("share", 0) >= share)


def _not_below(rows: Sequence[Row]) -> Row:
    compared = [(row, row["of_before"]) for row in rows if "of_before" in row]
    below = [
        {"where": where(row), **found}
        for row, found in compared
        if found["difference"] < -2 * found["difference_se"]
    ]
    return {"ok": bool(compared) and not below, "cells": len(compared), "below": below}


def _held(rows: Sequence[Row], most: float, bound: float) -> Row:
    """Say in which cells the default releases wrongly more often than allowed."""
    found = [
        {"where": where(row), **{name: row["rules"][DEFAULT][name] for name in _WRONG}}
        for row in rows
        if row["rules"][DEFAULT]["runs"] >= MANY
    ]
    above = [one for one in found if one["not_better"] > most or one["not_better_95"][1] > bound]
    worst = max(found, key=lambda one: one["not_better"], default=None)
    mean = float(np.mean([one["not_better"] for one in found])) if found else None
    return {
        "ok": bool(found) and not above,
        "cells": len(found),
        "mean": None if mean is None else round(mean, 4),
        "worst": worst,
        "above": above,
    }


_WRONG = ("runs", "not_better", "not_better_95")


def short_bounds(rows: Sequence[Row]) -> dict[str, Row]:
    """Return what must hold of few runs of few cells: only a fault of the code misses it."""
    null = next(row["rules"] for row in rows if row["mixture"] == NULL)
    mixed = [row for row in rows if row["mixture"] != NULL]
    behind = min(
        row["of_before"]["difference"] / max(row["of_before"]["difference_se"], 1e-9)
        for row in mixed
    )
    costs = [
        row["rules"][rule]["cost"] / row["budget"]
        for row in rows
        for rule in row["rules"]
        if rule != BEFORE
    ]
    bounds = {
        "default: true releases of useless edits": (1 - null[DEFAULT]["not_better_95"][0], 0.95),
        "default: releases that are better": (
            1 - max(row["rules"][DEFAULT]["not_better_95"][0] for row in mixed),
            1 - NOT_BETTER,
        ),
        "default over the one before, standard errors": (behind, -2.0),
        "SkillOpt's rule releases useless edits": (null[SKILLOPT]["out"], 0.5),
        "budget left, least": (1 - max(costs), 0.0),
    }
    return {
        name: {"value": round(value, 4), "least": least, "ok": value >= least}
        for name, (value, least) in bounds.items()
    }


def where(row: Row) -> str:
    """Name a cell."""
    usual = row["optimizer"] == 20
    price = "" if usual else f", optimizer's calls {row['optimizer']} rollouts"
    edits = "" if row["edits"] == "share" else f", {row['edits']} edits"
    return f"{row['world']}, {row['mixture']}, {row['tasks']} tasks, {row['budget']}{price}{edits}"


def _error(values: Table) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


def _rounded(row: Row) -> Row:
    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(one) for one in value]
        return round(value, 4) if isinstance(value, float) else value

    return {
        name: _rounded(value) if isinstance(value, dict) else short(value)
        for name, value in row.items()
    }
