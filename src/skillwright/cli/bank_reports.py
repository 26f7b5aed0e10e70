"""What commands that change or measure a bank print at their end."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from skillwright.bank import AtDelta, Bank, Calibration, Decision, count_skills
from skillwright.cli.bank_tables import bank_table, sparkline, words
from skillwright.cli.tables import own_up, print_indented
from skillwright.cli.words import counted, print_words
from skillwright.jobs.bank.distil import DistilOutcome
from skillwright.jobs.bank.evolve import EvolutionRound, EvolveReport
from skillwright.jobs.bank.moves import MoveReport, let_in

_ACTIONS = {
    "accept": "accepted by the gate",
    "reject": "rejected by the gate",
    "undecided": "undecided, so the bank stays",
    "none_weak": "no category is weak enough to be looked at; the bank stays",
    "no_proposal": "the teacher proposed nothing that may enter",
    "nothing_new": "everything that was proposed is there already, or over the limits",
}


def show_distilled(console: Console, outcome: DistilOutcome) -> None:
    """Show what a distillation came to."""
    new = outcome.version != outcome.before
    moved = f"version {outcome.before} -> {outcome.version}" if new else "nothing new was learnt"
    console.print(f"[bold]{escape(outcome.bank)}[/], {moved}: {outcome.skills}")
    console.print(
        f"{counted(outcome.episodes, 'episode')} ({outcome.won} won), {outcome.read} read; "
        f"{counted(outcome.requests, 'question')} to the teacher"
    )
    if outcome.kept_out:
        left = ", ".join(f"{count} of {name}" for name, count in outcome.kept_out.items())
        console.print(f"kept from the teacher: {left}")
    fates = ", ".join(f"{count} {name}" for name, count in sorted(outcome.decisions.items()))
    console.print(f"drafts: {fates or 'none'}")
    raw = outcome.compression.get("raw")
    if raw is not None:
        console.print(
            f"these trajectories are {raw:.1f} times as long as the skills learnt from them"
        )
    for name, why in outcome.blocked:
        print_indented(console, 2, Text(f"kept out: {name}: {why}", style="yellow"))
    for note in outcome.notes:
        print_indented(console, 2, Text(note, style="dim"))
    own_up(console, outcome.is_scripted)


def show_evolution(console: Console, report: EvolveReport) -> None:
    """Show each round: success by category, what was proposed, what the gate said, growth."""
    for one in report.rounds:
        _show_round(console, one)
    categories = sorted({name for one in report.rounds for name in one.growth})
    if categories:
        table = bank_table("category", "active", "growth", right=("active",))
        for name in categories:
            series = [one.growth.get(name, 0) for one in report.rounds]
            table.add_row(words(name), str(series[-1]), sparkline(series))
        console.print(table)
    if report.release is not None:
        stays = "" if report.release.accepted else "; the bank stays as it was"
        reason = report.release.reason.removesuffix(".")
        console.print(f"[bold]release test[/]: {escape(reason)}{stays}.")
    console.print(f"[bold]{escape(report.bank)}[/]: {report.skills}")
    own_up(console, report.is_scripted)


def _show_round(console: Console, one: EvolutionRound) -> None:
    style = "green" if one.action == "accept" else "yellow"
    moved = f" -> {one.version}" if one.version != one.before else ""
    console.print(
        f"\n[bold]Round {one.number}[/], version {one.before}{moved}: "
        f"[{style}]{_ACTIONS.get(one.action, one.action)}[/]"
    )
    table = bank_table("category", "won", "episodes", "share", right=("won", "episodes", "share"))
    for name, (wins, episodes) in one.success.items():
        mark = " (weakest)" if name == one.weakest else ""
        share = f"{wins / episodes:.0%}"
        table.add_row(words(name) + mark, str(wins), str(episodes), share)
    console.print(table)
    for change in one.changes:
        print_indented(console, 2, Text(change))
    if one.blocked:
        print_indented(console, 2, Text(f"{one.blocked} more kept out by lint", style="yellow"))
    if one.verdict is not None:
        print_indented(console, 2, Text(f"gate: {one.verdict.reason}", style="bold"))
    for note in one.notes:
        print_indented(console, 2, Text(note, style="dim"))


def show_import(console: Console, report: MoveReport, bank: str) -> None:
    """Show what became of skills that came in."""
    skills = count_skills(report.bank).headline
    at = f"[bold]{escape(bank)}[/] is at version {report.bank.version}"
    console.print(f"{at}: {skills}")
    added = [one for one in report.report.outcomes if one.decision is Decision.ADDED]
    for one in report.report.outcomes:
        if one.decision is not Decision.ADDED:
            print_indented(console, 2, Text(f"{one.decision}: {one.reason}", style="yellow"))
    if added:
        console.print(
            f"{counted(len(added), 'skill')} in quarantine ({', '.join(o.id for o in added)}); no "
            "agent is told one yet"
        )
        move = "look at them:  skillwright bank lint --bank " + bank
        print_words(console, f"{move}\nlet them in:   skillwright bank admit --bank {bank} "
                    "--config CONFIG")  # fmt: skip


def show_admission(console: Console, report: MoveReport) -> None:
    """Show who left quarantine, and who did not and why."""
    if report.verdict is not None:
        print_words(console, f"gate: {report.verdict.reason}")
    if report.refused:
        console.print("[yellow]nobody was let in[/]; the bank stays as it was")
    else:
        ids = let_in(report.report)
        count = counted(len(ids), "skill")
        console.print(f"version {report.bank.version}: {count} let in: {', '.join(ids)}")
    for one in report.report.outcomes:
        if one.decision is Decision.REFUSED:
            print_indented(console, 2, Text(f"{one.id} stays out: {one.reason}", style="yellow"))


def show_export(console: Console, bank: Bank, to: Path, written: Mapping[str, Any]) -> None:
    """Show what was written."""
    print_words(
        console,
        f"version {bank.version} was written to {to} as {written['format']} "
        f"({counted(written['files'], 'file')})",
    )
    for skill, why in written["left_out"].items():
        line = f"{skill} was left out: {'; '.join(why)}"
        print_indented(console, 2, Text(line, style="yellow"))


# calibrate


def show_calibration(console: Console, found: Calibration) -> None:
    """Show precision and recall over delta."""
    print_words(console, Text(found.embedder, style="bold"))
    for name, spread in (("matching", found.matching), ("other", found.other)):
        low, _, _, middle, _, _, high = spread.quantiles
        console.print(
            f"  {name:<9} {spread.count:>7,} pairs, from {low:.2f} to {high:.2f}, "
            f"half below {middle:.2f}"
        )
    console.print(f"  a matching pair scores higher in {found.separation:.1%} of all comparisons")
    numbers = ("delta", "precision", "recall", "tasks told nothing")
    table = bank_table(*numbers, "", right=numbers)
    every = max(1, len(found.curve) // 20)
    shown = {one.delta: one for one in found.curve[::every]}
    shown |= {one.delta: one for one in (found.default, found.suggested, found.best_f1)}
    for delta in sorted(shown):
        table.add_row(*_point(shown[delta]), ", ".join(_marks(found, delta)))
    console.print(table)


def _point(one: AtDelta) -> tuple[str, ...]:
    precision = "-" if one.precision is None else f"{one.precision:.1%}"
    return f"{one.delta:.2f}", precision, f"{one.recall:.1%}", f"{one.nothing:.1%}"


def _marks(found: Calibration, delta: float) -> list[str]:
    marks = {
        "the embedder's own": found.default,
        "suggested": found.suggested,
        "best F1": found.best_f1,
    }
    return [name for name, one in marks.items() if one.delta == delta]


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration as a JSON object."""
    return asdict(found)
