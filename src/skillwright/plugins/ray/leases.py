"""Limits of an endpoint that several processes share.

An `EndpointLedger` leases places to processes, so that together they never exceed the endpoint's
``max_concurrent``; unused places go to processes that want more. With a rate limit, it also hands
out turns. Leases are renewed a few times a second, so a place costs no message per call. Each
process adapts to a busy or slow endpoint within its lease.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from skillwright.core.jsonio import text_digest
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.traffic import EndpointLimits, Limiter, Pacer, Traffic
from skillwright.models.http.wire import TurnTooLate

RENEW_S: Final = 0.25
"""Seconds between two renewals of a lease."""
EXPIRE_S: Final = 15.0
"""Seconds after which a lease that is not renewed expires: its process is gone."""


logger = logging.getLogger(__name__)


class Demand(NamedTuple):
    """A process's demand at an endpoint."""

    most: int  # limit of all processes together, as known to this one
    in_flight: int
    wanted: int  # in flight and waiting


class Rates(NamedTuple):
    """Limits per minute; ``None`` is no limit."""

    requests: int | None = None
    tokens: int | None = None


class Grant(NamedTuple):
    """Leased places, and the seconds for which no request may be sent."""

    places: int
    hold_s: float


@dataclass(slots=True)
class _Lease:
    places: int
    wanted: int
    until: float


class LedgerClient(Protocol):
    """A process's connection to the ledger."""

    async def renew(self, holder: str, demands: Mapping[str, Demand]) -> dict[str, Grant]:
        """See `EndpointLedger.renew`."""

    async def turn(self, endpoint: str, rates: Rates, tokens: int, within_s: float) -> str:
        """See `EndpointLedger.turn`."""

    def settle(self, endpoint: str, expected: int, used: int) -> None:
        """See `EndpointLedger.settle`, without waiting."""

    def hold(self, endpoint: str, seconds: float) -> None:
        """See `EndpointLedger.hold`, without waiting."""


class EndpointLedger:
    """Leases places and turns at endpoints to processes, on one event loop."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._most: dict[str, int] = {}
        self._leases: dict[str, dict[str, _Lease]] = {}
        self._pacers: dict[str, Pacer] = {}
        self._held_until: dict[str, float] = {}

    def renew(self, holder: str, demands: Mapping[str, Demand]) -> dict[str, Grant]:
        """Lease places until the next renewal, never fewer than are in use, by endpoint.

        ``holder`` is the process; for each endpoint the lowest ``most`` of all processes holds.
        """
        now = self._clock()
        grants = {}
        for endpoint, demand in demands.items():
            most = self._most[endpoint] = min(demand.most, self._most.get(endpoint, demand.most))
            leases = self._leases.setdefault(endpoint, {})
            for gone in [name for name, lease in leases.items() if lease.until < now]:
                del leases[gone]
            lent = sum(lease.places for name, lease in leases.items() if name != holder)
            wants = {name: one.wanted for name, one in leases.items()} | {holder: demand.wanted}
            fair = _fair_share(wants, most)[holder]
            places = max(demand.in_flight, min(fair, most - lent))
            leases[holder] = _Lease(places, demand.wanted, now + EXPIRE_S)
            hold_s = max(0.0, self._held_until.get(endpoint, now) - now)
            grants[endpoint] = Grant(places, hold_s)
        return grants

    async def turn(self, endpoint: str, rates: Rates, tokens: int, within_s: float) -> str:
        """Wait for an attempt's turn, in order over all processes; return why it is late, or ""."""
        pacer = self._pacer(endpoint)
        pacer.narrow(*rates)
        try:
            await pacer.turn(tokens, within_s)
        except TurnTooLate as late:
            return str(late)
        return ""

    def settle(self, endpoint: str, expected: int, used: int) -> None:
        """Correct the schedule by the tokens that an attempt used."""
        self._pacer(endpoint).settle(expected, used)

    def hold(self, endpoint: str, seconds: float) -> None:
        """Pause all requests, as the endpoint asked one process to wait."""
        until = self._clock() + seconds
        self._held_until[endpoint] = max(until, self._held_until.get(endpoint, until))
        self._pacer(endpoint).hold(seconds)

    def _pacer(self, endpoint: str) -> Pacer:
        if endpoint not in self._pacers:
            self._pacers[endpoint] = Pacer(self._sleep, self._clock)
        return self._pacers[endpoint]


