"""The summary of the study: means, intervals, task types, growth, and the targets."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from skillwright.core.jsonio import digest
from skillwright.envs.alfworld.env import CATEGORIES
from skillwright.evaluation import mean_interval, wilson_interval
from study.ablations import ABLATIONS, TASK_TYPE

Result = dict[str, Any]

AFTER, GAIN, CONTROL, LOWER, RECOVERED = 0.80, 0.15, 0.30, 0.40, 0.15
TARGETS = {
    "after_grpo": f">= {AFTER}",
    "gain_over_sft": f">= {GAIN}",
    "without_skills": f"<= {CONTROL}",
    "other_skills": f"<= {CONTROL}",
    "trained_without_skills_lower": f">= {LOWER}",
    "recovery_gain": f">= {RECOVERED}, over the same bank without evolution",
    "recovery_gap": f"<= {RECOVERED}, below the bank without a gap",
    "growth_within_caps": "every update",
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
    figures = key_figures(found)
    met = _met(figures)
    return {
        "ablations": {name: scores(runs) for name, runs in found.items()},
        "task_types": {name: task_types(runs) for name, runs in found.items()},
        "growth": {name: growth(runs) for name, runs in found.items()},
        "cpu_s": {name: cpu(runs) for name, runs in found.items()},
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


def scores(found: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return the test scores of an ablation's artifacts, each over the seeds that have it."""
    names = dict.fromkeys(name for one in found for name in one["test"]["tables"])
    return {name: score(counts_of(found, name)) for name in names}


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


def counts_of(found: Sequence[Result], name: str, task_type: str = "") -> list[tuple[float, int]]:
    """Return (solved, played) per seed, of all games or of a task type's, without failures."""
    counts = []
    for one in found:
        table = one["test"]["tables"].get(name)
        if table is None:
            continue
        parts = [table["overall"]]
        if task_type:
            kinds = table["families"].items()
            parts = [part for kind, part in kinds if CATEGORIES.get(kind, kind) == task_type]
        played = sum(part["episodes"] for part in parts)
        if played:
            counts.append((sum(part["success_rate"] * part["episodes"] for part in parts), played))
    # A rate times its games is a whole number again, but for the last digit.
    return [(float(round(solved)), played) for solved, played in counts]


def task_types(found: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return each artifact's score by task type."""
    names = dict.fromkeys(name for one in found for name in one["test"]["tables"])
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


def cpu(found: Sequence[Result]) -> dict[str, Any]:
    """Return the CPU seconds of an ablation's runs: median, range, and the median of each stage."""
    totals = [sum(one["cpu_s"].values()) for one in found]
    stages = dict.fromkeys(stage for one in found for stage in one["cpu_s"])
    return {
        "median": round(median(totals), 1),
        "range": [round(min(totals), 1), round(max(totals), 1)],
        "stages": {
            stage: round(median(one["cpu_s"].get(stage, 0.0) for one in found), 1)
            for stage in stages
        },
    }


def key_figures(runs: dict[str, list[Result]]) -> dict[str, Any]:
    """Return the figures that have targets; ``None`` where an ablation is not there."""
    main, last = runs.get("main", []), "final"
    figures: dict[str, Any] = {
        "after_grpo": _score_of(main, last),
        "sft": _score_of(main, "cold_start"),
        "without_skills": _score_of(main, "no_skills"),
        "other_skills": _score_of(main, "other_scope"),
        "gain_over_sft": gain(main, last, main, "cold_start"),
        "trained_without_skills_lower": gain(main, last, runs.get("never_told", []), last),
    }
    again, stays = runs.get("recovery", []), runs.get("no_evolution", [])
    figures |= {
        "recovery_before": _score_of(again, "cold_start", TASK_TYPE),
        "recovery_after": _score_of(again, last, TASK_TYPE),
        "recovery_without_evolution": _score_of(stays, last, TASK_TYPE),
        "recovery_gain": gain(again, last, stays, last, TASK_TYPE),
        "recovery_gap": gain(runs.get("complete", []), last, again, last, TASK_TYPE),
        "growth_within_caps": all(map(within_caps, again)) if again else None,
    }
    return figures


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


def _met(figures: dict[str, Any]) -> dict[str, bool | None]:
    def mean(name: str) -> float | None:
        return figures[name]["mean"] if figures[name] else None

    def holds(name: str, limit: float, *, at_least: bool) -> bool | None:
        value = mean(name)
        if value is None:
            return None
        return value >= limit if at_least else value <= limit

    return {
        "after_grpo": holds("after_grpo", AFTER, at_least=True),
        "gain_over_sft": holds("gain_over_sft", GAIN, at_least=True),
        "without_skills": holds("without_skills", CONTROL, at_least=False),
        "other_skills": holds("other_skills", CONTROL, at_least=False),
        "trained_without_skills_lower": holds("trained_without_skills_lower", LOWER, at_least=True),
        "recovery_gain": holds("recovery_gain", RECOVERED, at_least=True),
        "recovery_gap": holds("recovery_gap", RECOVERED, at_least=False),
        "growth_within_caps": figures["growth_within_caps"],
    }


def _score_of(found: Sequence[Result], name: str, task_type: str = "") -> dict[str, Any] | None:
    counts = counts_of(found, name, task_type)
    return score(counts) if counts else None


def _rounded(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else [round(bound, 4) for bound in interval]
