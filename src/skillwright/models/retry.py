"""The one retry layer: what is tried again, after how long a wait, and when to give up.

Retried: `EndpointFault` (connections, 408, 409, 429 but not quotas, 500 and above) and
`ModelTimeout`. Never: refusals and invalid replies. Waits grow by decorrelated jitter and are
never shorter than the endpoint asks for. Source: "Exponential Backoff and Jitter" (AWS
Architecture Blog, 2015).
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from skillwright.core import ModelError, ModelTimeout
from skillwright.models.faults import EndpointFault

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how long one call is attempted.

    Attributes:
        max_attempts: At least 1.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts and the waits between them.
        first_wait_s: The shortest wait.
        longest_wait_s: The longest wait, unless the endpoint asks for more.
        sleep: Waits; a test passes one that returns at once.
        clock: Seconds that only go forward.
        uniform: Draws the jitter. It decides when an attempt is made, never what it says, so it
            needs no seed.
    """

    max_attempts: int = 6
    timeout_s: float = 120.0
    deadline_s: float = 600.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform

    async def call(self, attempt: Callable[[float], Awaitable[T]]) -> tuple[T, int]:
        """Call ``attempt`` until it answers, is refused, or time and attempts are used up.

        Args:
            attempt: Makes one attempt within the seconds that it is given.

        Returns:
            The answer, and how many attempts failed before it.

        Raises:
            ModelError: The last attempt's, with ``failed_calls`` set.
        """
        started = self.clock()
        try:
            # Nearly every call ends here, and pays nothing for the machinery below.
            return await attempt(min(self.timeout_s, self.deadline_s)), 0
        except (EndpointFault, ModelTimeout) as fault:
            return await self._again(attempt, fault, started)

    async def _again(
        self,
        attempt: Callable[[float], Awaitable[T]],
        first: EndpointFault | ModelTimeout,
        started: float,
    ) -> tuple[T, int]:
        deadline = started + self.deadline_s
        failed = 0
        wait_s = self.first_wait_s

        async def once() -> T:
            nonlocal failed
            try:
                if not failed:
                    raise first  # tenacity begins with an attempt, and the first has been made
                return await attempt(min(self.timeout_s, deadline - self.clock()))
            except ModelError:
                failed += 1
                raise

        def wait(state: RetryCallState) -> float:
            nonlocal wait_s
            asked_s = _asked_s(state)
            if asked_s is not None:
                # A little later than asked, so that those who were told the same time spread out.
                return asked_s + self.uniform(0.0, self.first_wait_s)
            wait_s = min(self.longest_wait_s, self.uniform(self.first_wait_s, 3.0 * wait_s))
            return wait_s

        def stop(state: RetryCallState) -> bool:
            return failed >= self.max_attempts or self.clock() + state.upcoming_sleep >= deadline

        retrying = AsyncRetrying(
            retry=retry_if_exception_type((EndpointFault, ModelTimeout)),
            wait=wait,
            stop=stop,
            sleep=self.sleep,
            reraise=True,
        )
        try:
            return await retrying(once), failed
        except (EndpointFault, ModelTimeout) as last:
            raise self._gave_up(last, failed, self.clock() - started) from last
        except ModelError as refusal:
            refusal.failed_calls = failed
            raise

    def _gave_up(
        self, last: EndpointFault | ModelTimeout, failed: int, spent_s: float
    ) -> ModelError:
        asked_s = last.retry_after_s if isinstance(last, EndpointFault) else None
        if failed < self.max_attempts and asked_s is not None:
            why = f"It asks to wait {asked_s:.0f} s, past the deadline_s of {self.deadline_s:g}."
        else:
            why = f"Gave up after {failed} attempt{'s'[: failed > 1]} in {spent_s:.1f} s."
        final = type(last)(f"{last} {why}")
        final.failed_calls = failed
        return final


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read how long an endpoint asks to wait, in seconds.

    ``retry-after-ms`` comes first, then ``retry-after`` in seconds or as an HTTP date, which is
    compared with the reply's own ``date`` so that a wrong clock here does no harm.

    Returns:
        ``None`` where nothing is asked, or nothing that can be read, or a time in the past.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    asked = headers.get("retry-after")
    seconds = milliseconds / 1000 if milliseconds is not None else _number(asked)
    if seconds is None:
        until = _date(asked)
        now = _date(headers.get("date")) or datetime.now(UTC)
        seconds = (until - now).total_seconds() if until else None
    return seconds if seconds is not None and seconds > 0 else None


def _asked_s(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
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
