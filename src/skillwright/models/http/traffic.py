"""Limits of the calls to one endpoint: concurrency, rate, and circuit breaker.

Limits apply per endpoint and key: two models on one server share them. The concurrency is cut if
the endpoint is busy (429, 503, 529), becomes slow, or fails most attempts; a steady share of other
failures cuts nothing, because it does not depend on the load.
"""

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from statistics import median
from types import TracebackType
from typing import Self

from skillwright.core import ModelError, ModelTimeout, Purpose
from skillwright.core.jsonio import text_digest
from skillwright.core.slots import Slots
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.hedge import Hedges
from skillwright.models.http.retry import Circuit
from skillwright.models.http.wire import BUSY, EndpointFault, GarbledReply, TurnTooLate

# The concurrency doubles until the first cut, then rises by one per round of answers, and only
# while calls wait. There is at most one cut per round. Source: TCP's slow start, additive increase
# and multiplicative decrease (RFC 5681).


START = 16
"""Concurrent calls at first."""


class Limiter(Slots):
    """Runs at most ``limit`` calls at a time, in order; ``round`` counts its cuts."""

    def __init__(self, most: int, start: int = START) -> None:
        super().__init__(most)
        self.round = 0
        self._most = most
        self._level = float(min(start, most))
        self._is_new = True

    @property
    def limit(self) -> int:
        """Calls that may run concurrently now."""
        return int(self._level)

    def narrow(self, most: int) -> None:
        """Apply the bound of another model on the same endpoint."""
        self._most = min(self._most, most)
        self._level = min(self._level, self._most)

    def rise(self) -> None:
        """Raise the limit after an answer, before the call releases its place."""
        if self.in_flight < self.limit:
            return
        self._level = min(self._most, self._level + (1.0 if self._is_new else 1.0 / self._level))
        self._let_in()

    def cut(self, factor: float, since: int, floor: int = 1) -> None:
        """Lower the limit, once per round."""
        if since < self.round or self._level <= floor:
            return
        self.round += 1
        self._is_new = False
        self._level = max(1.0, float(floor), self._level * factor)


_MINUTE_S = 60.0


class Pacer:
    """Spreads attempts evenly over time, in order.

    There are no bursts, because vendors count in windows shorter than a minute.
    """

    def __init__(
        self, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float]
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._request_s = 0.0
        self._token_s = 0.0
        self._next_request = self._next_tokens = self._held_until = float("-inf")

    def narrow(self, requests: int | None, tokens: int | None) -> None:
        """Apply these bounds per minute, too; ``None`` is no bound."""
        self._request_s = max(self._request_s, _MINUTE_S / requests if requests else 0.0)
        self._token_s = max(self._token_s, _MINUTE_S / tokens if tokens else 0.0)

    def hold(self, seconds: float) -> None:
        """Pause all calls, as the endpoint asked one of them to wait."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def turn(self, tokens: int, within_s: float = float("inf")) -> None:
        """Wait for the turn of an attempt of ``tokens``; a cancelled caller gives its turn back."""
        now = self._clock()
        free = max(now, self._next_request), max(now, self._next_tokens)
        at = max(free)
        self._next_request = at + self._request_s
        self._next_tokens = at + tokens * self._token_s
        try:
            await self._wait_until(at, now, within_s)
        except BaseException:
            self._next_request -= at + self._request_s - free[0]
            self._next_tokens -= at + tokens * self._token_s - free[1]
            raise

    async def _wait_until(self, at: float, now: float, within_s: float) -> None:
        # Checked again after each wait: a pause may have begun meanwhile.
        while (due := max(at, self._held_until)) > self._clock():
            # Wait also if it is too late, so that a caller that retries at once waits too.
            await self._sleep(min(due, now + within_s) - self._clock())
            if due > now + within_s:
                raise TurnTooLate(self._late(due - now, within_s))

    def _late(self, wait_s: float, within_s: float) -> str:
        if self._held_until > self._clock():
            return (
                f"The endpoint asked everybody to wait, {wait_s:.0f} s in all, and the call had "
                f"{within_s:.0f} s left. Raise deadline_s, or ask for less at once."
            )
        return (
            f"Within requests_per_minute and tokens_per_minute its turn comes in {wait_s:.0f} s, "
            f"and the call had {within_s:.0f} s left. Raise deadline_s or these limits, or lower "
            "max_concurrent."
        )

    def settle(self, expected: int, used: int) -> None:
        """Correct the schedule by the tokens that an attempt used."""
        self._next_tokens += (used - expected) * self._token_s


WINDOW = 16
"""Answers per window, for each purpose."""
COLLAPSE = 4.0
"""Multiple of the best latency at which an endpoint counts as overloaded."""
QUICK_S = 1.0
"""Latency up to which an endpoint never counts as slow."""
KNOWN_FROM = 3
"""Answers required for a median."""

_REMEMBERED = 200
_FORGETS = 1.05


class Latencies:
    """The latencies of one purpose, such as acting or analysis, at one endpoint."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self._window: list[float] = []
        self._best_s: float | None = None

    def note(self, seconds: float) -> bool:
        """Record an answer; return whether a window ends with `COLLAPSE` times the best median.

        The best median slowly decays, so that a permanently slower model is accepted.
        """
        self._recent.append(seconds)
        self._window.append(seconds)
        if len(self._window) < WINDOW:
            return False
        middle = median(self._window)
        self._window.clear()
        best_s = middle if self._best_s is None else self._best_s
        self._best_s = min(best_s * _FORGETS, middle) if middle < best_s else best_s * _FORGETS
        return middle > COLLAPSE * max(best_s, QUICK_S)

    @property
    def median_s(self) -> float | None:
        """Median of the latest answers, in seconds; ``None`` if there are too few."""
        return median(self._recent) if len(self._recent) >= KNOWN_FROM else None


