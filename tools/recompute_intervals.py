"""Recompute every interval that the pages of the studies print from the stored results, with numpy and scipy alone.

Wilson 1927, Newcombe 1998, Student, sums of clusters (Liang, Zeger 1986). Ends with 1 if one is wrong or lacking.
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
PAIRS = "sft_as_long sft,sft_longer sft,grpo sft,grpo sft_as_long,grpo sft_longer,grpo_kl_low grpo,grpo_kl_high grpo"
Z, ENDS, GAPS = stats.norm.ppf(0.975), ("cold_start", "final"), ("gap_fixed", "gap_evolving", "gap_complete")


def wilson(solved, played):
    share, scale = solved / played, 1 + Z * Z / played
    center = share + Z * Z / (2 * played)
    half = Z * np.sqrt(share * (1 - share) / played + Z * Z / (4 * played * played))
    return (max(center - half, 0) / scale) * (solved > 0), min((center + half) / scale, 1) if solved < played else 1.0


def student(values):
    has_spread = len(values) > 1 and min(values) < max(values)
    return stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values)) if has_spread else None


def newcombe(both, first, second, neither):  # method 10: second minus first, of pairs that both, one or neither solved
    n = both + first + second + neither
    one, two = (both + first) / n, (both + second) / n
    (low_1, high_1), (low_2, high_2) = wilson(both + first, n), wilson(both + second, n)
    cross = max((cross := float(both * neither - first * second)) - n / 2, min(cross, 0.0))
    margins = np.prod([float(both + first), second + neither, both + second, first + neither])
    phi = cross / (np.sqrt(margins) or 1.0)
    sides = ((two - low_2, high_1 - one), (high_2 - two, one - low_1))
    below, above = (np.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b)) for a, b in sides)
    return two - one - below, two - one + above


def read(folder):
    found = defaultdict(dict)  # by kind and seed
    for path in sorted((ROOT / "benchmarks" / folder).glob("*-s*.json")):
        kind, _, seed = path.stem.rpartition("-s")
        found[kind][int(seed)] = json.loads(path.read_text("utf-8"))
    return found


def counts(one, artifact, kind="", homes=""):  # solved and played of an artifact's test, or of one task type of it
    table = (one["exam"].get(homes, {}) if homes else one.get("test", one.get("growth"))["tables"]).get(artifact)
    part = table and (table["task_types"][kind] if kind else table["overall"])
    return part and (round(part["success_rate"] * part["episodes"]), part["episodes"])


def written(bounds, form, digits=4):
    if bounds is not None:
        yield " to ".join(form(round(float(bound), digits)) for bound in bounds)


def halves(values, clusters):  # half intervals of a mean by shop, first clause, second clause, and wording
    for labels in (*clusters.values(), 1000 * np.array(clusters["first"]) + clusters["second"]):
        at = np.unique(labels, return_inverse=True)[1]
        sums, m = np.bincount(at, values - values.mean()), max(at.max() + 1, 2)  # of one cluster it is 0
        yield stats.t.ppf(0.975, m - 1) * np.sqrt(sums @ sums * m / (m - 1)) / len(values)


def lm_study():
    found = read("lm_study_results")

    def gain(a, first, b, second):
        each = []
        for seed in found[a].keys() & found[b].keys():
            pairs = zip(found[a][seed]["solved"][first], found[b][seed]["solved"][second])
            change = np.array([int(one) - int(other) for one, other in pairs])
            mean, every = change.mean(), list(halves(change, found[a][seed]["clusters"]))
            each.append((mean, *((mean - half, mean + half) for half in (max(every), every[-1]))))
        return student([mean for mean, *_ in each]) if len(each) > 1 else (*each, (0, None))[0][1], each

    (taught, each), (other, _) = (gain("sft", "final", "sft", sheet) for sheet in ("no_skills", "other_scope"))
    bounds = [taught, taught, *(wide for _, wide, _ in each), other]
    bounds += [gain(a, "final", b, "final")[0] for a, b in map(str.split, [*PAIRS.split(","), "sft base"] * 2)]
    for kind in ("text", "text_belongs"):
        over, each = gain(kind, "best", kind, "initial")
        bounds += [over, *(one for _, *both in each for one in both)]
        for one in found[kind].values():
            sides = (one["test"]["tables"][side]["task_types"].values() for side in ("best", "initial"))
            bounds.append(student([new["success_rate"] - old["success_rate"] for new, old in zip(*sides)]))
    return chain(*(written(one, lambda x: f"{100 * x:.1f}") for one in bounds))


def rl_study():
    found, heat = read("rl_study_results"), "pick_heat_then_place_in_recep"

    def rate(kind, artifact, task="", homes=""):
        if have := [c for one in found[kind].values() if (c := counts(one, artifact, task, homes))]:
            bounds = student([a / n for a, n in have]) or wilson(*map(sum, zip(*have)))
            yield from written(bounds, lambda x: f"{np.clip(x, 0, 1):.0%}")

    def gain(a, first, b, second, task=""):
        both = [seed for seed in found[a] if seed in found[b]]
        at = ((a, first), (b, second))
        gains = np.subtract(*([np.divide(*counts(found[k][s], n, task)) for s in both] for k, n in at))
        return gains.mean(), list(written(student(gains), lambda x: f"{round(x * 100):+d}"))

    yield from gain("all", "final", "reads_nothing", "final")[1]
    for a, b in (("gap_evolving", "gap_fixed"), ("gap_complete", "gap_evolving")):
        yield from gain(a, "final", b, "final", heat)[1]
    yield from gain("growth", "grown", "growth", "gap")[1] + gain("growth", "complete", "growth", "grown")[1]
    once = [("no_sft", "final"), ("all", "cold_start"), *product(["all"], ("final", "no_skills", "other_scope") * 2)]
    for size in ("n100", "n300", "n900", "all"):
        once += [(size, "cold_start"), (f"sft_{size}", "final"), (size, "final")]
        yield from min(gain(size, "final", size, "cold_start"), gain(size, "final", f"sft_{size}", "final"))[1]
    for kind in ("all", *(name for name in list(found) if name.startswith("reads_"))):
        once += [*product([kind], ENDS), (kind, "final", "", "reworded")]
        yield from chain(*(gain("all", end, kind, end)[1] for end in ENDS if kind != "all"))
    once += [("gap_evolving", "cold_start", heat), *product(GAPS, ["final"], [heat]), *product(GAPS, ENDS)]
    once += [("all", "final", "", homes) for homes in ("training_homes", "temperature_1")]
    yield from chain(*(rate(*one) for one in once))


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
        text = re.split("<!-- (?:answers|gener)", (ROOT / "docs" / f"{study}.md").read_text("utf-8"), maxsplit=1)[1]
        printed = Counter(" to ".join(found) for found in PRINTED.findall(text))
        wanted = Counter(one.replace("-0%", "0%") for one in found)
        for one in (off := (printed - wanted) + (wanted - printed)):
            print(f"{study}: {one} {'is printed' if printed[one] > wanted[one] else 'is missing'}")
        wrong += off.total()
        print(f"{study}: {printed.total()} intervals printed")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
