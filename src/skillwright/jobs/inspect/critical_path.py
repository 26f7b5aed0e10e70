"""How fast a training run could have been: its longest chain of waits, read off its store.

    rollouts -> analysts -> merges, level by level -> budget, ranking, repair, rewrite -> gate
    epoch update: rollouts -> the slower of slow update and meta skill -> gate
    at the end: the sealed test

Each link of the chain is the slowest of what may run at once: no machine and no number of slots
could have been done earlier, unless the answers themselves had come faster. Waiting at an endpoint
counts as its latency. The baseline runs beside the first step's learning, so the longer one counts;
of what was played ahead only the time after the decision before counts.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from skillwright.core import Purpose
from skillwright.core.fence import attribute
from skillwright.jobs.run.resuming import sessions_of, worked
from skillwright.jobs.text.adapters.play import BATCH
from skillwright.jobs.text.state import Kind
from skillwright.runs import CallSummary, EpisodeSummary, Event, PatchRecord, RunStore

Item = TypeVar("Item")
Key = TypeVar("Key")

_ONE_BY_ONE = {
    Purpose.BUDGET: "budget",
    Purpose.RANK: "ranking",
    Purpose.REPAIR: "repair",
    Purpose.REWRITE: "rewrite",
    Purpose.APPENDIX: "reminders",
}
_MICRO_BATCH = re.compile(r"\.(b\d+\.)")
"""In an analyst's name, what the names of its trajectories begin with: s3.b1.f0 read b1.T0."""
_ATTEMPT = re.compile(r"#\d+$")
_GUIDANCE = {Purpose.SLOW_UPDATE: "slow update", Purpose.META_SKILL: "meta skill"}
_AT_THE_END = ("test", "confirm")


class Link(NamedTuple):
    """One wait of the chain: what was waited for, how long, and the requests in a row in it."""

    stage: str
    seconds: float
    requests: int


Chain = tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The chain of waits that a run cannot be faster than, and what it took.

    Attributes:
        links: The waits, in order.
        took_s: Seconds in which processes worked on the run; pauses between them do not count.
        busy_s: Seconds that all episodes took together.
        slots: Episodes that may be in flight at once; ``None`` where an adapter plays a whole batch
            as it likes.
        failed_calls: Attempts that failed; the pauses after them are in the waits above.
    """

    links: Chain
    took_s: float
    busy_s: float
    slots: int | None
    failed_calls: int = 0

    @property
    def seconds(self) -> float:
        """The length of the chain."""
        return sum(link.seconds for link in self.links)

    @property
    def requests(self) -> int:
        """Requests in a row."""
        return sum(link.requests for link in self.links)

    @property
    def bound_s(self) -> float:
        """What the run cannot be faster than: its chain, or all episodes over all slots."""
        return max(self.seconds, self.busy_s / self.slots if self.slots else 0.0)

    @property
    def share(self) -> float | None:
        """``bound_s`` by ``took_s``: 1 is as fast as can be; ``None`` before any work."""
        return self.bound_s / self.took_s if self.took_s > 0 else None

    def by_stage(self) -> list[Link]:
        """Return the waits summed by stage, in order of their first one."""
        found: dict[str, Link] = {}
        for link in self.links:
            old = found.get(link.stage, Link(link.stage, 0.0, 0))
            found[link.stage] = Link(
                link.stage, old.seconds + link.seconds, old.requests + link.requests
            )
        return list(found.values())

    def line(self) -> str:
        """Say it in a line, or ``""`` where nothing was done yet."""
        if self.share is None or not self.links:
            return ""
        crowded = self.bound_s > self.seconds
        slots = f"{self.slots} slots need {brief(self.bound_s)} s; " if crowded else ""
        return (
            f"critical path {brief(self.seconds)} s over {self.requests} requests; {slots}"
            f"the run took {brief(self.took_s)} s ({self.share:.0%})"
            f"{self._pauses()}"
        )

    def _pauses(self) -> str:
        if not self.failed_calls:
            return ""
        return f"; this includes the pauses after {self.failed_calls:,} failed calls"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a JSON object."""
        return {
            "seconds": self.seconds,
            "requests": self.requests,
            "took_s": self.took_s,
            "busy_s": self.busy_s,
            "slots": self.slots,
            "failed_calls": self.failed_calls,
            "share": self.share,
            "stages": [link._asdict() for link in self.by_stage()],
        }


