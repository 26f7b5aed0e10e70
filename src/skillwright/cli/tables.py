"""Reports as tables that fit a terminal."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skillwright.cli.words import counted, make_table, print_words
from skillwright.core import Purpose, StopReason, Usage
from skillwright.evaluation import Score, ScoreTable, SplitReport, gain_text, points
from skillwright.jobs.inspect import (
    ForkOutcome,
    FoundEpisode,
    StudySummary,
    began_with_folder,
    folder_of,
)
from skillwright.jobs.run import SHOWN_AS, Cause, EnvFindings, PricedModel, TurnEnds, money_text
from skillwright.jobs.text import (
    EpochRecord,
    EvalReport,
    StepRecord,
    TrainReport,
    TrainState,
    decision_text,
)
from skillwright.textopt import TriedEdit, was_applied

_TITLES = {
    "test": "Held-out test tasks solved",
    "confirm": "Val tasks solved that no gate has drawn",
}
_ENDPOINTS = {
    Purpose.ROLLOUT.value: "the agent",
    Purpose.USER.value: "the simulated user",
    Purpose.JUDGE.value: "the judge",
}
_NAMES = {label: name for name, label in SHOWN_AS.items()}
_MOST_ABREAST = 4  # maximum artifacts of a table with rate and interval on one line


def show_training(
    console: Console,
    report: TrainReport,
    run: str,
    best: str,
    causes: Sequence[Cause] = (),
    *,
    scripted: bool,
) -> None:
    """Show the results of training, below its verdicts: scores, the artifact, what to do next."""
    state = report.state
    for line in _endings(state):
        console.print(line)
    _show_reports(console, state)
    show_causes(console, causes)
    own_up(console, scripted)
    print_words(console, f"[bold]{escape(state.outcome)}[/] ({escape(best)})", markup=True)
    print_words(console, "Next:")
    name, folder = shlex.quote(run), Path(best).parent
    to = "claude"
    if began_with_folder(folder):
        to = f"{shlex.quote(str(folder_of(folder)))} --dry-run"
    is_gain = state.best_version > 0 and not state.refuted
    commands = (
        f"skillwright report {name}",
        f"skillwright runs episodes {name} --unsolved",
        f"skillwright skill export {name} --to {to}"
        if is_gain
        else f"skillwright runs show {name}",
    )
    for command in commands:
        console.print(f"  {command}", markup=False, soft_wrap=True)


def show_state(console: Console, state: TrainState) -> None:
    """Show decisions and results of a run so far."""
    show_decisions(console, state)
    for line in _endings(state):
        console.print(line)
    if state.release_text:
        console.print(f"[bold]{escape(state.release_text)}[/]")
    if state.refuted:
        print_words(console, state.refuted, "yellow")
    _show_reports(console, state)


def _show_reports(console: Console, state: TrainState) -> None:
    for report in (state.report, state.confirmation.report if state.confirmation else None):
        if report is not None:
            console.print(split_table(report))
            for line in gain_lines(report):
                print_indented(console, 2, Text.from_markup(line))
    if state.confirmation is not None:
        print_indented(console, 2, Text(state.confirmation.bias.sentence))


def _endings(state: TrainState) -> Iterator[str]:
    """Yield messages about an unusual state or end of a run."""
    for hint in state.hints:
        yield f"[yellow]0% of val solved without training[/]: {escape(hint)}"
    if state.drift:
        yield f"[yellow]drift[/]: {escape(state.drift)}"
    if state.memorized and not state.two_levels:  # there the verdict says it
        yield f"[yellow]memorized[/]: {escape(state.memorized)}"
    if unusable := state.all_replies.line:
        yield f"[yellow]{unusable}[/]; the steps above say why"
    if state.ran_out_of_patience:
        idle = counted(state.idle_steps, "step")
        yield f"[yellow]stopped early[/]: nothing was kept in {idle}"
    if state.cut_by_budget:
        yield (
            f"[yellow]stopped early[/]: the budget paid for {state.last_step} of "
            f"{state.cut_by_budget} steps; {_how_to_continue(state)}"
        )
    if state.two_levels:
        return
    if state.final is not None:
        yield f"the last skill against the best one: {escape(state.final.reason)}"
    if state.skill_version != state.best_version:
        yield (
            f"[yellow]the current skill (version {state.skill_version}) is not the best one "
            f"(version {state.best_version})[/]: something entered it that the best one was not "
            "beaten with"
        )


def _how_to_continue(state: TrainState) -> str:
    if state.failed_to_prove and not state.ledger.share:
        return "a new run with a larger one goes further"
    return "`skillwright resume` with a larger one continues"


def gain_lines(report: SplitReport) -> Iterator[str]:
    """Yield the gain of each artifact over the first, equal ones together, and the caveat."""
    baseline, *headings = _columns(report.tables)
    for heading in headings:
        label = heading.split(" = ")[0]
        effect = report.gains[_NAMES.get(label, label)]
        if effect.gain is None:
            continue
        interval = effect.interval if effect.tasks > 1 else None
        said = gain_text(effect.gain, interval)
        if interval is None:
            why = "one task shows no spread" if effect.tasks == 1 else "every task gained the same"
            said += f" (no interval: {why})"
        yield f"{_words(heading)} over {_words(baseline)}: [bold]{said}[/] of reward"
    if report.caveat:
        yield f"[yellow]{escape(report.caveat)}[/]"


def show_evaluation(console: Console, report: EvalReport, scripted: bool) -> None:
    """Show the results of an evaluation."""
    console.print(eval_table(report))
    intervals = report.pass_k_intervals or (None,) * len(report.pass_k)
    for k in shown_ks(len(report.pass_k)):
        chance, interval = report.pass_k[k - 1], intervals[k - 1]
        name = "pass@1 = pass^1" if k == 1 and report.environment else f"pass^{k}"
        bounds = f" (95% interval {interval.low:.3f} to {interval.high:.3f})" if interval else ""
        console.print(
            f"{name}: [bold]{chance:.3f}[/]{bounds}  "
            f"[dim]({counted(report.complete_tasks, 'task')})[/]"
        )
    show_turns(console, report.turns)
    if report.environment is not None:
        show_environment(console, report.environment)
    for purpose, spent in report.usage.items():
        money = "of unknown price" if spent.cost_usd is None else f"${spent.cost_usd:.2f}"
        console.print(
            f"consumed by {_ENDPOINTS.get(purpose, purpose)}: {counted(spent.calls, 'call')}, "
            f"{spent.input_tokens + spent.output_tokens:,} tokens, {money}"
        )
    own_up(console, scripted)


def show_fork(console: Console, outcome: ForkOutcome, run: str) -> None:
    """Compare the outcomes of an episode's continuations with the episode itself."""
    numbers = ("reward", "turns", "tokens")
    table = make_table("", "id", "outcome", *numbers, right=numbers)
    for number, one in enumerate((outcome.recorded, *outcome.continuations)):
        summary, spent = one.summary, one.summary.usage
        table.add_row(
            str(number or "recorded"),
            one.name,
            Text(_ended(one)),
            "-" if summary.reward is None else f"{summary.reward:.3g}",
            f"{summary.turns:,}",
            f"{spent.input_tokens + spent.output_tokens:,}" if number else "",
        )
    console.print(table)
    solved = sum(one.solved is True for one in outcome.continuations)
    failed = sum(one.solved is None for one in outcome.continuations)
    faults = f", [red]{counted(failed, 'fault')}[/]" if failed else ""
    console.print(f"[bold]{solved} of {len(outcome.continuations)}[/] solved{faults}")
    name = outcome.recorded.name
    last = outcome.continuations[-1].name if outcome.continuations else name
    command = f"skillwright runs view {shlex.quote(run)} {last}"
    print_words(console, f"read one with:  {command}", "dim")


