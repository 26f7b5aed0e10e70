"""Limits the calls to one endpoint: how many at once, how fast, and whether any.

A bound belongs to an endpoint and key: two models on one server queue together. It is cut where
the endpoint says that it is busy (429, 503, 529), becomes slow, or fails most attempts; a steady
share of other failures cuts nothing, as it is the same at any bound.
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

# The number of concurrent calls: a bound that adapts to the endpoint.
#
# It doubles until a first cut, then rises by one per round of answers, and only while it holds
# calls back. One wave of trouble is one cut. Source: TCP's slow start, additive increase and
# multiplicative decrease (RFC 5681).


START = 16
"""Concurrent calls at first."""


class Limiter(Slots):
    """Lets through at most ``limit`` calls at a time, in the order in which they came.

    Attributes:
        round: Number of cuts so far; an attempt passes its own to `cut`.
    """

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
        """Apply the bound of another model on the same endpoint, too."""
        self._most = min(self._most, most)
        self._level = min(self._level, self._most)

    def rise(self) -> None:
        """Raise the limit after an answer; call it before the call gives its place back."""
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
    """Spreads attempts evenly over time, in the order in which they come.

    Each takes its place on a time line at once and waits for it; there is no burst to save up for,
    because vendors count in windows shorter than a minute.
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
        """Pause all calls: an endpoint that asks one caller to wait means all."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def turn(self, tokens: int, within_s: float = float("inf")) -> None:
        """Wait for the turn of an attempt with an expected number of tokens.

        A caller that stops waiting gives its place back.
        """
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
        # Asked again after each wait: a pause may have been asked for meanwhile.
        while (due := max(at, self._held_until)) > self._clock():
            # Also where it is in vain: a caller that retries at once waits no less.
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
        """Correct the time line by the tokens that an attempt used."""
        self._next_tokens += (used - expected) * self._token_s


WINDOW = 16
"""Answers of one purpose per window."""
COLLAPSE = 4.0
"""Multiple of the best latency at which an endpoint counts as overloaded."""
QUICK_S = 1.0
"""Up to this latency nothing slows down."""
KNOWN_FROM = 3
"""Answers that a median needs."""

_REMEMBERED = 200
_FORGETS = 1.05


class Latencies:
    """The latencies of one purpose at one endpoint.

    Purposes are separate, because an analyst's answer takes ten times as long as an agent's.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self._window: list[float] = []
        self._best_s: float | None = None

    def note(self, seconds: float) -> bool:
        """Take note of an answer.

        Returns:
            Whether it ends a window whose median is `COLLAPSE` times the best one's. The best is
            slowly forgotten, so that a model that became slower for good is not held against it.
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
        """The median of the latest answers in seconds; ``None`` while there are too few to say."""
        return median(self._recent) if len(self._recent) >= KNOWN_FROM else None


BUSY_FACTOR = 0.7
FAULT_WINDOW = 100
"""Number of latest attempts for the share that failed without being busy."""
FAULT_SHARE = 0.5
FAULT_FLOOR = 8
"""Calls that stay in flight where most fail without a rate limit."""
LONGEST_HOLD_S = 120.0
"""The longest pause for all calls: a longer one may be about a single call."""

_BYTES_PER_TOKEN = 4
_TOO_MANY = 429


class Traffic:
    """The limits and the state of one endpoint and key.

    Attributes:
        limiter: Limits calls in flight.
        pacer: Spreads attempts over time.
        in_trouble: For each of the latest attempts, whether it failed without being busy.
        hedges: Decides which calls get a second attempt.
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
        """Watch over one attempt: ``with traffic.trial(purpose, circuit) as trial``."""
        return Trial(self, purpose, circuit)

    @property
    def is_mostly_trouble(self) -> bool:
        """Whether more than half of the latest attempts failed without being busy."""
        latest = self.in_trouble
        return len(latest) == FAULT_WINDOW and sum(latest) > FAULT_SHARE * FAULT_WINDOW


class Trial:
    """One attempt, from its sending to its outcome.

    Attributes:
        status: The HTTP status, as soon as there is one.
    """

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
            traffic.in_trouble.clear()  # failures at the old bound say nothing about the new one
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
        """Calls in flight at all endpoints together, those between two attempts too."""
        return sum(traffic.limiter.in_flight for traffic in self._traffic.values())

    def traffic(
        self,
        config: EndpointConfig,
        key: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Traffic:
        """Return an endpoint's traffic, within the narrowest bounds of its models."""
        # A digest of the key, so that there is no second copy of the secret.
        name = (config.base_url, text_digest(key))
        if name not in self._traffic:
            self._traffic[name] = Traffic(config, sleep, clock)
        found = self._traffic[name]
        found.narrow(config)
        return found


def expected_tokens(body: bytes, latest: int) -> int:
    """Estimate a call's tokens: its prompt, and an answer like the latest one."""
    return len(body) // _BYTES_PER_TOKEN + latest
