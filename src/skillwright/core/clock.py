"""The time of records."""

import time

_STARTED_AT = time.time() - time.monotonic()


def steady_time() -> float:
    """Return seconds since 1970 by the clock at the start of this process.

    A wall clock that is set meanwhile changes neither the order nor the distance of records.
    """
    return _STARTED_AT + time.monotonic()
