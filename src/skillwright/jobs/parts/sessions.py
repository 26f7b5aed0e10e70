"""The processes that worked on a run, one after the other, and how long they did."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from skillwright.runs import CallSummary, EpisodeSummary, Event, RunStore

SESSION = "session"
"""The event with which a process begins to work on a run, or goes on with it."""
SESSION_ENDED = "session_ended"
"""The event with which it ends; a killed process leaves none."""
REGRADED = "regraded"
"""The event that holds what a regrading found; it comes at any time later and is no work."""


def sessions_of(events: Sequence[Event]) -> list[float]:
    """Return when each process began; the first event stands in where none said so."""
    started = [event.time for event in events if event.kind == SESSION]
    return started or [event.time for event in events[:1]]


def seconds_worked(store: RunStore) -> float:
    """Return the seconds in which processes worked on a run; pauses between them do not count."""
    return worked(store.events(), store.episodes(), store.calls())


def worked(
    events: Sequence[Event], episodes: Iterable[EpisodeSummary], calls: Iterable[CallSummary]
) -> float:
    """Sum the sessions, each from its beginning to its end.

    One that was killed ended with the last thing that happened in it.
    """
    over = [event.time for event in events if event.kind == SESSION_ENDED]
    times = [event.time for event in events if event.kind != REGRADED]
    times += [*(one.ended_at for one in episodes), *(one.ended_at for one in calls)]
    total = 0.0
    for began, next_began in pairwise([*sessions_of(events), float("inf")]):
        ended = [time for time in over if began <= time < next_began]
        inside = [time for time in times if began <= time < next_began]
        total += min(ended, default=max(inside, default=began)) - began
    return total
