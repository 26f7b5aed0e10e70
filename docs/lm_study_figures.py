"""Draws the figures of `docs/lm_study.md`, legible where a page is 390 pixels wide."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

COLORS = ("#3b6ea8", "#c8742c", "#4c9a5b", "#a84b5b", "#7b62a3")
WIDE = 3.9  # inches: 390 pixels at 100 an inch, so that a font of 8 points has 11 pixels there

# The same file for the same results, whenever and wherever it is drawn.
STYLE = {
    "svg.hashsalt": "lm_study",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def bars(
    path: Path,
    shown: Sequence[tuple[str, float, Sequence[float]]],
    label: str = "tickets at the right desk, sealed test",
) -> None:
    """Draw horizontal bars with intervals.

    Args:
        path: Where the SVG is written.
        shown: Name, mean and interval of each, shares in [-1, 1]; from the top down.
        label: Of the axis.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDE, 0.6 + 0.27 * len(shown)), layout="constrained")
        axes = figure.subplots()
        for number, (_, mean, (low, high)) in enumerate(shown):
            error = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
            axes.barh(-number, mean, 0.62, color=COLORS[0], xerr=error, capsize=2)
            axes.text(1.02, -number, f"{mean:.0%}", va="center")
        axes.set_yticks([-number for number in range(len(shown))], [one[0] for one in shown])
        lowest = min(0.0, *(low for _, _, (low, _) in shown))
        axes.set_xlim(lowest, 1.12)
        axes.axvline(0, color="#888888", linewidth=0.6)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel(label)
        figure.savefig(path, format="svg", metadata={"Date": None})


def curves(
    path: Path, labels: tuple[str, str], shown: Mapping[str, Sequence[float]], level: Any = None
) -> None:
    """Draw one line per name over its steps.

    Args:
        path: Where the SVG is written.
        labels: Of the horizontal and the vertical axis.
        shown: Values by name, one per step from 1 on.
        level: Name and height of a dashed line; none where unset.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDE, 2.6), layout="constrained")
        axes = figure.subplots()
        for number, (name, values) in enumerate(shown.items()):
            steps = range(1, len(values) + 1)
            axes.plot(steps, values, label=name, color=COLORS[number % len(COLORS)], linewidth=1.2)
        if level is not None:
            axes.axhline(level[1], color="#888888", linestyle="--", linewidth=0.9, label=level[0])
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(path, format="svg", metadata={"Date": None})
