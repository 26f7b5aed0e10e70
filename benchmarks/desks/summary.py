"""The summary of the study: success rates by condition and sheet, gains, and the target."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from scipy import stats

from desks.conditions import CONDITIONS, SHEETS
from desks.forms import FORMS
from skillwright.evaluation import mean_interval

Result = Mapping[str, Any]
Interval = Sequence[float]

TARGET, TARGET_SEEDS, OF_SEEDS = 0.15, 3, 5
"""The lower bound of a released sheet's gain, and on how many seeds it is to lie above that."""

GAINS = {
    "SFT, right sheet over none": (("sft", "final"), ("sft", "no_skills")),
    "SFT, right sheet over another shop's": (("sft", "final"), ("sft", "other_scope")),
    "SFT over SmolLM2 as it comes": (("sft", "final"), ("base", "final")),
    "SFT for as long as both over SFT": (("sft_as_long", "final"), ("sft", "final")),
    "SFT with twice the steps over SFT": (("sft_longer", "final"), ("sft", "final")),
    "GRPO over SFT": (("grpo", "final"), ("sft", "final")),
    "GRPO over SFT for as long as both": (("grpo", "final"), ("sft_as_long", "final")),
    "GRPO over SFT with twice the steps": (("grpo", "final"), ("sft_longer", "final")),
    "GRPO with KL weight 0.01 over 0": (("grpo_kl_low", "final"), ("grpo", "final")),
    "GRPO with KL weight 0.05 over 0": (("grpo_kl_high", "final"), ("grpo", "final")),
}
"""Gain -> condition and artifact of the better side, and of the other."""


def summary(results: Sequence[Result], texts: Sequence[Result] = ()) -> dict[str, Any]:
    """Return what the results say, as a JSON object.

    Args:
        results: Of any conditions and seeds.
        texts: Of text training, one per seed and form.
    """
    rows = {
        name: {artifact: row(results, name, artifact) for artifact in SHEETS} for name in CONDITIONS
    }
    text = [text_of(one) for one in sorted(texts, key=lambda one: one["seed"])]
    return {
        "rows": rows,
        "gains": {name: gain(results, *sides) for name, sides in GAINS.items()},
        "text": text,
        "forms": {form: form_of([one for one in text if one["form"] == form]) for form in FORMS},
        "cpu_s": {f"{one['condition']}-s{one['seed']}": _stages(one) for one in results},
        "seeds": sorted({one["seed"] for one in results}),
    }


def row(results: Sequence[Result], condition: str, artifact: str) -> dict[str, Any] | None:
    """Return the success rate of an artifact, or ``None`` if it was not measured."""
    found = _outcomes(results, condition, artifact)
    return _over_seeds([clustered(*one) for one in found.values()]) if found else None


def gain(
    results: Sequence[Result], better: tuple[str, str], worse: tuple[str, str]
) -> dict[str, Any] | None:
    """Return what one side solves more than another of the same tickets, seed by seed.

    Args:
        results: Of any conditions and seeds.
        better: Condition and artifact.
        worse: The same of what it is compared with.
    """
    ours, theirs = (_outcomes(results, *side) for side in (better, worse))
    both = [
        clustered([a - b for a, b in zip(ours[seed][0], theirs[seed][0], strict=True)], of)
        for seed, (_, of) in ours.items()
        if seed in theirs
    ]
    return _over_seeds(both) if both else None


def _outcomes(
    results: Sequence[Result], condition: str, artifact: str
) -> dict[int, tuple[list[int], Mapping[str, Sequence[int]]]]:
    """Return by seed the outcome of each ticket, 0 or 1, and the clusters."""
    return {
        one["seed"]: (list(map(int, one["solved"][artifact])), one["clusters"])
        for one in sorted(results, key=lambda one: one["seed"])
        if one["condition"] == condition
    }


def _over_seeds(seeds: Sequence[tuple[float, Interval]]) -> dict[str, Any]:
    """Sum up seeds: Student's interval over them, or with one seed the clustered interval."""
    means = [mean for mean, _ in seeds]
    interval = mean_interval(means) if len(seeds) > 1 else seeds[0][1]
    return {
        "mean": round(fmean(means), 4),
        "interval": _rounded(interval),
        "seeds": [round(mean, 4) for mean in means],
        "by_seed": [_rounded(one) for _, one in seeds],
    }


def clustered(
    values: Sequence[float], clusters: Mapping[str, Sequence[int]]
) -> tuple[float, Interval]:
    """Return the mean, and the widest of its 95% intervals by kind of cluster.

    Args:
        values: Per ticket: an outcome, or a difference of two.
        clusters: Kind -> number of the cluster per ticket.
    """
    mean, half = fmean(values), max(half_by(values, one) for one in clusters_of(clusters).values())
    return mean, (mean - half, mean + half)


def clusters_of(clusters: Mapping[str, Sequence[int]]) -> dict[str, Sequence[Any]]:
    """Return the kinds of clusters; a wording is a first with a second clause."""
    return {**clusters, "wording": list(zip(clusters["first"], clusters["second"], strict=True))}


def half_by(values: Sequence[float], labels: Sequence[Any]) -> float:
    """Return half of the 95% interval of a mean whose samples are alike within clusters.

    Sums of a cluster's deviations count as independent, with Student's t of one degree of freedom
    less than clusters (Liang and Zeger 1986; Cameron and Miller 2015). With one cluster it is 0.
    """
    mean = fmean(values)
    sums: dict[Any, float] = defaultdict(float)
    for label, value in zip(labels, values, strict=True):
        sums[label] += value - mean
    count = len(sums)
    if count < 2:
        return 0.0
    variance = sum(one * one for one in sums.values()) * count / (count - 1)
    return float(stats.t.ppf(0.975, count - 1) * variance**0.5 / len(values))


def text_of(one: Result) -> dict[str, Any]:
    """Return what text training came to with one seed and form."""
    before, after = (list(map(int, one["solved"][side])) for side in ("initial", "best"))
    difference = [b - a for a, b in zip(before, after, strict=True)]
    tables = [one["test"]["tables"][side]["task_types"].values() for side in ("initial", "best")]
    by_topic = [b["success_rate"] - a["success_rate"] for a, b in zip(*tables, strict=True)]
    mean, interval = clustered(difference, one["clusters"])
    half = half_by(difference, clusters_of(one["clusters"])["wording"])
    return {
        "seed": one["seed"],
        "form": one["form"],
        "blank": round(fmean(before), 4),
        "released": round(fmean(after), 4),
        "gain": mean,
        "interval": _rounded(interval),
        "by_wording": _rounded((mean - half, mean + half)),
        "over_topics": _rounded(mean_interval(by_topic)),
        "programs": one["programs"],
        "lines": len(one["released"].strip().split("\n\n")) if one["released"].strip() else 0,
        "minutes": round(one["wall_s"] / 60, 1),
        "sheet": one["released"],
    }


def form_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what a form came to over seeds, each of which has a shop of its own."""
    if not found:
        return None
    gains = [one["gain"] for one in found]
    above = sum(one["interval"][0] > TARGET for one in found)
    left = OF_SEEDS - len(found)
    return {
        "mean": round(fmean(gains), 4),
        "interval": _rounded(mean_interval(gains)),
        "above": above,
        "seeds": len(found),
        "met": above >= TARGET_SEEDS
        if above >= TARGET_SEEDS or above + left < TARGET_SEEDS
        else None,
    }


def _stages(one: Result) -> dict[str, float]:
    return {stage: round(seconds, 1) for stage, seconds in one["cpu_s"].items()}


def _rounded(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [round(float(bound), 4) for bound in interval]
