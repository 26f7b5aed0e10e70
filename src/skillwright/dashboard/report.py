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
from skillwright.dashboard.heat_map import heat_map
from skillwright.dashboard.reading import Filter, RunReader, plain, reading
from skillwright.dashboard.site import Site, gain, templates
from skillwright.evaluation import RELEASE_PHASE
from skillwright.jobs.inspect import (
    EpisodeQuery,
    FlipList,
    RunSummary,
    list_flips,
    read_episode,
    read_notes,
)
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
# Links that only lead somewhere go with their text; of others the text stays.
_SERVED = re.compile(
    r'<a class="go".*?</a>|<a [^>]*class="[^"]*\bgo".*?</a>|<a [^>]*>|</a>'
    r'|<form class="filters".*?</form>|<div hx-ext.*?></div>',
    re.DOTALL,
)
_TABLE = re.compile(
    r'<div class="scroll"[^>]*aria-label="(?P<name>[^"]*)">.*?</table>\s*</div>', re.DOTALL
)
_HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)
_TITLE = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_OPEN_ROWS = 6
"""Maximum rows of a table that is shown open, except the lines of the skill."""
_UNFOLDED = ("Lines",)
_MOST_ROWS = 500
_MOST_TRANSCRIPTS, _MOST_TURNS, _MOST_TURNS_IN_ALL = 100, 30, 1500
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
    if rows := _test_rows(site, name, folder):
        shown = filled.get_template("rows.html").render(rows, run=name, path="")
        sections.insert(1, ("test tasks", _collapsed(_SERVED.sub("", shown))))
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
        verdicts = [one for one in reader.store.verdicts() if one.origin != RELEASE_PHASE]
        parts.append(
            f"{sum(one.body['decision'] == 'accept' for one in verdicts)} of {len(verdicts)} "
            f"candidates were kept; {summary.episodes:,} episodes, {summary.failures} faults."
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
    for one in summary.caveats:
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
        yield "\n".join(["Faults and failed calls by cause:", "", *shown, *rest])
    ends = TurnEnds.read(reader.store.turn_ends())
    if any(ends.lapses.values()):
        yield "\n".join(["How answers ended:", "", *(f"- {_words(one)}" for one in ends.lines())])


def _is_tested(summary: RunSummary) -> bool:
    return bool((summary.state and summary.state.report) or (summary.rl and summary.rl.test))


def _main(filled: Any, template: str, values: dict[str, Any]) -> Any:
    """Render the main block of a page without links and forms."""
    found = filled.get_template(template)
    context = found.new_context({**values, "path": "", "has_bank": False})
    return _collapsed(_SERVED.sub("", "".join(found.blocks["main"](context))))


def _collapsed(html: str) -> str:
    """Collapse long tables, and name the column of each cell for narrow screens."""

    def collapsed(found: re.Match[str]) -> str:
        table, name = _labeled(found[0]), found["name"]
        count = table.count("<tr") - 1
        if count <= _OPEN_ROWS or name in _UNFOLDED:
            return table
        return f"<details><summary>{name}: {count} rows</summary>{table}</details>"

    return _TABLE.sub(collapsed, html)


def _labeled(table: str) -> str:
    head = _HEAD.search(table)
    if head is None or 'class="heat"' in table or 'class="blame"' in table:
        return table
    titles = [" ".join(_TAG.sub(" ", one).split()) for one in _TITLE.findall(head[0])]

    def labeled(row: re.Match[str]) -> str:
        cells = row[0].split("<td")
        if len(cells) != len(titles) + 1:  # the head, or a cell over several columns
            return row[0]
        named = (
            f' data-label="{title}"{cell}' for title, cell in zip(titles, cells[1:], strict=True)
        )
        return "<td".join([cells[0], *named])

    return _ROW.sub(labeled, table)


def _test_rows(site: Site, name: str, folder: Path) -> dict[str, Any] | None:
    """Return the test episodes of what a run released, and transcripts of flipped tasks."""
    summary = site.summary(folder)
    with reading(folder) as reader:
        found = heat_map(reader, ("test",))
        if summary.problem or not found.versions:
            return None
        _, last = pages.ends_of(summary, reader, found)
        rows = reader.every_row(Filter(phase="test", version=last))
        rows.sort(key=lambda one: (one["solved"] is not False, one["solved"] is not None))
        version = reader.versions.label(last)
    flips, pairs, turns = None, [], 0
    if summary.job != "eval" and _is_tested(summary):
        flips = list_flips(folder, query=EpisodeQuery(split="test"))
        for flip in sorted(flips.flips, key=lambda one: one.is_gain)[:_MOST_TRANSCRIPTS]:
            sides = (flip.before.episode.name, flip.after.episode.name)
            pairs.append((flip, [read_episode(folder, one, most=_MOST_TURNS) for one in sides]))
            turns += sum(len(one.turns) for one in pairs[-1][1])
            if turns > _MOST_TURNS_IN_ALL:
                break
    noted = read_notes(folder).items()
    return {
        "rows": rows,
        "most": _MOST_ROWS,
        "version": version,
        "replies": any(one["reply"].expected or one["reply"].answer for one in rows),
        "flips": flips,
        "pairs": pairs,
        "noted": list(noted),
    }


def _gain_line(summary: RunSummary) -> str:
    found = pages.gain_of(summary)
    if found is None:
        return "No gain was measured: the test split was not scored."
    return f"Gain on {found.tasks} held-out tasks: **{gain(found.gain, found.interval)}**."


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
