"""What the finished trainings say: means with spread, and paired differences by seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t

from measuring import Check, Kind, at_least, at_most

OURS = "Skillwright"
Row = dict[str, Any]
MOST_WORSE = 0.02
MOST_MISSED = 5
MISSED_RUNS = 15
PROVING = (1600, 3200)
"""The budgets at which the released skill is to be ahead; below, the current one."""


def cells(rows: Iterable[Row]) -> dict[tuple[str, int, str], list[Row]]:
    """Group rows by world, budget and trainer; each group in the order of its seeds."""
    found: dict[tuple[str, int, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        found.setdefault((row["world"], row["budget"], row["trainer"]), []).append(row)
    return found


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of one world, budget and trainer."""
    released = [row["released"] for row in rows]
    return {
        "runs": len(rows),
        "start": fmean(row["start"] for row in rows),
        "released": fmean(released),
        "se": stdev(released) / len(rows) ** 0.5 if len(rows) > 1 else 0.0,
        "median": median(released),
        "range": [min(released), max(released)],
        "current": fmean(row["current"] for row in rows),
        "calls": fmean(row["calls"] for row in rows),
        "nothing": sum(row["nothing"] for row in rows),
        "worse": sum(is_worse(row) for row in rows),
        "missed": max((row["missed"] for row in rows if row["missed"] is not None), default=None),
    }


def is_worse(row: Row) -> bool:
    """Tell whether the released skill is truly worse than the start."""
    return bool(row["released"] < row["start"] - 1e-9)


def difference(
    ours: Sequence[Row], theirs: Sequence[Row], figure: str = "released"
) -> tuple[float, float, float] | None:
    """Return the mean paired difference by seed, and its 95% interval; ``None`` below 2 pairs."""
    other = {row["seed"]: row["released"] for row in theirs}
    found = [row[figure] - other[row["seed"]] for row in ours if row["seed"] in other]
    if len(found) < 2:
        return None
    mean, error = fmean(found), stdev(found) / len(found) ** 0.5
    reach = float(t.ppf(0.975, len(found) - 1)) * error
    return mean, mean - reach, mean + reach


def verdict(found: tuple[float, float, float] | None) -> str:
    """Say who wins."""
    if found is None:
        return "too few runs"
    _, low, high = found
    return "ahead" if low > 0 else "behind" if high < 0 else "no difference shown"


Groups = Mapping[tuple[str, int, str], Sequence[Row]]


def lines(groups: Groups) -> Iterator[str]:
    """Say in plain lines who releases what, and who loses."""
    for (world, budget, name), rows in sorted(groups.items()):
        one = figures(rows)
        low, high = one["range"]
        missed = "" if one["missed"] is None else f", missed in a row {one['missed']}"
        yield (
            f"{world}, {budget:,} calls, {name}: released {one['released']:.3f} "
            f"(se {one['se']:.3f}, median {one['median']:.3f}, {low:.3f} to {high:.3f}), "
            f"current {one['current']:.3f}, start {one['start']:.3f}, n {one['runs']}, "
            f"{one['calls']:,.0f} calls, nothing released {one['nothing']}, worse {one['worse']}"
            f"{missed}"
        )
        if name != OURS and (ours := groups.get((world, budget, OURS))):
            found = difference(ours, rows)
            if found:
                mean, low, high = found
                yield (
                    f"  {OURS} is {verdict(found)}: {mean:+.3f} (95% interval {low:+.3f} to "
                    f"{high:+.3f})"
                )


def checks(groups: Groups) -> list[Check]:
    """Return what is asked of Skillwright, as far as the rows go."""
    return [*_ahead(groups), *_careful(groups)]


def _ahead(groups: Groups) -> Iterator[Check]:
    peers = sorted({name for _, _, name in groups if name.startswith(("SkillOpt", "gepa"))})
    budgets = sorted({budget for _, budget, _ in groups})
    worlds = sorted({world for world, _, _ in groups})
    for budget in (one for one in budgets if one >= 800):
        figure = "released" if budget in PROVING else "current"
        for peer in peers:
            found = {}
            for world in worlds:
                ours, theirs = groups.get((world, budget, OURS)), groups.get((world, budget, peer))
                if ours and theirs and (one := difference(ours, theirs, figure)):
                    found[world] = one
                    yield at_least(
                        f"{world}, {budget} calls: {figure} over {peer}", Kind.SHARE, [one[0]], 0
                    )
            if budget in PROVING and len(found) == len(worlds) > 1:
                clear = sum(low > 0 for _, low, _ in found.values())
                yield at_least(
                    f"{budget} calls: worlds clearly ahead of {peer}", Kind.COUNT, [clear], 2
                )


def _careful(groups: Groups) -> Iterator[Check]:
    ours = [row for (_, _, name), rows in groups.items() if name == OURS for row in rows]
    worse = sum(map(is_worse, ours)) / max(len(ours), 1)
    yield at_most("released skills worse than the start", Kind.SHARE, [worse], MOST_WORSE)
    for (world, budget, name), rows in sorted(groups.items()):
        if name == OURS and world == "rules":
            missed = max(row["missed"] for row in rows[:MISSED_RUNS])
            what = f"{world}, {budget} calls: truly better candidates rejected in a row"
            yield at_most(what, Kind.COUNT, [missed], MOST_MISSED)
