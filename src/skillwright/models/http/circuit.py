"""Notices that an endpoint is dead, and lets nobody burn attempts on it.

It opens where a call used up its attempts while nobody else was answered, or where nobody was
answered for as long as a call may take. From then on calls wait; one probe at a time is let
through, and an answer closes it.
"""

import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from skillwright.core import ModelError

LEAST_FAILURES = 6
"""Failed attempts in a row, whosever they are, before an endpoint can be taken for dead."""
FIRST_PROBE_S = 5.0
LONGEST_PROBE_S = 60.0
LOOKS_AGAIN_S = 1.0
"""While somebody else's probe is on its way, one looks again after so long."""

logger = logging.getLogger(__name__)


class EndpointDown(ModelError):
    """An endpoint is taken to be dead; nothing was sent.

    Args:
        message: Where, since when, why, and when it is tried again.
        retry_after_s: Seconds until that.
        for_good: It has been down for as long as anybody waits for it.
    """

    failed_calls = 0

    def __init__(self, message: str, retry_after_s: float = 0.0, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.for_good = for_good


class Circuit:
    """Whether one endpoint is worth asking."""

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
        """Whether the endpoint is taken to be dead."""
        return self._opened_at is not None

    @property
    def open_s(self) -> float:
        """Seconds for which it has been taken to be dead; 0 while it is not."""
        return 0.0 if self._opened_at is None else self._clock() - self._opened_at

    def enter(self) -> bool:
        """Ask before an attempt; afterwards tell `answered`, `failed` or `abandoned`.

        Returns:
            Whether the attempt is the probe.
        """
        self.check()
        self._is_probing = self.is_open
        return self._is_probing

    def check(self) -> None:
        """Refuse whoever `enter` would refuse."""
        if self.is_open and (self._is_probing or self._next_probe > self._clock()):
            raise self.down()

    def answered(self) -> None:
        """The endpoint said something; a refusal is an answer too."""
        self._close()
        self._failing_since = None
        self._unanswered = 0

    def busy(self, fault: ModelError, *, is_probe: bool = False) -> None:
        """Somebody is there, who sends the attempt away or answers with something that is none."""
        self._note(fault)
        if self._is_hopeless:
            self._stay_open(is_probe=is_probe)
        else:
            self._close()

    def failed(self, fault: ModelError, *, is_probe: bool = False) -> None:
        """An attempt met no answer, or the server's own failure."""
        self._note(fault)
        self._failures += 1
        self._stay_open(is_probe=is_probe)

    def abandoned(self, *, is_probe: bool = False) -> None:
        """An attempt was cancelled, and says nothing; where it was the probe, another may be."""
        if is_probe:
            self._is_probing = False

    def gave_up(self, max_attempts: int) -> None:
        """A call used up its attempts; open, if nobody was answered for longer than it tried."""
        if self._opened_at is None and self._failures >= max(LEAST_FAILURES, max_attempts):
            self._open(self._clock())

    def down(self) -> EndpointDown:
        """Return the error of whoever would be let through later only."""
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
        # Where nobody asked for long, nobody was refused either.
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
