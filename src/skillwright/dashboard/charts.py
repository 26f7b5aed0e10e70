"""SVG charts, drawn on the server, so that they work without scripts.

Colors are CSS classes. Every chart has a title for screen readers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from skillwright.dashboard.timeline import Moment

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 30
_LEGEND_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with an interval.

    Attributes:
        value: Height; ``None`` draws nothing.
        low: Lower end of the interval, or ``None``.
        high: Upper end, or ``None``.
        kind: CSS class, such as ``accept`` or ``reject``.
        title: Tooltip.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    kind: str = ""
    link: str = ""
    title: str = ""


def lines(
    title: str, series: Mapping[str, Sequence[tuple[float, float | None]]], percent: bool = False
) -> Markup:
    """Draw lines over steps or iterations.

    Args:
        title: Title of the chart.
        series: (x, y) by name; ``None`` and NaN are gaps.
        percent: Write y as percentages, from 0 to 100.
    """
    points = [(x, y) for one in series.values() for x, y in one if _is_number(y)]
    if not points:
        return Markup("")
    xs, ys = [x for x, _ in points], [float(y or 0) for _, y in points]
    ends = (0.0, 1.0) if percent else _bounds(ys)
    frame = _Frame(min(xs), max(xs), *ends, top=_legend_rows(len(series)))
    parts = [frame.axes(percent)]
    for number, (name, one) in enumerate(series.items()):
        for run in _runs(one):
            path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in run)
            shape = "polyline" if len(run) > 1 else "circle"
            if shape == "polyline":
                parts.append(f'<polyline class="line s{number % 6}" points="{path}"/>')
            else:
                at = path.split(",")
                parts.append(
                    f'<circle class="dot s{number % 6}" cx="{at[0]}" cy="{at[1]}" r="2.5"/>'
                )
        if len(series) > 1:
            parts.append(_legend(number, name))
    return _svg(title, "".join(parts))


def steps(title: str, moments: Sequence[Moment]) -> Markup:
    """Draw scores of the current and released versions with intervals."""
    sides = {
        name: [(one.at, getattr(one, name)) for one in moments] for name in ("current", "released")
    }
    if not any(one.share is not None for found in sides.values() for _, one in found):
        return Markup("")
    last = max(one.at for one in moments)
    frame = _Frame(-0.03 * (last or 1), 1.03 * (last or 1), 0.0, 1.0, top=_legend_rows(2))
    parts = [frame.axes(True, ticks=False)]
    parts += [_tick(value, frame) for value in _whole(0, last)]
    for number, (name, found) in enumerate(sides.items()):
        # Side by side, so that equal points do not hide each other.
        shift = 5 * number - 2.5
        known = [(frame.x(at) + shift, one) for at, one in found if one.share is not None]
        path = " ".join(f"{x:.1f},{frame.y(one.share or 0):.1f}" for x, one in known)
        parts.append(f'<polyline class="line s{number}" points="{path}"/>')
        for x, one in known:
            said = f"<title>{escape(f'{name}: {one.name}, {one.share:.0%}')}</title>"
            parts.append(f"<g>{said}{_bar(x, one.low, one.high, frame, f's{number}')}")
            y = frame.y(one.share or 0)
            parts.append(f'<circle class="dot s{number}" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>')
        parts.append(_legend(number, name))
    return _svg(title, "".join(parts))


def marks(title: str, points: Sequence[Mark]) -> Markup:
    """Draw points with their intervals over a zero line, such as verdicts."""
    values = [v for one in points for v in (one.value, one.low, one.high) if _is_number(v)]
    if not values:
        return Markup("")
    numbers = [float(v or 0) for v in values]
    frame = _Frame(0, max(len(points), 1), *_bounds([*numbers, 0.0]))
    parts = [frame.axes(False, ticks=False)]
    zero = frame.y(0)
    parts.append(
        f'<line class="zero" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{zero}" y2="{zero}"/>'
    )
    every = max(1, math.ceil(len(points) / 16))
    for number, one in enumerate(points):
        x = frame.x(number + 0.5)
        drawn = _mark(one, x, frame)
        parts.append(f'<a href="{escape(one.link)}">{drawn}</a>' if one.link else drawn)
        if number % every == 0:
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">'
                f"{escape(one.label)}</text>"
            )
    # role=img allows no links, so charts with links are groups.
    return _svg(title, "".join(parts), "group" if any(one.link for one in points) else "img")


def _mark(one: Mark, x: float, frame: "_Frame") -> str:
    if not _is_number(one.value):
        return ""
    parts = [f"<title>{escape(one.title or one.label)}</title>"]
    parts.append(_bar(x, one.low, one.high, frame, one.kind))
    y = frame.y(one.value or 0)
    parts.append(f'<circle class="dot {escape(one.kind)}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
    return "".join(parts)


def _bar(x: float, low: float | None, high: float | None, frame: "_Frame", kind: str) -> str:
    if not (_is_number(low) and _is_number(high)):
        return ""
    ends = f'y1="{frame.y(low or 0):.1f}" y2="{frame.y(high or 0):.1f}"'
    return f'<line class="bar {escape(kind)}" x1="{x:.1f}" x2="{x:.1f}" {ends}/>'


def _tick(value: float, frame: "_Frame") -> str:
    place = f'x="{frame.x(value):.1f}" y="{_HEIGHT - 10}" text-anchor="middle"'
    return f'<text class="tick" {place}>{value:g}</text>'


@dataclass(frozen=True, slots=True)
class _Frame:
    left: float
    right: float
    low: float
    high: float
    top: float = _TOP

    def x(self, value: float) -> float:
        share = (value - self.left) / ((self.right - self.left) or 1)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - self.top - _BOTTOM)

    def axes(self, percent: bool, ticks: bool = True) -> str:
        parts = []
        for value in _round_values(self.low, self.high, 4):
            y = self.y(value)
            text = f"{value:.0%}" if percent else f"{value:.4g}"
            parts.append(
                _across("grid", y)
                + f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{text}</text>"
            )
        if ticks:
            parts += [_tick(value, self) for value in _whole(self.left, self.right)]
        return "".join(parts)


def _across(kind: str, y: float) -> str:
    ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def _whole(left: float, right: float) -> list[float]:
    """Return whole numbers for an axis of steps."""
    return [one for one in _round_values(left, right, 8) if one == int(one)]


def _round_values(low: float, high: float, about: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two numbers."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    step = min((power * one for one in (1, 2, 5, 10)), key=lambda one: abs(span / one - about))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Rounded, because 3 * 0.1 is 0.30000000000000004.
    return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Split points at gaps."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None or not _is_number(y):
            found.append([])
        else:
            found[-1].append((x, y))
    return [run for run in found if run]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if 0 <= low <= high * 0.7:  # begin at 0, so that heights are proportional to values
        low = 0.0
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return (low if low == 0 else low - room), high + room


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _legend(number: int, name: str) -> str:
    x = _LEFT + (number % _LEGEND_COLUMNS) * 196
    y = 12 + (number // _LEGEND_COLUMNS) * 16
    return (
        f'<rect class="key s{number % 6}" x="{x}" y="{y - 9}" width="10" height="10"/>'
        f'<text class="tick" x="{x + 15}" y="{y}">{escape(name[:30])}</text>'
    )


def _legend_rows(series: int) -> float:
    """Return the y offset of a drawing below the legend of its lines."""
    return _TOP + 16.0 * math.ceil(series / _LEGEND_COLUMNS) if series > 1 else _TOP


def _svg(title: str, body: str, role: str = "img") -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="{role}"'
        f' aria-label="{escape(title)}">{body}</svg>'
    )
