"""How fast an endpoint is asked: so much per minute, and the pauses that it asks for."""

from collections.abc import Awaitable, Callable

from skillwright.models.http.faults import TurnTooLate

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
        """Keep these bounds per minute too; ``None`` is none."""
        self._request_s = max(self._request_s, _MINUTE_S / requests if requests else 0.0)
        self._token_s = max(self._token_s, _MINUTE_S / tokens if tokens else 0.0)

    def hold(self, seconds: float) -> None:
        """Send nothing for so long: the endpoint asked one caller to wait, and means all."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def turn(self, tokens: int, within_s: float = float("inf")) -> None:
        """Wait for the turn of an attempt that is expected to take so many tokens.

        Whoever does not wait to the end gives the place back.
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
            # Waited for even where it is in vain: whoever asks again at once waits no less.
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
        """Correct the time line once it is known how many tokens an attempt took."""
        self._next_tokens += (used - expected) * self._token_s
