"""The time of records."""

import sys
import time


def _now() -> float:
    """Return seconds of a clock that cannot be set, and also runs while the machine sleeps."""
    if sys.platform == "linux":  # its time.monotonic() stops during sleep
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


_STARTED_AT = time.time() - _now()


def steady_time() -> float:
    """Return seconds since 1970 by the clock at the start of this process.

    A wall clock that is set meanwhile changes neither the order nor the distance of records.
    """
    return _STARTED_AT + _now()
