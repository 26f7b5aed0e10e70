"""Resume a run: rebuild its state, and refuse other tasks or settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from skillwright.config.yaml_files import merge_layers, read_layers
from skillwright.core import ConfigError, DataError, RunError
from skillwright.core.jsonio import digest, dumps
from skillwright.core.secrets import REDACTED
from skillwright.jobs.kinds import MADE, STUDY_NAME, Kind, RlKind
from skillwright.runs import Event, RunStore
from skillwright.runs.folder import CONFIG_NAME, list_runs

# The state of a run is rebuilt from its event log alone, so a resumed run decides as an
# uninterrupted one.


class Rebuilt(Protocol):
    """A state that is rebuilt from events."""

    def after(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after one more event; events of other kinds change nothing."""


StateT = TypeVar("StateT", bound=Rebuilt)


def rebuild(state: StateT, events: Iterable[Event]) -> StateT:
    """Rebuild a state from events."""
    for event in events:
        state = state.after(event.kind, event.payload)
    return state


def write_down(store: RunStore, state: StateT, kind: str, payload: Mapping[str, Any]) -> StateT:
    """Append an event durably, and return the state after it."""
    with store.transaction(durable=True):
        position = store.append_event(kind, payload)
    return rebuild(state, store.events(after=position - 1))


SESSION = "session"
"""The event at the start of a session."""
SESSION_ENDED = "session_ended"
"""The event at the end of a session, with its error; missing after a killed process."""
REGRADED = "regraded"
"""The event of a regrading, which does not count as working time."""


def sessions_of(events: Sequence[Event]) -> list[float]:
    """Return the start times of sessions; that of the first event if none is recorded."""
    started = [event.time for event in events if event.kind == SESSION]
    return started or [event.time for event in events[:1]]


def why_stopped(events: Sequence[Event]) -> str:
    """Return the error that ended the latest session of a run, or ""."""
    kinds = (SESSION, SESSION_ENDED)
    latest = next((event for event in reversed(events) if event.kind in kinds), None)
    return str(latest.payload.get("stopped", "")) if latest is not None else ""


def seconds_worked(store: RunStore) -> float:
    """Sum the durations of a run's sessions; that of a killed process ends at its last event."""
    events, end_times = store.events(), store.end_times()
    starts = [number for number, event in enumerate(events) if event.kind == SESSION] or [0]
    total = 0.0
    for first, behind in pairwise([*starts, len(events)]):
        session = events[first:behind]
        began = session[0].time if session else 0.0
        ended = next((event.time for event in session if event.kind == SESSION_ENDED), None)
        if ended is None:
            until = events[behind].time if behind < len(events) else inf
            until = until if until > began else inf  # the clock was set back between sessions
            times = [event.time for event in session if event.kind != REGRADED]
            ended = max([*times, *(one for one in end_times if began <= one < until)], default=0.0)
        total += max(ended - began, 0.0)
    return total


# A resumed run must have the same tasks.


TASKS = "tasks"
"""The event with a run's tasks."""


def refuse_other_tasks(store: RunStore, facts: Mapping[str, Any]) -> None:
    """Record the tasks of a new run; raise an error if a resumed one has others."""
    known = store.events(TASKS)
    if not known:
        store.append_event(TASKS, dict(facts))
        return
    then = known[0].payload
    for split, now in facts.items():
        before = then.get(split, {"tasks": 0})
        others = {name for name in before if now.get(name, before[name]) != before[name]}
        if others:
            change = f"{now['tasks']} now, {before['tasks']} then"
            if others == {"content"}:
                change = "the same ids, and at least one task with another content"
            raise DataError(
                f"the {split} tasks are not those that the run began with ({change}): results "
                "before and after could not be compared. Restore the data, or start a new run."
            )


