"""Reports as tables that fit a terminal."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skillwright.core import Usage
from skillwright.evaluation import Score, ScoreTable, SplitReport, Verdict
from skillwright.jobs import EpochRecord, EvalReport, StepRecord, TrainReport, TrainState
from skillwright.textopt import TriedEdit, was_applied


def show_training(console: Console, report: TrainReport, best_skill: str, scripted: bool) -> None:
    """Show what training came to: scores, decisions with their reasons, and the artefact.

    Args:
        console: Where.
        report: What the job returned.
        best_skill: The path of the best skill's file.
        scripted: A scripted mind took part, which must be said.
    """
    show_decisions(console, report.state)
    if report.test:
        console.print(split_table(report.test))
        for line in _gains(report.test):
            console.print(f"  {line}", highlight=False)
    own_up(console, scripted)
    console.print(f"best skill: [bold]{escape(best_skill)}[/]", highlight=False, soft_wrap=True)


def _gains(report: SplitReport) -> Iterator[str]:
    """Say what each artefact gains over the first, equal ones together."""
    baseline, *headings = _columns(report.tables)
    for heading in headings:
        effect = report.gains[heading.split(" = ")[0]]
        if effect.gain is not None and effect.interval is not None:
            low, high = effect.interval
            yield (
                f"{heading} over {baseline}: [bold]{effect.gain:+.3f}[/] "
                f"(95% interval {low:+.3f} to {high:+.3f}, paired by task)"
            )


def show_evaluation(console: Console, report: EvalReport, scripted: bool) -> None:
    """Show what an evaluation found."""
    console.print(eval_table(report))
    for k, chance in enumerate(report.pass_k, start=1):
        console.print(
            f"pass^{k}: [bold]{chance:.3f}[/]  [dim]({report.complete_tasks} tasks)[/]",
            highlight=False,
        )
    own_up(console, scripted)


def own_up(console: Console, scripted: bool) -> None:
    """Say that results are a scripted mind's, where they are."""
    if scripted:
        console.print(
            "Scripted minds played here: deterministic programs, not language models. The numbers "
            "show that the loop works, not what a model would score.",
            style="yellow",
        )


def show_decisions(console: Console, state: TrainState) -> None:
    """List what was accepted and what was not, with the gate's reasons."""
    decisions = [
        *map(_of_step, state.steps),
        *(_of_epoch(one) for one in state.epochs if one.action),
    ]
    for title, accepted in (("Accepted", True), ("Not accepted", False)):
        chosen = [one for one in decisions if one.accepted is accepted]
        if not chosen:
            continue
        console.print(f"\n[bold]{title}[/]")
        for one in chosen:
            _print_indented(console, 2, Text(f"{one.what}: {one.reason}"))
            for edit in one.edits:
                _print_indented(console, 4, Text(edit, style="dim"))


class _Decision(NamedTuple):
    what: str
    accepted: bool
    reason: str
    edits: tuple[str, ...] = ()


def _of_step(step: StepRecord) -> _Decision:
    edits = tuple(_edit(edit) for edit in step.entry.edits)
    return _Decision(f"step {step.step}", step.accepted, _reason(step.verdict, step.action), edits)


def _of_epoch(epoch: EpochRecord) -> _Decision:
    reason = _reason(epoch.verdict, epoch.action)
    return _Decision(f"slow update of epoch {epoch.epoch}", epoch.accepted, reason)


def _reason(verdict: Verdict | None, action: str) -> str:
    return verdict.reason if verdict else action.replace("_", " ")


def _print_indented(console: Console, columns: int, text: Text) -> None:
    console.print(Padding(text, (0, 0, 0, columns)))


def _edit(edit: TriedEdit) -> str:
    text = " ".join((edit.content or edit.target).split())
    made = was_applied(edit.status)
    return f"{edit.op}: {text}" + ("" if made else f" ({edit.status.replace('_', ' ')})")


def split_table(report: SplitReport) -> Table:
    """Return success by family, one column per artefact; equal artefacts share one."""
    columns = _columns(report.tables)
    first = next(iter(columns.values()))
    table = Table(
        title=f"\nHeld-out {report.split} tasks won (95% interval)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("family", overflow="fold")
    table.add_column("n", justify="right")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for family in first.families:
        scores = [column.families.get(family) for column in columns.values()]
        table.add_row(_words(family), str(first.families[family].tasks), *map(_cell, scores))
    table.add_section()
    overall = [column.overall for column in columns.values()]
    table.add_row("all", str(first.overall.tasks), *map(_cell, overall), style="bold")
    return table


def eval_table(report: EvalReport) -> Table:
    """Return an evaluation's scores by family."""
    table = Table(title=f"{report.split}: tasks won (95% interval)", title_justify="left")
    table.add_column("family", overflow="fold")
    table.add_column("episodes", justify="right")
    table.add_column("won", justify="right", no_wrap=True)
    table.add_column("truncated", justify="right")
    table.add_column("failures", justify="right")
    for family, score in _rows(report.table):
        counts = (str(score.truncated), str(score.failures))
        table.add_row(_words(family), str(score.episodes), _cell(score), *counts)
    return table


def _words(name: str) -> str:
    """Write a name so that a narrow column breaks it between words."""
    return escape(name.replace("_", " "))


def usage_table(usage: Mapping[str, Usage]) -> Table:
    """Return what a run consumed, by purpose."""
    table = Table(title="\nConsumed", title_justify="left", title_style="bold")
    for name in ("purpose", "calls", "input tokens", "output tokens", "failed calls", "money"):
        table.add_column(name, justify="left" if name == "purpose" else "right")
    for purpose, spent in usage.items():
        money = "unknown" if spent.cost_usd is None else f"${spent.cost_usd:.2f}"
        counts = (spent.calls, spent.input_tokens, spent.output_tokens, spent.failed_calls)
        table.add_row(purpose, *(f"{count:,}" for count in counts), money)
    return table


def _rows(table: ScoreTable) -> Iterator[tuple[str, Score]]:
    yield from table.families.items()
    yield "all", table.overall


def _columns(tables: Mapping[str, ScoreTable]) -> dict[str, ScoreTable]:
    """Join artefacts with equal results under one heading ("best = final"), but the first."""
    (baseline, first), *others = tables.items()
    names: list[tuple[ScoreTable, list[str]]] = []
    for name, table in others:
        twins = next((found for other, found in names if other == table), None)
        if twins is None:
            names.append((table, [name]))
        else:
            twins.append(name)
    return {baseline: first, **{" = ".join(found): table for table, found in names}}


def _cell(score: Score | None) -> str:
    if score is None or score.success_rate is None or score.interval is None:
        return "-"
    low, high = score.interval
    return f"{score.success_rate:.0%} \\[{100 * low:.0f}, {100 * high:.0f}]"
