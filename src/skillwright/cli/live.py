"""What a person sees while a job runs: a live panel on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillwright.cli.tables import decision_text
from skillwright.cli.words import counted
from skillwright.core import Usage
from skillwright.evaluation import Score
from skillwright.jobs import (
    CallFinished,
    EpisodeFinished,
    EpochEnded,
    Event,
    PricedMind,
    ReleaseTested,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
    Watcher,
)
from skillwright.jobs.parts.money import money_text

REFRESH_PER_S = 4
# Stages that have another beside them, with the phase of the episodes that are their own.
_OWN_PHASE = {"baseline": "gate", "release test": "release", "confirm": "confirm"}


@dataclass
class Tally:
    """Everything the display knows: a fold over the events, with the clock of the display.

    Attributes:
        started_s: The display's clock when the run began.
        fresh: Episodes that were really run; reused ones cost nothing and say nothing of speed.
        current: Mean reward on val of the skill that was accepted last.
        minds: Who is asked, with their prices.
    """

    started_s: float
    run: RunStarted | None = None
    stage: StageStarted = field(default_factory=lambda: StageStarted("starting"))
    scored: Scored | None = None
    usage: Usage = field(default_factory=Usage)
    fresh: int = 0
    reused: int = 0
    failures: int = 0
    turns: int = 0
    in_flight: int = 0
    in_stage: int = 0
    accepted: int = 0
    rejected: int = 0
    current: float | None = None
    minds: Sequence[PricedMind] = ()

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case RunStarted():
                self.run = event
            case StageStarted():
                self.stage, self.in_stage = event, 0
            case EpisodeFinished():
                self._add_episode(event)
            case CallFinished():
                self.usage = self.usage + event.usage
            case Scored():
                self.scored = event if event.split == "val" else self.scored
            case StepDecided() | EpochEnded():
                self._add_decision(event)

    def _add_episode(self, event: EpisodeFinished) -> None:
        phase = event.result.spec.phase
        self.in_stage += phase == _OWN_PHASE.get(self.stage.stage, phase)
        if event.reused:
            self.reused += 1
            return
        self.fresh += 1
        self.in_flight = event.in_flight
        self.usage = self.usage + event.result.lost_usage
        self.failures += event.result.failure is not None
        self.turns += len(event.result.trajectory.turns)
        self.usage = sum(event.result.side_usage.values(), self.usage)
        self.usage = self.usage + event.result.trajectory.usage

    def _add_decision(self, event: StepDecided | EpochEnded) -> None:
        self.rejected += event.action == "reject"
        if event.verdict is not None and event.verdict.accepted:
            self.accepted += 1
            self.current = event.verdict.candidate_score

    def left_s(self, now_s: float) -> float | None:
        """Estimate the seconds left from the episodes that are expected to come, or ``None``."""
        done = self.fresh + self.reused
        if self.run is None or not self.fresh or self.run.episodes <= done:
            return None
        return (self.run.episodes - done) * (now_s - self.started_s) / self.fresh


class PlainDisplay:
    """One line per thing that matters; for logs, pipes and CI."""

    def __init__(self, console: Console, minds: Sequence[PricedMind] = ()) -> None:
        self._console = console
        self._tally = Tally(time.monotonic(), minds=minds)

    def see(self, event: Event) -> None:
        """Print a line, or nothing for an event that comes by the thousand."""
        self._tally.add(event)
        for line in narrate(event):
            self._console.print(line, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Say what the run consumed."""
        self._console.print(
            "  ".join(_summary(self._tally)), markup=False, highlight=False, soft_wrap=True
        )


class LiveDisplay:
    """A panel that is redrawn in place, below the lines that stay."""

    def __init__(self, console: Console, minds: Sequence[PricedMind] = ()) -> None:
        self._tally = Tally(time.monotonic(), minds=minds)
        self._live = Live(
            get_renderable=self.draw,
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )
        self._live.start()

    def see(self, event: Event) -> None:
        """Update the panel; what should stay on screen is printed above it."""
        self._tally.add(event)
        for line in narrate(event):
            self._live.console.print(line, highlight=False, overflow="ignore", crop=False)

    def close(self) -> None:
        """Take the panel away and leave what it said about pace and cost."""
        self._live.stop()
        console = self._live.console
        for line in _filled(_summary(self._tally), console.width):
            console.print(line, style="dim", markup=False, highlight=False)

    def draw(self) -> RenderableType:
        """Return the panel as it is now."""
        tally = self._tally
        run = tally.run
        if run is None:
            return Text("starting ...", style="dim")
        where = [f"[bold]{escape(tally.stage.stage)}[/]"]
        if tally.stage.epoch:
            where.append(f"epoch {tally.stage.epoch}/{run.epochs}")
        if tally.stage.step:
            where.append(f"step {tally.stage.step}/{run.steps}")
        head = Table.grid(padding=(0, 2))
        head.add_row(*where, *_bar(tally))
        now_s = time.monotonic()
        pace = _filled(_pace(tally, now_s), self._live.console.width)
        lines = [_score(tally), _decisions(tally, now_s), *pace]
        texts = [Text.from_markup(line, emoji=False) for line in lines if line]
        return Padding(Group(head, *texts), (1, 0, 0, 0))


