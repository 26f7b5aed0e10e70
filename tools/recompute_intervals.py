"""Recompute every interval that the pages of the studies print, from the stored results.

    python tools/recompute_intervals.py

Independent of the project: it imports numpy and scipy alone (Wilson 1927, Newcombe 1998, Student). It ends with 1, and
names the intervals, if a page prints one that does not follow from the results, or lacks one that does.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from itertools import chain, product
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parent.parent
PRINTED = re.compile(r"([+-]?\d+(?:\.\d+)?%?) to ([+-]?\d+(?:\.\d+)?%?)(?=[);|]| \|)")
Z = stats.norm.ppf(0.975)
HEAT = "pick_heat_then_place_in_recep"


def wilson(solved, played):
    share, scale = solved / played, 1 + Z * Z / played
    center = share + Z * Z / (2 * played)
    half = Z * np.sqrt(share * (1 - share) / played + Z * Z / (4 * played * played))
    return (max(center - half, 0) / scale) * (solved > 0), min((center + half) / scale, 1) if solved < played else 1.0


def student(values):
    if len(values) < 2 or min(values) == max(values):
        return None  # without spread
    return stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))


def newcombe(both, first, second, neither):
    """Newcombe (1998), method 10: second minus first, of pairs that both, one or neither solved."""
    n = both + first + second + neither
    one, two = (both + first) / n, (both + second) / n
    (low_1, high_1), (low_2, high_2) = wilson(both + first, n), wilson(both + second, n)
    cross = float(both * neither - first * second)
    cross = max(cross - n / 2, 0.0) if cross > 0 else cross
    margins = np.prod([float(both + first), second + neither, both + second, first + neither])
    phi = cross / np.sqrt(margins) if margins else 0.0
    sides = ((two - low_2, high_1 - one), (high_2 - two, one - low_1))
    below, above = (np.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b)) for a, b in sides)
    return two - one - below, two - one + above


def read(folder):
    found = defaultdict(dict)  # by kind and seed
    for path in sorted((ROOT / "benchmarks" / folder).glob("*-s*.json")):
        kind, _, seed = path.stem.rpartition("-s")
        found[kind][int(seed)] = json.loads(path.read_text("utf-8"))
    return found


def counts(one, artifact, kind="", homes=""):
    """Return solved and played of an artifact's test, or of one task type of it."""
    table = (one["exam"].get(homes, {}) if homes else one["test"]["tables"]).get(artifact)
    part = table and (table["task_types"][kind] if kind else table["overall"])
    return part and (round(part["success_rate"] * part["episodes"]), part["episodes"])


def written(bounds, form, digits=4):
    if bounds is not None:
        yield " to ".join(form(round(float(bound), digits)) for bound in bounds)


def lm_study():
    found = read("lm_study_results")

    def rates(kind, artifact):
        return np.array([np.divide(*counts(one, artifact)) for one in found[kind].values()])

    def bounds():
        for kind, artifact in product(("base", "sft", "grpo"), ("final", "no_skills", "other_scope")):
            yield student(rates(kind, artifact))
        for kind, artifact in product(("sft", "grpo"), ("no_skills", "other_scope")):
            yield student(rates(kind, "final") - rates(kind, artifact))
        yield student(rates("sft", "final") - rates("base", "final"))
        yield student(rates("grpo", "final") - rates("sft", "final"))
        for one in found["text"].values():
            (after, n), better, worse = counts(one, "best"), one["gain"]["better"], one["gain"]["worse"]
            yield newcombe(after - better, worse, better, n - after - worse)
            old, new = (one["test"]["tables"][side]["task_types"] for side in ("initial", "best"))
            yield student([new[kind]["success_rate"] - old[kind]["success_rate"] for kind in old])

    return chain(*(written(one, lambda x: f"{100 * x:.1f}%") for one in bounds()))


def rl_study():
    found = read("rl_study_results")

    def rate(kind, artifact, task="", homes=""):
        if have := [c for one in found[kind].values() if (c := counts(one, artifact, task, homes))]:
            bounds = student([a / n for a, n in have]) or wilson(*map(sum, zip(*have)))
            yield from written(bounds, lambda x: f"{np.clip(x, 0, 1):.0%}")

    def gain(a, first, b, second, task=""):
        both = [seed for seed in found[a] if seed in found[b]]
        ours, theirs = ([np.divide(*counts(found[k][s], n, task)) for s in both] for k, n in ((a, first), (b, second)))
        gains = np.subtract(ours, theirs)
        return gains.mean(), list(written(student(gains), lambda x: f"{round(x * 100):+d}"))

    yield from chain(*(rate("all", artifact) for artifact in ("final", "no_skills", "other_scope")))
    yield from gain("all", "final", "reads_nothing", "final")[1]
    yield from gain("gap_evolving", "final", "gap_fixed", "final", HEAT)[1]
    yield from gain("gap_complete", "final", "gap_evolving", "final", HEAT)[1]
    for size in ("n100", "n300", "n900", "all"):
        yield from (*rate(size, "cold_start"), *rate(f"sft_{size}", "final"), *rate(size, "final"))
        yield from min(gain(size, "final", size, "cold_start"), gain(size, "final", f"sft_{size}", "final"))[1]
    yield from rate("no_sft", "final")
    for kind in ("all", *(name for name in list(found) if name.startswith("reads_"))):
        yield from (*rate(kind, "cold_start"), *rate(kind, "final"), *rate(kind, "final", homes="reworded"))
    yield from chain(*(rate("all", side) for side in ("cold_start", "final", "no_skills", "other_scope")))
    yield from (*rate("all", "final", homes="training_homes"), *rate("all", "final", homes="temperature_1"))
    yield from (*rate("gap_evolving", "cold_start", HEAT), *rate("gap_fixed", "final", HEAT))
    yield from (*rate("gap_evolving", "final", HEAT), *rate("gap_complete", "final", HEAT))
    for kind in ("gap_complete", "gap_evolving", "gap_fixed"):
        yield from (*rate(kind, "cold_start"), *rate(kind, "final"))


def rows(study):
    for one in (one for seeds in read(f"{study}_results").values() for one in seeds.values()):
        solved = {who: np.array(list(digits)) == "1" for who, digits in one["solved"].items()}
        yield from chain(*(written(wilson(m.sum(), len(m)), lambda x: f"{x:.1%}", 12) for m in solved.values()))
        new, best = solved["released skill"], max((m for who, m in solved.items() if "skill" not in who), key=np.mean)
        for old in (solved["empty skill"], best):
            cells = [int(cell.sum()) for cell in (old & new, old & ~new, ~old & new, ~old & ~new)]
            yield from written(newcombe(*cells), lambda x: f"{x:+.1%}", 12)


def main():
    wrong, studies = 0, {"lm_study": lm_study(), "rl_study": rl_study()}
    for study, found in (studies | {name: rows(name) for name in ("real_rows", "small_models")}).items():
        text = (ROOT / "docs" / f"{study}.md").read_text("utf-8").partition("<!-- generated by")[2]
        printed = Counter(" to ".join(found) for found in PRINTED.findall(text))
        wanted = Counter(one.replace("-0%", "0%") for one in found)
        for one in (off := (printed - wanted) + (wanted - printed)):
            print(f"{study}: {one} {'is printed' if printed[one] > wanted[one] else 'is missing'}")
        wrong += off.total()
        print(f"{study}: {printed.total()} intervals printed")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
