"""The state of a run is rebuilt from the event log in its store, and from nothing else.

So a resumed run takes the decisions that an uninterrupted one would have taken.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self, TypeVar

from skillwright.runs import Event, RunStore


class Rebuilt(Protocol):
    """A state that follows from events."""

    def after(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after one more event; events of other kinds change nothing."""
        ...


StateT = TypeVar("StateT", bound=Rebuilt)


def rebuild(state: StateT, events: Iterable[Event]) -> StateT:
    """Return the state that events lead to."""
    for event in events:
        state = state.after(event.kind, event.payload)
    return state


def write_down(store: RunStore, state: StateT, kind: str, payload: Mapping[str, Any]) -> StateT:
    """Append an event, durably, and return the state that follows from it as it was stored."""
    with store.transaction(durable=True):
        position = store.append_event(kind, payload)
    return rebuild(state, store.events(after=position - 1))
