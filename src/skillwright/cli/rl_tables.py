"""The recipe's reports as tables that fit a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.tables import gain_lines, own_up, print_indented, split_table
from skillwright.jobs.rl import EvolutionRecord, IterationRecord, RlState

_MOST_LINES = 12

ITERATION_COLUMNS = (
    "iteration",
    "success",
    "zero var.",
    "turns kept",
    "KL",
    "entropy",
    "clip",
    "norm",
    "turns",
)
_LEGEND = (
    "zero var.: groups of which all attempts ended alike, which teach nothing; turns kept: those "
    "learned from; KL: nats per token from the cold start; clip: tokens without gradient; norm: of "
    "the gradient before clipping; turns: of an episode"
)
_TESTED = {
    "cold_start": "weights before reinforcement learning, with the first bank",
    "cold_start_last_bank": "the same weights with the last bank",
    "final": "the selected weights with the last bank",
    "no_skills": "control: the selected weights without skills",
    "other_scope": "control: the selected weights with the skills of another place",
}
"""What the sealed test compares, by its name in the report."""


def show_rl(console: Console, state: RlState, selected: int | None, scripted: bool) -> None:
    """Show what the recipe came to: the bank, training, validation, and the sealed test."""
    for line in _stages(state):
        console.print(line, soft_wrap=True)
    if state.iterations:
        console.print(iterations_table(state))
    for record in state.evolutions.values():
        print_indented(console, 2, Text(evolution_text(record)))
    if state.validations:
        console.print(validations_table(state, selected))
    if state.release is not None:
        console.print(
            f"[bold]release test[/], cold start against selected: {escape(state.release.reason)} "
            f"Released: {'the selected weights' if state.release.accepted else 'the cold start'}.",
            soft_wrap=True,
        )
    if state.test is not None:
        console.print(split_table(state.test))
        for name in state.test.tables:
            about = f"{name.replace('_', ' ')}: {_TESTED.get(name, 'tested beside them')}"
            print_indented(console, 2, Text(about, style="dim"))
        for line in gain_lines(state.test):
            console.print(f"  {line}")
    own_up(console, scripted)


def _stages(state: RlState) -> Iterator[str]:
    if state.bank is not None:
        yield f"first bank (version {state.bank['version']}): {escape(state.bank['skills'])}"
        ratio = state.bank.get("compression", {}).get("ratios", {}).get("raw")
        if ratio is not None:
            yield f"  {ratio:.1f} times shorter than the trajectories that it was learnt from"
    facts = state.cold_start
    if facts is not None and "coverage" in facts:
        coverage = facts["coverage"]
        first, last = facts["surprise"]
        yield (
            f"cold start: {coverage['wins']} of {coverage['episodes']} episodes solved, "
            f"{coverage['rows']} turns learned from, {coverage['skill_blocks']} skill texts, "
            f"cross-entropy {first:.2f} -> {last:.2f} nats"
        )


def iterations_table(state: RlState) -> Table:
    """Return iterations as lines, evenly chosen where there are many."""
    table = Table(title="\nRL rollouts", title_justify="left", title_style="bold")
    for name in ITERATION_COLUMNS:
        table.add_column(name, justify="right")
    numbers = sorted(state.iterations)
    step = max(1, len(numbers) // _MOST_LINES)
    for number in sorted({*numbers[::step], numbers[-1]}):
        table.add_row(*iteration_cells(state.iterations[number]))
    table.caption = _LEGEND
    table.caption_justify = "left"
    return table


def iteration_cells(one: IterationRecord) -> tuple[str, ...]:
    """Return what an iteration has under each of `ITERATION_COLUMNS`."""
    return (
        str(one.iteration),
        f"{one.success:.0%}",
        f"{one.flat_share:.0%}",
        str(one.rows),
        number_text(one.kl, 3),
        number_text(one.entropy, 2),
        f"{one.clip_fraction:.1%}",
        number_text(one.grad_norm, 2),
        f"{one.turns:.1f}",
    )


def validations_table(state: RlState, selected: int | None) -> Table:
    """Return success on val by family, one line per validation."""
    table = Table(
        title="\nVal tasks solved, after an iteration (0: the cold start)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("iteration", justify="right")
    table.add_column("bank", justify="right")
    table.add_column("all", justify="right")
    first = next(iter(state.validations.values()))
    for family in first.table.families:
        table.add_column(escape(family.replace("_", " ")), justify="right", overflow="fold")
    for number, one in sorted(state.validations.items()):
        mark = " *" if number == selected else ""
        families = [one.table.families.get(name) for name in first.table.families]
        rates = [
            "-" if score is None or score.success_rate is None else f"{score.success_rate:.0%}"
            for score in families
        ]
        table.add_row(f"{number}{mark}", f"v{one.bank_version}", f"{one.success:.0%}", *rates)
    if selected is not None:
        table.caption = "*: the weights that are tested"
    return table


def evolution_text(record: EvolutionRecord) -> str:
    """Say in a line what became of an update of the bank."""
    what = f"evolution after iteration {record.iteration}: "
    match record.action:
        case "accept":
            parts = [
                f"{len(ids)} {name}"
                for name, ids in (
                    ("added", record.added),
                    ("refined", record.refined),
                    ("retired", record.retired),
                )
                if ids
            ]
            what += f"bank v{record.before} -> v{record.version}: {', '.join(parts)}. "
        case "reject" | "undecided":
            what += f"bank stays v{record.version}. "
        case other:
            why = {
                "none_weak": "no category was weak enough",
                "no_proposal": "the teacher proposed nothing usable",
                "nothing_new": "nothing that was proposed is new, or there is no room",
                "teacher_failed": "the teacher failed",
            }
            return what + why.get(other, other)
    return what + (record.verdict.reason if record.verdict else "")


def number_text(value: float | None, digits: int) -> str:
    """Return a number with so many digits behind its point; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"
