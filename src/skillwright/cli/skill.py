"""``skillwright skill``: where the lines of a skill document come from, and how versions differ."""

import dataclasses
import difflib
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli.faults import exit_codes
from skillwright.cli.words import make_console, print_words
from skillwright.core import UsageError
from skillwright.jobs.inspect.provenance import BlamedLine, blame_skill, find_skill

app = typer.Typer(no_args_is_help=True, help="Look into a trained skill document.")
out = make_console()

_MOST = 6
_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_WHERE = "A file in a run's folder, RUN@VERSION, or a run for what it released"

Root = Annotated[Path, typer.Option(help="The folder that holds runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
DEFAULT_ROOT = Path("runs")


@app.command("blame")
def blame_(
    where: Annotated[
        str, typer.Argument(metavar="SKILL[:LINE]", help=f"{_WHERE}; with a line, that one only.")
    ],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Show for each line the version and edits that wrote it, and the episodes behind them."""
    with exit_codes():
        name, _, number = where.rpartition(":")
        line = int(number) if name and number.isdecimal() else None
        skill = find_skill(name if line is not None else where, root)
        lines = blame_skill(skill)
        if line is not None:
            if not 1 <= line <= len(lines):
                raise UsageError(f"the skill has lines 1 to {len(lines)}; there is no line {line}")
            lines = lines[line - 1 : line]
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in lines]))
        return
    for one in lines:
        if one.text.strip() or line is not None:
            _show(one)
    if not lines:
        print_words(out, "the skill is empty", "dim")
        return
    seen = next((w for one in lines for w in one.witnesses), None)
    if seen is not None:
        print_words(
            out, f"read one with:  skillwright runs view {skill.run} e{seen.episode}", "dim"
        )


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"{_WHERE}.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    root: Root = DEFAULT_ROOT,
) -> None:
    """Show how two versions of a skill document differ; exit with 1 where they do."""
    with exit_codes():
        first, second = find_skill(a, root), find_skill(b, root)
    changed = list(
        difflib.unified_diff(
            first.text.splitlines(),
            second.text.splitlines(),
            f"{first.run.name}@{first.version}",
            f"{second.run.name}@{second.version}",
            lineterm="",
        )
    )
    for line in changed:
        print_words(out, Text(line, _COLORS.get(line[:1], "")))
    if changed:
        raise typer.Exit(1)


def _show(one: BlamedLine) -> None:
    print_words(out, Text(f"{one.number:>4}  {one.text}"))
    parts = [f"v{one.version}", one.origin.replace("_", " ")]
    if one.edits:
        parts.append(", ".join(one.edits[:_MOST]))
    if one.witnesses:
        shown = [
            f"e{w.episode}" + (f" (turns {', '.join(map(str, w.turns[:4]))})" if w.turns else "")
            for w in one.witnesses[:_MOST]
        ]
        rest = len(one.witnesses) - len(shown)
        parts.append("from " + ", ".join(shown) + (f" and {rest} more" if rest > 0 else ""))
    print_words(out, Text("      " + " · ".join(parts), "dim"))
