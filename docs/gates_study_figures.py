"""Draws the two figures of the study of gates as SVG text, legible on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from figure_svg import rule, svg, text  # beside this file

COLORS = ("#3b6ea8", "#c8742c", "#4c9a5b", "#a84b5b", "#7b62a3", "#8a7a3c", "#4a9aa0")
LEFT, ACROSS, WIDE, HIGH, GAP = 60, 2, 285, 170, 75
KEY, TICKS = 22, 4

Point = tuple[float, float]


class Panel(NamedTuple):
    """One condition: a line, and points beside it by name; x is rollouts, y true gain."""

    title: str
    line: Sequence[Point]
    points: Mapping[str, Point]


def panels(title: str, line_name: str, shown: Sequence[Panel]) -> str:
    """Draw two panels in a row, one below the other, with one key for all."""
    names = list(dict.fromkeys(name for panel in shown for name in panel.points))
    parts = []
    for number, panel in enumerate(shown):
        x = LEFT + number % ACROSS * (WIDE + GAP)
        y = 60 + number // ACROSS * (HIGH + GAP)
        parts += _panel(panel, x, y, {name: COLORS[i + 1] for i, name in enumerate(names)})
    floor = 60 + -(-len(shown) // ACROSS) * (HIGH + GAP)
    for place, name in enumerate([line_name, *names]):
        x, y = LEFT + place % 3 * 230, floor + place // 3 * KEY
        parts.append(_dot(x, y - 4, COLORS[place]))
        parts.append(text(x + 12, y, name, "start"))
    return svg(title, floor + (len(names) // 3 + 1) * KEY, parts)


def _panel(panel: Panel, left: float, top: float, colors: Mapping[str, str]) -> list[str]:
    points = [*panel.line, *panel.points.values()]
    step_x, step_y = (_tick(max(point[axis] for point in points)) for axis in (0, 1))

    def at(point: Point) -> Point:
        return left + point[0] / (TICKS * step_x) * WIDE, top + HIGH * (
            1 - point[1] / (TICKS * step_y)
        )

    parts = [text(left, top - 10, panel.title, "start")]
    for tick in range(TICKS + 1):
        x, y = at((tick * step_x, tick * step_y))
        parts.append(rule(left, y, left + WIDE, y))
        parts.append(text(left - 6, y + 4, f"{tick * step_y:.2f}", "end"))
        parts.append(text(x, top + HIGH + 17, f"{tick * step_x:,.0f}", "middle"))
    parts.append(text(left + WIDE / 2, top + HIGH + 34, "rollouts", "middle"))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, panel.line))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[0]}" stroke-width="1.5"/>')
    parts += [_dot(*at(point), COLORS[0], 3) for point in panel.line]
    parts += [_dot(*at(point), colors[name]) for name, point in panel.points.items()]
    return parts


def _tick(most: float) -> float:
    """Return a round distance of ticks, so that `TICKS` of them hold a number."""
    size = 10 ** math.floor(math.log10(most / TICKS))
    return next(
        size * round_one for round_one in (1, 2, 3, 4, 5, 10) if size * round_one * TICKS >= most
    )


def strips(title: str, rows: Mapping[str, Sequence[float]], limit: float) -> str:
    """Draw one row of dots per name, shares in [0, 1], and a line at a limit."""
    left, width, row, top = 200, 500, 34, 50
    floor = top + len(rows) * row
    parts = []
    for tenths in range(0, 11, 2):
        x = left + tenths / 10 * width
        parts.append(rule(x, top, x, floor))
        parts.append(text(x, floor + 18, f"{tenths * 10}%", "middle"))
    for number, (name, shares) in enumerate(rows.items()):
        y = top + (number + 0.5) * row
        parts.append(text(left - 12, y + 4, name, "end"))
        parts += [
            _dot(left + share * width, y, COLORS[number % len(COLORS)], 4, 0.35) for share in shares
        ]
    x = left + limit * width
    parts.append(rule(x, top - 6, x, floor, 1.5))
    parts.append(text(x, top - 10, f"{limit:.0%}", "middle"))
    return svg(title, floor + 30, parts)


def _dot(x: float, y: float, color: str, radius: float = 5, opacity: float = 1) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}" opacity="{opacity}"/>'
