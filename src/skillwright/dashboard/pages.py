"""The pages: each function returns its template and the values for it."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request

from skillwright.core import Purpose, RunError, Usage, UsageError
from skillwright.dashboard import charts
from skillwright.dashboard.ablation import read_ablation
from skillwright.dashboard.charts import Mark
from skillwright.dashboard.facts import config_text, csv_text, facts_of
from skillwright.dashboard.heat_map import HeatMap, heat_map
from skillwright.dashboard.pace import pace_of, status_of
from skillwright.dashboard.reading import INITIAL, ORDERS, Filter, RunReader, reading
from skillwright.dashboard.site import Site
from skillwright.dashboard.timeline import alpha_left, course, in_order
from skillwright.jobs.inspect import (
    Note,
    RunSummary,
    blame,
    compare_runs,
    read_episode,
    read_notes,
    read_side,
)
from skillwright.jobs.run import TurnEnds
from skillwright.jobs.text import Replies
from skillwright.jobs.weights import RlKind, weights_name
from skillwright.runs import VerdictRecord

Page = Callable[[Site, Request], tuple[str, dict[str, Any]]]
_OTHERS = (Purpose.ROLLOUT.value, Purpose.USER.value, Purpose.JUDGE.value)
"""Purposes of usage in episodes, in contrast to the optimizer's and the teacher's."""
VAL_PHASES = ("gate", "val", "release")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_TASKS = 100
"""Tasks of a heat map per page."""
_TURNS = 100
"""Turns of an episode per page."""


def runs(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """List the runs with status, result, gain, cost and age."""
    rows = []
    for name, one in site.summaries():
        costs = [usage.cost_usd for usage in one.usage.values()]
        rows.append(
            {
                "name": name,
                "summary": one,
                "status": status_of(one),
                "age_s": _age_s(one, site.clock()),
                "gain": gain_of(one),
                "cost": None if None in costs else sum(cost or 0 for cost in costs),
            }
        )
    return "runs.html", {"rows": rows, "banks": list(site.banks()), "root": str(site.root)}


def overview(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show a run's verdicts in order, test scores and usage."""
    with _run(site, request) as (summary, reader):
        verdicts = in_order(reader.store.verdicts())
        ledger = getattr(summary.state or summary.rl, "ledger", None)
        left = alpha_left(verdicts, ledger)
        points = site.once(reader.path, "course", lambda: course(summary, reader))
        return "overview.html", {
            "verdicts": list(zip(verdicts, left, strict=True)),
            "alpha_left": left[-1] if left else ledger and ledger.total,
            "tests": sum(one.body.get("alpha") is not None for one in verdicts),
            "chart": charts.marks("Effect of each candidate with its interval", _judged(verdicts)),
            "course": points,
            "lines": charts.steps("Val success of the current and the released version", points),
            "unit": "iteration" if summary.rl else "step",
            "ledger": ledger,
            "report": _report(summary),
            "facts": facts_of(summary, reader),
            "config": config_text(reader.folder),
            "gain": gain_of(summary),
            "checked": summary.check,
            "status": status_of(summary),
            "pace": pace_of(summary, reader),
            "stopped": summary.stopped,
            "caveats": summary.caveats,
            "replies": summary.state.all_replies if summary.state else Replies(),
            "remarked": [one for one in reader.remarks() if one[2] != (summary.stopped,)],
            "events": reader.store.events()[-8:],
        }


