"""Counts what models consume, by what it is for."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.core import ChatModel, Completion, Message, ModelError, Purpose, Sampling, Usage


@dataclass(frozen=True, slots=True)
class _Tally:
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    def __add__(self, other: "_Tally") -> "_Tally":
        return _Tally(self.usage + other.usage, self.seconds + other.seconds)

    def to_dict(self) -> dict[str, Any]:
        return {**self.usage.to_dict(), "seconds": round(self.seconds, 3)}


class Meter:
    """Sums usage and seconds per purpose. Safe to share between tasks and threads."""

    def __init__(self) -> None:
        self._tallies: dict[Purpose, _Tally] = {}
        self._lock = threading.Lock()

    def add(self, purpose: Purpose, usage: Usage, seconds: float = 0.0) -> None:
        """Count one call.

        Args:
            purpose: What it was for.
            usage: What it consumed; failed attempts are part of it.
            seconds: From asking to the answer, waiting for a slot included.
        """
        with self._lock:
            before = self._tallies.get(purpose, _Tally())
            self._tallies[purpose] = before + _Tally(usage, seconds)

    def usage(self, purpose: Purpose | None = None) -> Usage:
        """Return what one purpose consumed, or all of them together."""
        with self._lock:
            if purpose is not None:
                return self._tallies.get(purpose, _Tally()).usage
            return sum((tally.usage for tally in self._tallies.values()), start=Usage())

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return usage and seconds as JSON: one entry per purpose seen, and ``total``.

        A cost is ``None`` where any of its calls has an unknown price.
        """
        with self._lock:
            tallies = {purpose: self._tallies[purpose] for purpose in sorted(self._tallies)}
        total = sum(tallies.values(), start=_Tally())
        return {
            **{purpose.value: tally.to_dict() for purpose, tally in tallies.items()},
            "total": total.to_dict(),
        }


class _Metered:
    def __init__(self, model: ChatModel, meter: Meter, clock: Callable[[], float]) -> None:
        self._model = model
        self._meter = meter
        self._clock = clock

    @property
    def identity(self) -> str:
        return self._model.identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        started = self._clock()
        try:
            completion = await self._model.complete(
                messages, tools=tools, sampling=sampling, purpose=purpose
            )
        except ModelError as error:
            spent = Usage(failed_calls=error.failed_calls)
            self._meter.add(purpose, spent, self._clock() - started)
            raise
        self._meter.add(purpose, completion.usage, self._clock() - started)
        return completion


def metered(
    model: ChatModel, meter: Meter, *, clock: Callable[[], float] = time.monotonic
) -> ChatModel:
    """Return a model that answers as ``model`` does and counts every call on ``meter``."""
    return _Metered(model, meter, clock)
