"""Report runs to experiment trackers: turn events into numbers, and send them.

Trackers get the same events as the display. The numbers are put into a queue, and one thread per
tracker sends them, so a tracker can neither stop a run nor delay it, except for a bounded time at
the end. The run's folder records what was sent, and a resumed run sends nothing twice.
"""

import asyncio
import json
import logging
import math
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from skillwright.core import EpisodeResult, FailureCause, Usage
from skillwright.core.clock import steady_time
from skillwright.core.jsonio import dumps, read_text, text_digest, write_text
from skillwright.core.secrets import Redactor
from skillwright.evaluation import Score, Verdict
from skillwright.jobs.run.launch import session
from skillwright.jobs.run.memory import consumed
from skillwright.jobs.run.money import BudgetSpent
from skillwright.jobs.run.progress import (
    CallFinished,
    EpisodeFinished,
    EpochEnded,
    ReleaseTested,
    RunStarted,
    Scored,
    StepDecided,
)
from skillwright.jobs.run.spans import Span, call_span, episode_spans
from skillwright.jobs.run.trackers import (
    Status,
    TrackedRun,
    Tracker,
    make_tracker,
    refuse_missing_trackers,
)
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME

_log = logging.getLogger(__name__)

FOLDER: Final = "trackers"
"""The folder of a run with the records of what each tracker was sent."""
MAX_WAITING: Final = 10_000
"""Maximum number of updates that wait for a slow tracker; further ones are lost."""
MAX_SPANS: Final = 500
"""Maximum number of waiting episodes and calls, each of which holds an episode in memory."""
WAIT_S: Final = 20.0
"""Maximum seconds that the end of a run waits for all of its trackers together."""
_STOPPED_S: Final = 5.0  # after Ctrl-C

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_./-]+")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a step.

    Attributes:
        series: The counter of the steps, which rise within a series.
        values: Finite numbers by name.
    """

    series: str
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Words:
    """A text of a step, under a file's name: ``skill.md``, ``verdict.txt``, ``report.html``."""

    series: str
    step: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Spans:
    """An episode with its turns, or a call; the spans are made in the sender's thread."""

    make: Callable[[], Sequence[Span]]


Update = Numbers | Words | Spans


