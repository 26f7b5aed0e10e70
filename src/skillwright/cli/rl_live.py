"""What a person sees while the recipe runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillwright.cli.live import REFRESH_PER_S, clock_text, narrate, score_text
from skillwright.cli.rl_tables import (
    ITERATION_COLUMNS,
    evolution_text,
    iteration_cells,
    number_text,
)
from skillwright.jobs import EpisodeFinished, RunStarted, StageStarted
from skillwright.jobs.rl import (
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    FirstBankMade,
    IterationEnded,
    RlEvent,
    RlWatcher,
    Validated,
)

_SHOWN = 10
_MOST_SKILLS = 6


@dataclass
class Tally:
    """Everything the display knows: a fold over the events, with the clock of the display."""

    started_s: float
    run: RunStarted | None = None
    stage: StageStarted = field(default_factory=lambda: StageStarted("starting"))
    in_stage: int = 0
    step: ColdStartStep | None = None
    latest: deque[IterationEnded] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    best: Validated | None = None

    def add(self, event: RlEvent) -> None:
        """Take one event in."""
        match event:
            case RunStarted():
                self.run = event
            case StageStarted():
                self.stage, self.in_stage = event, 0
            case EpisodeFinished():
                self.in_stage += 1
            case ColdStartStep():
                self.step = event
            case IterationEnded():
                self.latest.append(event)
            case Validated(is_best=True):
                self.best = event
            case _:
                pass

    @property
    def left(self) -> str:
        """Say how long the iterations to come will take, judged by the latest ones; "" if none."""
        if self.run is None or not self.latest:
            return ""
        to_come = self.run.steps - self.latest[-1].record.iteration
        each_s = fmean(one.rollout_s + one.learning_s for one in self.latest)
        return f"about {clock_text(to_come * each_s)} of learning left" if to_come > 0 else ""


class PlainRlDisplay:
    """One line per thing that matters; for logs, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally(time.monotonic())

    def see(self, event: RlEvent) -> None:
        """Print a line, or nothing for an event that comes by the thousand."""
        self._tally.add(event)
        for line in narrate_rl(event, self._tally):
            self._console.print(line, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Say how long it took."""
        self._console.print(f"{time.monotonic() - self._tally.started_s:.0f} s", highlight=False)


class LiveRlDisplay:
    """A table of the latest iterations that is redrawn in place, below the lines that stay."""

    def __init__(self, console: Console) -> None:
        self._tally = Tally(time.monotonic())
        self._live = Live(
            get_renderable=self.draw,
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )
        self._live.start()

    def see(self, event: RlEvent) -> None:
        """Update the table; what should stay on screen is printed above it."""
        self._tally.add(event)
        if isinstance(event, IterationEnded):
            return
        for line in narrate_rl(event, self._tally):
            self._live.console.print(line, highlight=False, overflow="ignore", crop=False)

    def close(self) -> None:
        """Take the table away and leave the time."""
        self._live.stop()
        took_s = time.monotonic() - self._tally.started_s
        self._live.console.print(f"{took_s:.0f} s", style="dim", highlight=False)

    def draw(self) -> RenderableType:
        """Return the panel as it is now."""
        tally = self._tally
        if tally.run is None:
            return Text("starting ...", style="dim")
        head = Table.grid(padding=(0, 2))
        where: list[RenderableType] = [Text(tally.stage.stage, style="bold")]
        if tally.stage.step:
            where.append(f"iteration {tally.stage.step}/{tally.run.steps}")
        done, expected = _done(tally)
        if expected:
            where.append(ProgressBar(total=expected, completed=min(done, expected), width=30))
            where.append(f"{done}/{expected}")
        head.add_row(*where)
        parts: list[RenderableType] = [head]
        if tally.latest:
            parts += [_table(tally), Text(_skills(tally.latest[-1]), style="dim")]
        if tally.left:
            parts.append(Text(tally.left))
        if tally.best is not None:
            text = f"best on val: iteration {tally.best.iteration}, {score_text(tally.best.score)}"
            parts.append(Text.from_markup(text))
        return Padding(Group(*parts), (1, 0, 0, 0))


@contextmanager
def rl_display(console: Console) -> Iterator[RlWatcher]:
    """Show the recipe while it runs: live on a terminal, plain lines elsewhere."""
    shown = (LiveRlDisplay if console.is_terminal else PlainRlDisplay)(console)
    try:
        yield shown
    finally:
        shown.close()


def narrate_rl(event: RlEvent, tally: Tally) -> list[str]:
    """Say an event in lines of console markup; none for events that come by the thousand."""
    match event:
        case FirstBankMade():
            lines = [f"first bank (version {event.version}): {escape(event.headline)}"]
            return lines + [f"  [yellow]{escape(note)}[/]" for note in event.notes]
        case ColdStartStep():
            return []
        case ColdStartEnded():
            return [
                f"cold start: {event.wins} of {event.episodes} episodes won, {event.rows} rows, "
                f"cross-entropy {event.surprise:.3f} nats"
            ]
        case IterationEnded():
            line = iteration_line(event, tally.run.steps if tally.run else 0)
            return [f"{line}  {tally.left}".rstrip()]
        case BankEvolved(record=record):
            colour = {"accept": "green", "reject": "red"}.get(record.action, "yellow")
            return [f"[{colour}]{escape(evolution_text(record))}[/]"]
        case Validated():
            best = ", the best so far" if event.is_best else ""
            return [f"val after iteration {event.iteration}: {score_text(event.score)}{best}"]
        case _:
            return narrate(event)


def iteration_line(event: IterationEnded, iterations: int) -> str:
    """Say an iteration in a line."""
    one = event.record
    families = " ".join(
        f"{_short(name)} {won / of:.0%}" for name, (won, of) in one.families.items() if of
    )
    return (
        f"{one.iteration}/{iterations}  reward {one.reward:.3f}  won {one.success:.0%} "
        f"[dim]({escape(families)})[/]  flat {one.flat_share:.0%}  KL {number_text(one.kl, 3)}  "
        f"entropy {number_text(one.entropy, 2)}  clipped {one.clip_fraction:.1%}  "
        f"norm {number_text(one.grad_norm, 2)}  {one.turns:.1f} turns  "
        f"{event.episodes_per_s:.0f} episodes/s  {event.tokens_per_s:.0f} tokens/s  "
        f"{one.skills:.1f} skills of v{one.bank_version}"
    )


def _table(tally: Tally) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*ITERATION_COLUMNS, "episodes/s"):
        table.add_column(name, justify="right")
    for event in tally.latest:
        table.add_row(*iteration_cells(event.record), f"{event.episodes_per_s:.0f}")
    return table


def _skills(event: IterationEnded) -> str:
    told = event.record.told
    most = sorted(told, key=lambda name: (-told[name], name))[:_MOST_SKILLS]
    listed = ", ".join(f"{name} {told[name]}x" for name in most)
    return f"{event.record.skills:.1f} skills told of bank v{event.record.bank_version}: {listed}"


def _done(tally: Tally) -> tuple[int, int]:
    if tally.stage.stage == "cold start" and tally.step is not None:
        return tally.step.step + 1, tally.step.steps
    return tally.in_stage, tally.stage.episodes


def _short(family: str) -> str:
    """Return the first words of a family's name, so that six of them fit a line."""
    return "_".join(family.split("_")[:2])
