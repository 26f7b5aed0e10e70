"""The summary of the study: success rates by condition and sheet, gains, and the targets."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from desks.conditions import INTERNALIZED
from skillwright.evaluation import mean_interval, wilson_interval

Result = Mapping[str, Any]

GAIN, LOWER, WITHIN = 0.30, 0.15, 0.10
SHEETS = {"final": "right sheet", "no_skills": "no sheet", "other_scope": "another shop's sheet"}
"""Artifact of a run's test -> what its agent was given."""


def summary(results: Sequence[Result], texts: Sequence[Result] = ()) -> dict[str, Any]:
    """Return what the results say, as a JSON object.

    Args:
        results: Of any conditions and seeds.
        texts: Of text training, one per seed.
    """
    rows = {
        condition: {sheet: row(results, condition, artifact) for artifact, sheet in SHEETS.items()}
        for condition in dict.fromkeys(one["condition"] for one in results)
        if condition != INTERNALIZED
    }
    gains = {
        "SFT, right sheet over none": gain(results, ("sft", "final"), ("sft", "no_skills")),
        "SFT, right sheet over another shop's": gain(
            results, ("sft", "final"), ("sft", "other_scope")
        ),
        "GRPO, right sheet over none": gain(results, ("grpo", "final"), ("grpo", "no_skills")),
        "GRPO, right sheet over another shop's": gain(
            results, ("grpo", "final"), ("grpo", "other_scope")
        ),
        "SFT over SmolLM2 as it comes": gain(results, ("sft", "final"), ("base", "final")),
        "GRPO over SFT": gain(results, ("grpo", "final"), ("sft", "final")),
    }
    distilled = [internalized_of(one) for one in results if one["condition"] == INTERNALIZED]
    text = [text_of(one) for one in sorted(texts, key=lambda one: one["seed"])]
    return {
        "rows": rows,
        "gains": {name: one for name, one in gains.items() if one},
        "internalized": sorted(distilled, key=lambda one: one["seed"]),
        "text": text,
        "cpu_s": {f"{one['condition']}-s{one['seed']}": _stages(one) for one in results},
        "seeds": sorted({one["seed"] for one in results}),
        "met": _met(gains, distilled, text),
    }


def row(results: Sequence[Result], condition: str, artifact: str) -> dict[str, Any] | None:
    """Return the success rate of an artifact: by seed, over seeds (Student's t), over tickets."""
    scores = _scores(results, condition, artifact)
    if not scores:
        return None
    rates = [rate for rate, _ in scores.values()]
    solved = sum(round(rate * played) for rate, played in scores.values())
    played = sum(played for _, played in scores.values())
    return {
        "mean": round(fmean(rates), 4),
        "seeds": [round(one, 4) for one in rates],
        "over_seeds": _rounded(mean_interval(rates)),
        "over_tickets": _rounded(wilson_interval(solved, played)),
        "tickets": played,
    }


def gain(
    results: Sequence[Result], better: tuple[str, str], worse: tuple[str, str]
) -> dict[str, Any] | None:
    """Return what one side solves more than another, seed by seed.

    Args:
        results: Of any conditions and seeds.
        better: Condition and artifact.
        worse: The same of what it is compared with.
    """
    sides = [_scores(results, *side) for side in (better, worse)]
    seeds = sorted(sides[0].keys() & sides[1].keys())
    gains = [sides[0][seed][0] - sides[1][seed][0] for seed in seeds]
    if not gains:
        return None
    # Of two independent samples: that of pairs would be narrower.
    played = sum(sides[0][seed][1] for seed in seeds)
    rates = [fmean(side[seed][0] for seed in seeds) for side in sides]
    half = 1.96 * sum(rate * (1 - rate) / played for rate in rates) ** 0.5
    mean = fmean(gains)
    return {
        "mean": round(mean, 4),
        "seeds": [round(one, 4) for one in gains],
        "over_seeds": _rounded(mean_interval(gains)),
        "over_tickets": _rounded((mean - half, mean + half)),
    }


def _scores(
    results: Sequence[Result], condition: str, artifact: str
) -> dict[int, tuple[float, int]]:
    """Return success rate and tickets by seed."""
    found = {}
    for one in sorted(results, key=lambda one: one["seed"]):
        table = one["test"]["tables"].get(artifact)
        if one["condition"] == condition and table is not None:
            overall = table["overall"]
            found[one["seed"]] = (overall["success_rate"], overall["episodes"])
    return found


def text_of(one: Result) -> dict[str, Any]:
    """Return what text training came to with one seed."""
    tables = one["test"]["tables"]
    return {
        "seed": one["seed"],
        "form": one.get("form", "says"),
        "blank": tables["initial"]["overall"]["success_rate"],
        "blank_interval": tables["initial"]["overall"]["interval"],
        "released": tables["best"]["overall"]["success_rate"],
        "released_interval": tables["best"]["overall"]["interval"],
        "gain": (one["gain"] or {}).get("gain"),
        "interval": _rounded((one["gain"] or {}).get("interval")),
        "over_topics": _rounded(over_topics(tables["initial"], tables["best"])),
        "programs": one["programs"],
        "minutes": round(one["wall_s"] / 60, 1),
        "sheet": one["released"],
    }


def over_topics(before: Result, after: Result) -> Sequence[float] | None:
    """Return Student's interval of the gain over topics, whose tickets share their wordings."""
    rates = [
        [one["success_rate"] for one in side["task_types"].values()] for side in (before, after)
    ]
    return mean_interval([new - old for old, new in zip(*rates, strict=True)])


def internalized_of(one: Result) -> dict[str, Any]:
    """Return what became of a sheet that was distilled into the weights, with one seed."""
    tables, said = one["test"]["tables"], one["internalized"]
    names = {
        "sheet": "final",  # what was selected, with the bank that the sheet was still in
        "no_sheet_before": "before_internalization",
        "no_sheet_after": "internalized",
    }
    found = {
        key: tables[name]["overall"] if name in tables else None for key, name in names.items()
    }
    return {
        "seed": one["seed"],
        **{key: table and table["success_rate"] for key, table in found.items()},
        **{f"{key}_interval": table and table["interval"] for key, table in found.items()},
        "action": said["action"],
        "reason": (said["verdict"] or {}).get("reason", ""),
    }


def _met(
    gains: Mapping[str, Any],
    distilled: Sequence[Mapping[str, Any]],
    text: Sequence[Mapping[str, Any]],
) -> dict[str, bool | None]:
    def holds(one: Mapping[str, Any] | None) -> bool | None:
        if one is None or one["over_seeds"] is None:
            return None
        lower = min(one["over_seeds"][0], one["over_tickets"][0])
        return bool(one["mean"] >= GAIN and lower > LOWER)

    good = sum(
        (one["gain"] or 0) >= GAIN
        and None not in (one["interval"], one["over_topics"])
        and min(one["interval"][0], one["over_topics"][0]) > LOWER
        for one in text
    )
    return {
        name: holds(gains[name])
        for name in ("SFT, right sheet over none", "SFT, right sheet over another shop's")
    } | {
        "internalized within 10 points, and retired": all(map(_retired, distilled))
        if distilled
        else None,
        "text training, 2 of 3 seeds": good >= 2 if text else None,
    }


def _retired(one: Mapping[str, Any]) -> bool:
    after = one["no_sheet_after"]
    return bool(one["action"] == "accept" and after is not None and after >= one["sheet"] - WITHIN)


def _stages(one: Result) -> dict[str, float]:
    return {stage: round(seconds, 1) for stage, seconds in one["cpu_s"].items()}


def _rounded(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else [round(bound, 4) for bound in interval]
