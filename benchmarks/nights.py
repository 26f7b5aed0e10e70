"""Simulate 200 nights of release tests of one bank or folder under one shared error budget.

    nice python benchmarks/nights.py               # about half an hour
    nice python benchmarks/nights.py --series 20 --null 0

Each night proposes one change and tests it with the real release test on new draws; three in ten
changes raise the success rate, by 15 points on average, or (null series) none does. Compared: the
shared budget (`ErrorBudget`) as the tests of a bank have it; as trainings of a folder have it, the
first of which has an alpha of its own; alpha divided by the number of nights (Bonferroni); and a
full alpha each night. With --save, `docs/nights_figure.py` draws what was found.
"""

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

from measuring import Check, Kind, at_least, at_most, report  # noqa: E402
from measuring.chances import release_test  # noqa: E402
from skillwright.core.seeds import derive_seed  # noqa: E402
from skillwright.evaluation import ErrorBudget, Verdict  # noqa: E402

NIGHTS, ALPHA = 200, 0.05
GOOD = 0.3
"""Share of the nights whose change has a gain."""
SHOWN = (2, 5, 10, 20, 50, 100, 200)
"""Nights after which the shares are stored."""
BANK, FOLDER, BONFERRONI, FULL = (
    "shared budget",
    "first apart, rest shared",
    "Bonferroni",
    "alpha each night",
)
RULES = (BANK, FOLDER, BONFERRONI, FULL)
RESULTS = Path(__file__).with_name("nights_results.json")

Shares = dict[str, list[tuple[float, float]]]
"""By rule, after each of the nights `SHOWN`: false among the released, good changes released."""


def of_night(seed: int, gain: float, level: float) -> Verdict:
    """Test a change of a known gain, on tasks that differ in difficulty."""

    def rate(task: int, skill: str, played: int) -> float:
        del played
        base = 0.1 + 0.6 * (derive_seed("task", f"t{task}") % 1_000) / 1_000
        return min(1.0, base + (gain if skill == "new" else 0.0))

    return release_test(rate, seed, level)


def level_of(rule: str, verdicts: Sequence[Verdict]) -> float:
    """Return the level of the next test."""
    first = 1 if rule == FOLDER else 0
    match rule:
        case _ if rule == FULL or len(verdicts) < first:
            return ALPHA
        case _ if rule == BONFERRONI:
            return ALPHA / NIGHTS
        case _:
            return ErrorBudget.after(ALPHA, (one.to_dict() for one in verdicts[first:])).level


def series(number: int, good: float, rules: Sequence[str]) -> Shares:
    """Play all nights once under each rule, on the same changes and draws."""
    rng = random.Random(number)
    gains = [rng.uniform(0.1, 0.2) if rng.random() < good else 0.0 for _ in range(NIGHTS)]
    found: Shares = {}
    for rule in rules:
        verdicts: list[Verdict] = []
        for night, gain in enumerate(gains):
            seed = derive_seed("night", number, night)
            verdicts.append(of_night(seed, gain, level_of(rule, verdicts)))
        found[rule] = [_shares(verdicts[:night], gains) for night in SHOWN]
    return found


def _shares(verdicts: Sequence[Verdict], gains: Sequence[float]) -> tuple[float, float]:
    released = [gain for one, gain in zip(verdicts, gains, strict=False) if one.accepted]
    wrong = sum(gain == 0 for gain in released)
    good = sum(gain > 0 for gain in gains[: len(verdicts)])
    return wrong / max(1, len(released)), (len(released) - wrong) / max(1, good)


def means(rows: Sequence[Shares]) -> Shares:
    """Return the means over series."""
    return {
        rule: [
            (fmean(row[rule][at][0] for row in rows), fmean(row[rule][at][1] for row in rows))
            for at in range(len(SHOWN))
        ]
        for rule in (rows[0] if rows else ())
    }


def checks_of(mixed: Shares, null: Shares, null_series: int) -> list[Check]:
    """Expect the promised share of false releases, and half again Bonferroni's power.

    If no change has a gain, the share of series with a release is the false discovery rate. It is
    known to three standard errors of ``null_series``.
    """
    promised = {BANK: ALPHA, FOLDER: 2 * ALPHA}
    ratio = mixed[BANK][-1][1] / max(mixed[BONFERRONI][-1][1], 1e-9)
    checks = [at_least(f"{BANK}: power, to Bonferroni's", Kind.PEER, [ratio], 1.5)]
    for rule, bound in promised.items():
        said = f"{rule}: false among the released"
        checks.append(at_most(said, Kind.SHARE, [mixed[rule][-1][0]], bound))
        if null:
            room = 3 * (bound * (1 - bound) / null_series) ** 0.5
            said = f"{rule}: released where nothing has a gain"
            checks.append(at_most(said, Kind.SHARE, [null[rule][-1][0]], bound + room))
    return checks


def main() -> int:
    """Print false releases and power of each rule, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=20, help="series with useful changes")
    parser.add_argument("--null", type=int, default=300, help="series without")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    counts = parser.parse_args()
    mixed = means([series(number, GOOD, RULES) for number in range(counts.series)])
    null = means([series(number, 0.0, (BANK, FOLDER)) for number in range(counts.null)])
    for title, found in ((f"{counts.series} series", mixed), (f"{counts.null} without gain", null)):
        print(f"{title}, {NIGHTS} nights: false among the released, good changes released")
        for rule, shares in found.items():
            print(f"{rule:25} {shares[-1][0]:6.1%} {shares[-1][1]:7.1%}")
    if counts.save:
        save({"nights": SHOWN, "series": counts.series, "null_series": counts.null}, mixed, null)
    return report(checks_of(mixed, null, counts.null), series=counts.series, null=counts.null)


def save(said: Mapping[str, Any], mixed: Shares, null: Shares) -> None:
    """Write what the figure shows."""
    shown = {**said, "mixed": mixed, "null": null}
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in shown.items())
    RESULTS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
