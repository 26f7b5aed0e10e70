"""Draws `docs/figures/nights.svg` from the results of `benchmarks/nights.py --save`."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from gates_study_figures import Panel, panels  # noqa: E402 (beside this file)

FIGURE = HERE / "figures" / "nights.svg"
RESULTS = HERE.parent / "benchmarks" / "nights_results.json"
ALPHA = 0.05


def figure() -> str:
    """Return the figure: what was released up to each night, by rule."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    nights = results["nights"]

    def lines(kind: str, at: int) -> dict[str, list[tuple[float, float]]]:
        return {
            rule: [(night, shares[at]) for night, shares in zip(nights, points, strict=True)]
            for rule, points in results[kind].items()
        }

    bounds = {f"alpha {ALPHA:g}": [(night, ALPHA) for night in nights]}
    shown = (
        Panel("False among the released; 3 of 10 changes help", lines("mixed", 0) | bounds),
        Panel("Of the changes that help, released", lines("mixed", 1)),
        Panel("Something is released; no change helps", lines("null", 0) | bounds),
    )
    title = (
        f"Release tests of {nights[-1]} nights: means of {results['series']} series, and of "
        f"{results['null_series']} where no change helps"
    )
    return panels(title, "nights", shown)


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
