"""A run as one file: HTML that can be mailed, or Markdown for a pull request.

The HTML holds the pages of `skillwright view` without links, forms and scripts; it loads nothing.
"""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.requests import Request

from skillwright.core import RunError
from skillwright.core.fence import without_controls
from skillwright.dashboard import banks, pages
from skillwright.dashboard.reading import RunReader, plain, reading
from skillwright.dashboard.site import Site, signed, templates
from skillwright.jobs.inspect import EpisodeQuery, FlipList, RunSummary, list_flips
from skillwright.jobs.run import TurnEnds

_SECTIONS = (
    ("overview", pages.overview),
    ("skill", pages.skill),
    ("tasks", pages.tasks),
    ("edits", pages.edits),
    ("training", pages.training),
    ("bank", banks.bank),
    ("faults and costs", pages.costs),
)
_SERVED = re.compile(
    r'<a [^>]*>|</a>|<form class="filters".*?</form>|<div hx-ext.*?></div>', re.DOTALL
)
_MOST_FLIPPED = 3
_MOST_LINES = 400
_MOST_FAULTS, _LONGEST = 5, 600


def html_report(folder: Path) -> str:
    """Write a run as one self-contained HTML file.

    Raises:
        RunError: The folder holds no run, or its store cannot be read.
    """
    site = Site(folder.parent, (folder,), lambda: 0.0)
    name = next(one for one, path in site.runs().items() if path.resolve() == folder.resolve())
    filled = templates()
    sections = []
    for title, page in _SECTIONS:
        asked = Request({"type": "http", "path_params": {"run": name}, "query_string": b"turns=1"})
        template, values = page(site, asked)
        if template == "bank.html" and values["bank"] is None:
            continue
        if template == "training.html" and not values["rows"]:
            continue
        if template == "skill.html" and not values["versions"]:
            continue
        sections.append((title, _main(filled, template, {**values, "run": name})))
    style = (Path(__file__).parent / "static" / "style.css").read_text(encoding="utf-8")
    return filled.get_template("report.html").render(
        run=name, style=style, sections=sections, path="", has_bank=False
    )


def markdown_report(folder: Path) -> str:
    """Write a summary for a pull request: gain, diff of the skill, three flipped tasks.

    Raises:
        RunError: The folder holds no run, or its store cannot be read.
    """
    site = Site(folder.parent, (folder,), lambda: 0.0)
    summary = site.summary(folder)
    if summary.problem:
        raise RunError(summary.problem)
    parts = [f"## {summary.name}: {summary.result}", _gain_line(summary)]
    with reading(folder) as reader:
        verdicts = reader.store.verdicts()
        parts.append(
            f"{sum(one.body['decision'] == 'accept' for one in verdicts)} of {len(verdicts)} "
            f"candidates were accepted; {summary.episodes:,} episodes, {summary.failures} failed."
        )
        parts += _troubles(summary, reader)
        if summary.state is not None:
            best = reader.store.skill(summary.state.best_version)
            changed = difflib.unified_diff(
                reader.store.skill(0).splitlines(), best.splitlines(), "initial", "released", "", ""
            )
            lines = [without_controls(line.rstrip()) for line in changed][:_MOST_LINES]
            parts.append(
                "\n".join(["```diff", *(line.replace("```", "'''") for line in lines), "```"])
            )
    if summary.job != "eval" and _is_tested(summary):
        parts.append(_flipped(list_flips(folder, query=EpisodeQuery(split="test"))))
    return "\n\n".join(part for part in parts if part) + "\n"


def _troubles(summary: RunSummary, reader: RunReader) -> Iterator[str]:
    """Yield why a run stopped, remarks on scores and replies, and failures."""
    for one in summary.state.caveats if summary.state else ():
        yield f"**{_words(one)}**"
    if summary.stopped:
        yield f"**Stopped:** {_words(summary.stopped)}"
    remarked = [one for one in reader.remarks() if one[2] != (summary.stopped,)]
    if remarked:
        lines = [(f"{place}: {outcome}".strip(": "), said) for place, outcome, said in remarked]
        yield "\n".join(
            ["Remarks:", ""]
            + [
                f"- {head}" + "".join(f"\n  - {_words(one)}" for one in said)
                for head, said in lines
            ]
        )
    faults = reader.faults()
    failed = [(cause, said, count) for cause, said, count, _ in faults.episodes] + faults.calls
    if failed:
        shown = [
            f"- {plain(what)}, {count:,}: {_words(said)}"
            for what, said, count in failed[:_MOST_FAULTS]
        ]
        more = sum(faults.kinds) - len(shown)
        rest = [f"- and {more:,} other messages"] if more > 0 else []
        yield "\n".join(["Failed episodes and calls by cause:", "", *shown, *rest])
    ends = TurnEnds.read(reader.store.turn_ends())
    if any(ends.lapses.values()):
        yield "\n".join(["How answers ended:", "", *(f"- {_words(one)}" for one in ends.lines())])


def _is_tested(summary: RunSummary) -> bool:
    return bool((summary.state and summary.state.report) or (summary.rl and summary.rl.test))


def _main(filled: Any, template: str, values: dict[str, Any]) -> Any:
    """Render the main block of a page without links and forms."""
    found = filled.get_template(template)
    context = found.new_context({**values, "path": "", "has_bank": False})
    return _SERVED.sub("", "".join(found.blocks["main"](context)))


def _gain_line(summary: RunSummary) -> str:
    gain = pages.gain_of(summary)
    if gain is None:
        return "No gain was measured: the test split was not scored."
    interval = ""
    if gain.interval is not None:
        interval = f" (95% interval {signed(gain.interval[0])} to {signed(gain.interval[1])})"
    return f"Gain on {gain.tasks} held-out tasks: **{signed(gain.gain)}**{interval}."


def _flipped(found: FlipList) -> str:
    if not found.flips:
        return "No test task flipped."
    gained = sum(one.is_gain for one in found.flips)
    head = (
        f"Flipped test tasks, {found.before} -> {found.after}: {gained} solved now, "
        f"{len(found.flips) - gained} no longer, of {found.tasks}:"
    )
    # Tasks that are no longer solved come first.
    shown = sorted(found.flips, key=lambda one: one.is_gain)[:_MOST_FLIPPED]
    rows = [
        f"- `{_code(one.task.task_id)}` ({_code(one.task.task_type) or 'no type'}): "
        f"{'solved now' if one.is_gain else 'no longer solved'}, "
        f"{one.before.episode.name} -> {one.after.episode.name}"
        for one in shown
    ]
    return "\n".join([head, "", *rows])


def _words(text: str) -> str:
    """Escape a foreign text as plain words on one line of Markdown."""
    line = " ".join(without_controls(text).split())[:_LONGEST]
    return re.sub(r"([\\`*\[\]<>|~#&])", r"\\\1", line)


def _code(text: str) -> str:
    """Write a name as Markdown code, on one line."""
    return " ".join(without_controls(text).replace("`", "'").split())