def _ended(one: FoundEpisode) -> str:
    if one.summary.failure is not None:
        return f"fault ({one.summary.failure.cause.value.replace('_', ' ')})"
    early = "" if one.summary.stop_reason is StopReason.DONE else one.summary.stop_reason.value
    outcome = "solved" if one.solved else "unsolved"
    return f"{outcome} ({early.replace('_', ' ')})" if early else outcome


def show_environment(console: Console, found: EnvFindings) -> None:
    """Show further results, and their comparability."""
    for line in found.lines({name: _score_words(score) for name, score in found.scores.items()}):
        print_words(console, line, markup=True)


def _score_words(score: Score) -> str:
    if score.success_rate is None or score.interval is None:
        return "none was played"
    low, high = score.interval
    return (
        f"[bold]{score.success_rate:.1%}[/] solved (95% interval {low:.1%} to {high:.1%}; "
        f"{counted(score.tasks, 'task')}, {counted(score.episodes, 'episode')})"
    )


def shown_ks(trials: int) -> list[int]:
    """Return the values of ``k`` for pass^k: 1, 2, 4, 8, ... and the number of trials."""
    doubled = [1 << power for power in range(trials.bit_length())]
    return sorted({*doubled, trials}) if trials else []


def own_up(console: Console, scripted: bool) -> None:
    """Print a notice if a scripted model took part."""
    if scripted:
        console.print(
            "Scripted models took part: the numbers only show that the loop works.", style="yellow"
        )