class Measures:
    """Turns events into numbers for trackers; the names are in ``docs/trackers.md``.

    Args:
        run: The tracked run.
        store: Its store, with usage of all sessions and the texts of skills.
        step: The current step of a run without steps.
        clock: Returns the end of spans, in seconds since 1970.
    """

    def __init__(
        self,
        run: TrackedRun,
        store: RunStore,
        step: int = 0,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self.step = step
        self.releases = 0
        self._run = run
        self._store = store
        self._clock = clock
        self._count = 0
        self._llms: Mapping[str, str] = {}
        self._faults: Counter[str] = Counter()
        self._all_faults: Counter[str] = Counter()

    def of(self, event: object) -> list[Update]:
        """Return the updates of an event; none for events without numbers."""
        match event:
            case RunStarted():
                self._llms = event.llms
            case EpisodeFinished(reused=False):
                return [self._episode(event.result)]
            case CallFinished():
                return [self._call(event)]
            case Scored():
                return [self.scored(event, self.step if event.split != "val" else 0)]
            case StepDecided():
                return self._decided(event)
            case EpochEnded() if event.action:
                return self._epoch(event)
            case ReleaseTested():
                return self._release(event)
        return []

    def at_end(self) -> Numbers:
        """Return the results of the whole run; the faults are those of this session."""
        faults = {f"total/faults/{one.value}": self._all_faults[one.value] for one in FailureCause}
        used = {f"total/{name}": one for name, one in self.used().items()}
        return numbers(f"end/{self.releases}", self.step, {**used, **faults})

    def used(self) -> dict[str, float | None]:
        """Return the usage so far, over all sessions."""
        spent = sum(self._store.usage_by_purpose().values(), Usage())
        return {
            "cost_usd": spent.cost_usd,
            "calls": spent.calls,
            "failed_calls": spent.failed_calls,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
        }

    def faults(self) -> dict[str, float]:
        """Return the failed episodes since this was last asked, by cause."""
        counted = {f"faults/{one.value}": float(self._faults[one.value]) for one in FailureCause}
        self._faults.clear()
        return counted

    def scored(self, event: Scored, step: int) -> Numbers:
        """Return a score."""
        name = f"{event.split}/{event.label.removesuffix(' skill')}"
        return numbers(name, step, score_values(event.score, name))

    def _episode(self, result: EpisodeResult) -> Spans:
        if result.failure is not None:
            self._faults[result.failure.cause.value] += 1
            self._all_faults[result.failure.cause.value] += 1
        self._count += 1
        now, usage = self._clock(), sum(consumed(result).values(), Usage())
        named = f"{self._run.id}/{result.key}/{self._count}/{now}"
        llms = self._llms
        agent = llms.get(result.spec.phase) or llms.get("target") or llms.get("policy") or ""
        return Spans(partial(episode_spans, named, result, agent, usage, now))

    def _call(self, event: CallFinished) -> Spans:
        self._count += 1
        now = self._clock()
        named = f"{self._run.id}/call/{self._count}/{now}"
        times = (now - event.usage.seconds, now)
        return Spans(lambda: [call_span(named, event.purpose, times)])

    def _decided(self, event: StepDecided) -> list[Update]:
        self.step = event.step
        values = {
            **verdict_values(event.verdict),
            "accepted": event.verdict is not None and event.verdict.accepted,
            "alpha_left": event.alpha_left,
            **self.used(),
            **self.faults(),
        }
        return [numbers("step", event.step, values), *self._texts("", event)]

    def _epoch(self, event: EpochEnded) -> list[Update]:
        measured = verdict_values(event.verdict)
        values = {f"slow_update/{name}": value for name, value in measured.items()}
        accepted = event.verdict is not None and event.verdict.accepted
        return [
            numbers("slow_update", self.step, {**values, "slow_update/accepted": accepted}),
            *self._texts("slow_update_", event),
        ]

    def _release(self, event: ReleaseTested) -> list[Update]:
        # A finished run may be tested once more, after no further step.
        self.releases += 1
        series = f"release/{self.releases}"
        measured = {f"release/{name}": one for name, one in verdict_values(event.verdict).items()}
        values = {
            **measured,
            "release/accepted": event.verdict.accepted,
            "release/alpha_left": event.alpha_left,
        }
        reason = event.verdict.reason
        verdict = Words(f"{series}/verdict", self.step, "release_verdict.txt", reason)
        return [numbers(series, self.step, values), verdict]

    def _texts(self, prefix: str, event: StepDecided | EpochEnded) -> list[Words]:
        action, verdict = event.action, event.verdict
        reason = f"{action}: {verdict.reason}" if verdict else action
        texts = {f"{prefix}verdict.txt": "\n".join((reason, *event.remarks))}
        if event.version is not None:
            texts[f"{prefix}skill.md"] = self._store.skill(event.version)
        return [Words(name, self.step, name, text) for name, text in texts.items()]


def numbers(series: str, step: int, values: Mapping[str, float | None]) -> Numbers:
    """Return the finite numbers, under names that every tracker accepts."""
    known = {
        _NOT_IN_NAMES.sub("_", name): float(value)
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }
    return Numbers(_NOT_IN_NAMES.sub("_", series), step, known)


def verdict_values(verdict: Verdict | None) -> dict[str, float | None]:
    """Return a verdict's measurements by name; none without a verdict."""
    if verdict is None:
        return {}
    low, high = verdict.interval or (None, None)
    expected = verdict.expected
    current = verdict.candidate_score if verdict.accepted else verdict.incumbent_score
    return {
        "gain": verdict.effect,
        "gain_low": low,
        "gain_high": high,
        "expected_gain": None if expected is None else expected.gain,
        "p_value": verdict.p_value,
        "val_score": current,
        "candidate_score": verdict.candidate_score,
        "pairs": verdict.pairs,
        "lost_pairs": verdict.lost,
    }


def score_values(score: Score, prefix: str) -> dict[str, float | None]:
    """Return a score and its interval by name, with a prefix before each name."""
    low, high = score.interval or (None, None)
    values = {
        "success_rate": score.success_rate,
        "success_low": low,
        "success_high": high,
        "mean_reward": score.mean_reward,
        "failures": score.failures,
    }
    return {f"{prefix}/{name}": value for name, value in values.items()}


class Sender:
    """Sends updates to one tracker from a thread of its own.

    Args:
        name: The tracker's name.
        tracker: The tracker, not started yet.
        run: The tracked run.
        clean: Redacts secrets in a text.
        waiting: Maximum number of waiting updates.
    """

    def __init__(
        self,
        name: str,
        tracker: Tracker,
        run: TrackedRun,
        clean: Callable[[Any], Any],
        waiting: int = MAX_WAITING,
    ) -> None:
        self.name = name
        self._tracker = tracker
        self._run = run
        self._clean = clean
        self._marks = run.folder / FOLDER / f"{name}.json"
        self._sent = _read_marks(self._marks)
        self._queue: queue.Queue[Update | None] = queue.Queue(waiting)
        self._most_spans = min(waiting, MAX_SPANS)
        self._status: Status = "failed"
        self._asked = 0
        self._done = 0  # written by the thread only
        self._is_dead = self._is_given_up = self._has_warned = False
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def put(self, update: Update) -> None:
        """Queue an update for the thread; it is lost if too many are waiting."""
        if isinstance(update, Spans) and not self._tracker.takes_spans:
            return
        self._asked += 1
        if self._is_dead:
            return
        if isinstance(update, Spans) and self._queue.qsize() >= self._most_spans:
            self._warn("it does not keep up")
            return
        try:
            self._queue.put_nowait(update)
        except queue.Full:
            self._warn("it does not keep up")

    def close(self, status: Status, until_s: float) -> None:
        """Let the thread send what is left and end, until a monotonic time at the latest."""
        self._status = status
        try:
            if not self._is_dead:
                self._queue.put(None, timeout=max(until_s - time.monotonic(), 0.01))
        except queue.Full:
            self._warn("it does not answer")
        self._thread.join(max(until_s - time.monotonic(), 0.01))
        self._is_given_up = self._thread.is_alive()
        if lost := self._asked - self._done:
            _log.warning("tracker %s lost %d of %d updates", self.name, lost, self._asked)
        elif self._is_given_up:
            _log.warning("tracker %s did not end in time; its last updates may be lost", self.name)

    def _work(self) -> None:
        if not self._survives(lambda: self._tracker.start(self._run)):
            self._is_dead = True
            return
        while (update := self._queue.get()) is not None and not self._is_given_up:
            self._done += self._survives(partial(self._send, update))
        if not self._is_given_up:
            self._survives(lambda: self._tracker.finish(self._status))

    def _send(self, update: Update) -> None:
        match update:
            case Spans():
                self._tracker.spans([self._known(one) for one in update.make()])
                return
            case Numbers() if self._is_new(update):
                self._tracker.metrics(update.step, update.values)
            case Words() if self._is_new(update):
                self._tracker.text(update.step, update.name, self._clean(update.text))
            case _:
                return
        self._sent[update.series] = update.step
        write_text(self._marks, dumps(self._sent) + "\n")

    def _known(self, span: Span) -> Span:
        return replace(span, name=self._clean(span.name), facts=self._clean(span.facts))

    def _is_new(self, update: Numbers | Words) -> bool:
        return update.step > self._sent.get(update.series, -1)

    def _survives(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - no tracker may stop a run
            self._warn(f"{type(error).__name__}: {error}")
            return False
        return True

    def _warn(self, problem: str) -> None:
        if self._has_warned or self._is_given_up:
            return
        self._has_warned = True
        said = " ".join(str(self._clean(problem)).split())[:300]
        _log.warning(
            "tracker %s: %s. The run continues, and says at its end what was lost.",
            self.name,
            said.rstrip("."),
        )


def _read_marks(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(series): int(step) for series, step in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # damaged: what was sent is sent again
        return {}


class Watcher(Protocol):
    """Sees every event of a job of any kind."""

    def on_event(self, event: Any) -> None:
        """Take note of an event; must not block."""


class Tracking:
    """A callback that passes events to the display, and their numbers to trackers."""

    def __init__(self, shown: Watcher, measures: Measures, senders: Sequence[Sender]) -> None:
        self._shown = shown
        self._measures = measures
        self._senders = senders
        self._has_warned = False

    def on_event(self, event: Any) -> None:
        """Show an event, and pass its numbers to the trackers."""
        self._shown.on_event(event)
        self.send(lambda: self._measures.of(event))

    def send(self, make: Callable[[], Iterable[Update]]) -> None:
        """Make updates and queue them for the trackers; an error in making them is a warning."""
        try:
            updates = list(make())
        except Exception as error:  # noqa: BLE001 - no tracker may stop a run
            if not self._has_warned:
                self._has_warned = True
                _log.warning("trackers miss an update: %s: %s", type(error).__name__, error)
            return
        for sender in self._senders:
            for update in updates:
                sender.put(update)


@asynccontextmanager
async def tracked_session(
    names: Sequence[str],
    store: RunStore,
    measures: Callable[[TrackedRun], Measures],
    shown: Watcher,
    *,
    secrets: Callable[[], Sequence[str]],
    past: Callable[[], Iterable[object]] = lambda: (),
    make_report: Callable[[Path], str] | None = None,
) -> AsyncIterator[Watcher]:
    """Record a session of a run, and have trackers follow it.

    Args:
        names: Names of the trackers.
        store: The run's store.
        measures: Makes the object that turns events into numbers.
        shown: The display's callback.
        secrets: Returns texts that must not be sent.
        past: Returns the events of earlier sessions, for trackers that have not received them.
        make_report: Writes the report at the end of a finished run.

    Raises:
        ConfigError: A tracker's library is not installed.
    """
    with session(store):
        if not names:
            yield shown
            return
        refuse_missing_trackers(names)
        redactor = Redactor(secrets())
        run = tracked_run(store, redactor)
        said = measures(run)
        chosen = dict.fromkeys(names)
        senders = [Sender(name, make_tracker(name), run, redactor.clean) for name in chosen]
        tracking = Tracking(shown, said, senders)
        tracking.send(lambda: [update for event in past() for update in said.of(event)])
        status: Status = "failed"
        try:
            yield tracking
            status = "finished"
        except (asyncio.CancelledError, KeyboardInterrupt, BudgetSpent):
            status = "stopped"
            raise
        finally:
            if status == "finished":
                tracking.send(lambda: [said.at_end()])
                if make_report is not None:
                    tracking.send(lambda: [_report(said, make_report(store.folder))])
            await asyncio.to_thread(_close, senders, status)


def _report(said: Measures, page: str) -> Words:
    return Words(f"report/{said.releases}", said.step, "report.html", page)


def _close(senders: Sequence[Sender], status: Status) -> None:
    until = time.monotonic() + (_STOPPED_S if status == "stopped" else WAIT_S)
    for sender in senders:
        sender.close(status, until)


def tracked_run(store: RunStore, redactor: Redactor) -> TrackedRun:
    """Return a run's facts for trackers; its id derives from its name and its start."""
    folder = store.folder
    config = yaml.safe_load(read_text(folder / CONFIG_NAME, "run configuration"))
    begun = text_digest(f"{folder.name}/{store.first_event_time()}")[:12]
    return TrackedRun(folder.name, f"{folder.name}-{begun}", folder, redactor.clean(config))
