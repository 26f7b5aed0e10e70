"""``skill log``, ``skill show`` and ``skill restore``: the versions of a run's skill document."""

import sys
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli.faults import exit_codes, say
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root, print_result
from skillwright.cli.words import make_console, make_table, print_words
from skillwright.core.fence import without_controls
from skillwright.evaluation import points, points_range
from skillwright.jobs.inspect import ListedVersion, find_skill, list_versions
from skillwright.jobs.run import find_run
from skillwright.jobs.text import release_lines, restore_version

out = make_console()
_COLORS = {"kept": "green", "dropped": "red", "undecided": "yellow"}
Version = Annotated[
    str, typer.Argument(metavar="RUN@VERSION", help="A number, best or current, as in demo@3.")
]


def log(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name.")],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List the versions of a run's skill: step, verdict, gain, score on val."""
    with exit_codes():
        folder = find_run(run, root)
        versions = list_versions(folder)
    print_result(
        as_json, [one.to_dict() for one in versions], lambda: _show_log(folder.name, versions)
    )


def _show_log(run: str, versions: list[ListedVersion]) -> None:
    columns = ("version", "written by", "verdict", "points", "95%", "val")
    table = make_table(*columns, "", right=("version", *columns[3:]), whole=columns)
    for one in versions:
        held = {"released": one.is_best, "current": one.is_current}
        marks = [name for name, holds in held.items() if holds]
        table.add_row(
            str(one.version),
            one.origin,
            Text(one.outcome, _COLORS.get(one.outcome, "")),
            "" if one.gain is None else points(one.gain),
            "" if one.interval is None else points_range(one.interval),
            "" if one.score is None else f"{one.score:.2f}",
            Text(", ".join(marks), "bold"),
        )
    out.print(table)
    for one in versions:
        if one.release is not None:
            for line in release_lines(one.release):
                print_words(out, line)
    print_words(out, f"read one with:  skillwright skill show {run}@best", "dim")


def show(version: Version, root: Root = DEFAULT_ROOT, as_json: AsJson = False) -> None:
    """Print a version of a skill, as it is."""
    with exit_codes():
        found = find_skill(version, root)
    result = {"run": found.run.name, "version": found.version, "text": found.text}
    print_result(as_json, result, lambda: _print_text(found.text))


def _print_text(text: str) -> None:
    """Write a text unchanged into a file or pipe, and without control characters to a terminal."""
    shown = without_controls(text) if sys.stdout.isatty() else text
    typer.echo(shown, nl=bool(shown) and not shown.endswith("\n"))
    if not text.strip():
        say("this version is empty.")


def restore(
    version: Annotated[
        str, typer.Argument(metavar="RUN@VERSION", help="The version to release, as in demo@3.")
    ],
    root: Root = DEFAULT_ROOT,
) -> None:
    """Release an earlier version of a finished run; no version is lost.

    Then RUN and RUN@best name it, for export, eval, serve and best_skill.md.
    """
    with exit_codes():
        found = find_skill(version, root)
        before = find_skill(str(found.run)).version
        state = restore_version(found.run, found.version)
    name = found.run.name
    if before == found.version:
        say(f"version {before} of {name} is released already; nothing changes.")
        return
    say(f"version {found.version} of {name} is released, in {found.run / 'best_skill.md'}.")
    if state.restored_from is not None:
        say(f"undo it with:  skillwright skill restore {name}@{before}")
