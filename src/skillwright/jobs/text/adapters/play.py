"""One batch of an adapter: built, rolled out, read, and stored, once.

    environment manager -> rollout -> rows -> a score or a Failure each -> store

Where `rollout` raises, it is tried again in a fresh environment; after that its episodes are
Failures. A batch that is in the store is never rolled out again.
"""

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

from skillwright.core import (
    Act,
    ContractError,
    EpisodeResult,
    ModelRefused,
    RequestRefused,
    Trajectory,
    Turn,
    UsageError,
    skill_hash,
)
from skillwright.core.jsonio import canonical, digest, text_digest
from skillwright.datasets import own_copies
from skillwright.jobs.run import BudgetSpent, Callback, EpisodeFinished
from skillwright.rollout import EngineDown
from skillwright.rollout.compat import ModelSession
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.rollout.foreign_rows import (
    Item,
    ReadBatch,
    Row,
    RowsAbout,
    all_failed,
    items_by_id,
    read_batch,
)
from skillwright.runs import RunStore
from skillwright.textopt import Transcript, read_rows

# Convert a conversation that an adapter saved into a trajectory.


_ACTS = frozenset({"action", "assistant", "agent"})


def trajectory_of(transcript: Transcript) -> Trajectory:
    """Return one turn per agent message, unanswered ones included.

    Messages before the first action are the opening; adapters record neither prompts nor tokens.
    """
    opening: list[str] = []
    acts: list[tuple[str, list[str]]] = []  # what was done, and what was seen then
    thoughts: list[str] = []
    for line in transcript.lines:
        if line.kind == "reasoning":
            thoughts.append(line.text)
        elif line.kind in _ACTS:
            thought = _joined(thoughts)
            text = f"<think>{thought}</think><action>{line.text}</action>" if thought else line.text
            acts.append((text, []))
            thoughts = []
        else:
            (acts[-1][1] if acts else opening).append(line.text)
    # The task is stated first; adapters often repeat it as the first message.
    first = [transcript.opening] if transcript.opening not in opening else []
    return Trajectory(
        opening=_joined([*first, *opening]),
        turns=tuple(
            Turn(index, prompt=(), act=Act(text), observation=_joined(seen), reward=0.0)
            for index, (text, seen) in enumerate(acts)
        ),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


# What a run stores of an adapter: finished batches, its own patches, and its loader's state.
#
# Nothing that is in the store is rolled out again.


BATCH, PATCHES, STATE = "adapter_batch", "adapter_patches", "adapter_state"


class Proposed(NamedTuple):
    """Raw patches of an adapter's own analysts, as JSON, and a note on their defects, or ``""``."""

    patches: list[Any]
    note: str


@dataclass(slots=True)
class AdapterMemory:
    """The adapter's part of a run's store.

    With ``forgets_failures``, failures of an earlier process are rolled out again: in an
    evaluation, as a training would decide differently after a resume.
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
        """Store all episodes of a batch; a resume rolls out again a batch without scores."""
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
        """Store what an adapter's own analysts proposed, and return the stored form."""
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
        played = zip(payload["ids"], payload["keys"], payload["episodes"], strict=True)
        self._episodes |= {key: number for one, key, number in played if one not in lost}
        if payload["whole"]:
            self._orders.setdefault(payload["whole"], tuple(payload["ids"]))


BatchPermit = Callable[[int], AbstractAsyncContextManager[object]]
"""Waits until a batch of the given number of rollouts may begin."""

PREDICTIONS = "predictions"
MOST_LOST_BATCHES = 3
"""Consecutive batches without a score that stop the run."""
WINDOW = 6
"""Number of latest batches over which the share of failures is averaged, so that one skill text
that breaks the adapter does not stop the run."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """A batch to be rolled out: ``size`` episodes (0 is the whole split), or those of ``ids``."""

    build: Callable[[], Awaitable[Any]]  # makes a fresh environment manager
    skill: str
    split: str
    phase: str
    seed: int
    size: int
    folder: str  # below the adapter's folder of the run
    ids: tuple[str, ...] | None = None
    items: Mapping[str, Item] | None = None
    draw: int = 0
    step: int | None = None
    block: str = ""  # which part of a draw it is, such as "2 of 8"; "" for all of it
    is_whole: bool = False
    is_once: bool = False  # never reused at another place in the run, even by an equal batch
    trains_on: bool = False  # analysts will read it, so the adapter may show feedback


@dataclass(frozen=True, slots=True)
class Played:
    """A batch that was rolled out, now or earlier, in its stored form."""

    ask: Ask
    results: tuple[EpisodeResult, ...]
    rows: Mapping[str, Row]  # scored ones by id: as the adapter returned them, or as stored
    items: Mapping[str, Item] | None  # ``None`` where only the adapter knows them
    folder: Path
    key: str

    @property
    def stored(self) -> dict[str, Row]:
        """The scored rows by id, as JSON, which are equal after a resume."""
        return _stored(self.results)


@dataclass(slots=True)
class Player:
    """Rolls out batches of one adapter."""

    foreign: ForeignAdapter
    name: str
    identity: str  # a digest of what results depend on besides the batch and the skill
    memory: AdapterMemory
    root: Path
    retries: int
    callback: Callback
    task_types: frozenset[str] = frozenset()  # none where the adapter does not say
    permit: BatchPermit = nullcontext
    max_failure_share: float | None = None
    session: ModelSession | None = None  # ``None`` where the adapter asks models of its own
    lost_reflections: int = field(default=0, init=False)
    _locks: dict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock), init=False
    )
    _turn: AbstractAsyncContextManager[Any] = field(init=False)
    _lost: set[str] = field(default_factory=set, init=False)
    _failed: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # A blocking adapter plays one batch after the other anyway; with one slot, each batch is
        # stored before the next one begins.
        self._turn = nullcontext() if self.overlaps else asyncio.Lock()

    @property
    def overlaps(self) -> bool:
        """Whether rollouts may overlap, because the adapter's are asynchronous."""
        return inspect.iscoroutinefunction(self.foreign.adapter.rollout)

    async def play(self, ask: Ask) -> Played:
        """Roll out a batch, unless it is in the store."""
        key = self._batch_key(ask)
        async with self._locks[key]:  # asked for twice at once, it is rolled out once
            known = self.memory.batch(key)
            if known is None:
                async with self._turn, self.permit(ask.size or len(ask.ids or ()) or 1):
                    return await self._roll_out(ask, key)
        for result in known:
            self.callback.on_event(EpisodeFinished(result, reused=True))
        items = ask.items
        if items is None and ask.is_once:  # the optimizer may be shown what is in them
            items = items_by_id(await ask.build())
        return Played(ask, tuple(known), _stored(known), items, self.root / ask.folder, key)

    def recall(self, ask: Ask, row_id: str) -> EpisodeResult | None:
        """Return a stored held-out episode, or ``None``."""
        known = self.memory.episode(self.episode_key(ask, row_id))
        if known is not None:
            self.callback.on_event(EpisodeFinished(known, reused=True))
        return known

    def turn(self, split: str, skill: str, draw: int) -> asyncio.Lock:
        """Return the lock on a skill's draw of a split, held while it is looked up or played."""
        return self._locks[digest([split, text_digest(skill), draw])]

    def order_of(self, split: str) -> asyncio.Lock:
        """Return the lock that is held while a first rollout determines the order of a split."""
        return self._locks[digest(["order", split])]

    def episode_key(self, ask: Ask, row_id: str) -> str:
        """Return the content address of an episode; equal requests have equal ones."""
        # Train episodes are never requested twice; held-out ones may be, whole or in parts.
        return digest([*self._question(ask), self._batch_key(ask) if ask.is_once else "", row_id])

    def _batch_key(self, ask: Ask) -> str:
        ids = "whole" if ask.is_whole else list(ask.ids or ())
        return digest([*self._question(ask), ask.size, ids, ask.folder if ask.is_once else ""])

    def _question(self, ask: Ask) -> list[Any]:
        return [self.identity, ask.split, ask.seed, ask.draw, text_digest(ask.skill)]

    async def _roll_out(self, ask: Ask, key: str) -> Played:
        folder, began, attempts, reported = self.root / ask.folder, monotonic(), 0, 0
        about, read = self._about(ask, ask.items), None
        while read is None:
            attempts += 1
            try:
                folder.mkdir(parents=True, exist_ok=True)
                env = await ask.build()
                known = items_by_id(env) or {}
                items = dict(zip(known, own_copies(known.values()), strict=True))
                about = self._about(ask, items or ask.items)
                read = await self._read_rollout(env, ask, folder, about)
            except Exception as error:  # noqa: BLE001 - foreign code; logged, and stored as Failures
                raise_if_hopeless(error)
                said = f"{self.name}: attempt {attempts} at {ask.folder} failed"
                self.foreign.faults.warn(said, error)
                # A broken contract would be broken again.
                if attempts > self.retries or isinstance(error, ContractError):
                    read, reported = all_failed(about, error), 1
        read = replace(read, notes=(*read.notes, *self._doubts(ask, about, read)))
        for note in read.notes[reported:]:
            _log.warning("%s, %s: %s", self.name, ask.folder, note)
        results = await self._with_trajectories(read, folder / PREDICTIONS)
        wall_s = monotonic() - began
        read = replace(
            read, results=tuple(replace(r, attempts=attempts, wall_s=wall_s) for r in results)
        )
        facts = {"split": ask.split, "draw": ask.draw, "seed": ask.seed, "folder": ask.folder}
        facts |= {"block": ask.block} if ask.block else {}
        whole = ask.split if ask.is_whole else ""
        self.memory.keep_batch(key, read, skill=ask.skill, whole=whole, about=facts)
        # All draws of one text count as one case: it is the text that breaks the adapter.
        self._refuse_dead_adapter(key if ask.is_once else text_digest(ask.skill), read)
        # The stored form is returned, so a resumed run shows exactly the same.
        kept = tuple(self.memory.batch(key) or read.results)
        for result in kept:
            self.callback.on_event(EpisodeFinished(result))
        return Played(ask, kept, read.rows, about.items, folder, key)

    def _doubts(self, ask: Ask, about: RowsAbout, read: ReadBatch) -> list[str]:
        """Return the defects of a batch as a whole."""
        doubts = []
        if about.ids is None and len(read.results) < ask.size:
            doubts.append(f"{ask.size} episodes were asked for, and {len(read.results)} came back")
        strange = {r.task_type for r in read.results if r.task_type} - self.task_types
        if self.task_types and strange:
            names = ", ".join(sorted(strange))
            doubts.append(f"task types that get_task_types() does not name: {names}")
        return doubts

    async def _read_rollout(self, env: Any, ask: Ask, folder: Path, about: RowsAbout) -> ReadBatch:
        """Roll out, and read the rows; a row that a model's fault scored has no score."""
        if self.session is None:
            return read_batch(await self._call_rollout(env, ask, folder), about)
        self.session.forget_unanswered(folder)
        with self.session.hear(folder) as hearing:
            try:
                returned = await self._call_rollout(env, ask, folder)
            except Exception as error:
                hearing.refuse_missing()
                if hearing.is_reported(error):
                    hearing.trust()
                raise
            rows = hearing.sift(returned)
        read = read_batch(rows, about)
        return replace(read, results=tuple(map(hearing.charge, read.results)))

    async def _call_rollout(self, env: Any, ask: Ask, folder: Path) -> Any:
        named = {"use_eval_feedback": True} if ask.trains_on else {}
        return await self.foreign.listed(
            self.foreign.adapter.rollout, env, ask.skill, str(folder), **named
        )

    def _about(self, ask: Ask, items: Mapping[str, Item] | None) -> RowsAbout:
        return RowsAbout(
            env=self.name,
            split=ask.split,
            phase=ask.phase,
            seed=ask.seed,
            skill_version=skill_hash(ask.skill),
            key=partial(self.episode_key, ask),
            ids=ask.ids or (tuple(items) if items else None),
            items=items,
            draw=ask.draw,
            step=ask.step,
        )

    async def _with_trajectories(self, read: ReadBatch, predictions: Path) -> list[EpisodeResult]:
        """Read the conversations that the adapter wrote, so that the store has them too."""
        rows = _stored(read.results)
        # Not in the adapter's thread, so the rows are stored before the next rollout ends.
        found = await asyncio.to_thread(read_rows, list(rows.values()), predictions)
        shown = dict(zip(rows, map(trajectory_of, found.rows), strict=True))
        return [replace(r, trajectory=shown.get(r.task_id, r.trajectory)) for r in read.results]

    def _refuse_dead_adapter(self, case: str, read: ReadBatch) -> None:
        """Stop if several batches in a row have no score; batches of one case count as one."""
        self._lost = set() if read.has_score else {*self._lost, case}
        if len(self._lost) >= MOST_LOST_BATCHES:
            raise EngineDown(
                f"{len(self._lost)} batches of adapter {self.name!r} in a row gave no score; the "
                f"latest: {(read.notes or ('no rows came back',))[0]}"
            )
        failures = [result.failure for result in read.results if result.failure is not None]
        # All batches of a case count together: a gate that draws a text again may ask for a few
        # tasks only, and one of them may fail every time.
        before, of = self._failed.get(case, (0, 0))
        new = (len(failures), len(read.results)) if read.results else (1, 1)
        others = [(one, known) for one, known in self._failed.items() if one != case]
        self._failed = dict([*others, (case, (before + new[0], of + new[1]))][-WINDOW:])
        share = fmean(lost / episodes for lost, episodes in self._failed.values())
        most = self.max_failure_share
        if failures and most is not None and len(self._failed) == WINDOW and share > most:
            raise EngineDown(
                f"{share:.0%} of the episodes in the last {WINDOW} batches of adapter "
                f"{self.name!r} failed, and at most {most:.0%} may (rollout.max_failure_share); "
                f"the latest: {failures[-1].message}"
            )


def _stored(results: Iterable[EpisodeResult]) -> dict[str, Row]:
    """Return the scored rows by id; ids and numbers that JSON cannot hold become strings."""
    found: dict[str, Row] = {}
    for result in results:
        if result.reward is None or result.row is None:
            continue
        turns = int(result.metrics.get("n_turns", 0))
        known = {"hard": result.hard, "soft": result.reward, "n_turns": turns}
        row = dict(result.row)
        row |= {name: value for name, value in known.items() if isinstance(row.get(name), str)}
        if str(row.get("id")) != result.task_id:
            row["id"] = result.task_id
        found[result.task_id] = row
    return found


def raise_if_hopeless(error: Exception) -> None:
    """Raise errors that a retry cannot fix; any other error is a fault of the adapter."""
    refused = isinstance(error, ModelRefused) and not isinstance(error, RequestRefused)
    if refused or isinstance(error, UsageError | EngineDown | BudgetSpent):
        raise error
