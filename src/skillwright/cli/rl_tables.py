"""What is shown of the recipe, while it runs and afterwards."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.live import Tally, clock_text, narrate, score_text
from skillwright.cli.tables import gain_lines, own_up, print_indented, split_table
from skillwright.cli.words import filled, print_words
from skillwright.jobs.rl import EvolutionRecord, IterationRecord, RlState
from skillwright.jobs.rl.state import (
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    FirstBankMade,
    IterationEnded,
    RlEvent,
    Validated,
)

# The recipe's reports as tables that fit a terminal.


_MOST_LINES = 12

ITERATION_COLUMNS = (
    "iteration",
    "success",
    "zero var.",
    "turns kept",
    "KL",
    "entropy",
    "clip fraction",
    "grad norm",
    "turns",
)
_LEGEND = (
    "zero var.: groups of which all attempts ended alike, which teach nothing; turns kept: those "
    "learned from; KL: nats per token from the cold start; clip fraction: share of tokens without "
    "gradient; grad norm: before clipping; turns: of an episode"
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
        print_words(console, line, markup=True)
    if state.iterations:
        console.print(iterations_table(state))
    for record in state.evolutions.values():
        print_indented(console, 2, Text(evolution_text(record)))
    if state.validations:
        console.print(validations_table(state, selected))
    if state.release is not None:
        print_words(
            console,
            f"[bold]release test[/], cold start against selected: {escape(state.release.reason)} "
            f"Released: {'the selected weights' if state.release.accepted else 'the cold start'}.",
            markup=True,
        )
    if state.test is not None:
        console.print(split_table(state.test))
        for name in state.test.tables:
            about = f"{name.replace('_', ' ')}: {_TESTED.get(name, 'tested beside them')}"
            print_indented(console, 2, Text(about, style="dim"))
        for line in gain_lines(state.test):
            print_indented(console, 2, Text.from_markup(line))
    own_up(console, scripted)


def _stages(state: RlState) -> Iterator[str]:
    if state.bank is not None:
        yield f"first bank (version {state.bank['version']}): {escape(state.bank['skills'])}"
        ratio = state.bank.get("compression", {}).get("ratios", {}).get("raw")
        if ratio is not None:
            yield f"  {ratio:.1f} times shorter than the trajectories that it was learned from"
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
        f"{one.zero_variance_share:.0%}",
        str(one.rows),
        number_text(one.kl, 3),
        number_text(one.entropy, 2),
        f"{one.clip_fraction:.1%}",
        number_text(one.grad_norm, 2),
        f"{one.turns:.1f}",
    )


def validations_table(state: RlState, selected: int | None) -> Table:
    """Return success on val by task type, one line per validation."""
    table = Table(
        title="\nVal tasks solved, after an iteration (0: the cold start)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("iteration", justify="right")
    table.add_column("bank", justify="right")
    table.add_column("all", justify="right")
    first = next(iter(state.validations.values()))
    for task_type in first.table.families:  # stored name
        table.add_column(escape(task_type.replace("_", " ")), justify="right", overflow="fold")
    for number, one in sorted(state.validations.items()):
        mark = " *" if number == selected else ""
        first_types, types = first.table.families, one.table.families  # stored name
        scores = [types.get(name) for name in first_types]
        rates = [
            "-" if score is None or score.success_rate is None else f"{score.success_rate:.0%}"
            for score in scores
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


# What is shown of the recipe while it runs, beside what is shown of every job.


_SHOWN = 10
_MOST_SKILLS = 6
_WIDTH = 78


@dataclass
class RlTally(Tally):
    """What the display knows of a run of the recipe."""

    step: ColdStartStep | None = None
    latest: deque[IterationEnded] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    best: Validated | None = None

    def add(self, event: RlEvent) -> None:
        """Take one event in."""
        match event:
            case ColdStartStep():
                self.step = event
            case IterationEnded():
                self.latest.append(event)
            case Validated(is_best=True):
                self.best = event
            case _:
                super().add(event)

    @property
    def progress(self) -> tuple[int, int]:
        """How much of the present stage is done: steps of the cold start, else episodes."""
        if self.stage.stage == "cold start" and self.step is not None:
            return self.step.step + 1, self.step.steps
        return super().progress

    @property
    def left(self) -> str:
        """Say how long the iterations to come will take, judged by the latest ones; "" if none."""
        if self.run is None or not self.latest:
            return ""
        to_come = self.run.steps - self.latest[-1].record.iteration
        each_s = fmean(one.rollout_s + one.learning_s for one in self.latest)
        return f"about {clock_text(to_come * each_s)} of learning left" if to_come > 0 else ""

    def where(self) -> list[str]:
        """Say at which iteration the present stage is."""
        if self.run is None or not self.stage.step:
            return []
        return [f"iteration {self.stage.step}/{self.run.steps}"]

    def say(self, event: RlEvent) -> list[str]:
        """Say an event in lines of console markup; none for events that come by the thousand."""
        match event:
            case FirstBankMade():
                lines = [f"first bank (version {event.version}): {escape(event.headline)}"]
                return lines + [f"  [yellow]{escape(note)}[/]" for note in event.notes]
            case ColdStartEnded():
                return [
                    f"cold start: {event.wins} of {event.episodes} episodes solved, {event.rows} "
                    f"turns learned from, cross-entropy {event.surprise:.3f} nats"
                ]
            case IterationEnded():
                return iteration_lines(event, self.run.steps if self.run else 0, self.left)
            case BankEvolved(record=record):
                color = {"accept": "green", "reject": "red"}.get(record.action, "yellow")
                return [f"[{color}]{escape(evolution_text(record))}[/]"]
            case Validated():
                best = ", the best so far" if event.is_best else ""
                return [f"val after iteration {event.iteration}: {score_text(event.score)}{best}"]
            case _:
                return narrate(event)

    def panel(self, now_s: float, width: int) -> list[RenderableType]:
        """Return the latest iterations, the skills that were injected, and the best validation."""
        del now_s, width
        parts: list[RenderableType] = []
        if self.latest:
            parts += [_table(self.latest), Text(_skills(self.latest[-1]), style="dim")]
        if self.left:
            parts.append(Text(self.left))
        if self.best is not None:
            text = f"best on val: iteration {self.best.iteration}, {score_text(self.best.score)}"
            parts.append(Text.from_markup(text))
        return parts


def iteration_lines(event: IterationEnded, iterations: int, left: str) -> list[str]:
    """Say an iteration in lines that fit a small terminal."""
    one = event.record
    rates = one.families.items()  # stored name
    types = [f"{_short(name)} {wins / of:.0%}" for name, (wins, of) in rates if of]
    learned = (
        f"zero-variance groups {one.zero_variance_share:.0%}",
        f"KL {number_text(one.kl, 3)}",
        f"entropy {number_text(one.entropy, 2)}",
        f"clip fraction {one.clip_fraction:.1%}",
        f"grad norm {number_text(one.grad_norm, 2)}",
        f"{one.skills:.1f} skills of bank v{one.bank_version}",
        f"{one.turns:.1f} turns",
        f"{event.tokens_per_s:.0f} tokens/s",
        *types,
    )
    pace = f"{event.episodes_per_s:.0f} episodes/s" + (f"  {left}" if left else "")
    head = f"{one.iteration}/{iterations}  success {one.success:.0%}  reward {one.reward:.3f}"
    return [f"{head}  {pace}", *(f"  [dim]{escape(line)}[/]" for line in filled(learned, _WIDTH))]


def _table(latest: deque[IterationEnded]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*ITERATION_COLUMNS, "episodes/s"):
        table.add_column(name, justify="right")
    for event in latest:
        table.add_row(*iteration_cells(event.record), f"{event.episodes_per_s:.0f}")
    return table


def _skills(event: IterationEnded) -> str:
    injected = event.record.told  # stored name
    most = sorted(injected, key=lambda name: (-injected[name], name))[:_MOST_SKILLS]
    listed = ", ".join(f"{name} {injected[name]}x" for name in most)
    version = event.record.bank_version
    return f"{event.record.skills:.1f} skills injected of bank v{version}: {listed}"


def _short(task_type: str) -> str:
    """Return the first words of a task type's name, so that six of them fit a line."""
    return " ".join(task_type.split("_")[:2])
