"""The command that checks an exported skill, and the display of an export."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from skillwright.cli.faults import NO, exit_codes
from skillwright.cli.options import AsJson, print_result
from skillwright.cli.words import counted, make_console, print_words
from skillwright.core.fence import without_controls
from skillwright.core.skill_file import SKILL_FILE

if TYPE_CHECKING:  # other commands on skills must not wait for slow imports
    from skillwright.jobs.inspect import ExportedSkills, Verified

out = make_console()
_COLORS = {"pass": "green", "fail": "red", "advice": "yellow", "skipped": "dim"}


def verify(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Skills, files of skills, or folders of skills."),
    ],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A public key: only what is signed with it passes."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an exported skill: rules, links, hashes, proof; exit with 1 if one fails."""
    from skillwright.jobs.inspect import verify_skills

    with exit_codes():
        named = dict.fromkeys(map(_skill_of, folders))
        found = [one for each in named for one in asyncio.run(verify_skills(each, key))]
    print_result(as_json, [one.to_dict() for one in found], lambda: _show(found))
    if not all(one.holds for one in found):
        raise typer.Exit(NO)


def _skill_of(path: Path) -> Path:
    """Return a folder as it is, and of a file, as pre-commit names it, the skill's folder."""
    if not path.is_file():
        return path
    return next((one for one in path.parents if (one / SKILL_FILE).is_file()), path.parent)


def _show(found: Sequence["Verified"]) -> None:
    from skillwright.cli.tables import print_indented

    for one in found:
        print_words(out, Text(without_controls(one.folder), "bold"))
        for check in one.checks:
            line = Text(f"{check.outcome:<8}", _COLORS[check.outcome])
            line.append(f"{check.name:<9} {without_controls(check.said)}", "default")
            print_indented(out, 2, line)
        for claim in one.stated:
            print_indented(out, 2, Text(without_controls(f"stated  {claim}"), "cyan"))


def show_taken(console: Console, taken: "ExportedSkills") -> None:
    """Show the written files, the author of the description, and the evidence."""
    from skillwright.cli.tables import print_indented
    from skillwright.evaluation import gain_text

    print_words(console, f"written: {taken.folder} ({counted(taken.files, 'file')})")
    print_indented(console, 2, Text(f"description, by {taken.described_by}: {taken.description}"))
    facts = taken.facts
    if "gain" in facts:
        proven = "proven" if facts["proven"] == "yes" else "not proven"
        said = f"gain {gain_text(float(facts['gain']))} in its test"
        said += f", p = {facts['p-value']}" if "p-value" in facts else ""
        said += f"; expected {facts['expected-gain']}" if "expected-gain" in facts else ""
        print_indented(console, 2, Text(f"{said}: {proven}"))
    if (score := taken.trigger) is not None:
        print_indented(
            console,
            2,
            Text(
                f"trigger test: F1 {score.f1:.3f} (precision {score.precision:.3f}, recall "
                f"{score.recall:.3f}) on {score.own} val tasks, among {score.neighbors} "
                f"other skills with {score.others} tasks"
            ),
        )
    for note in taken.notes:
        print_indented(console, 2, Text(without_controls(f"note: {note}"), "yellow"))
    for skill, why in taken.left_out.items():
        line = f"{skill} was left out: {'; '.join(why)}"
        print_indented(console, 2, Text(without_controls(line), "yellow"))
    if facts.get("scripted") == "yes":
        print_indented(console, 2, Text("scripted models took part: programs, not language models"))
    print_words(console, f"check it with:  skillwright verify {taken.folder}", "dim")