@contextmanager
def display(console: Console, minds: Sequence[PricedMind] = ()) -> Iterator[Watcher]:
    """Show a job while it runs: live on a terminal, plain lines elsewhere.

    Args:
        console: Where.
        minds: Who is asked; the age of their prices stands beside the money.
    """
    kind = LiveDisplay if console.is_terminal else PlainDisplay
    shown = kind(console, minds)
    try:
        yield shown
    finally:
        shown.close()


def narrate(event: Event) -> list[str]:
    """Say an event in lines of console markup; none for events that come by the thousand."""
    match event:
        case RunStarted():
            return _introduce(event)
        case Scored():
            return [f"{escape(event.label)} on {event.split}: {score_text(event.score)}"]
        case StepDecided():
            return [_decision(f"step {event.step}", event)]
        case ReleaseTested():
            style = "green" if event.verdict.accepted else "yellow"
            return [f"[{style}]release test[/]: {escape(event.verdict.reason)}"]
        case EpochEnded() if event.action:
            return [_decision(f"slow update of epoch {event.epoch}", event)]
        case _:
            return []


def _introduce(event: RunStarted) -> list[str]:
    lines = [f"[bold]{escape(event.name)}[/]  [dim]{escape(event.folder)}[/]"]
    lines += [f"  {role}: {escape(mind)}" for role, mind in event.minds.items()]
    lines += [f"  {escape(fact)}" for fact in event.facts]
    if any(mind.startswith("scripted:") for mind in event.minds.values()):
        lines.append("  [yellow]scripted minds are programs, not language models[/]")
    if event.resumed_at is not None:
        lines.append(f"  goes on at step {event.resumed_at}")
    return lines


def _decision(what: str, event: StepDecided | EpochEnded) -> str:
    colour = {"accept": "green", "reject": "red"}.get(event.action.split("_")[0], "yellow")
    return f"[{colour}]{what}[/]: {escape(decision_text(event.action, event.verdict))}"


def _bar(tally: Tally) -> tuple[RenderableType, ...]:
    expected = tally.stage.episodes
    if not expected:
        return ()
    done = min(tally.in_stage, expected)
    return (ProgressBar(total=expected, completed=done, width=30), f"{tally.in_stage}/{expected}")


def _score(tally: Tally) -> str:
    return f"initial skill on val: {score_text(tally.scored.score)}" if tally.scored else ""


def _decisions(tally: Tally, now_s: float) -> str:
    left_s = tally.left_s(now_s)
    parts = [
        f"accepted {tally.accepted}, rejected {tally.rejected}" if tally.stage.epoch else "",
        f"current [bold]{tally.current:.2f}[/] at the gate" if tally.current is not None else "",
        f"{clock_text(now_s - tally.started_s)} elapsed",
        f"about {clock_text(left_s)} left" if left_s is not None else "",
    ]
    return "  ".join(part for part in parts if part)


def score_text(score: Score) -> str:
    """Say a score with its interval, in console markup."""
    if score.success_rate is None or score.interval is None:
        return f"no score ({counted(score.failures, 'failure')})"
    low, high = score.interval
    text = (
        f"[bold]{score.success_rate:.0%}[/] won [dim]({low:.0%} to {high:.0%}, n={score.tasks})[/]"
    )
    failures = counted(score.failures, "failure")
    return text + (f", [red]{failures}[/]" if score.failures else "")


def _pace(tally: Tally, now_s: float) -> list[str]:
    elapsed_s = max(now_s - tally.started_s, 1e-9)
    tokens = tally.usage.input_tokens + tally.usage.output_tokens
    parts = [
        f"{counted(tally.fresh, 'rollout')} ({tally.fresh / elapsed_s:.1f}/s)",
        f"{tally.reused} reused" if tally.reused else "",
        counted(tally.failures, "failure") if tally.failures else "",
        _trouble(tally),
        f"{tokens:,} tokens",
        f"money {money_text(tally.usage.cost_usd, tally.minds)}",
    ]
    return [part for part in parts if part]


def _trouble(tally: Tally) -> str:
    """Say how many calls failed, which is what makes a run slow, and how many are under way."""
    failed = tally.usage.failed_calls
    if not failed:
        return ""
    share = failed / (failed + tally.usage.calls)
    under_way = f", {tally.in_flight} in flight" if tally.in_flight else ""
    return f"{share:.0%} of calls failed{under_way}"


def _summary(tally: Tally) -> list[str]:
    now_s = time.monotonic()
    return [*_pace(tally, now_s), f"{clock_text(now_s - tally.started_s)} elapsed"]


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Put as many parts on a line as fit; only a part longer than a line is broken inside."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        if len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def clock_text(seconds: float) -> str:
    """Say a time as minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
