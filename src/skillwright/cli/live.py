"""Show a running job: a live panel on a terminal, plain lines elsewhere."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillwright.cli.json_log import wants_json_log, write_line
from skillwright.cli.waits import drawn, hand_over
from skillwright.cli.words import clock_text, counted, filled, print_words, short_count
from skillwright.core import Usage
from skillwright.core.jsonio import encode
from skillwright.evaluation import Score
from skillwright.jobs.run import (
    CallFinished,
    Caveat,
    EpisodeFinished,
    EpochEnded,
    PricedModel,
    ReleaseTested,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
    consumed,
    money_text,
)
from skillwright.jobs.text import decision_lines, release_lines
from skillwright.jobs.weights import IterationEnded, RlCallback, RlEvent

REFRESH_PER_S = 4
_BAR, _LEAST_BAR = 30, 8  # columns
# Stages that run concurrently with another, with the phase of their own episodes.
_OWN_PHASE = {"baseline": "gate", "release test": "release", "confirm": "confirm"}
_NAME = 9  # columns of ``step 3`` in the line of a decision
_ENOUGH = 0.05  # minimum share of finished episodes for showing the time left


@dataclass
class Tally:
    """State of the display, rebuilt from the events.

    Attributes:
        fresh: Episodes that were not reused.
        current: Mean reward on val of the skill that was accepted last.
    """

    started_s: float
    run: RunStarted | None = None
    stage: StageStarted = field(default_factory=lambda: StageStarted("starting"))
    scored: Scored | None = None
    usage: Usage = field(default_factory=Usage)
    fresh: int = 0
    reused: int = 0
    failures: int = 0
    in_flight: int = 0
    in_stage: int = 0
    accepted: int = 0
    rejected: int = 0
    current: float | None = None
    llms: Sequence[PricedModel] = ()

    def add(self, event: RlEvent) -> None:
        """Update the state by one event."""
        match event:
            case RunStarted():
                self.run = event
            case StageStarted():
                self.stage, self.in_stage = event, 0
            case EpisodeFinished():
                self._add_episode(event)
            case CallFinished():
                self.usage = self.usage + event.usage
            case Scored(split="val"):
                self.scored = event
            case StepDecided() | EpochEnded():
                self._add_decision(event)
            case _:
                pass

    def _add_episode(self, event: EpisodeFinished) -> None:
        phase = event.result.spec.phase
        self.in_stage += phase == _OWN_PHASE.get(self.stage.stage, phase)
        if event.reused:
            self.reused += 1
            return
        self.fresh += 1
        self.in_flight = event.in_flight
        self.failures += event.result.failure is not None
        self.usage = sum(consumed(event.result).values(), self.usage)

    def _add_decision(self, event: StepDecided | EpochEnded) -> None:
        self.rejected += event.action == "reject"
        if event.verdict is not None and event.verdict.accepted:
            self.accepted += 1
            self.current = event.verdict.candidate_score

    @property
    def progress(self) -> tuple[int, int]:
        """Done and expected numbers of the current stage; 0: unknown."""
        return self.in_stage, self.stage.episodes

    def left_s(self, now_s: float) -> float | None:
        """Estimate the seconds left, or ``None`` before enough episodes have ended."""
        done = self.fresh + self.reused
        if self.run is None or not self.fresh or self.run.episodes <= done:
            return None
        if done < _ENOUGH * self.run.episodes:
            return None
        return (self.run.episodes - done) * (now_s - self.started_s) / self.fresh

    def say(self, event: RlEvent) -> list[str]:
        """Format an event as lines of console markup; none for frequent events.

        Scores of the end are in the table that follows.
        """
        if isinstance(event, Scored) and event.split != "val":
            return []
        return narrate(event)

    def where(self) -> list[str]:
        """Return the position of the current stage in the run."""
        stage, run = self.stage, self.run
        if run is None:
            return []
        parts = [f"epoch {stage.epoch}/{run.epochs}" if stage.epoch else ""]
        parts.append(f"step {stage.step}/{run.steps}" if stage.step else "")
        return [part for part in parts if part]

    @property
    def title(self) -> str:
        """Name of the current stage."""
        return self.stage.stage

    def pace(self, now_s: float) -> list[str]:
        """Return lines about pace, cost and usage."""
        left_s = self.left_s(now_s)
        left = "" if left_s is None else f"about {clock_text(left_s)} left"
        elapsed = f"{clock_text(now_s - self.started_s)} elapsed"
        return [part for part in (elapsed, left, *_pace(self, now_s)) if part]

    def panel(self, now_s: float, width: int, height: int) -> list[RenderableType]:
        """Return the body of the live panel, up to a number of lines."""
        lines = [_score(self), *filled(_decisions(self), width), *filled(self.pace(now_s), width)]
        return [Text.from_markup(line, emoji=False) for line in lines if line]


class PlainDisplay:
    """Plain lines for logs, pipes and CI."""

    def __init__(
        self, console: Console, llms: Sequence[PricedModel] = (), kind: type[Tally] = Tally
    ) -> None:
        self._console = console
        self._tally = kind(time.monotonic(), llms=llms)

    def on_event(self, event: RlEvent) -> None:
        """Print a line, or nothing for frequent events."""
        self._tally.add(event)
        for line in self._tally.say(event):
            print_words(self._console, line, markup=True)

    def close(self) -> None:
        """Print the usage of the run."""
        if summary := _summary(self._tally):
            print_words(self._console, "  ".join(summary))


class LiveDisplay:
    """A panel that is redrawn in place, below printed lines."""

    def __init__(
        self, console: Console, llms: Sequence[PricedModel] = (), kind: type[Tally] = Tally
    ) -> None:
        self._tally = kind(time.monotonic(), llms=llms)
        self._live = Live(
            get_renderable=self.draw,
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )
        self._live.start()

    def on_event(self, event: RlEvent) -> None:
        """Update the panel, and print lasting lines above it."""
        self._tally.add(event)
        if isinstance(event, IterationEnded | StageStarted):  # in the panel
            return
        for line in self._tally.say(event):
            print_words(self._live.console, line, markup=True)

    def close(self) -> None:
        """Remove the panel, and print pace and cost."""
        self._live.stop()
        console = self._live.console
        for line in filled(_summary(self._tally), console.width):
            console.print(line, style="dim", markup=False)

    def draw(self) -> RenderableType:
        """Render the panel."""
        tally = self._tally
        now_s = time.monotonic()
        if tally.run is None:
            return Group(Text("starting ...", style="dim"), drawn(now_s))
        size = self._live.console.size
        below = tally.panel(now_s, size.width, size.height)
        return Padding(Group(*_head(tally, size.width), drawn(now_s), *below), (1, 0, 0, 0))


def _head(tally: Tally, width: int) -> Iterator[RenderableType]:
    """Format the current stage and its progress, with a bar if it fits."""
    done, expected = tally.progress
    words = [tally.title, *tally.where(), *([f"{done}/{expected}"] if expected else [])]
    room = min(width - len("  ".join(words)) - 2, _BAR)
    if not expected or room < _LEAST_BAR:
        for line in filled(words, width):
            yield Text(line, style="bold")
        return
    row = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=expected, completed=min(done, expected), width=room)
    row.add_row(Text(words[0], style="bold"), *words[1:-1], bar, words[-1])
    yield row


@contextmanager
def display(
    console: Console, llms: Sequence[PricedModel] = (), kind: type[Tally] = Tally
) -> Iterator[RlCallback]:
    """Show a running job: live on a terminal, plain lines elsewhere, or JSON."""
    shown: JsonLog | LiveDisplay | PlainDisplay
    if wants_json_log():
        shown = JsonLog()
    elif console.is_terminal:
        hand_over()
        shown = LiveDisplay(console, llms, kind)
    else:
        shown = PlainDisplay(console, llms, kind)
    try:
        yield shown
    finally:
        shown.close()


def make_report(folder: Path) -> str:
    """Return a run's report, as HTML, for its trackers."""
    from skillwright.dashboard.report import html_report

    return html_report(folder)


