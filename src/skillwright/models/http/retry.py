"""Retries: which errors, with which waits, and when an endpoint counts as down."""

import asyncio
import logging
import math
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from skillwright.core import ModelError, ModelTimeout, Usage
from skillwright.models.http.wire import EndpointFault, GarbledReply, TurnTooLate

# The circuit opens when a call used up its attempts while no other call was answered, or when no
# call was answered for a whole deadline. Then calls wait, one probe at a time is sent, and an
# answer closes the circuit.


LEAST_FAILURES = 6
"""Consecutive failed attempts of all calls before an endpoint can count as down."""
FIRST_PROBE_S = 5.0
LONGEST_PROBE_S = 60.0
LOOKS_AGAIN_S = 1.0
"""Seconds until the next check while another call's probe is in flight."""

logger = logging.getLogger(__name__)


class EndpointDown(ModelError):
    """The endpoint counts as down; nothing was sent.

    Args:
        message: Endpoint, reason, and time of the next probe.
        retry_after_s: Seconds until the next probe.
        for_good: Whether it has been down for a whole deadline.
    """

    failed_calls = 0

    def __init__(self, message: str, retry_after_s: float = 0.0, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.for_good = for_good


class Circuit:
    """The circuit breaker of an endpoint."""

    def __init__(
        self,
        where: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
        patience_s: float = math.inf,
    ) -> None:
        self._where = where
        self._clock = clock
        self._wall_clock = wall_clock
        self.patience_s = patience_s
        self._failures = 0
        self._unanswered = 0
        self._failing_since: float | None = None
        self._since = 0.0
        self._latest = ""
        self._latest_at = 0.0
        self._opened_at: float | None = None
        self._next_probe = 0.0
        self._probe_s = FIRST_PROBE_S
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether the endpoint counts as down."""
        return self._opened_at is not None

    @property
    def open_s(self) -> float:
        """Seconds since the circuit opened; 0 while it is closed."""
        return 0.0 if self._opened_at is None else self._clock() - self._opened_at

    def enter(self) -> bool:
        """Begin an attempt, and return whether it is the probe.

        Its end is reported by `answered`, `failed` or `abandoned`.
        """
        self.check()
        self._is_probing = self.is_open
        return self._is_probing

    def check(self) -> None:
        """Raise the error that `enter` would raise."""
        if self.is_open and (self._is_probing or self._next_probe > self._clock()):
            raise self.down()

    def answered(self) -> None:
        """Record an answer or a refusal."""
        self._close()
        self._failing_since = None
        self._unanswered = 0

    def busy(self, fault: ModelError, *, is_probe: bool = False) -> None:
        """Record that the endpoint is up, but busy or sending garbage."""
        self._note(fault)
        if self._is_hopeless:
            self._stay_open(is_probe=is_probe)
        else:
            self._close()

    def failed(self, fault: ModelError, *, is_probe: bool = False) -> None:
        """Record an attempt without an answer, or a failure of the server."""
        self._note(fault)
        self._failures += 1
        self._stay_open(is_probe=is_probe)

    def abandoned(self, *, is_probe: bool = False) -> None:
        """Record a cancelled attempt; after a cancelled probe, another attempt may probe."""
        if is_probe:
            self._is_probing = False

    def gave_up(self, max_attempts: int) -> None:
        """Record that a call used up its attempts; open if no call was answered meanwhile."""
        if self._opened_at is None and self._failures >= max(LEAST_FAILURES, max_attempts):
            self._open(self._clock())

    def down(self) -> EndpointDown:
        """Return the error of a call while the circuit is open."""
        wait_s = max(0.0, self._next_probe - self._clock())
        since = datetime.fromtimestamp(self._since, UTC).strftime("%H:%M:%S")
        probe = f"in {wait_s:.0f} s" if wait_s else "now"
        return EndpointDown(
            f"{self._where} is taken to be down: nothing was answered since {since} UTC, and "
            f"{self._unanswered} attempts in a row failed, the latest: {self._latest} It is tried "
            f"again {probe}; until then calls wait.",
            wait_s or LOOKS_AGAIN_S,
        )

    @property
    def _is_hopeless(self) -> bool:
        since = self._failing_since
        return since is not None and self._clock() - since >= self.patience_s

    def _note(self, fault: ModelError) -> None:
        now = self._clock()
        # Without calls for a while, none failed either.
        if self._failing_since is None or now - self._latest_at > self.patience_s / 2:
            self._failing_since = now
            self._since = self._wall_clock()
            self._unanswered = 0
        self._latest_at = now
        self._unanswered += 1
        self._latest = str(fault)

    def _stay_open(self, *, is_probe: bool) -> None:
        if is_probe and self._is_probing:
            self._is_probing = False
            self._probe_s = min(LONGEST_PROBE_S, 2.0 * self._probe_s)
            self._next_probe = self._clock() + self._probe_s
        if self._opened_at is None and self._failing_since is not None and self._is_hopeless:
            self._open(self._failing_since)

    def _open(self, since: float) -> None:
        self._opened_at = since
        self._next_probe = self._clock() + self._probe_s
        logger.warning("%s", self.down())

    def _close(self) -> None:
        if self._opened_at is not None:
            logger.warning("%s answers again, after %.0f s.", self._where, self.open_s)
        self._failures = 0
        self._opened_at = None
        self._probe_s = FIRST_PROBE_S
        self._is_probing = False


# Waits grow by decorrelated jitter (source: "Exponential Backoff and Jitter", AWS Architecture
# Blog, 2015). Waiting for an endpoint that is down uses up no attempts, but ends at the deadline.


T = TypeVar("T")

_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempts of one call and the waits between them.

    Attributes:
        max_attempts: At least 1.
        timeout_s: Seconds per attempt.
        deadline_s: Seconds for the whole call.
        first_wait_s: Shortest wait for a busy endpoint.
        line_wait_s: Shortest wait after other faults.
        longest_wait_s: Longest wait, unless the endpoint asks for more.
        longest_asked_s: Longest wait that an endpoint may ask for; above it, the call fails.
        circuit: Circuit breaker, or ``None``.
        max_garbled: Attempts that may end in a `GarbledReply`; ``None``: no limit of its own.
        sleep: Waits.
        clock: Monotonic clock, in seconds.
        uniform: Draws the jitter, which changes no answer and so needs no seed.
    """

    max_attempts: int = 6
    timeout_s: float = 120.0
    deadline_s: float = 600.0
    first_wait_s: float = 0.5
    line_wait_s: float = 0.1
    longest_wait_s: float = 30.0
    longest_asked_s: float = 120.0
    circuit: Circuit | None = None
    max_garbled: int | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform

    async def call(self, attempt: Callable[[float], Awaitable[T]]) -> tuple[T, Usage]:
        """Call ``attempt`` until it answers, is refused, or time or attempts are used up.

        Return the answer and the usage of the failed attempts before it. The last attempt's error
        is raised, with the ``failed_calls`` and ``usage`` of all.
        """
        tries = _Tries(self, self.clock())
        timeout_s = min(self.timeout_s, self.deadline_s)
        while True:
            try:
                return await attempt(timeout_s), tries.lost
            except ModelError as error:
                may_pass = _may_pass(error)
                if not may_pass and tries.lost is _NOTHING:
                    raise
                tries.count(error)
                # Else the traceback would keep the failed attempt's reply in memory.
                traceback.clear_frames(error.__traceback__)
                wait_s = tries.wait_s(error) if may_pass else math.inf
                if not may_pass or tries.is_over(error, wait_s):
                    final = tries.final(error)
                    if final is error:
                        raise
                    raise final from error
            tries.slept_s += wait_s
            await self.sleep(wait_s)
            timeout_s = min(self.timeout_s, tries.started + self.deadline_s - self.clock())


@dataclass(slots=True)
class _Tries:
    """The attempts of a call so far."""

    retry: Retry
    started: float
    lost: Usage = _NOTHING
    garbled: int = 0
    slept_s: float = 0.0
    latest_wait_s: float = 0.0

    def count(self, error: ModelError) -> None:
        failed = self.lost.failed_calls + error.failed_calls
        self.lost = replace(self.lost + error.usage, failed_calls=failed)
        self.garbled += isinstance(error, GarbledReply)

    @property
    def is_used_up(self) -> bool:
        is_garbled = self.garbled == self.retry.max_garbled
        return is_garbled or self.lost.failed_calls >= self.retry.max_attempts

    @property
    def dead_for_s(self) -> float:
        return self.retry.circuit.open_s if self.retry.circuit is not None else 0.0

    def probe_s(self, error: ModelError) -> float | None:
        """Return the seconds until the next probe; ``None`` while the endpoint is up."""
        if isinstance(error, EndpointDown):
            return error.retry_after_s
        circuit = self.retry.circuit
        return circuit.down().retry_after_s if circuit is not None and circuit.is_open else None

    def wait_s(self, error: ModelError) -> float:
        retry = self.retry
        if self.is_used_up and retry.circuit is not None:
            retry.circuit.gave_up(retry.max_attempts)
        dead_s, asked_s = self.probe_s(error), _asked_s(error)
        if dead_s is not None or asked_s is not None:
            # Jitter spreads calls with the same requested wait.
            return max(dead_s or 0.0, asked_s or 0.0) + retry.uniform(0.0, retry.first_wait_s)
        is_busy = isinstance(error, EndpointFault) and error.is_busy
        least_s = retry.first_wait_s if is_busy else retry.line_wait_s
        most_s = 3.0 * max(self.latest_wait_s, least_s)
        self.latest_wait_s = min(retry.longest_wait_s, retry.uniform(least_s, most_s))
        return self.latest_wait_s

    def is_over(self, error: ModelError, wait_s: float) -> bool:
        retry = self.retry
        if self.is_used_up and self.probe_s(error) is None:
            return True
        if (_asked_s(error) or 0.0) > retry.longest_asked_s:
            return True
        # Counts slept seconds too, so that a test's sleep that returns at once also ends.
        spent_s = max(retry.clock() - self.started, self.slept_s, self.dead_for_s)
        return spent_s + wait_s >= retry.deadline_s

    def final(self, last: ModelError) -> ModelError:
        """Return the error to raise, with the reason and the usage of all attempts."""
        spent_s = self.retry.clock() - self.started
        final = last
        match last:
            case EndpointDown():
                deadline_s = self.retry.deadline_s
                final = EndpointDown(
                    f"{last} This one waited {spent_s:.0f} s: once it has been down for "
                    f"deadline_s = {deadline_s:g} no caller waits any more.",
                    last.retry_after_s,
                    for_good=self.dead_for_s + last.retry_after_s >= deadline_s,
                )
            case EndpointFault():
                why = self._why(last.retry_after_s, spent_s)
                final = type(last)(f"{last} {why}", last.retry_after_s, last.status)
            case ModelTimeout():
                final = type(last)(f"{last} {self._why(None, spent_s)}")
        final.failed_calls = self.lost.failed_calls
        final.usage = replace(self.lost, failed_calls=0)
        return final

    def _why(self, asked_s: float | None, spent_s: float) -> str:
        retry, failed = self.retry, self.lost.failed_calls
        if failed < retry.max_attempts and asked_s is not None:
            if asked_s > retry.longest_asked_s:
                longest = f"more than {retry.longest_asked_s:g} are no pause"
                return f"It asks to wait {asked_s:.0f} s; {longest}."
            return f"It asks to wait {asked_s:.0f} s, past the deadline_s of {retry.deadline_s:g}."
        return f"Gave up after {failed} attempt{'s'[: failed > 1]} in {spent_s:.1f} s."


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read the wait that an endpoint asks for, in seconds; ``None`` if unreadable or in the past.

    ``retry-after-ms`` precedes ``retry-after``, in seconds or as an HTTP date, which is compared
    with the reply's own ``date``, so that a wrong local clock does no harm.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    asked = headers.get("retry-after")
    seconds = milliseconds / 1000 if milliseconds is not None else _number(asked)
    if seconds is None:
        until = _date(asked)
        now = _date(headers.get("date")) or datetime.now(UTC)
        seconds = (until - now).total_seconds() if until else None
    return seconds if seconds is not None and seconds > 0 else None


def _may_pass(error: ModelError) -> bool:
    """Return whether the next attempt may succeed."""
    passing = EndpointFault | ModelTimeout | EndpointDown
    return isinstance(error, passing) and not isinstance(error, TurnTooLate)


def _asked_s(error: ModelError) -> float | None:
    return error.retry_after_s if isinstance(error, EndpointFault) else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value < float("inf") else None  # False for NaN too


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
