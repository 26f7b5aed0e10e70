"""Draws the figures of the study with matplotlib, legible where a page is 390 pixels wide."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

COLORS = ("#3b6ea8", "#c8742c", "#4c9a5b", "#a84b5b", "#7b62a3", "#8a7a3c", "#4a9aa0", "#666666")
MARKERS = "osD^vP*X"
WIDE = 3.9  # inches: 390 pixels at 100 a inch, so that a font of 8 points has 11 pixels there

Interval = tuple[float, float]

# The same file for the same results, whenever and wherever it is drawn.
mpl.rcParams |= {
    "svg.hashsalt": "rl_study",
    "svg.fonttype": "path",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


class Point(NamedTuple):
    """A mean with its interval, shares in [0, 1]; ``x`` in the unit of its axis."""

    x: float
    mean: float
    interval: Interval


def lines(
    path: Path,
    labels: tuple[str, str],
    shown: Mapping[str, Sequence[Point]],
    ticks: Mapping[float, str] | None = None,
) -> None:
    """Draw one line with intervals per name.

    Args:
        path: Where the SVG is written.
        labels: Of the horizontal and the vertical axis.
        shown: Points by name, in the order of the key.
        ticks: Places and labels of a logarithmic axis; a linear one where unset.
    """
    figure, axes = _axes(3.0 + 0.17 * len(shown))
    for number, (name, points) in enumerate(shown.items()):
        x, means = [point.x for point in points], [point.mean for point in points]
        errors = [_error(point.mean, point.interval) for point in points]
        axes.errorbar(
            # A little apart, or whiskers hide each other.
            [value * 1.03**number for value in x] if ticks else x,
            means,
            yerr=list(zip(*errors, strict=True)),
            label=fill(name, 44),
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            elinewidth=0.9,
            capsize=2,
        )
    if ticks:
        axes.set_xscale("log")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
    _finish(axes, labels)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.17), ncols=1)
    _save(figure, path)


def bars(
    path: Path, label: str, shown: Mapping[str, Sequence[Point]], names: Sequence[str]
) -> None:
    """Draw a group of horizontal bars with intervals per row.

    Args:
        path: Where the SVG is written.
        label: Of the horizontal axis.
        shown: By row, one point per name; ``x`` is not looked at.
        names: What the bars of each group are, for the key.
    """
    figure, axes = _axes(0.8 + 0.2 * len(shown) * (len(names) + 0.6))
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        rows = [(row, points[number]) for row, points in enumerate(shown.values())]
        places = [row + number * height for row, _ in rows]
        means = [point.mean for _, point in rows]
        errors = [_error(point.mean, point.interval) for _, point in rows]
        axes.barh(
            places,
            means,
            height * 0.92,
            xerr=list(zip(*errors, strict=True)),
            label=name,
            color=COLORS[number],
            error_kw={"elinewidth": 0.9, "capsize": 2},
        )
        for place, (_, point) in zip(places, rows, strict=True):
            axes.text(point.interval[1] + 0.02, place, f"{point.mean:.0%}", va="center")
    middle = (len(names) - 1) / 2 * height
    axes.set_yticks([row + middle for row in range(len(shown))], [fill(one, 17) for one in shown])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel(label)
    if len(names) > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.35, 1), ncols=len(names))
    _save(figure, path)


def growths(path: Path, seeds: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
    """Draw how many skills a bank has, and what it solves, update by update.

    Args:
        path: Where the SVG is written.
        seeds: Name and updates of each; an update has ``skills``, and but for the last ``success``.
    """
    figure = Figure((WIDE, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for number, (name, updates) in enumerate(seeds):
        style = {
            "color": COLORS[number % len(COLORS)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 3,
            "linewidth": 1.2,
        }
        x = range(len(updates))
        upper.plot(x, [one["skills"] for one in updates], label=name, **style)
        played = [one["success"] for one in updates if "success" in one]
        lower.plot(range(len(played)), played, **style)
    upper.set_ylabel("active skills")
    upper.set_ylim(bottom=0)
    upper.legend(loc="lower right", ncols=2)
    _finish(lower, ("update of the bank", "success rate"))
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure((WIDE, height), layout="constrained")
    return figure, figure.subplots()


def _finish(axes: Axes, labels: tuple[str, str]) -> None:
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def _error(mean: float, interval: Interval) -> Interval:
    low, high = interval
    return max(0.0, mean - max(0.0, low)), max(0.0, min(1.0, high) - mean)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
