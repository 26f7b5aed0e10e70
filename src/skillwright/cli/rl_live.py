"""What is shown of the recipe while it runs, beside what is shown of every job."""

from collections import deque
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.live import Tally, clock_text, filled, narrate, score_text
from skillwright.cli.rl_tables import (
    ITERATION_COLUMNS,
    evolution_text,
    iteration_cells,
    number_text,
)
from skillwright.jobs.rl.progress import (
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    FirstBankMade,
    IterationEnded,
    RlEvent,
    Validated,
)

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
    types = [f"{_short(name)} {won / of:.0%}" for name, (won, of) in one.families.items() if of]
    learned = (
        f"zero-variance groups {one.flat_share:.0%}",
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
    told = event.record.told
    most = sorted(told, key=lambda name: (-told[name], name))[:_MOST_SKILLS]
    listed = ", ".join(f"{name} {told[name]}x" for name in most)
    version = event.record.bank_version
    return f"{event.record.skills:.1f} skills injected of bank v{version}: {listed}"


def _short(task_type: str) -> str:
    """Return the first words of a task type's name, so that six of them fit a line."""
    return " ".join(task_type.split("_")[:2])
