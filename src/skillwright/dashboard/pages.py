"""What each page shows: a function returns the values that its template is filled with."""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup
from starlette.requests import Request

from skillwright.bank import BankStore
from skillwright.core import RunError
from skillwright.dashboard import charts
from skillwright.dashboard.charts import Mark
from skillwright.dashboard.reading import Filter, HeatMap, RunReader, Site, reading
from skillwright.jobs import compare_runs
from skillwright.jobs.inspect.episodes import read_episode
from skillwright.jobs.inspect.provenance import blame
from skillwright.jobs.inspect.summary import RunSummary
from skillwright.runs import VerdictRecord

Page = Callable[[Site, Request], tuple[str, dict[str, Any]]]
VAL_PHASES = ("gate", "val", "release")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_BANK = "bank/bank.sqlite"
_TASKS = 100
"""Tasks of a heat map that are shown at once."""
_TURNS = 100
"""Turns of an episode that are shown at once."""


def runs(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """List the runs with status, result, gain, cost and age."""
    rows = []
    for name, one in site.summaries():
        costs = [usage.cost_usd for usage in one.usage.values()]
        rows.append(
            {
                "name": name,
                "summary": one,
                "status": _status(one),
                "gain": gain_of(one),
                "cost": None if None in costs else sum(cost or 0 for cost in costs),
            }
        )
    return "runs.html", {"rows": rows, "root": str(site.root)}


def overview(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show how a run stands: verdicts in order, the test, and what it consumed."""
    with _run(site, request) as (summary, reader):
        verdicts = sorted(reader.store.verdicts(), key=_order)
        points = [_judged(one) for one in verdicts]
        ledger = getattr(summary.state or summary.rl, "ledger", None)
        return "overview.html", {
            "verdicts": verdicts,
            "chart": charts.marks("Effect of each candidate with its interval", points),
            "ledger": ledger,
            "report": _report(summary),
            "gain": gain_of(summary),
            "status": _status(summary),
            "events": reader.store.events()[-8:],
        }


def tasks(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show tasks by versions, and those that two versions disagree about."""
    asked = request.query_params
    with _run(site, request) as (_, reader):
        known = [one for one in reader.values_of("phase") if one]
        usual = next((p for p in ("gate", "test") if p in known), "")
        chosen = next((p for p in known if p == asked.get("phase")), usual)
        phases = VAL_PHASES if chosen == "gate" else (chosen,)
        path = site.folder(request.path_params["run"])
        found = site.once(path, f"heat map of {chosen}", lambda: reader.heat_map(phases))
        first = max(_number(asked, "from", 0), 0)
        names = reader.names()
        a, b = _pair(found, asked.get("a"), asked.get("b"))
        return "tasks.html", {
            "map": found,
            "names": {one: names.get(one, one[:12] or "none") for one in found.versions},
            "phases": known,
            "phase": chosen,
            "first": first,
            "most": _TASKS,
            "a": a,
            "b": b,
            "flips": found.flips(a, b)[:_TASKS] if a and b else [],
        }


def side_by_side(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show two episodes beside each other, of the same task or not."""
    name, asked = request.path_params["run"], request.query_params
    path = site.folder(name)
    sides = [f"e{_number(asked, side)}" for side in ("a", "b")]
    pair = [read_episode(path, side, most=_TURNS) for side in sides]
    return "side_by_side.html", {"pair": pair, "run": name}


def skill(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show a version of the document with the origin of each line, and what changed."""
    with _run(site, request) as (summary, reader):
        versions = reader.store.skills()
        if not versions:
            return "skill.html", {"versions": [], "lines": [], "summary": summary}
        state = summary.state
        best = state.best_version if state else versions[-1].version
        shown = _number(request.query_params, "version", best)
        found = {one.version: one for one in versions}
        if shown not in found:
            raise RunError(f"there is no version {shown} of the skill in this run")
        parent = found[shown].parent
        before = "" if parent is None else reader.store.skill(parent)
        changed = difflib.unified_diff(
            before.splitlines(), reader.store.skill(shown).splitlines(), lineterm="", n=2
        )
        return "skill.html", {
            "versions": versions,
            "scores": reader.version_scores(),
            "shown": found[shown],
            "best": best,
            "current": state.skill_version if state else None,
            "lines": blame(reader.store, shown),
            "diff": list(changed)[2:],
            "parent": parent,
        }


def edits(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show how many edits were proposed, merged, selected and judged, and each of a step."""
    with _run(site, request) as (_, reader):
        funnel = reader.funnel()
        steps = [one["step"] for one in funnel]
        step = _number(request.query_params, "step", steps[-1] if steps else 0)
        return "edits.html", {
            "funnel": funnel,
            "step": step,
            "edits": reader.store.edits(step),
            "patches": [one for one in reader.store.patches(step) if one.failure],
            "verdicts": [one for one in reader.store.verdicts() if one.step == step],
        }


def episodes(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """List episodes, filtered and searched, a page at a time."""
    asked = request.query_params
    wanted = Filter(
        phase=asked.get("phase", ""),
        split=asked.get("split", ""),
        task_type=asked.get("type", ""),
        task=asked.get("task", ""),
        version=asked.get("version", ""),
        outcome=asked.get("outcome", ""),
        step=_number(asked, "step") if asked.get("step") else None,
        text=asked.get("q", "").strip(),
    )
    with _run(site, request) as (_, reader):
        before = _number(asked, "before") if asked.get("before") else None
        page = reader.episodes(wanted, before)
        more = [(key, value) for key, value in asked.items() if key not in ("before", "token")]
        return ("episode_rows.html" if before else "episodes.html"), {
            "page": page,
            "wanted": wanted,
            "names": reader.names(),
            "query": more,
            "choices": {
                "phase": reader.values_of("phase"),
                "split": reader.values_of("split"),
                "type": reader.values_of("task_type"),
            },
        }


def episode(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show an episode turn by turn."""
    name, number = request.path_params["run"], _number(request.path_params, "episode")
    with _run(site, request) as (_, reader):
        before, after = reader.neighbors(number)
    first = max(_number(request.query_params, "from", 0), 0)
    shown = read_episode(site.folder(name), f"e{number}", first=first, most=_TURNS)
    cited = {
        int(one) for one in request.query_params.get("turns", "").split(",") if one.isdecimal()
    }
    return "episode.html", {
        "view": shown,
        "before": before,
        "after": after,
        "cited": cited,
        "first": first,
        "most": _TURNS,
        "clip": None if request.query_params.get("full") else 4000,
    }


def costs(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show what failed by cause, and what everything consumed."""
    with _run(site, request) as (summary, reader):
        return "costs.html", {
            "faults": reader.faults(),
            "usage": summary.usage,
            "turns": reader.store.turn_ends() if request.query_params.get("turns") else None,
        }


def training(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show the curves of a run that trains weights."""
    with _run(site, request) as (_, reader):
        rows = reader.payloads("iteration")
        validations = reader.payloads("validation")
        evolutions = reader.payloads("evolution")
    return "training.html", {
        "rows": rows,
        "charts": _curves(rows, validations),
        "evolutions": evolutions,
        "validations": validations,
    }


def bank(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show a run's bank: use, near-duplicates and its log."""
    path = site.folder(request.path_params["run"]) / _BANK
    if not path.is_file():
        return "bank.html", {"bank": None}
    with BankStore.open(path, read_only=True) as store:
        loaded, log = store.load(), store.log()
        totals = store.totals()
    active = list(loaded.active)
    return "bank.html", {
        "bank": loaded,
        "skills": active,
        "log": log,
        "totals": totals,
        "never": [one for one in active if one.id not in totals],
        "near": _near(active),
    }


def compare(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Compare two runs, paired by task."""
    a, b = request.query_params.get("a", ""), request.query_params.get("b", "")
    names = list(site.runs())
    context: dict[str, Any] = {"names": names, "a": a, "b": b, "found": None, "problem": ""}
    if a and b:
        try:
            context["found"] = compare_runs(site.folder(a), site.folder(b))
        except RunError as error:
            context["problem"] = str(error)
    return "compare.html", context


def _curves(
    rows: list[dict[str, Any]], validations: list[dict[str, Any]]
) -> list[tuple[str, Markup]]:
    def line(key: str) -> list[tuple[float, float | None]]:
        return [(one["iteration"], one.get(key)) for one in rows]

    types = sorted({name for one in rows for name in one["families"]})  # stored name
    by_type = {
        name.replace("_", " "): [
            (one["iteration"], _share(one["families"].get(name)))  # stored name
            for one in rows
        ]
        for name in types
    }
    val = [(one["iteration"], one["table"]["overall"]["success_rate"]) for one in validations]
    zero = [
        (one["iteration"], one["flat"] / one["groups"] if one["groups"] else None) for one in rows
    ]
    wanted: list[tuple[str, Mapping[str, Any], bool]] = [
        ("Success rate of rollouts and val", {"rollouts": line("success"), "val": val}, True),
        ("Success rate by task type", by_type, True),
        ("Mean reward", {"reward": line("reward")}, False),
        ("Share of zero-variance groups", {"zero-variance groups": zero}, True),
        ("KL to the SFT policy, nats per token", {"KL": line("kl")}, False),
        ("Entropy, nats per token", {"entropy": line("entropy")}, False),
        ("Clip fraction", {"clip fraction": line("clip_fraction")}, False),
        ("Gradient norm", {"gradient norm": line("grad_norm")}, False),
        ("Length of an episode", {"turns": line("turns"), "tokens": line("tokens")}, False),
    ]
    drawn = [(title, charts.lines(title, series, share)) for title, series, share in wanted]
    return [(title, chart) for title, chart in drawn if chart]


def _share(counts: Any) -> float | None:
    return counts[0] / counts[1] if counts and counts[1] else None


def _near(skills: list[Any]) -> list[tuple[Any, Any, float]]:
    """List pairs of skills whose wording is nearly the same."""
    words = [set(one.text.casefold().split()) for one in skills]
    found = []
    for at, one in enumerate(words):
        for other in range(at + 1, len(words)):
            union = len(one | words[other])
            share = len(one & words[other]) / union if union else 0.0
            if share >= 0.7:
                found.append((skills[at], skills[other], share))
    return sorted(found, key=lambda pair: -pair[2])[:20]


def _pair(found: HeatMap, a: str | None, b: str | None) -> tuple[str, str]:
    """Choose two versions: those asked for, or the first one and the last."""
    known = found.versions
    first = a if a in known else (known[0] if known else "")
    last = b if b in known else (known[-1] if known else "")
    return str(first), str(last)


def _judged(one: VerdictRecord) -> Mark:
    low, high = one.body.get("interval") or (None, None)
    return Mark(
        str(one.step),
        one.body.get("effect"),
        low,
        high,
        kind=str(one.body["decision"]),
        link=f"edits?step={one.step}",
        title=f"step {one.step}, {one.origin}: {one.body['reason']}",
    )


def _order(one: VerdictRecord) -> tuple[int, bool]:
    """Put the release test, which has the last step's number, after the last step."""
    return one.step, one.origin in ("final", "release")


def _status(one: RunSummary) -> str:
    if one.problem:
        return "unreadable"
    return "finished" if one.is_finished else "not finished"


def gain_of(one: RunSummary) -> Any:
    """Return what the released artifact gained on test, or ``None``."""
    report = _report(one)
    if report is None:
        return None
    return report.gains.get("best") or report.gains.get("final")


def _report(one: RunSummary) -> Any:
    return (one.state and one.state.report) or (one.rl and one.rl.test) or None


def _number(asked: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = asked.get(name, "")
    if not text and default is not None:
        return default
    if not _NUMBER.fullmatch(text):
        raise RunError(f"{name}={text!r} is no number")
    return int(text)


class _run:
    """A run of an address, open for one request."""

    def __init__(self, site: Site, request: Request) -> None:
        self._path = site.folder(request.path_params["run"])
        self._summary = site.summary(self._path)
        if self._summary.problem:
            raise RunError(self._summary.problem)
        self._reading = reading(self._path)

    def __enter__(self) -> tuple[RunSummary, RunReader]:
        return self._summary, self._reading.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._reading.__exit__(*exc)