def opened_before(store: RunStore) -> tuple[str, ...]:
    """Return the names of other runs in the folder that opened equal test tasks before this one.

    Seeds of a study share them by design, and are not named.
    """
    opened, content = _test_opened(store)
    root, found = store.folder.parent, []
    if opened is None or not content or (root / STUDY_NAME).is_file():
        return ()
    for other in list_runs(root):
        with suppress(RunError), RunStore.open(other.store_path, read_only=True) as kept:
            when, theirs = _test_opened(kept)
            if when is not None and when < opened and theirs == content:
                found.append(other.name)
    return tuple(found)


def _test_opened(store: RunStore) -> tuple[float | None, str]:
    """Return when a training or an evaluation opened its test tasks, and their digest."""
    events = [*store.events(Kind.TEST_OPENED), *store.events(RlKind.TEST_OPENED)]
    events += [one for one in store.events(MADE) if one.payload.get("split") == "test"]
    tasks = store.events(TASKS)
    test = tasks[0].payload.get("test", {}) if tasks else {}
    return (events[0].time if events else None), test.get("content", "") if test.get(
        "tasks"
    ) else ""


def train_tasks(store: RunStore) -> int | None:
    """Return the number of a run's train tasks, or ``None`` if it has not started."""
    known = store.events(TASKS)
    return known[0].payload["train"]["tasks"] if known else None


# A resumed run must have the same settings, except for those without influence on results.


_BUDGET = "budget"
_TRACKERS = "run.trackers"
_WHERE = ("rollout.engine", "rollout.ray.")  # machines, on which no episode depends
# Not stored, so that they cannot be compared.
_NEVER_KEPT = ("api_key",)
_LONGEST = 80


def settings_facts(folder: Path) -> dict[str, Any]:
    """Return the settings in a run's folder, for its first event."""
    values = _values(folder)
    return {"settings": {"digest": digest(values), "values": values}}


def refuse_other_settings(folder: Path, store: RunStore, made: str) -> None:
    """Refuse to resume a run whose configuration was edited, except for its budget.

    Raises:
        ConfigError: A setting changed; one line per key.
    """
    begun = next((event.payload for event in store.events(made)), {}).get("settings")
    now = _values(folder)
    if begun is None or begun["digest"] == digest(now):
        return
    then, now = dict(_leaves(begun["values"])), dict(_leaves(now))
    changed = [
        _say(key, then, now)
        for key in sorted(then.keys() | now.keys())
        if _differs(key, then.get(key), now.get(key))
    ]
    if changed:
        raise ConfigError(
            f"{str(folder / CONFIG_NAME)!r} was edited after the run began, and its decisions "
            "would not be those of one run. Undo this, or start a new run; only the budget, "
            "run.trackers, rollout.engine and rollout.ray may change:\n" + "\n".join(changed)
        )


def refuse_all_but_budget(overrides: Sequence[str]) -> None:
    """Refuse overrides of a resumed run, except for budget, trackers and engine."""
    free = (f"{_BUDGET}.", f"{_TRACKERS}=", *_WHERE)
    others = [one for one in overrides if not one.startswith(free)]
    if others:
        raise ConfigError(
            f"{others[0]!r} cannot change in a run that was begun: its decisions would not be "
            "those of one run. Only budget.usd, budget.tokens, budget.minutes, run.trackers, "
            "rollout.engine and rollout.ray can; start a new run for anything else"
        )


def _values(folder: Path) -> dict[str, Any]:
    values = merge_layers(read_layers(folder / CONFIG_NAME))
    run = {name: value for name, value in values.get("run", {}).items() if name != "trackers"}
    kept = {**values, "run": run} if run else values
    return {section: value for section, value in kept.items() if section != _BUDGET}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _differs(key: str, then: Any, now: Any) -> bool:
    # A secret is not stored with a run; the resuming process provides it.
    is_secret = key.rpartition(".")[2] in _NEVER_KEPT or REDACTED in dumps(then)
    return then != now and not is_secret and not key.startswith(_WHERE)


def _say(key: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    said = [f"was {_short(then[key])}" if key in then else "was not there"]
    said.append(f"is {_short(now[key])} now" if key in now else "is not there now")
    return f"{key} {', and '.join(said)}"


def _short(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
