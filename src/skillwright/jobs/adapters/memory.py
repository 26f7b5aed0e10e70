"""What a run remembers of an adapter: finished batches, its own patches, the state of its loader.

All of it stands in the run's store, so that what was rolled out is never rolled out again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skillwright.core import ContractError, EpisodeResult
from skillwright.core.jsonio import canonical
from skillwright.rollout.foreign_rows import ReadBatch
from skillwright.runs import RunStore

BATCH, PATCHES, STATE = "adapter_batch", "adapter_patches", "adapter_state"


class Proposed(NamedTuple):
    """Raw patches of an adapter's own analysts, as JSON, and what is odd about them, or ``""``."""

    patches: list[Any]
    note: str


@dataclass(slots=True)
class AdapterMemory:
    """The adapter's part of a run's store.

    With ``forgets_failures``, what failed in an earlier process is rolled out again: an evaluation
    may, a training may not, because it would decide otherwise than the run that was not stopped.
    """

    store: RunStore
    agent: str
    forgets_failures: bool = False
    _batches: dict[str, list[int]] = field(default_factory=dict, init=False)
    _episodes: dict[str, int] = field(default_factory=dict, init=False)
    _orders: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    _patches: dict[str, Proposed] = field(default_factory=dict, init=False)
    _states: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _latest: dict[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for event in self.store.events():
            if event.kind == BATCH:
                self._learn_batch(event.payload, only_scored=self.forgets_failures)
            elif event.kind == PATCHES:
                self._learn_patches(event.payload)
            elif event.kind == STATE:
                self._latest = event.payload["state"]
                self._states[event.payload["at"]] = event.payload["state"]

    def batch(self, key: str) -> list[EpisodeResult] | None:
        """Return the results of a finished batch, failures included, or ``None``."""
        known = self._batches.get(key)
        return None if known is None else [self.store.load_episode(number) for number in known]

    def episode(self, key: str) -> EpisodeResult | None:
        """Return an episode of a finished batch, or ``None``."""
        number = self._episodes.get(key)
        return None if number is None else self.store.load_episode(number)

    def order(self, split: str) -> tuple[str, ...] | None:
        """Return the ids of a split, as its first whole batch had them, or ``None`` before it."""
        return self._orders.get(split)

    def keep_batch(
        self, key: str, read: ReadBatch, *, skill: str, whole: str = "", about: Mapping[str, Any]
    ) -> None:
        """Store a batch: all of its episodes at once, with what was noted.

        A batch without one score is not finished: after a resume it is rolled out again.
        """
        with self.store.transaction(durable=True):
            numbers = [
                self.store.record_episode(result, agent=self.agent, skill=skill)
                for result in read.results
            ]
            payload = {
                **about,
                "batch": key,
                "finished": read.has_score,
                "whole": whole,
                "ids": [result.task_id for result in read.results],
                "keys": [result.key for result in read.results],
                "failed": [result.task_id for result in read.results if result.failure],
                "episodes": numbers,
                "notes": list(read.notes),
            }
            self.store.append_event(BATCH, payload)
        self._learn_batch(payload)

    def patches(self, key: str) -> Proposed | None:
        """Return what an adapter's own analysts proposed under a key, or ``None``."""
        return self._patches.get(key)

    def keep_patches(self, key: str, patches: Sequence[Any], note: str = "") -> Proposed:
        """Store what an adapter's own analysts proposed, and return it as it was stored."""
        noted = {"note": note} if note else {}
        with self.store.transaction(durable=True):
            self.store.append_event(PATCHES, {"key": key, "patches": list(patches), **noted})
        return self._learn_patches(self.store.events(PATCHES)[-1].payload)

    def state(self, at: str = "") -> dict[str, Any] | None:
        """Return the loader's state at a checkpoint, or the latest one; ``None`` before it."""
        return self._states.get(at) if at else self._latest

    def keep_state(self, at: str, state: Any) -> None:
        """Store the loader's state at a checkpoint; one that did not change is not repeated."""
        try:
            same = isinstance(state, Mapping) and canonical(state) == canonical(self._latest)
        except (TypeError, ValueError) as error:
            raise ContractError(
                f"state_dict() of the loader must hold JSON values: {error}"
            ) from error
        if not isinstance(state, Mapping):
            raise ContractError(f"state_dict() of the loader returned {type(state).__name__}")
        if same and at in self._states:
            return
        self.store.append_event(STATE, {"at": at, "state": dict(state)})
        self._states[at] = self._latest = dict(state)

    def _learn_patches(self, payload: Mapping[str, Any]) -> Proposed:
        found = Proposed(payload["patches"], payload.get("note", ""))
        self._patches[payload["key"]] = found
        return found

    def _learn_batch(self, payload: Mapping[str, Any], *, only_scored: bool = False) -> None:
        if not payload["finished"]:
            return
        lost = set(payload["failed"]) if only_scored else set()
        if not lost:
            self._batches[payload["batch"]] = payload["episodes"]
        told = zip(payload["ids"], payload["keys"], payload["episodes"], strict=True)
        self._episodes |= {key: number for one, key, number in told if one not in lost}
        if payload["whole"]:
            self._orders.setdefault(payload["whole"], tuple(payload["ids"]))