_IDLE = ("skip_no_content", "skip_no_change")  # updates of an epoch that `runs show` lists


def narrate(event: RlEvent) -> list[str]:
    """Format an event as lines of console markup; none for frequent events."""
    match event:
        case RunStarted():
            return _introduce(event)
        case Scored():
            hints = (f"  [yellow]0% solved[/]: {escape(hint)}" for hint in event.hints)
            return [f"{escape(event.label)} on {event.split}: {score_text(event.score)}", *hints]
        case StepDecided():
            return [*_decision(event), *_remarks(event)]
        case ReleaseTested():
            style = "green" if event.verdict.accepted else "yellow"
            return _colored(style, release_lines(event.verdict))
        case Caveat():
            return [f"[yellow]{escape(event.text)}[/]"]
        case EpochEnded() if event.action and (event.remarks or event.action not in _IDLE):
            return [*_decision(event), *_remarks(event)]
        case EpochEnded() if event.remarks:
            return [f"[yellow]meta skill of epoch {event.epoch}[/]:", *_remarks(event)]
        case _:
            return []


def _introduce(event: RunStarted) -> list[str]:
    lines = [f"[bold]{escape(event.name)}[/]  [dim]{escape(event.folder)}[/]"]
    lines += [f"  {role}: {escape(llm)}" for role, llm in event.llms.items()]
    lines += [f"  {escape(fact)}" for fact in event.facts]
    if event.resumed_at is not None:
        lines.append(f"  continues at step {event.resumed_at}")
    return lines


