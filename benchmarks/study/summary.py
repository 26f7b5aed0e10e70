"""The summary of the study: means, intervals, task types, growth, and the targets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from skillwright.core.jsonio import digest
from skillwright.evaluation import mean_interval, wilson_interval
from skillwright.worlds.alfworld.env import CATEGORIES
from study.ablations import ABLATIONS, GROWTH, MAIN, SCALE, TASK_TYPE
from study.exam import REWORDED, TRAINING, WARM
from study.growth import FIRST, MOST

Result = dict[str, Any]

NEW = "new_homes"
"""The homes of a run's own test: no weights were trained on them."""

HOMES = (NEW, TRAINING, REWORDED, WARM)

AFTER, CONTROL, LOWER, RECOVERED, BELOW = 0.85, 0.30, 0.40, 0.15, 0.10
TARGETS = {
    "after_grpo": f">= {AFTER}, in new homes",
    "without_skills": f"<= {CONTROL}",
    "other_skills": f"<= {CONTROL}",
    "reads_nothing_lower": f">= {LOWER}, on the same demonstrations",
    "recovery_gain": f">= {RECOVERED}, over the same bank without evolution",
    "recovery_gap": f"<= {BELOW}, below the bank without a gap",
    "growth_within_caps": "every update",
    "grows": f"from {FIRST} skills to more, at most {MOST}",
}