def brief(seconds: float) -> str:
    """Write seconds as long as they need."""
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def critical_path(store: RunStore, slots: int) -> CriticalPath:
    """Find the chain of a training run, as far as it has come.

    Args:
        store: The run's store.
        slots: Episodes that may be in flight at once, at least 1.
    """
    episodes, calls, events = store.episodes(), store.calls(), store.events()
    batches = [event.payload["episodes"] for event in events if event.kind == BATCH]
    free = None if batches else slots
    past = _Past.of(episodes, calls, store.patches(), events, free)
    return CriticalPath(
        links=past.chain(),
        took_s=worked(events, episodes, calls),
        busy_s=_busy(episodes, batches),
        slots=free,
        failed_calls=sum(used.failed_calls for used in store.usage_by_purpose().values()),
    )


@dataclass(frozen=True, slots=True)
class _Decision:
    """A step or an epoch update, and the time in which it was worked on."""

    kind: Kind
    step: int
    since: float
    until: float

    def holds(self, time: float) -> bool:
        return self.since <= time < self.until

    def waited_for(self, episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """Return episodes with the time for which they were waited for here.

        What was played ahead began in an earlier decision: that time cost nothing.
        """
        left = [(one, one.ended_at - self.since) for one in episodes]
        return [
            replace(one, wall_s=min(one.wall_s, left_s))
            for one, left_s in left
            if left_s > 0 and one.started_at < self.until
        ]


@dataclass(frozen=True, slots=True)
class _Past:
    """What happened, sorted by what it was for."""

    slots: int | None
    decisions: Sequence[_Decision]
    sessions: Sequence[float]
    played: Mapping[str, Sequence[EpisodeSummary]]
    baseline: Sequence[EpisodeSummary]
    calls: Mapping[int, Sequence[CallSummary]]
    patches: Mapping[int, Sequence[PatchRecord]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        episodes: Iterable[EpisodeSummary],
        calls: Iterable[CallSummary],
        patches: Iterable[PatchRecord],
        events: Sequence[Event],
        slots: int | None,
    ) -> "_Past":
        every = _grouped(episodes, lambda one: "" if _is_baseline(one) else one.phase)
        return cls(
            slots,
            _decisions(events),
            sessions_of(events),
            every,
            every.get("", ()),
            _grouped(calls, lambda one: one.step or 0),
            _grouped(patches, lambda one: one.step),
        )

    def chain(self) -> Chain:
        links: list[Link] = []
        for decision in self.decisions:
            if decision.kind is Kind.STEP:
                links += self._step(decision)
            else:
                links += self._epoch_update(decision)
            judged = [e for e in self._phase("gate") if decision.holds(e.started_at)]
            links += self._waves("gate", judged)
        over = self.decisions[-1].until if self.decisions else 0.0
        last = [e for e in self._phase("gate") if e.started_at >= over and self.decisions]
        links += self._waves("gate", last)
        links += self._waves("release test", self._phase("release"))
        tested = [episode for phase in _AT_THE_END for episode in self._phase(phase)]
        return (*links, *self._waves("test", tested))

    def _phase(self, name: str) -> Sequence[EpisodeSummary]:
        return self.played.get(name, ())

    def _step(self, decision: _Decision) -> Chain:
        rollouts = decision.waited_for(e for e in self._phase("train") if e.step == decision.step)
        calls = self.calls.get(decision.step, ())
        threads = _threads(calls)
        learned = _learning(rollouts, threads, self.patches.get(decision.step, ()))
        alone = [
            Link(stage, *_total(threads, purpose))
            for purpose, stage in _ONE_BY_ONE.items()
            if any(call.purpose is purpose for call in calls)
        ]
        chain = (*learned, *alone)
        if decision is self.decisions[0]:
            return _longest([chain, _slowest("baseline", self.baseline)])
        return chain

    def _epoch_update(self, decision: _Decision) -> Chain:
        compared = decision.waited_for(self._phase("slow_update"))
        threads = _threads(self.calls.get(decision.step, ()))
        written = [
            (Link(_GUIDANCE[thread.purpose], thread.seconds, thread.requests),)
            for thread in threads.values()
            if thread.purpose in _GUIDANCE
        ]
        return (*self._waves("epoch update", compared), *_longest(written))

    def _waves(self, stage: str, episodes: Iterable[EpisodeSummary]) -> Chain:
        """Split episodes where a new one began only after all before it: it waited for them.

        A pause between two sessions is no wait, and neither is one for a free slot.
        """
        waves: list[list[EpisodeSummary]] = []
        over = 0.0
        for episode in sorted(episodes, key=lambda one: one.started_at):
            paused = any(over < began <= episode.started_at for began in self.sessions)
            crowded = bool(waves and self.slots) and len(waves[-1]) >= (self.slots or 0)
            if not waves or (episode.started_at >= over and not paused and not crowded):
                waves.append([])
            waves[-1].append(episode)
            over = max(over, episode.ended_at)
        return tuple(link for wave in waves for link in _slowest(stage, wave))


def _is_baseline(episode: EpisodeSummary) -> bool:
    """The initial skill is measured outside the steps, on the tasks that gates draw."""
    return episode.phase == "gate" and episode.step is None


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    found = defaultdict[Key, list[Item]](list)
    for item in items:
        found[key(item)].append(item)
    return dict(found)


def _decisions(events: Iterable[Event]) -> list[_Decision]:
    """List the steps and the epoch updates, each with the time since the one before."""
    found: list[_Decision] = []
    step, since = 0, 0.0
    for event in events:
        if event.kind in (Kind.STEP, Kind.EPOCH):
            step = event.payload.get("step", step)
            found.append(_Decision(Kind(event.kind), step, since, event.time))
            since = event.time
    return found


class _Thread(NamedTuple):
    """A question and what was asked again because its answer was of no use."""

    purpose: Purpose
    seconds: float
    requests: int


def _threads(calls: Iterable[CallSummary]) -> dict[str, _Thread]:
    found: dict[str, _Thread] = {}
    for call in calls:
        old = found.get(call.asked_first, _Thread(call.purpose, 0.0, 0))
        seconds, requests = old.seconds + call.wall_s, old.requests + 1
        found[call.asked_first] = _Thread(old.purpose, seconds, requests)
    return found


def _learning(
    rollouts: Sequence[EpisodeSummary],
    threads: Mapping[str, _Thread],
    patches: Sequence[PatchRecord],
) -> Chain:
    """Return the longest chain from a step's rollouts to its last merge.

    An analyst waits for its micro-batch, a merge for the edits that go into it.
    """
    start = _slowest("rollout", rollouts)
    asked = [(patch, threads[p]) for patch in patches if (p := patch.prompt_digest) in threads]
    read: dict[str, set[str]] = defaultdict(set)
    for patch, thread in asked:
        if thread.purpose is Purpose.REFLECT:
            read[_micro_batch(patch)] |= set(patch.inputs)
    done: dict[str, Chain] = {}
    ends = [start]
    for patch, thread in sorted(asked, key=lambda one: one[0].level):
        before = start
        if thread.purpose is Purpose.MERGE:
            before = _longest(done[edit] for edit in patch.inputs if edit in done)
        elif thread.purpose is not Purpose.REFLECT:
            continue
        elif batch := _micro_batch(patch):
            before = _slowest("rollout", _read_in(batch, read[batch], rollouts))
        stage = "merge" if thread.purpose is Purpose.MERGE else "analyst"
        chain = (*before, Link(stage, thread.seconds, thread.requests))
        done |= dict.fromkeys(patch.edits, chain)
        ends.append(chain)
    return _longest(ends)


def _micro_batch(patch: PatchRecord) -> str:
    """Return what the names of an analyst's trajectories begin with; ``""`` with one batch."""
    found = _MICRO_BATCH.search(patch.id)
    return found[1] if found else ""


def _read_in(
    batch: str, names: Iterable[str], rollouts: Sequence[EpisodeSummary]
) -> list[EpisodeSummary]:
    """Return the rollouts of a micro-batch that its analysts read.

    Which of a step's rollouts of one task was in which of its micro-batches, the store does not
    say: the quickest is taken, and the chain is never too long.
    """
    plain = {name.removeprefix(batch) for name in names}
    plain |= {_ATTEMPT.sub("", name) for name in plain}
    quickest: dict[str, EpisodeSummary] = {}
    for episode in sorted(rollouts, key=lambda one: (one.wall_s, one.turns)):
        if (name := attribute(episode.task_id)) in plain:
            quickest.setdefault(name, episode)
    return list(quickest.values())


def _busy(episodes: Sequence[EpisodeSummary], batches: Sequence[Sequence[int]]) -> float:
    """Sum what episodes took; those of an adapter's batch have its time in common."""
    together = {number: len(batch) for batch in batches for number in batch}
    return sum(episode.wall_s / together.get(episode.id, 1) for episode in episodes)


def _slowest(stage: str, episodes: Sequence[EpisodeSummary]) -> Chain:
    if not episodes:
        return ()
    slowest = max(episodes, key=lambda one: (one.wall_s, one.turns))
    return (Link(stage, slowest.wall_s, slowest.turns),)


def _longest(chains: Iterable[Chain]) -> Chain:
    def length(chain: Chain) -> tuple[float, int]:
        return sum(link.seconds for link in chain), sum(link.requests for link in chain)

    return max(chains, key=length, default=())


def _total(threads: Mapping[str, _Thread], purpose: Purpose) -> tuple[float, int]:
    mine = [thread for thread in threads.values() if thread.purpose is purpose]
    return sum(one.seconds for one in mine), sum(one.requests for one in mine)
