"""Draws the figure of the study of gates as SVG text, legible on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from figure_svg import INK, rule, svg, text  # beside this file

COLORS = ("#3b6ea8", "#c8742c", "#4c9a5b", "#a84b5b", "#7b62a3", "#8a7a3c", "#4a9aa0", INK)
LEFT, ACROSS, WIDE, HIGH, GAP = 60, 2, 285, 170, 75
KEY, TICKS = 22, 4

Point = tuple[float, float]


class Panel(NamedTuple):
    """One condition: a line for each rule, of points (total cost, gain)."""

    title: str
    lines: Mapping[str, Sequence[Point]]


def panels(title: str, axis: str, shown: Sequence[Panel]) -> str:
    """Draw two panels in a row, one below the other, with one key for all.

    Args:
        title: Title of the figure.
        axis: Name of the horizontal axis, which is logarithmic.
        shown: The panels.
    """
    names = list(dict.fromkeys(name for panel in shown for name in panel.lines))
    colors = dict(zip(names, COLORS, strict=False))
    parts = []
    for number, panel in enumerate(shown):
        x = LEFT + number % ACROSS * (WIDE + GAP)
        y = 60 + number // ACROSS * (HIGH + GAP)
        parts += _panel(panel, axis, x, y, colors)
    floor = 60 + -(-len(shown) // ACROSS) * (HIGH + GAP)
    for place, name in enumerate(names):
        x, y = LEFT + place % 4 * 170, floor + place // 4 * KEY
        parts.append(_dot(x, y - 4, colors[name]))
        parts.append(text(x + 12, y, name, "start"))
    return svg(title, floor + (len(names) // 4 + 1) * KEY, parts)


def _panel(
    panel: Panel, axis: str, left: float, top: float, colors: Mapping[str, str]
) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    costs = sorted({cost for cost, _ in points})
    tick = _tick(max(gain for _, gain in points))
    width = math.log(costs[-1] / costs[0])

    def at(point: Point) -> Point:
        return left + math.log(point[0] / costs[0]) / width * WIDE, top + HIGH * (
            1 - max(point[1], 0) / (TICKS * tick)
        )

    parts = [text(left, top - 10, panel.title, "start")]
    for number in range(TICKS + 1):
        y = at((costs[0], number * tick))[1]
        parts.append(rule(left, y, left + WIDE, y))
        parts.append(text(left - 6, y + 4, f"{number * tick:.2f}", "end"))
    parts += [text(at((cost, 0))[0], top + HIGH + 17, f"{cost:,.0f}", "middle") for cost in costs]
    parts.append(text(left + WIDE / 2, top + HIGH + 34, axis, "middle"))
    for name, line in panel.lines.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, line))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colors[name]}" stroke-width="1.5"/>'
        )
        parts += [_dot(*at(point), colors[name], 3) for point in line]
    return parts


def _tick(most: float) -> float:
    """Return a round distance of ticks, so that `TICKS` of them hold a number."""
    size = 10 ** math.floor(math.log10(most / TICKS))
    return next(
        size * round_one
        for round_one in (1, 1.5, 2, 3, 4, 5, 10)
        if size * round_one * TICKS >= most
    )


def _dot(x: float, y: float, color: str, radius: float = 5) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>'