def summary(results: Sequence[Result], wanted: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Return what the results say.

    Args:
        results: Of any ablations and seeds.
        wanted: What there should be; the rest of it is named as missing.

    Returns:
        A JSON object. ``ok`` is true if nothing is missing and every target is met; a target that
        could not be measured is ``None`` in ``met``, and not met.
    """
    found = by_ablation(results)
    there = set(pairs_of(results))
    missing = [list(one) for one in wanted if one not in there]
    runs = {name: one for name, one in found.items() if name != GROWTH}
    figures = key_figures(found)
    met = _met(figures)
    return {
        "ablations": {
            name: {homes: scores(some, homes) for homes in HOMES if scores(some, homes)}
            for name, some in runs.items()
        },
        "task_types": {name: task_types(some) for name, some in runs.items()},
        "growth": {name: growth(some) for name, some in runs.items()},
        "grown": [{"seed": one["seed"], **one["growth"]} for one in found.get(GROWTH, [])],
        "cpu_s": {name: cpu(some) for name, some in found.items()},
        "demonstrations": {
            name: round(fmean(one["demonstrations"]["wins"] for one in some))
            for name, some in runs.items()
        },
        "scale": scale(found),
        "figures": figures,
        "targets": TARGETS,
        "met": met,
        "seeds": sorted({seed for _, seed in there}),
        "games": sorted({one["games"] for one in results}),
        "made_by": digest([one["made_by"] for one in results])[:12],
        "missing": missing,
        "ok": not missing and all(met.values()),
    }


def pairs_of(results: Sequence[Result]) -> list[tuple[str, int]]:
    """Return the ablation and the seed of each result."""
    return [(one["arm"], one["seed"]) for one in results]


def by_ablation(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Sort results by ablation, in the order of the table, and by seed within."""
    order = list(ABLATIONS)
    found: dict[str, list[Result]] = {}
    for one in sorted(results, key=lambda one: (order.index(one["arm"]), one["seed"])):
        found.setdefault(one["arm"], []).append(one)
    return found


def tables_of(one: Result, homes: str = NEW) -> Mapping[str, Any]:
    """Return a result's score tables by artifact, in one kind of homes."""
    tables: Mapping[str, Any] = (
        one["test"]["tables"] if homes == NEW else one["exam"].get(homes, {})
    )
    return tables


def scores(found: Sequence[Result], homes: str = NEW) -> dict[str, dict[str, Any]]:
    """Return the test scores of an ablation's artifacts, each over the seeds that have it."""
    names = dict.fromkeys(name for one in found for name in tables_of(one, homes))
    return {name: score(counts_of(found, name, homes=homes)) for name in names}


def score(counts: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Describe (solved, played) per seed.

    Returns:
        Mean and median over seeds, the interval of the mean over seeds (Student's t; ``None``
        where they show no spread), and Wilson's over all games.
    """
    rates = [solved / played for solved, played in counts]
    solved, played = sum(one for one, _ in counts), sum(played for _, played in counts)
    return {
        "mean": round(fmean(rates), 4),
        "median": round(median(rates), 4),
        "over_seeds": _rounded(mean_interval(rates)),
        "over_games": _rounded(wilson_interval(solved, played)),
        "seeds": [round(rate, 4) for rate in rates],
        "games": played,
    }


def counts_of(
    found: Sequence[Result], name: str, task_type: str = "", homes: str = NEW
) -> list[tuple[float, int]]:
    """Return (solved, played) per seed, of all games or of a task type's, without failures."""
    counts = []
    for one in found:
        table = tables_of(one, homes).get(name)
        if table is None:
            continue
        parts = [table["overall"]]
        if task_type:
            kinds = table["task_types"].items()
            parts = [part for kind, part in kinds if CATEGORIES.get(kind, kind) == task_type]
        played = sum(part["episodes"] for part in parts)
        if played:
            counts.append((sum(part["success_rate"] * part["episodes"] for part in parts), played))
    # A rate times its games is a whole number again, but for the last digit.
    return [(float(round(solved)), played) for solved, played in counts]


def task_types(found: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return each artifact's score by task type."""
    names = dict.fromkeys(name for one in found for name in tables_of(one))
    kinds = dict.fromkeys(CATEGORIES.values())
    return {
        name: {kind: score(counts) for kind in kinds if (counts := counts_of(found, name, kind))}
        for name in names
    }


def growth(found: Sequence[Result]) -> list[dict[str, Any]]:
    """Return how a bank grew, seed by seed: active skills by category, update by update."""
    return [
        {
            "seed": one["seed"],
            "first": one["first_growth"],
            "updates": [
                {
                    "iteration": step["iteration"],
                    "action": step["action"],
                    "added": len(step["added"]),
                    "refined": len(step["refined"]),
                    "retired": len(step["retired"]),
                    "refused": step["refused"],
                    "active": step["growth"],
                }
                for step in one["evolutions"]
            ],
            "within_caps": within_caps(one),
        }
        for one in found
    ]


def within_caps(one: Result) -> bool:
    """Tell whether every update of a run's bank added no more than it may, by category too."""
    caps, extra = one["caps"], one["extra"]
    before = Counter(one["first_growth"])
    for step in one["evolutions"]:
        now = Counter(step["growth"])
        most = max((now - before).values(), default=0)
        if len(step["added"]) > caps["update"] + extra or most > caps["category"] + extra:
            return False
        before = now
    return True


LEARNING = ("expert", "cold start", "rollouts")
"""The stages whose time is compared: what the bank and the measuring take is alike."""


def cpu(found: Sequence[Result]) -> dict[str, Any]:
    """Return the CPU seconds of an ablation's runs: median, range, and of what they learn in."""
    totals = [sum(one["cpu_s"].values()) for one in found]
    learning = [sum(one["cpu_s"].get(stage, 0.0) for stage in LEARNING) for one in found]
    return {
        "median": round(median(totals), 1),
        "range": [round(min(totals), 1), round(max(totals), 1)],
        "learning": round(median(learning), 1),
    }


def scale(runs: Mapping[str, list[Result]]) -> list[dict[str, Any]]:
    """Compare SFT and GRPO with SFT alone, by demonstrations.

    Returns:
        Per size, the fewest first, the scores in new homes of ``sft`` (where GRPO began), of
        ``longer`` (SFT alone in the time of both) and of ``grpo``, and GRPO's ``gain`` over the
        better of the two, seed by seed; ``None`` where a run is not there.
    """
    found = []
    for name in SCALE:
        both, alone = runs.get(name, []), runs.get(f"sft_{name}", [])
        if not both and not alone:
            continue
        gains = [
            gain(both, "final", some, artifact)
            for some, artifact in ((both, "cold_start"), (alone, "final"))
        ]
        measured = [one for one in gains if one is not None]
        found.append(
            {
                "name": name,
                "sft": _score_of(both, "cold_start"),
                "longer": _score_of(alone, "final"),
                "grpo": _score_of(both, "final"),
                # Over the better one, which is the one that leaves the smaller gain.
                "gain": min(measured, key=lambda one: one["mean"]) if len(measured) == 2 else None,
            }
        )
    return found


def key_figures(runs: Mapping[str, list[Result]]) -> dict[str, Any]:
    """Return the figures that have targets; ``None`` where an ablation is not there."""
    main, last = runs.get(MAIN, []), "final"
    nothing = runs.get("reads_nothing", [])
    figures: dict[str, Any] = {
        "after_grpo": _score_of(main, last),
        "after_grpo_training_homes": _score_of(main, last, homes=TRAINING),
        "after_grpo_reworded": _score_of(main, last, homes=REWORDED),
        "after_grpo_temperature_1": _score_of(main, last, homes=WARM),
        "sft": _score_of(main, "cold_start"),
        "without_skills": _score_of(main, "no_skills"),
        "other_skills": _score_of(main, "other_scope"),
        "gain_over_sft": gain(main, last, main, "cold_start"),
        "reads_nothing_lower": gain(main, last, nothing, last),
    }
    again, stays = runs.get("gap_evolving", []), runs.get("gap_fixed", [])
    whole, grown = runs.get("gap_complete", []), runs.get(GROWTH, [])
    figures |= {
        "recovery_before": _score_of(again, "cold_start", TASK_TYPE),
        "recovery_after": _score_of(again, last, TASK_TYPE),
        "recovery_without_evolution": _score_of(stays, last, TASK_TYPE),
        "recovery_complete": _score_of(whole, last, TASK_TYPE),
        "recovery_gain": gain(again, last, stays, last, TASK_TYPE),
        "recovery_gap": gain(whole, last, again, last, TASK_TYPE),
        "growth_within_caps": all(map(within_caps, again)) if again else None,
        "grows": all(map(_grows, grown)) if grown else None,
    }
    return figures


def _grows(one: Result) -> bool:
    updates = one["growth"]["updates"]
    return bool(updates) and FIRST == updates[0]["before"] < updates[-1]["after"] <= MOST


def gain(
    better: Sequence[Result], name: str, worse: Sequence[Result], other: str, task_type: str = ""
) -> dict[str, Any] | None:
    """Return the gain in success rate of one artifact over another, seed by seed on equal games."""
    known = {one["seed"]: one for one in worse}
    gains = []
    for one in better:
        ours = counts_of([one], name, task_type)
        theirs = counts_of([known[one["seed"]]], other, task_type) if one["seed"] in known else []
        if ours and theirs:
            gains.append(ours[0][0] / ours[0][1] - theirs[0][0] / theirs[0][1])
    if not gains:
        return None
    return {
        "mean": round(fmean(gains), 4),
        "median": round(median(gains), 4),
        "over_seeds": _rounded(mean_interval(gains)),
        "seeds": [round(one, 4) for one in gains],
    }


def _met(figures: Mapping[str, Any]) -> dict[str, bool | None]:
    def holds(name: str, limit: float, *, at_least: bool) -> bool | None:
        if not figures[name]:
            return None
        value: float = figures[name]["mean"]
        return value >= limit if at_least else value <= limit

    return {
        "after_grpo": holds("after_grpo", AFTER, at_least=True),
        "without_skills": holds("without_skills", CONTROL, at_least=False),
        "other_skills": holds("other_skills", CONTROL, at_least=False),
        "reads_nothing_lower": holds("reads_nothing_lower", LOWER, at_least=True),
        "recovery_gain": holds("recovery_gain", RECOVERED, at_least=True),
        "recovery_gap": holds("recovery_gap", BELOW, at_least=False),
        "growth_within_caps": figures["growth_within_caps"],
        "grows": figures["grows"],
    }


def _score_of(
    found: Sequence[Result], name: str, task_type: str = "", homes: str = NEW
) -> dict[str, Any] | None:
    counts = counts_of(found, name, task_type, homes)
    return score(counts) if counts else None


def _rounded(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else [round(bound, 4) for bound in interval]