def show_decisions(console: Console, state: TrainState) -> None:
    """List decisions with the gate's reasons."""
    epochs = [one for one in state.epochs if one.action or one.remarks]
    records: list[StepRecord | EpochRecord] = [*state.steps, *epochs]
    records.sort(key=lambda one: one.epoch)  # a slow update comes after the steps of its epoch
    if records:
        console.print("\n[bold]Decisions[/]")
    for one in (
        _of_step(one) if isinstance(one, StepRecord) else _of_epoch(one) for one in records
    ):
        print_indented(console, 2, Text(f"{one.what}: {one.reason}"))
        for remark in one.remarks:
            print_indented(console, 4, Text(remark, style="yellow"))
        for edit in one.edits:
            print_indented(console, 4, Text(edit, style="dim"))


class _Decision(NamedTuple):
    what: str
    reason: str
    remarks: tuple[str, ...]
    edits: tuple[str, ...] = ()


def _of_step(step: StepRecord) -> _Decision:
    edits = tuple(_edit(edit) for edit in step.entry.edits)
    return _Decision(f"step {step.step}", _reason(step), step.remarks, edits)


def _of_epoch(epoch: EpochRecord) -> _Decision:
    if not epoch.action:
        reason = "the optimizer's reply could not be used"
        return _Decision(f"meta skill of epoch {epoch.epoch}", reason, epoch.remarks)
    what = f"slow update of epoch {epoch.epoch}"
    return _Decision(what, _reason(epoch), epoch.remarks)


def _reason(record: StepRecord | EpochRecord) -> str:
    return decision_text(record.action, next(iter(record.verdicts), None), record.remarks)


def print_indented(console: Console, columns: int, text: Text) -> None:
    """Print a text, indenting every line."""
    console.print(Padding(text, (0, 0, 0, columns)))


def _edit(edit: TriedEdit) -> str:
    text = " ".join((edit.content or edit.target).split())
    made = was_applied(edit.status)
    return f"{edit.op}: {text}" + ("" if made else f" ({edit.status.replace('_', ' ')})")