BUSY_FACTOR = 0.7
FAULT_WINDOW = 100
"""Number of latest attempts over which failures are counted."""
FAULT_SHARE = 0.5
FAULT_FLOOR = 8
"""Minimum concurrency when most attempts fail without a rate limit."""
LONGEST_HOLD_S = 120.0
"""Longest pause for all calls, in seconds; a longer request concerns a single call."""

_BYTES_PER_TOKEN = 4
_TOO_MANY = 429


class Traffic:
    """The limits and the state of one endpoint and key.

    ``in_trouble`` tells of each of the latest attempts whether it failed without being busy;
    ``has_answered``, whether any attempt was answered.
    """

    def __init__(
        self,
        config: EndpointConfig,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self.limiter = Limiter(config.max_concurrent, config.start_concurrent)
        self.pacer = Pacer(sleep, clock)
        self.in_trouble: deque[bool] = deque(maxlen=FAULT_WINDOW)
        self.has_answered = False
        self.clock = clock
        self._where = config.base_url
        self._circuits: dict[str, Circuit] = {}
        self._latencies: dict[Purpose, Latencies] = defaultdict(Latencies)
        self.hedges = Hedges(lambda purpose: self.latencies(purpose).median_s, sleep, clock)

    def narrow(self, config: EndpointConfig) -> None:
        """Apply the bounds of one more model."""
        self.limiter.narrow(config.max_concurrent)
        self.pacer.narrow(config.requests_per_minute, config.tokens_per_minute)

    def latencies(self, purpose: Purpose) -> Latencies:
        """Return the latencies of a purpose."""
        return self._latencies[purpose]

    def circuit(self, model: str, patience_s: float = math.inf) -> Circuit:
        """Return the circuit of a model; the shortest deadline holds."""
        if model not in self._circuits:
            self._circuits[model] = Circuit(f"{self._where} (model {model!r})", self.clock)
        found = self._circuits[model]
        found.patience_s = min(found.patience_s, patience_s)
        return found

    def trial(self, purpose: Purpose, circuit: Circuit) -> "Trial":
        """Track one attempt: ``with traffic.trial(purpose, circuit) as trial``."""
        return Trial(self, purpose, circuit)

    @property
    def is_mostly_trouble(self) -> bool:
        """Whether more than half of the latest attempts failed without being busy."""
        latest = self.in_trouble
        return len(latest) == FAULT_WINDOW and sum(latest) > FAULT_SHARE * FAULT_WINDOW


class Trial:
    """One attempt, from sending to outcome; ``status`` is its HTTP status once known."""

    __slots__ = ("_circuit", "_is_probe", "_purpose", "_round", "_started", "_traffic", "status")

    def __init__(self, traffic: Traffic, purpose: Purpose, circuit: Circuit) -> None:
        self.status = 0
        self._traffic = traffic
        self._purpose = purpose
        self._circuit = circuit
        self._is_probe = False
        self._round = traffic.limiter.round
        self._started = 0.0

    def __enter__(self) -> Self:
        self._is_probe = self._circuit.enter()
        self._started = self._traffic.clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._answered()
        elif isinstance(error, EndpointFault | ModelTimeout):
            self._failed(error)
        elif isinstance(error, ModelError):
            self._circuit.answered()  # a refusal is an answer
        else:
            self._circuit.abandoned(is_probe=self._is_probe)

    def _answered(self) -> None:
        traffic = self._traffic
        self._circuit.answered()
        traffic.has_answered = True
        traffic.in_trouble.append(False)
        if traffic.latencies(self._purpose).note(traffic.clock() - self._started):
            traffic.limiter.cut(BUSY_FACTOR, self._round)
        else:
            traffic.limiter.rise()

    def _failed(self, error: EndpointFault | ModelTimeout) -> None:
        traffic = self._traffic
        asked_s = None
        if isinstance(error, EndpointFault):
            error.status = error.status or self.status
            asked_s = error.retry_after_s
        status = error.status if isinstance(error, EndpointFault) else self.status
        is_busy = status in BUSY
        traffic.in_trouble.append(not is_busy)
        if is_busy:
            traffic.limiter.cut(BUSY_FACTOR, self._round)
        elif traffic.is_mostly_trouble:
            traffic.limiter.cut(BUSY_FACTOR, self._round, FAULT_FLOOR)
            traffic.in_trouble.clear()  # failures at the old limit do not count at the new one
        if status == _TOO_MANY or isinstance(error, GarbledReply):
            self._circuit.busy(error, is_probe=self._is_probe)
        else:
            self._circuit.failed(error, is_probe=self._is_probe)
        if is_busy and asked_s is not None and asked_s <= LONGEST_HOLD_S:
            traffic.pacer.hold(asked_s)


class EndpointLimits:
    """One `Traffic` per endpoint and key."""

    def __init__(self) -> None:
        self._traffic: dict[tuple[str, str], Traffic] = {}

    @property
    def in_flight(self) -> int:
        """Calls in flight at all endpoints, including those between two attempts."""
        return sum(traffic.limiter.in_flight for traffic in self._traffic.values())

    def traffic(
        self,
        config: EndpointConfig,
        key: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Traffic:
        """Return an endpoint's traffic, limited by the strictest of its models."""
        # A digest, so that the key is not stored twice.
        name = (config.base_url, text_digest(key))
        if name not in self._traffic:
            self._traffic[name] = Traffic(config, sleep, clock)
        found = self._traffic[name]
        found.narrow(config)
        return found


def expected_tokens(body: bytes, latest: int) -> int:
    """Estimate a call's tokens: its prompt and an answer like the latest one."""
    return len(body) // _BYTES_PER_TOKEN + latest
