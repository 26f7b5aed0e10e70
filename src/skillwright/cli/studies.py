"""A study as a table: one line per seed, and what they say together."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skillwright.cli.tables import own_up, show_turns
from skillwright.jobs import StudySummary, TurnEnds
from skillwright.jobs.inspect.study import points


def show_study(console: Console, study: StudySummary) -> None:
    """Show a study's seeds, the mean gain with its interval, and how far the seeds lie apart."""
    console.print(f"\n[bold]{escape(study.name)}[/]  {escape(str(study.path))}", soft_wrap=True)
    console.print(seed_table(study))
    for line in _lines(study):
        console.print(f"  {line}", soft_wrap=True)
    show_turns(console, sum((one.run.turns for one in study.seeds if one.run.turns), TurnEnds(0)))
    own_up(console, study.is_scripted)


def seed_table(study: StudySummary) -> Table:
    """Return what came of each seed: tasks won on test by each skill, the gain, the accepts."""
    table = Table(title="Held-out test tasks won", title_justify="left", title_style="bold")
    shows_empty = any(one.empty is not None for one in study.seeds)
    skills = ("initial", *(["empty"] if shows_empty else []), "best", "final")
    for name in ("seed", *skills, "gain in points", "accepted", "steps"):
        table.add_column(name, justify="right")
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
    mean = f"best over initial: [bold]{points(study.mean_gain)}[/] points of tasks won"
    counted = len(study.gains)
    if study.interval is not None:
        low, high = study.interval
        lines = [f"{mean} (95% interval {points(low)} to {points(high)}, {counted} seeds)"]
    else:
        why = "one seed shows no spread" if counted == 1 else "all seeds gained the same"
        lines = [f"{mean} (no interval: {why})"]
    highest, lowest = (points(one.gain or 0.0) for one in (study.highest, study.lowest))
    if highest != lowest:
        seeds = study.highest.seed, study.lowest.seed
        lines.append(f"highest {highest} (seed {seeds[0]}), lowest {lowest} (seed {seeds[1]})")
    left = len(study.seeds) - study.finished
    return [*lines, f"[yellow]{left} of {len(study.seeds)} seeds left[/]"] if left else lines


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"
