"""Draws the three kinds of figure of the study as SVG text, legible on light and dark pages."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from figure_svg import rule, svg, text  # beside this file

COLORS = ("#3b6ea8", "#c8742c", "#4c9a5b", "#a84b5b", "#7b62a3", "#8a7a3c", "#4a9aa0", "#888888")
TOP, ROW = 40, 26


class Line(NamedTuple):
    """A curve: (x, mean, low, high) per point, shares in [0, 1]."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


class Bar(NamedTuple):
    """A bar: ``score`` has ``mean`` and ``interval``, shares in [0, 1]."""

    name: str
    score: Mapping[str, Any]


def curves(title: str, lines: Sequence[Line]) -> str:
    """Draw curves with their intervals as bands."""
    left, width, height = 50, 440, 300
    last = max((point[0] for line in lines for point in line.points), default=1.0) or 1.0

    def at(x: float, y: float) -> str:
        return f"{left + x / last * width:.1f},{TOP + (1 - y) * height:.1f}"

    parts = []
    for tenths in range(0, 11, 2):
        y = TOP + (1 - tenths / 10) * height
        parts.append(rule(left, y, left + width, y))
        parts.append(text(left - 6, y + 4, f"{tenths * 10}%", "end"))
    for quarter in range(5):
        x = left + quarter / 4 * width
        parts.append(text(x, TOP + height + 18, f"{last * quarter / 4:.0f}", "middle"))
    for number, (name, points) in enumerate(lines):
        color = COLORS[number % len(COLORS)]
        upper = [at(x, high) for x, _, _, high in points]
        lower = [at(x, low) for x, _, low, _ in reversed(points)]
        band = " ".join([*upper, *lower])
        path = " ".join(at(x, mean) for x, mean, _, _ in points)
        parts.append(f'<polygon points="{band}" fill="{color}" opacity="0.13"/>')
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += _key(left + width + 20, TOP + 8 + 22 * number, color, name)
    return svg(title, TOP + height + 30, parts)


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw horizontal bars with their intervals as whiskers."""
    left, width = 320, 360
    parts = []
    for number, (name, score) in enumerate(rows):
        y, mean = TOP + number * ROW, score["mean"]
        parts.append(text(left - 8, y + 15, name, "end"))
        parts.append(
            f'<rect x="{left}" y="{y + 3}" width="{mean * width:.1f}" height="{ROW - 9}" '
            f'fill="{COLORS[0]}"/>'
        )
        low, high = (min(1.0, max(0.0, bound)) for bound in score["interval"])
        middle = y + 3 + (ROW - 9) / 2
        parts.append(rule(left + low * width, middle, left + high * width, middle, 2))
        parts.append(text(left + max(mean, high) * width + 8, y + 15, f"{mean:.0%}", "start"))
    return svg(title, TOP + len(rows) * ROW + 12, parts)


def stacks(title: str, columns: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Draw one stacked column per moment."""
    left, width, height = 50, 440, 260
    names = list(dict.fromkeys(name for _, counts in columns for name in counts))
    most = max((sum(counts.values()) for _, counts in columns), default=1.0) or 1.0
    step = width / max(1, len(columns))
    parts = []
    for place, (label, counts) in enumerate(columns):
        x, floor = left + place * step + step * 0.15, TOP + height
        for number, name in enumerate(names):
            tall = counts.get(name, 0.0) / most * height
            floor -= tall
            color = COLORS[number % len(COLORS)]
            parts.append(
                f'<rect x="{x:.1f}" y="{floor:.1f}" width="{step * 0.7:.1f}" '
                f'height="{tall:.1f}" fill="{color}"/>'
            )
        middle = x + step * 0.35
        parts.append(text(middle, floor - 5, f"{sum(counts.values()):.0f}", "middle"))
        parts.append(text(middle, TOP + height + 18, label, "middle"))
    for number, name in enumerate(names):
        color = COLORS[number % len(COLORS)]
        parts += _key(left + width + 20, TOP + 8 + 22 * number, color, name)
    return svg(title, TOP + height + 30, parts)


def _key(x: float, y: float, color: str, name: str) -> list[str]:
    square = f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>'
    return [square, text(x + 18, y + 10, name, "start")]
