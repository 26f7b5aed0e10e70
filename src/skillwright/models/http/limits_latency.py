"""How long an endpoint takes to answer, kind of question by kind of question."""

from collections import deque
from statistics import median

WINDOW = 16
"""Answers of one purpose that are looked at together."""
COLLAPSE = 4.0
"""So many times its best latency, and an endpoint has more in hand than it can answer."""
QUICK_S = 1.0
"""A latency of up to this is as good as any: nobody slows down for it."""
KNOWN_FROM = 20
"""Answers before a quantile says anything."""

_REMEMBERED = 200
_FORGETS = 1.05


class Latencies:
    """The latencies of one purpose at one endpoint.

    Purposes are kept apart, because an analyst's answer takes ten times as long as an agent's and
    nothing is wrong with that.
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

    def quantile_s(self, share: float) -> float | None:
        """Return what a share of the latest answers took at most, in seconds.

        ``None`` while there are too few to say.
        """
        if len(self._recent) < KNOWN_FROM:
            return None
        return sorted(self._recent)[int(share * (len(self._recent) - 1))]