def _decision(event: StepDecided | EpochEnded) -> list[str]:
    color = {"accept": "green", "reject": "red"}.get(event.action.split("_")[0], "yellow")
    return _colored(color, decision_lines(event))


def _colored(color: str, lines: Sequence[str]) -> list[str]:
    """Color the name of what was decided."""
    first, *others = map(escape, lines)
    return [f"[{color}]{first[:_NAME]}[/]{first[_NAME:]}", *others]


def _remarks(event: StepDecided | EpochEnded) -> list[str]:
    return [f"  {escape(remark)}" for remark in event.remarks]


def _score(tally: Tally) -> str:
    return f"initial skill on val: {score_text(tally.scored.score)}" if tally.scored else ""


def _decisions(tally: Tally) -> list[str]:
    parts = [
        f"kept {tally.accepted}, dropped {tally.rejected}" if tally.stage.epoch else "",
        f"current {tally.current:.2f} at the gate" if tally.current is not None else "",
    ]
    return [part for part in parts if part]


def score_text(score: Score) -> str:
    """Format a score with its interval as console markup."""
    if score.success_rate is None or score.interval is None:
        return f"no score ({counted(score.failures, 'fault')})"
    low, high = score.interval
    spread = f"({low:.0%} to {high:.0%}, n={score.tasks})"
    text = f"[bold]{score.success_rate:.0%}[/] solved [dim]{spread}[/]"
    faults = counted(score.failures, "fault")
    return text + (f", [red]{faults}[/]" if score.failures else "")


def _pace(tally: Tally, now_s: float) -> list[str]:
    elapsed_s = max(now_s - tally.started_s, 1e-9)
    tokens = tally.usage.input_tokens + tally.usage.output_tokens
    parts = [
        f"{counted(tally.fresh, 'rollout')} ({tally.fresh / elapsed_s:.1f}/s)",
        f"{tally.reused} reused" if tally.reused else "",
        counted(tally.failures, "fault") if tally.failures else "",
        _trouble(tally),
        f"{short_count(tokens) or 0} tokens",
        f"money {money_text(tally.usage.cost_usd, tally.llms)}",
    ]
    return [part for part in parts if part]


def _trouble(tally: Tally) -> str:
    """Format the numbers of failed and running calls."""
    failed = tally.usage.failed_calls
    if not failed:
        return ""
    share = failed / (failed + tally.usage.calls)
    under_way = f", {tally.in_flight} in flight" if tally.in_flight else ""
    return f"{share:.0%} of calls failed{under_way}"


def _summary(tally: Tally) -> list[str]:
    """Return what a run played and consumed; nothing of a finished run that is shown again."""
    if tally.run is None:
        return []
    now_s = time.monotonic()
    return [*_pace(tally, now_s), f"{clock_text(now_s - tally.started_s)} elapsed"]


_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class JsonLog:
    """Writes every event of a job as a line."""

    def on_event(self, event: Any) -> None:
        """Write an event under its snake-case name, such as ``step_decided``."""
        facts = _episode(event) if isinstance(event, EpisodeFinished) else encode(event)
        write_line(event_name(type(event)), facts)

    def close(self) -> None:
        """Do nothing."""


def event_name(kind: type) -> str:
    """Return the name of an event in a line."""
    return _CAPITAL.sub("_", kind.__name__).lower()


def _episode(event: EpisodeFinished) -> dict[str, Any]:
    """Return an episode without its transcript."""
    one = event.result
    return {
        "task_id": one.task_id,
        "task_type": one.task_type,
        "phase": one.spec.phase,
        "step": one.spec.step,
        "draw": one.spec.draw,
        "reward": one.reward,
        "failure": encode(one.failure),
        "stop_reason": one.stop_reason.value,
        "turns": len(one.trajectory.turns),
        "attempts": one.attempts,
        "usage": encode(one.trajectory.usage),
        "wall_s": one.wall_s,
        "key": one.key,
        "reused": event.reused,
    }
