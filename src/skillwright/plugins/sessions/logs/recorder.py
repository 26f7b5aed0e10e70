"""Recording of a session: the kept events, and the omissions with their reasons."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from skillwright.core.jsonio import text_digest
from skillwright.plugins.sessions.logs.cleaning import Untrusted, clean, command_head

MOST_EVENTS: Final = 2_000
"""Maximum events of a session; later ones count as left out."""

_CODE: Final = re.compile(r"(?i)\b(?:exit(?:ed)?(?: with)?(?: code)?|code)[:= ]+(-?\d{1,3})\b")
_HEAD: Final = 500
_WORD: Final = re.compile(r"[a-z][a-z:_-]*")


@dataclass(frozen=True, slots=True)
class Said:
    """The user's kept sentences; ``is_whole`` is false if some were left out."""

    sentences: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """A shell command of the agent: program and verbs (or ""), and its exit code if known."""

    command: str
    code: int | None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user stopped the agent or refused its request."""


Event = Said | Ran | Interrupted


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a coding agent.

    Attributes:
        id: Client and a digest of the log's own id.
        client: ``claude``, ``codex`` or ``opencode``.
        project: The agent's folder, or ""; selects sessions and is not stored.
        started: Seconds since 1970; 0 if unknown.
        events: In order.
    """

    id: str
    client: str
    project: str
    started: float
    events: tuple[Event, ...]


@dataclass(slots=True)
class LeftOut:
    """The omissions by reason: their number, and the first place, which is not stored."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, why: str, where: str = "", count: int = 1) -> None:
        """Count an omission."""
        self.counts[why] += count
        self.first.setdefault(why, where)


class Recorder:
    """Collects the events of a client's session from its log at ``where``."""

    def __init__(self, client: str, left_out: LeftOut, where: str) -> None:
        self.id = ""
        self.project = ""
        self.started = 0.0
        self._client, self._left_out, self._where = client, left_out, where
        self._untrusted = Untrusted()
        self._typed: frozenset[str] = frozenset()
        self._events: list[Event] = []
        self._called: dict[str, int] = {}  # pending call -> index of its event

    def at(self, stamp: object) -> None:
        """Record the first time, as ISO 8601 or milliseconds since 1970."""
        if not self.started:
            self.started = _seconds(stamp)

    def said(self, text: str) -> None:
        """Record a text that the user typed."""
        if not self._has_room():
            return
        found = clean(text, self._untrusted)
        for why, count in found.dropped.items():
            self._left_out.add(f"sentences: {why}", self._where, count)
        self._typed |= frozenset(_WORD.findall(found.text.lower()))
        if found.sentences or found.dropped:
            self._events.append(Said(found.sentences, not found.dropped))

    def called(self, call: str, command: str) -> None:
        """Record a shell command whose result follows."""
        if self._has_room():
            self._called[call] = len(self._events)
            self._events.append(Ran(command_head(command, self._typed), None))

    def ended(self, call: str, output: str, code: int | None = None) -> None:
        """Record the exit code of a call, given or found in its output, which is not kept."""
        self._untrusted.note(output)
        at = self._called.pop(call, None)
        if at is None:
            return
        ran = self._events[at]
        found = _CODE.search(output[:_HEAD]) if code is None else None
        known = int(found[1]) if found else code
        if isinstance(ran, Ran):
            self._events[at] = Ran(ran.command, known)

    def interrupted(self) -> None:
        """Record that the user stopped the agent."""
        if self._has_room():
            self._events.append(Interrupted())

    def session(self) -> Session | None:
        """Return the session; ``None`` if the user typed nothing."""
        if not any(isinstance(one, Said) for one in self._events):
            return None
        name = f"{self._client}-{text_digest(self.id or self._where)[:12]}"
        return Session(name, self._client, self.project, self.started, tuple(self._events))

    def _has_room(self) -> bool:
        if len(self._events) < MOST_EVENTS:
            return True
        self._left_out.add(f"events beyond {MOST_EVENTS:,} of a session", self._where)
        return False


def _seconds(stamp: object) -> float:
    if isinstance(stamp, bool):
        return 0.0
    if isinstance(stamp, int | float):
        return max(0.0, float(stamp) / 1000) if abs(stamp) < 1e14 else 0.0
    if not isinstance(stamp, str) or len(stamp) > 40:
        return 0.0
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return 0.0
    return max(0.0, (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


def texts(content: object) -> Iterator[str]:
    """Yield the texts of a message's content: a string, or blocks."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            text = block if isinstance(block, str) else field_of(block, "text")
            if isinstance(text, str):
                yield text


def field_of(value: object, *path: str) -> Any:
    """Return the value at a path of keys, or ``None``."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_of(value: object, *path: str) -> str:
    """Return the text at a path of keys, or ""."""
    found = field_of(value, *path)
    return found if isinstance(found, str) else ""