def tasks(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show the heat map of tasks by versions, and tasks that flipped between two."""
    asked = request.query_params
    with _run(site, request) as (summary, reader):
        known = [one for one in reader.values_of("phase") if one]
        usual = next((p for p in ("gate", "test", "val") if p in known), next(iter(known), ""))
        chosen = next((p for p in known if p == asked.get("phase")), usual)
        phases = VAL_PHASES if chosen == "gate" else (chosen,)
        found = site.once(reader.path, f"heat map of {chosen}", lambda: heat_map(reader, phases))
        first = max(_number(asked, "from", 0), 0)
        ends = ends_of(summary, reader, found)
        a, b = (
            asked[side] if asked.get(side) in found.versions else end
            for side, end in zip("ab", ends, strict=True)
        )
        return "tasks.html", {
            "map": found,
            "names": {one: reader.versions.label(one) for one in found.versions},
            "marks": _marks(summary, reader),
            "phases": known,
            "phase": chosen,
            "first": first,
            "most": _TASKS,
            "a": a,
            "b": b,
            "flips": found.flips(a, b)[:_TASKS] if a and b else [],
        }


def side_by_side(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show two episodes of a run side by side."""
    name, asked = request.path_params["run"], request.query_params
    path = site.folder(name)
    sides = [f"e{_number(asked, side)}" for side in ("a", "b")]
    pair = [(name, read_episode(path, side, most=_TURNS)) for side in sides]
    return "side_by_side.html", {"pair": pair, "run": name}


def between_runs(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show the first scored attempts at a task, one per run, side by side."""
    asked, pair = request.query_params, []
    for label, side in (("A", "a"), ("B", "b")):
        name, task = asked.get(side, ""), asked.get("task", "")
        path = site.folder(name)
        attempts = read_side(label, path, site.root, None).attempts.get(task, ())
        scored = [one.id for one in attempts if one.reward is not None]
        if not scored:
            raise RunError(f"run {name!r} has no scored attempt at {task[:200]!r}")
        pair.append((name, read_episode(path, f"e{scored[0]}", most=_TURNS)))
    return "side_by_side.html", {"pair": pair}


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
            "scores": site.once(reader.path, "val scores", lambda: _val_scores(reader)),
            "shown": found[shown],
            "best": best,
            "current": state.skill_version if state else None,
            "lines": blame(reader.store, shown),
            **_measured(reader, found[shown].hash),
            "diff": list(changed)[2:],
            "parent": parent,
        }


def edits(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show the counts of edits at each stage, per step, and why edits were dropped."""
    with _run(site, request) as (summary, reader):
        funnel = reader.funnel()
        steps = [one["step"] for one in funnel]
        step = _number(request.query_params, "step", steps[-1] if steps else 0)
        patches = reader.store.patches(step)
        return "edits.html", {
            "funnel": funnel,
            "step": step,
            "edits": reader.store.edits(step),
            "patches": [one for one in patches if one.failure],
            "noted": [one for one in patches if one.details.get("notes")],
            "stopped": summary.stopped,
            "verdicts": [one for one in reader.store.verdicts() if one.step == step],
        }


def episodes(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """List episodes, filtered and searched, a page at a time."""
    wanted = _wanted(request)
    asked = request.query_params
    with _run(site, request) as (_, reader):
        before = _number(asked, "before") if asked.get("before") else None
        page = reader.episodes(wanted, before)
        more = [(key, value) for key, value in asked.items() if key not in ("before", "token")]
        return ("episode_rows.html" if before else "episodes.html"), {
            "page": page,
            "wanted": wanted,
            "notes": _notes(reader),
            "replies": any(one["reply"].expected or one["reply"].answer for one in page.rows),
            "versions": reader.versions,
            "query": more,
            "sorts": {name: _sorted_query(more, wanted.sort, name) for name in ORDERS},
            "choices": {
                "phase": reader.values_of("phase"),
                "split": reader.values_of("split"),
                "type": reader.values_of("task_type"),
            },
        }


def _sorted_query(query: list[tuple[str, str]], sort: str, name: str) -> str:
    """Return the query that sorts by a column, downwards if it is sorted by it upwards."""
    others = [(key, value) for key, value in query if key != "sort"]
    return urlencode([*others, ("sort", f"-{name}" if sort == name else name)])


def _notes(reader: RunReader) -> Mapping[int, Note]:
    try:
        return read_notes(reader.folder)
    except RunError:  # the page of an episode says so
        return {}


def _wanted(request: Request) -> Filter:
    asked = request.query_params
    return Filter(
        phase=asked.get("phase", ""),
        split=asked.get("split", ""),
        task_type=asked.get("type", ""),
        task=asked.get("task", ""),
        version=asked.get("version", ""),
        outcome=asked.get("outcome", ""),
        step=_number(asked, "step") if asked.get("step") else None,
        text=asked.get("q", "").strip(),
        sort=asked.get("sort", ""),
    )


def episodes_csv(site: Site, request: Request) -> str:
    """Return all episodes that meet a list's conditions as CSV."""
    wanted = replace(_wanted(request), text="")
    with _run(site, request) as (_, reader):
        notes, label = _notes(reader), reader.versions.label
        return csv_text(
            _CSV_COLUMNS,
            (
                [
                    *(f"e{one['id']}", one["phase"], one["step"], one["split"]),
                    *(one["task_id"], one["task_type"], label(one["version"])),
                    *(one["reply"].question, one["reply"].expected, one["reply"].answer),
                    *(outcome_of(one["solved"]), one["reward"], one["turns"]),
                    *(one["failure_cause"], "yes" if _note(notes, one).is_marked else ""),
                    _note(notes, one).text,
                ]
                for one in reader.every_row(wanted)
            ),
        )


def _note(notes: Mapping[int, Note], row: Mapping[str, Any]) -> Note:
    return notes.get(row["id"], Note())


_CSV_COLUMNS = (
    *("episode", "phase", "step", "split", "task", "task type", "skill", "question"),
    *("expected", "answer", "outcome", "score", "turns", "fault", "marked", "note"),
)


def outcome_of(solved: bool | None) -> str:
    """Return the word for an outcome."""
    return "fault" if solved is None else "solved" if solved else "unsolved"


def episode(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show an episode turn by turn."""
    name, asked = request.path_params["run"], request.path_params["episode"]
    number = _number({"episode": asked.removeprefix("e")}, "episode")
    with _run(site, request) as (_, reader):
        before, after = reader.neighbors(number)
    first = max(_number(request.query_params, "from", 0), 0)
    shown = read_episode(site.folder(name), f"e{number}", first=first, most=_TURNS)
    try:
        note, note_problem = read_notes(site.folder(name)).get(number, Note()), ""
    except RunError as error:
        note, note_problem = Note(), str(error)
    cited = {
        int(one) for one in request.query_params.get("turns", "").split(",") if one.isdecimal()
    }
    return "episode.html", {
        "view": shown,
        "before": before,
        "after": after,
        "note": note,
        "note_problem": note_problem,
        "cited": cited,
        "first": first,
        "most": _TURNS,
        "clip": None if request.query_params.get("full") else 4000,
        "needle": request.query_params.get("q", "").strip()[:200],
    }


def costs(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show failures by cause, and usage."""
    with _run(site, request) as (summary, reader):
        asked = [one for name, one in summary.usage.items() if name not in _OTHERS]
        turns = reader.store.turn_ends() if request.query_params.get("turns") else None
        return "costs.html", {
            "faults": reader.faults(),
            "again": sum(one.failed_calls for one in asked),
            "remarked": [
                (place, outcome, said)
                for place, outcome, said in reader.remarks()
                if said != (summary.stopped,) and place != INITIAL
            ],
            "stopped": summary.stopped,
            "usage": summary.usage,
            "total": sum(summary.usage.values(), Usage()),
            "status": status_of(summary),
            "pace": pace_of(summary, reader),
            "turns": turns,
            "advice": list(TurnEnds.read(turns or {}).lines())[1:],
        }


def training(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Show the curves of a run that trains weights."""
    with _run(site, request) as (_, reader):
        rows = reader.payloads("iteration")
        validations = reader.payloads("validation")
        evolutions = reader.payloads("evolution")
        steps, internalized = reader.payloads("policy_step"), reader.payloads("internalized")
    by_type = [one["task_types"] for one in rows]
    return "training.html", {
        "rows": rows,
        "charts": _curves(rows, validations),
        "types": sorted({name for one in by_type for name in one}),
        "by_type": list(zip((one["iteration"] for one in rows), by_type, strict=True)),
        "val": {one["iteration"]: one["table"]["overall"]["success_rate"] for one in validations},
        "evolutions": evolutions,
        "policy_steps": steps,
        "internalized": internalized,
        "validations": validations,
    }


def compare(site: Site, request: Request) -> tuple[str, dict[str, Any]]:
    """Compare two runs, paired by task."""
    a, b = request.query_params.get("a", ""), request.query_params.get("b", "")
    names, ticked = list(site.runs()), request.query_params.getlist("run")
    problem = ""
    if len(ticked) == 2:  # ticked in a list with the latest first: compare it with the earlier one
        b, a = ticked
    elif ticked:
        problem = f"{len(ticked)} runs are ticked; tick two, or choose them here"
    context: dict[str, Any] = {"names": names, "a": a, "b": b, "found": None, "problem": problem}
    if a and b:
        try:
            context["found"] = compare_runs(site.folder(a), site.folder(b))
        except UsageError as error:
            context["problem"] = str(error)
    return "compare.html", context


def _curves(
    rows: list[dict[str, Any]], validations: list[dict[str, Any]]
) -> list[tuple[str, Markup]]:
    def line(key: str) -> list[tuple[float, float | None]]:
        return [(one["iteration"], one.get(key)) for one in rows]

    types = sorted({name for one in rows for name in one["task_types"]})
    by_type = {
        name.replace("_", " "): [
            (one["iteration"], _recent_share(rows[max(at - 4, 0) : at + 1], name))
            for at, one in enumerate(rows)
        ]
        for name in types
    }
    val = [(one["iteration"], one["table"]["overall"]["success_rate"]) for one in validations]
    zero = [
        (one["iteration"], one["zero_variance"] / one["groups"] if one["groups"] else None)
        for one in rows
    ]
    wanted: list[tuple[str, Mapping[str, Any], bool]] = [
        ("Success rate of rollouts and val", {"rollouts": line("success"), "val": val}, True),
        ("Success rate by task type, mean of 5 iterations", by_type, True),
        ("Mean reward", {"reward": line("reward")}, False),
        ("Share of zero-variance groups", {"zero-variance groups": zero}, True),
        ("KL to the SFT policy, nats per token", {"KL": line("kl")}, False),
        ("Entropy, nats per token", {"entropy": line("entropy")}, False),
        ("Clip fraction", {"clip fraction": line("clip_fraction")}, False),
        ("Gradient norm", {"gradient norm": line("grad_norm")}, False),
        ("Turns of an episode", {"turns": line("turns")}, False),
        ("Tokens of an episode that the policy chose", {"tokens": line("tokens")}, False),
    ]
    drawn = [(title, charts.lines(title, series, share)) for title, series, share in wanted]
    return [(title, chart) for title, chart in drawn if chart]


def _recent_share(rows: list[dict[str, Any]], task_type: str) -> float | None:
    """Return the success rate of a task type over some iterations."""
    counts = [one["task_types"].get(task_type) or (0, 0) for one in rows]
    scored = sum(each for _, each in counts)
    return sum(solved for solved, _ in counts) / scored if scored else None


def _val_scores(reader: RunReader) -> dict[str, tuple[int, int]]:
    """Return (solved, scored) of val draws by version."""
    return {
        version: (sum(solved for solved, _ in counts), sum(scored for _, scored in counts))
        for version, counts in reader.val_counts().items()
    }


def ends_of(summary: RunSummary, reader: RunReader, found: HeatMap) -> tuple[str, str]:
    """Return the first and last versions of a run among the played ones."""
    if not found.versions:
        return "", ""
    versions = reader.versions
    by_label = {versions.label(one).partition(" + ")[0]: one for one in reversed(found.versions)}
    if summary.rl is not None:
        first = weights_name(summary.rl.baseline)
        last = weights_name(_chosen(summary, reader))
    else:
        first, last = "v0", ""
        if state := summary.state:
            last = f"v{state.best_version or state.skill_version}"
    return by_label.get(first, found.versions[0]), by_label.get(last, found.versions[-1])


def _chosen(summary: RunSummary, reader: RunReader) -> int:
    """Return the iteration of the selected weights, or of the best so far."""
    opened = reader.payloads(RlKind.TEST_OPENED)
    if opened:
        return int(opened[-1]["artifacts"]["final"])
    best = summary.rl.best if summary.rl is not None else None
    return best.iteration if best is not None else 0


def _marks(summary: RunSummary, reader: RunReader) -> dict[str, str]:
    """Mark the released and current versions by label."""
    if rl := summary.rl:
        chosen = _chosen(summary, reader)
        ended = weights_name(chosen)
        if rl.release is not None and not rl.release.accepted:
            return {weights_name(rl.baseline): "released", ended: "not proven"}
        return {ended: "released" if rl.test is not None else "best so far"}
    if state := summary.state:
        marks = {f"v{state.skill_version}": "current", f"v{state.best_version}": "released"}
        texts = {one.version: one.hash for one in reader.store.skills()}
        return {
            reader.versions.label(texts[int(name[1:])]): mark
            for name, mark in marks.items()
            if int(name[1:]) in texts
        }
    return {}


def _measured(reader: RunReader, version: str) -> dict[str, Any]:
    """Return a version's ablation, or ``None``."""
    try:
        found, problem = read_ablation(reader.folder), ""
    except RunError as error:
        found, problem = None, str(error)
    measured = found if found is not None and found.skill_version == version else None
    return {"ablation": measured, "ablation_problem": problem}


def _judged(verdicts: list[VerdictRecord]) -> list[Mark]:
    points = []
    for one in verdicts:
        shown = one.body.get("effect"), *(one.body.get("interval") or (None, None))
        value, low, high = (None if it is None else 100 * it for it in shown)
        points.append(
            Mark(
                str(one.step),
                value,
                low,
                high,
                kind=str(one.body["decision"]),
                link=f"edits?step={one.step}",
                title=f"step {one.step}, {one.origin}: {one.body['reason']}",
            )
        )
    return points


def _age_s(one: RunSummary, now: float) -> float | None:
    if not one.started:
        return None
    return now - datetime.strptime(one.started, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def gain_of(one: RunSummary) -> Any:
    """Return the test gain of the best artifact, else of the last one; ``None`` without a test."""
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
    """The run of a URL, open for one request."""

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