def split_table(report: SplitReport) -> Table:
    """Return success by task type, one column per artifact; equal artifacts share one."""
    columns = _columns(report.tables)
    first = next(iter(columns.values()))
    table = Table(
        title=f"\n{_TITLES.get(report.split, report.split)} (95% interval)",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0),
        pad_edge=False,
    )
    table.add_column("task type", overflow="fold")
    table.add_column("n", justify="right")
    # More columns fit a small terminal only with each interval below its rate.
    between = " " if len(columns) <= _MOST_ABREAST else "\n"
    for name in columns:
        table.add_column(escape(name.replace("_", between)), justify="right", no_wrap=True)
    for name, score in first.task_types.items():
        types = [column.task_types.get(name) for column in columns.values()]
        table.add_row(_words(name), str(score.tasks), *(_cell(one, between) for one in types))
    overall = [_cell(column.overall, between) for column in columns.values()]
    table.add_row("all", str(first.overall.tasks), *overall, style="bold")
    return table


def eval_table(report: EvalReport) -> Table:
    """Return an evaluation's scores by task type."""
    numbers = ("episodes", "solved", "truncated", "faults")
    title = f"{report.split}: tasks solved (95% interval)"
    table = make_table("task type", *numbers, right=numbers, whole=("solved",), title=title)
    for name, score in _rows(report.table):
        counts = (str(score.truncated), str(score.failures))
        table.add_row(_words(name), str(score.episodes), _cell(score), *counts)
    return table


def _words(name: str) -> str:
    """Write a name so that a narrow column breaks it between words."""
    return escape(name.replace("_", " "))


def usage_table(usage: Mapping[str, Usage]) -> Table:
    """Return the usage of a run by purpose."""
    numbers = ("calls", "input tokens", "output tokens", "failed calls", "money")
    table = make_table("purpose", *numbers, right=numbers, title="\nConsumed")
    for purpose, spent in usage.items():
        money = "unknown" if spent.cost_usd is None else f"${spent.cost_usd:.2f}"
        counts = (spent.calls, spent.input_tokens, spent.output_tokens, spent.failed_calls)
        table.add_row(purpose, *(f"{count:,}" for count in counts), money)
    total = sum(usage.values(), Usage())
    notes = [
        f"{total.cached_tokens:,} input tokens were cached at the endpoint"
        if total.cached_tokens
        else "",
        f"{total.cache_hits:,} answers came out of the reply cache" if total.cache_hits else "",
        f"endpoints worked {total.seconds:,.0f} s" if total.seconds >= 1 else "",
    ]
    table.caption = "; ".join(filter(None, notes)) or None
    return table


def show_money(console: Console, usage: Mapping[str, Usage], llms: Sequence[PricedModel]) -> None:
    """Print the cost so far, with the prices and their age."""
    lines = [llm.line() for llm in llms if not llm.is_free]
    if lines:
        spent = money_text(sum(usage.values(), Usage()).cost_usd, llms)
        print_words(console, f"money: {spent}")
    for line in lines:
        print_words(console, f"  {line}", "dim")


def show_failed_calls(console: Console, usage: Mapping[str, Usage]) -> None:
    """Print the numbers of failed calls by purpose, if any."""
    failed = {purpose: used.failed_calls for purpose, used in usage.items() if used.failed_calls}
    if failed:
        parts = ", ".join(f"{purpose} {count:,}" for purpose, count in failed.items())
        print_words(
            console,
            f"[yellow]{counted(sum(failed.values()), 'call')} failed[/] at their endpoints "
            f"({parts}); none of them was scored",
            markup=True,
        )


def show_causes(console: Console, causes: Sequence[Cause], run: str = "") -> None:
    """List why episodes were not solved, with the command to view one of a run."""
    if not causes:
        return
    console.print("[bold]Unsolved, the most frequent first[/]")
    for cause in causes:
        print_indented(console, 2, Text(cause.line))
    if run:
        command = f"skillwright runs view {shlex.quote(run)} {causes[0].episode}"
        print_words(console, f"  read one with:  {command}", "dim")


