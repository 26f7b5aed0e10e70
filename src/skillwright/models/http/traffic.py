"""What one endpoint is given: how much at once, how fast, and whether anything at all.

A bound belongs to an endpoint and key: two models on one server queue together. It is cut where
the endpoint says that it is busy (429, 503, 529), becomes slow, or fails most attempts; a steady
share of other failures cuts nothing, as it is the same at any bound.
"""

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from skillwright.core import ModelError, ModelTimeout, Purpose
from skillwright.core.jsonio import text_digest
from skillwright.models.http.circuit import Circuit
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.faults import BUSY, EndpointFault, GarbledReply
from skillwright.models.http.limits import Limiter
from skillwright.models.http.limits_latency import Latencies
from skillwright.models.http.limits_pace import Pacer

BUSY_FACTOR = 0.7
FAULT_WINDOW = 100
"""So many of the latest attempts are looked at for the share that failed without being busy."""
FAULT_SHARE = 0.5
FAULT_FLOOR = 8
"""Calls that stay in flight where most fail, as nobody said that they are too many."""
LONGEST_HOLD_S = 120.0
"""No single answer holds everybody for longer: it may be about the one call only."""

_BYTES_PER_TOKEN = 4
_TOO_MANY = 429


class Traffic:
    """All that is known about one endpoint and key.

    Attributes:
        limiter: Admits calls.
        pacer: Spreads attempts over time.
        in_trouble: For each of the latest attempts, whether it failed without being busy.
    """

    def __init__(
        self,
        config: EndpointConfig,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self.limiter = Limiter(
            config.max_concurrent, config.start_concurrent, config.min_concurrent
        )
        self.pacer = Pacer(sleep, clock)
        self.in_trouble: deque[bool] = deque(maxlen=FAULT_WINDOW)
        self.clock = clock
        self._where = config.base_url
        self._circuits: dict[str, Circuit] = {}
        self._latencies: dict[Purpose, Latencies] = defaultdict(Latencies)

    def narrow(self, config: EndpointConfig) -> None:
        """Keep within the bounds of one more model."""
        self.limiter.narrow(config.max_concurrent, config.min_concurrent)
        self.pacer.narrow(config.requests_per_minute, config.tokens_per_minute)

    def latencies(self, purpose: Purpose) -> Latencies:
        """Return how long answers to a purpose take."""
        return self._latencies[purpose]

    def circuit(self, model: str, patience_s: float = math.inf) -> Circuit:
        """Return what knows whether somebody answers for a model; the least patience holds."""
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
    """One attempt, from its sending to what came of it.

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
            self._circuit.answered()  # a refusal: somebody is there
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
            traffic.in_trouble.clear()  # what failed at the old bound says nothing of the new one
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
        """Calls that are admitted at all endpoints together, those between two attempts too."""
        return sum(traffic.limiter.in_flight for traffic in self._traffic.values())

    def traffic(
        self,
        config: EndpointConfig,
        key: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Traffic:
        """Return what an endpoint is given, within the narrowest bounds ever asked for."""
        # The digest stands in for the key, so that no second copy of a secret lies about.
        name = (config.base_url, text_digest(key))
        if name not in self._traffic:
            self._traffic[name] = Traffic(config, sleep, clock)
        found = self._traffic[name]
        found.narrow(config)
        return found


def expected_tokens(body: bytes, latest: int) -> int:
    """Guess what a call will take: its prompt, and an answer like the one before it."""
    return len(body) // _BYTES_PER_TOKEN + latest