def _fair_share(wants: Mapping[str, int], most: int) -> dict[str, int]:
    """Divide places equally; unused shares go to the others."""
    left, shares = most, {}
    for place, name in enumerate(sorted(wants, key=lambda name: (wants[name], name))):
        shares[name] = min(wants[name], -(-left // (len(wants) - place)))
        left -= shares[name]
    return shares


class LeasedLimits(EndpointLimits):
    """The limits of a process, under the unique name ``holder``, that shares its endpoints."""

    def __init__(self, ledger: LedgerClient, holder: str) -> None:
        super().__init__()
        self._ledger = ledger
        self._holder = holder
        self._limiters: dict[str, LeasedLimiter] = {}
        self._paced: dict[str, SharedPacer] = {}
        self._asks = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    def traffic(
        self,
        config: EndpointConfig,
        key: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Traffic:
        """Return an endpoint's traffic, within the limits of all processes together."""
        name = f"{config.base_url} {text_digest(key)}"
        known = name in self._limiters
        found = super().traffic(config, key, sleep=sleep, clock=clock)
        if not known:
            limiter = LeasedLimiter(config, self._asks.set)
            pacer = SharedPacer(name, self._ledger, sleep, clock)
            self._limiters[name], self._paced[name] = limiter, pacer
            found.limiter, found.pacer = limiter, pacer
            found.narrow(config)
        return found

    def open(self) -> None:
        """Start the renewals on the running loop."""
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew_often())

    async def close(self) -> None:
        """Stop the renewals."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})

    async def renew(self) -> None:
        """Renew the leases by the current demand."""
        demands = {name: limiter.demand for name, limiter in self._limiters.items()}
        if not demands:
            return
        for name, grant in (await self._ledger.renew(self._holder, demands)).items():
            self._paced[name].hold_here(grant.hold_s)
            self._limiters[name].lend(grant.places)

    async def _renew_often(self) -> None:
        while True:
            self._asks.clear()
            try:
                await self.renew()
            except Exception:  # a ledger that restarts is asked again
                logger.warning("the bounds of endpoints could not be renewed", exc_info=True)
            try:
                async with asyncio.timeout(RENEW_S):
                    await self._asks.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(RENEW_S / 10)  # concurrent requests share a renewal


class LeasedLimiter(Limiter):
    """Limits calls to the lease and to the adapted limit of the endpoint."""

    def __init__(self, config: EndpointConfig, ask: Callable[[], None]) -> None:
        super().__init__(config.max_concurrent, config.start_concurrent)
        self._ask = ask
        self._lent = 0

    @property
    def limit(self) -> int:
        """Calls that may run concurrently now."""
        return min(self._lent, super().limit)

    @property
    def demand(self) -> Demand:
        """Return the current demand."""
        waiting = sum(not ticket.done() for ticket in self._queue)
        wanted = min(self.in_flight + waiting, super().limit)
        return Demand(self._most, self.in_flight, max(wanted, self.in_flight))

    def lend(self, places: int) -> None:
        """Set the number of places."""
        self._lent = places
        self._let_in()

    def enter_at_once(self) -> bool:
        """Take a free place; if there is none, ask for more."""
        entered = super().enter_at_once()
        if not entered:
            self._ask()
        return entered


class SharedPacer(Pacer):
    """Waits for the ledger's turns if the endpoint has a rate limit."""

    def __init__(
        self,
        endpoint: str,
        ledger: LedgerClient,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sleep, clock)
        self._endpoint = endpoint
        self._ledger = ledger
        self._rates = Rates()

    def narrow(self, requests: int | None, tokens: int | None) -> None:
        """Apply these limits per minute, too, for all processes together."""
        old = self._rates
        self._rates = Rates(_least(old.requests, requests), _least(old.tokens, tokens))

    def hold(self, seconds: float) -> None:
        """Pause all requests, of all processes."""
        super().hold(seconds)
        self._ledger.hold(self._endpoint, seconds)

    def hold_here(self, seconds: float) -> None:
        """Pause this process's requests: another process was asked to wait."""
        if seconds:
            super().hold(seconds)

    async def turn(self, tokens: int, within_s: float = float("inf")) -> None:
        """Wait for the turn of an attempt."""
        if self._rates == Rates():
            await super().turn(tokens, within_s)
        elif late := await self._ledger.turn(self._endpoint, self._rates, tokens, within_s):
            raise TurnTooLate(late)

    def settle(self, expected: int, used: int) -> None:
        """Correct the schedule by the tokens that an attempt used."""
        if self._rates.tokens is not None:
            self._ledger.settle(self._endpoint, expected, used)


def _least(one: int | None, other: int | None) -> int | None:
    known = [bound for bound in (one, other) if bound is not None]
    return min(known, default=None)
