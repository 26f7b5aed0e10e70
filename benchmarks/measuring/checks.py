"""A check: what was measured, in which unit, and the target that it holds or misses."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, quantiles
from typing import Any


class Kind(StrEnum):
    """The unit of a figure. Seconds are not among them, on purpose."""

    PEER = "times the peer"
    """Ours by that of another program which did the same job in turns with ours."""
    IDEAL = "times the ideal"
    """Ours by what was computed that it cannot be better than."""
    PLAIN = "pieces of plain work"
    """Ours by the time of a fixed piece of work (`measuring.plain`)."""
    SHARE = "share"
    COUNT = "count"
    MEMORY = "MB"


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and its target."""

    measured: str  # what was measured, in words
    kind: Kind  # its unit
    samples: tuple[float, ...]  # the readings; their median decides
    target: float  # the bound
    is_floor: bool = False  # whether the median must be at least the target, and not at most

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError(f"{self.measured}: there is no reading; measure at least once")

    @property
    def value(self) -> float:
        """The median of the readings."""
        return median(self.samples)

    @property
    def ok(self) -> bool:
        """Whether the target holds; a figure that is no number holds none."""
        return self.value >= self.target if self.is_floor else self.value <= self.target

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the readings, or the least and the most of fewer than four."""
        if len(self.samples) < 4:
            return min(self.samples), max(self.samples)
        low, _, high = quantiles(self.samples, n=4)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Return what the last line of a benchmark says about it."""
        low, high = self.spread
        return {
            "measured": self.measured,
            "kind": str(self.kind),
            "target": f"{'>=' if self.is_floor else '<='} {self.target:g}",
            "value": _short(self.value),
            "spread": [_short(low), _short(high)],
            "n": len(self.samples),
            "ok": self.ok,
        }


def at_most(measured: str, kind: Kind, samples: Sequence[float], target: float) -> Check:
    """Expect a median of at most the target."""
    return Check(measured, kind, tuple(samples), target)


def at_least(measured: str, kind: Kind, samples: Sequence[float], target: float) -> Check:
    """Expect a median of at least the target."""
    return Check(measured, kind, tuple(samples), target, is_floor=True)


def report(checks: Sequence[Check], **figures: Any) -> int:
    """Print a line per check, and one JSON object as the last line.

    Args:
        checks: All of them decide.
        figures: What else was measured, for the reader; nothing of it decides.

    Returns:
        The exit code: 0 if every check holds, else 1.
    """
    if not checks:
        raise ValueError("a benchmark without a check decides nothing; give it one")
    listed = [check.to_json() for check in checks]
    for row in listed:
        low, high = row["spread"]
        print(
            f"{'ok  ' if row['ok'] else 'MISS'} {row['measured']}: {row['value']:g} {row['kind']} "
            f"({low:g} to {high:g}, n {row['n']}), target {row['target']}"
        )
    ok = all(check.ok for check in checks)
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"checks": listed, **figures, "load": load, "ok": ok}))
    return 0 if ok else 1


def _short(value: float) -> float:
    return float(f"{value:.4g}")