def why_no_score(report: SplitReport | None, name: str, causes: Sequence[Cause]) -> str:
    """Explain why the learned artifact has no test score, or return ""."""
    if report is None or (score := report.tables[name].overall).success_rate is not None:
        return ""
    most = f"; the most frequent: {causes[0].line}" if causes else ""
    return f"no test episode has a score, only {counted(score.failures, 'fault')}{most}"


def show_turns(console: Console, ends: TurnEnds) -> None:
    """Print the share of unusable answers, with advice, if there are any."""
    if any(ends.lapses.values()):
        for line in ends.lines():
            print_words(console, line, "yellow")


def _rows(table: ScoreTable) -> Iterator[tuple[str, Score]]:
    yield from table.task_types.items()
    yield "all", table.overall


def _columns(tables: Mapping[str, ScoreTable]) -> dict[str, ScoreTable]:
    """Join artifacts, except the first, with equal results under one heading."""
    (baseline, first), *others = tables.items()
    # Without a best skill, "final" is not a training's current skill.
    shown_as = SHOWN_AS if "best" in tables else {}
    names: list[tuple[ScoreTable, list[str]]] = []
    for name, table in others:
        twins = next((found for other, found in names if other == table), None)
        if twins is None:
            names.append((table, [shown_as.get(name, name)]))
        else:
            twins.append(shown_as.get(name, name))
    return {baseline: first, **{" = ".join(found): table for table, found in names}}


def _cell(score: Score | None, between: str = " ") -> str:
    if score is None or score.success_rate is None or score.interval is None:
        return "-"
    low, high = score.interval
    return f"{score.success_rate:.0%}{between}\\[{100 * low:.0f}, {100 * high:.0f}]"


def show_study(console: Console, study: StudySummary) -> None:
    """Show a study's seeds, mean gain with interval, and spread."""
    name = f"\n[bold]{escape(study.name)}[/]  {escape(str(study.path))}"
    print_words(console, name, markup=True)
    console.print(seed_table(study))
    for line in _lines(study):
        print_words(console, f"  {line}", markup=True)
    show_turns(console, sum((one.run.turns for one in study.seeds if one.run.turns), TurnEnds(0)))
    own_up(console, study.is_scripted)


def seed_table(study: StudySummary) -> Table:
    """Return the outcome of each seed: test tasks solved by each skill, gain and accepts."""
    shows_empty = any(one.empty is not None for one in study.seeds)
    skills = ("initial", *(["empty"] if shows_empty else []), "best", "final")
    columns = ("seed", *skills, "gain in points", "accepted", "steps")
    table = make_table(*columns, right=columns, title="Held-out test tasks solved")
    for one in study.seeds:
        decided = (str(one.run.accepted), str(one.run.steps))
        if one.run.is_finished:
            gain = "-" if one.gain is None else points(one.gain)
            scores = (_percent(getattr(one, name)) for name in skills)
            table.add_row(str(one.seed), *scores, gain, *decided)
        else:
            dashes = "-" * len(skills)
            table.add_row(str(one.seed), *dashes, "not finished", *decided, style="dim")
    return table


def _lines(study: StudySummary) -> list[str]:
    if study.mean_gain is None or study.highest is None or study.lowest is None:
        return [f"{study.finished} of {len(study.seeds)} seeds finished"]
    mean, tested = gain_text(study.mean_gain, study.interval), len(study.gains)
    if study.interval is None:
        one = "one seed shows no spread" if tested == 1 else "all seeds gained the same"
        mean += f" (no interval: {one})"
    lines = [f"best over initial: [bold]{mean}[/] of tasks solved, {counted(tested, 'seed')}"]
    highest, lowest = (points(one.gain or 0.0) for one in (study.highest, study.lowest))
    if highest != lowest:
        seeds = study.highest.seed, study.lowest.seed
        lines.append(f"highest {highest} (seed {seeds[0]}), lowest {lowest} (seed {seeds[1]})")
    left = len(study.seeds) - study.finished
    return [*lines, f"[yellow]{left} of {len(study.seeds)} seeds left[/]"] if left else lines


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"
