"""An adapter's held-out splits, rolled out whole or in parts, and never twice."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from skillwright.core import (
    ConfigError,
    ContractError,
    EpisodeResult,
    Failure,
    FailureCause,
    Pair,
    skill_hash,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest, text_digest
from skillwright.datasets import BaseDataLoader, BatchSpec, own_copies
from skillwright.datasets.split import shuffled
from skillwright.evaluation import DrawCount, Draws, blocks
from skillwright.jobs.run.bench import SplitName
from skillwright.jobs.text.adapters.play import (
    PREDICTIONS,
    AdapterMemory,
    Ask,
    Played,
    Player,
    raise_if_hopeless,
)
from skillwright.rollout import EngineDown
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.rollout.foreign_rows import Item, Row, as_json, items_by_id
from skillwright.textopt import (
    AnalystFault,
    Reflection,
    Skipped,
    StepContext,
    StepSettings,
    TrainRollouts,
    Transcripts,
    read_raw_patches,
    read_rows,
)

# The batches of an adapter, planned by its loader, or by seeds if it has none.
#
# The loader's state depends on what was planned before, so it is stored before every epoch's plan:
# a resumed run plans the same epoch from the same state.
#
# Source: SkillOpt (microsoft/SkillOpt), the batches of its trainer, with the same seeds.


THEIR_NAMES: Mapping[SplitName, str] = {
    "train": "train",
    "val": "valid_seen",
    "test": "valid_unseen",
}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A split to roll out: all of it, or its first ``count`` episodes if that is not 0.

    Without a loader there is no batch; the items, by id, are known if the adapter accepts them.
    """

    batch: BatchSpec | None
    count: int
    items: Mapping[str, Item] | None

    @property
    def size(self) -> int | None:
        """Number of episodes, or ``None`` if it is unknown before a rollout."""
        if self.items is not None:
            return len(self.items)
        return (self.batch.batch_size if self.batch else self.count) or None


@dataclass(slots=True)
class AdapterPlanner:
    """Plans batches, with the loader or by seeds, and builds the environments for `rollout`."""

    foreign: ForeignAdapter
    loader: BaseDataLoader | None
    memory: AdapterMemory
    seed: int
    out_root: str
    accumulation: int
    _epochs: dict[int, list[BatchSpec]] = field(default_factory=dict, init=False)

    @property
    def can_choose(self) -> bool:
        """Whether the adapter rolls out the items of a batch, and not just as many of its own."""
        return self.loader is not None and self.foreign.overrides("build_env_from_batch")

    async def epoch(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch of ``count`` micro-batches of ``size``; equal calls return equal plans."""
        if epoch not in self._epochs:
            self._epochs[epoch] = await self._planned(epoch, count, size)
        return self._epochs[epoch]

    async def _planned(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        if self.loader is None:
            bases = BaseDataLoader.make_base_seeds(count, 1, self.seed)
            seeds = BaseDataLoader.shuffle_epoch_seeds(bases, epoch, self.seed)
            return [BatchSpec("train", "train", seed, size) for seed in seeds]
        at = f"epoch {epoch}"
        await self._start_from(at)
        planned = await self.foreign.call(
            self.loader.plan_train_epoch,
            epoch=epoch,
            steps_per_epoch=count // self.accumulation,
            accumulation=self.accumulation,
            batch_size=size,
            seed=self.seed,
            out_root=self.out_root,
        )
        if len(planned) != count:
            raise ContractError(
                f"plan_train_epoch of {type(self.loader).__name__} planned {len(planned)} batches "
                f"for epoch {epoch}; steps_per_epoch * accumulation is {count}"
            )
        await self.checkpoint(f"after the plan of {at}")
        return list(planned)

    async def _start_from(self, at: str) -> None:
        """Load the state that is stored for this point, or store the loader's current one."""
        before = self.memory.state(at)
        if self.loader is not None and before is not None:
            await self.foreign.call(self.loader.load_state_dict, before)
        else:
            await self.checkpoint(at)

    async def checkpoint(self, at: str) -> None:
        """Store the state of the loader, if there is one."""
        if self.loader is not None:
            self.memory.keep_state(at, await self.foreign.call(self.loader.state_dict))

    async def held_out(self, split: SplitName, count: int) -> HeldOut:
        """Plan the whole of a split, or its first ``count`` episodes."""
        if self.loader is None:
            return HeldOut(None, count, None)
        build, name = self.loader.build_eval_batch, THEIR_NAMES[split]
        batch = await self.foreign.call(partial(build, env_num=count, split=name, seed=self.seed))
        items = items_by_id(batch.payload) if self.can_choose else None
        if batch.payload is not None and not batch.batch_size and not items:
            raise ConfigError(f"the {split} split of {type(self.loader).__name__} is empty")
        return HeldOut(batch, count, items)

    async def sample(self, epoch: int, count: int, seed: int) -> BatchSpec:
        """Plan the train episodes of the epoch update."""
        if self.loader is None:
            return BatchSpec("train", "train", seed, count)
        at = f"epoch update {epoch}"
        await self._start_from(at)
        batch: BatchSpec = await self.foreign.call(
            partial(self.loader.build_train_batch, batch_size=count, seed=seed)
        )
        await self.checkpoint(f"after the {at}")
        return batch

    def others(self, taken: Mapping[str, Any], seed: int) -> list[Item]:
        """Return the train items that are not in ``taken``, shuffled by ``seed``."""
        pool = items_by_id(getattr(self.loader, "train_items", None)) if self.can_choose else None
        order = shuffled(list(pool or ()), seed)
        return [(pool or {})[one] for one in order if one not in taken]

    def known_items(self, batch: BatchSpec) -> dict[str, Item] | None:
        """Return the items that a batch will roll out, by id; ``None`` if that is unknown."""
        return items_by_id(batch.payload) if self.can_choose else None

    def part(self, split: SplitName, items: list[Item]) -> BatchSpec:
        """Return a batch of chosen items."""
        phase = "train" if split == "train" else "eval"
        return BatchSpec(phase, THEIR_NAMES[split], self.seed, len(items), items)

    def builder(self, batch: BatchSpec) -> Callable[[], Any]:
        """Return a function that builds a fresh environment manager of a batch at each call."""
        adapter, given = self.foreign.adapter, {"out_root": self.out_root}
        if self.loader is not None:
            return lambda: self.foreign.call(adapter.build_env_from_batch, _own(batch), **given)
        size, seed = batch.batch_size, batch.seed
        if batch.phase == "train":
            build = partial(adapter.build_train_env, batch_size=size, seed=seed)
        else:
            build = partial(adapter.build_eval_env, env_num=size, split=batch.split, seed=seed)
        return lambda: self.foreign.call(build, **given)

    def held_out_batch(self, split: SplitName, held: HeldOut) -> BatchSpec:
        """Return the batch that is the whole of a split."""
        return held.batch or BatchSpec("eval", THEIR_NAMES[split], self.seed, held.count)


def _own(batch: BatchSpec) -> BatchSpec:
    """Return a copy of a batch, whose items an adapter may change."""
    items = batch.payload
    return replace(batch, payload=own_copies(items) if isinstance(items, list) else items)


_FOLDERS: Mapping[SplitName, str] = {
    "train": "train_eval",
    "val": "selection_eval",
    "test": "test_eval",
}


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rolls out an adapter's splits."""

    player: Player
    planner: AdapterPlanner
    held_out: Mapping[SplitName, HeldOut]

    def ids(self, split: SplitName, kept: int = 0) -> tuple[str, ...] | None:
        """Return the ids of a split without the last ``kept``.

        ``None`` before the first rollout of a split whose ids only the adapter knows.
        """
        items = self.held_out[split].items
        known = tuple(items) if items else self.player.memory.order(split)
        return known[: len(known) - kept] if known else None

    def ask(self, batch: BatchSpec, skill: str, split: SplitName, folder: str) -> Ask:
        """Return the request to roll out a batch with a skill."""
        items = self.planner.known_items(batch)
        return Ask(
            build=self.planner.builder(batch),
            skill=skill,
            split=split,
            phase=split,
            seed=batch.seed,
            size=batch.batch_size,
            folder=folder,
            ids=tuple(items) if items else None,
            items=items,
        )

    async def play(
        self,
        split: SplitName,
        skill: str,
        phase: str,
        *,
        draw: int = 0,
        ids: Sequence[str] | None = None,
        step: int | None = None,
        block: str = "",
    ) -> list[EpisodeResult]:
        """Roll out a split, or some of it, and return the results in its order.

        Stored episodes are not rolled out again, unless the adapter can only roll out whole splits.
        """
        held = self.held_out.get(split) or await self.planner.held_out(split, 0)
        # Named by the text and the draw, so that no two rollouts share the adapter's files.
        folder = f"{_FOLDERS[split]}/{skill_hash(skill)}/draw_{draw:02d}"
        folder += f"/block_{block.partition(' ')[0]}" if block else ""

        def asked(batch: BatchSpec) -> Ask:
            ask = self.ask(batch, skill, split, folder)
            return replace(ask, phase=phase, draw=draw, step=step, block=block)

        whole = asked(self.planner.held_out_batch(split, held))
        async with self.player.turn(split, skill, draw):
            if held.items is None:
                results = (await self._whole(replace(whole, is_whole=True))).results
                wanted = tuple(one.task_id for one in results) if ids is None else tuple(ids)
                found = {one.task_id: one for one in results}
            else:
                wanted = tuple(held.items if ids is None else ids)
                recalled = {one: self.player.recall(whole, one) for one in wanted}
                found = {one: result for one, result in recalled.items() if result is not None}
                missing = [one for one in wanted if one not in found]
                if missing:
                    part = self.planner.part(split, [dict(held.items[one]) for one in missing])
                    ask = whole if missing == list(held.items) else asked(part)
                    fresh = await self.player.play(ask)
                    found |= {result.task_id: result for result in fresh.results}
        return [found[one] for one in wanted if one in found]

    def knows_items(self, split: SplitName) -> bool:
        """Tell whether the items of a split are known, so that some of them can be rolled out."""
        return self.held_out[split].items is not None

    def can_part(self, split: SplitName, skill: str, draw: int, ids: Sequence[str]) -> bool:
        """Tell whether these episodes can be rolled out in blocks, and none is stored."""
        held = self.held_out[split]
        ask = replace(
            self.ask(self.planner.held_out_batch(split, held), skill, split, ""), draw=draw
        )
        stored = self.player.memory.episode
        return held.items is not None and not any(
            stored(self.player.episode_key(ask, one)) for one in ids
        )

    async def _whole(self, ask: Ask) -> Played:
        """Roll out a whole split whose ids only the adapter knows.

        The first rollout determines the order of all others, so nothing else starts before it ends;
        otherwise results would depend on when a run was stopped.
        """
        known = self.player.memory.order
        async with self.player.order_of(ask.split):
            if known(ask.split) is None:
                return await self.player.play(ask)
        return await self.player.play(replace(ask, ids=known(ask.split)))


def refuse_no_score(results: Sequence[EpisodeResult], split: str, name: str) -> None:
    """Raise an error if a held-out split has no score at all: that is not a score of 0."""
    if any(result.reward is not None for result in results):
        return
    said = next((r.failure.message for r in results if r.failure), "no rows came back")
    raise EngineDown(
        f"adapter {name!r} gave no score for the {split} split: {said}. Mend it, and the run goes "
        "on."
    )


class AdapterDuel:
    """Draws paired results; draw number n of every task is the n-th rollout of the split.

    An adapter whose rollouts block plays one side after the other. So it plays blocks of few tasks,
    in random order of the sides; the stored batches say which block they are.
    """

    def __init__(
        self, rollouts: Rollouts, sides: tuple[str, str], draws: Draws, ids: Sequence[str]
    ) -> None:
        self._rollouts, self._sides, self._draws = rollouts, sides, draws
        self._ids = tuple(ids)
        self._count = DrawCount(dict.fromkeys(ids, draws.first))
        self._has_score = False
        self._parts = 0

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks, in the split's order."""
        return self._ids

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``."""
        numbers = self._numbered(task_ids, n)
        if self._rollouts.player.overlaps:
            both = [self._play(side, *one) for one in numbers.items() for side in (0, 1)]
            everything = await together(both)
            played = list(zip(everything[::2], everything[1::2], strict=True))
        else:
            played = [await self._in_blocks(*one) for one in numbers.items()]
        drawn = {
            number: self._paired(ids, sides)
            for (number, ids), sides in zip(numbers.items(), played, strict=True)
        }
        self._has_score = True
        return [
            drawn[number][task_id]
            for task_id in task_ids
            for number in sorted(numbers)
            if task_id in drawn[number]
        ]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        """Draw the next ``n`` episodes of each task under the candidate alone.

        An adapter that only rolls out whole splits draws all tasks.
        """
        if not self._rollouts.knows_items("val"):
            task_ids = self._ids
        drawn: list[EpisodeResult] = []
        for number, ids in self._numbered(task_ids, n).items():
            self._parts += 1
            drawn += await self._play(1, number, ids, f"a{self._parts} alone")
        return drawn

    def _numbered(self, task_ids: Sequence[str], n: int) -> dict[int, list[str]]:
        """Return the tasks of the next ``n`` draws of each, by number."""
        numbers: dict[int, list[str]] = {}
        for task_id, number in self._count.take_each(task_ids, n):
            numbers.setdefault(number, []).append(task_id)
        return numbers

    async def _in_blocks(
        self, number: int, ids: Sequence[str]
    ) -> tuple[list[EpisodeResult], list[EpisodeResult]]:
        fresh = all(self._rollouts.can_part("val", text, number, ids) for text in self._sides)
        parts = blocks(ids) if fresh else [ids]
        played: tuple[list[EpisodeResult], list[EpisodeResult]] = ([], [])
        for at, part in enumerate(parts, start=1):
            block = f"{at} of {len(parts)}" if len(parts) > 1 else ""
            for side in self._draws.order("block", number, at):
                played[side].extend(await self._play(side, number, part, block))
        return played

    async def _play(
        self, side: int, number: int, ids: Sequence[str], block: str = ""
    ) -> list[EpisodeResult]:
        phase, step, text = self._draws.phase, self._draws.step, self._sides[side]
        return await self._rollouts.play(
            "val", text, phase, draw=number, ids=ids, step=step, block=block
        )

    def _paired(
        self, ids: Sequence[str], played: Sequence[Sequence[EpisodeResult]]
    ) -> dict[str, Pair]:
        old, new = played
        if not self._has_score:
            refuse_no_score([*old, *new], "val", self._rollouts.player.name)
        before, after = _by_id(old), _by_id(new)
        return {one: Pair(before[one], after[one]) for one in ids if one in before and one in after}


def _by_id(results: Sequence[EpisodeResult]) -> dict[str, EpisodeResult]:
    return {result.task_id: result for result in results}


# Prepare a micro-batch of an adapter for analysts: the adapter's own, or ours with its prompts.


_PROMPTS = ("analyst_error", "analyst_success")
_FORMS = ("_rewrite", "_full_rewrite")
MOST_LOST_REFLECTIONS = 3
"""Consecutive faults of an adapter's own analysts that stop the run: each costs a step."""

_log = logging.getLogger(__name__)


async def make_train_rollouts(
    player: Player, played: Played, settings: StepSettings | None
) -> TrainRollouts:
    """Prepare a micro-batch for analysts."""
    if settings is None or not player.foreign.overrides("reflect"):
        rows = await _with_references(player, played, played.stored)
        prompts = await _own_prompts(player)
        return TrainRollouts(await _transcripts(played, rows), played.ask.seed, env_prompts=prompts)
    transcripts = await _transcripts(played, list(played.stored.values()))
    known = {one.id for one in transcripts.rows}  # its own analysts need no conversations
    lost = tuple(one for one in transcripts.skipped if one.id not in known)
    transcripts = replace(transcripts, skipped=lost)
    # Its own analysts may read fields that no store can hold.
    rows = await _with_references(player, played, played.rows)
    analysts = _OwnAnalysts(player, played, rows, transcripts, settings)
    return TrainRollouts(transcripts, played.ask.seed, reflect=analysts.reflect)


async def _transcripts(played: Played, rows: Sequence[Row]) -> Transcripts:
    read = await asyncio.to_thread(read_rows, rows, played.folder / PREDICTIONS)
    return Transcripts(read.rows, (*read.skipped, *_faults(played)))


@dataclass(frozen=True, slots=True)
class _OwnAnalysts:
    """An adapter's `reflect`, called once per request."""

    player: Player
    played: Played
    rows: Sequence[Row]
    transcripts: Transcripts
    settings: StepSettings

    async def reflect(self, context: StepContext) -> Reflection:
        """Ask the adapter's analysts; stored answers are reused after a resume.

        Raises:
            EngineDown: They failed several times in a row.
            ModelRefused: An endpoint that they use refuses the key or the model.
            UsageError: The request cannot be done.
        """
        if not self.rows:
            return Reflection()
        about = [context.name, context.seed, context.earlier_steps, context.meta_skill]
        key = digest([self.played.key, text_digest(context.skill), *about])
        proposed = self.player.memory.patches(key)
        if proposed is None:
            try:
                answer = await self._ask(context)
            except Exception as error:  # noqa: BLE001 - foreign code; logged, and a fault
                raise_if_hopeless(error)
                return Reflection((self._fault(context, error),))
            self.player.lost_reflections = 0
            proposed = self.player.memory.keep_patches(key, *_listed(answer))
        read = read_raw_patches(
            proposed.patches,
            name=context.name,
            transcripts=self.transcripts,
            settings=self.settings,
            context=context,
        )
        if proposed.note:
            read = replace(read, notes=(f"{context.name}: {proposed.note}", *read.notes))
        self._tell(context, proposed.patches, read)
        return read

    def _tell(self, context: StepContext, patches: Sequence[Any], read: Reflection) -> None:
        """Report in one line an answer that could not be used unchanged."""
        # ``None`` is how an adapter says that it proposes nothing for a minibatch.
        none = {f"{context.name}.a{at}" for at, patch in enumerate(patches) if patch is None}
        notes = [note for note in read.notes if note.partition(" ")[0] not in none]
        notes += [f"{patch.call}: {note}" for patch in read.patches for note in patch.notes]
        if notes:
            more = f" (and {len(notes) - 1} more, in the store)" if len(notes) > 1 else ""
            _log.warning("%s: reflect, %s%s", self.player.name, notes[0], more)

    def _fault(self, context: StepContext, error: Exception) -> AnalystFault:
        player, name = self.player, self.player.name
        player.foreign.faults.warn(f"{name}: reflect failed for {context.name}", error)
        said = f"reflect of {name!r} raised {type(error).__name__}: {error}"
        player.lost_reflections += 1
        if player.lost_reflections >= MOST_LOST_REFLECTIONS:
            raise EngineDown(
                f"{said}. That is {player.lost_reflections} times in a row; mend it, and the run "
                "continues."
            ) from error
        # Analysts only call endpoints; an endpoint's fault ends the run, as with our own analysts.
        lost = isinstance(error, ConnectionError)
        cause = FailureCause.MODEL if lost else Failure.of(error).cause
        return AnalystFault(f"{context.name}.a0", Failure(cause, said), "")

    async def _ask(self, context: StepContext) -> Any:
        foreign, root = self.player.foreign, self.played.folder.parent  # the step's
        patches = root / "patches"
        patches.mkdir(parents=True, exist_ok=True)
        session = self.player.session
        with nullcontext() if session is None else session.hear() as hearing:
            answer = await foreign.listed(
                foreign.adapter.reflect,
                list(self.rows),
                context.skill,
                str(root),
                prediction_dir=str(self.played.folder / PREDICTIONS),
                patches_dir=str(patches),
                random_seed=self.played.ask.seed,
                step_buffer_context=context.earlier_steps,
                meta_skill_context=context.meta_skill,
            )
        if hearing is not None:
            hearing.refuse_missing()
        return answer


def _listed(answer: Any) -> tuple[list[Any], str]:
    """Return patches as JSON, and the defects of the answer as a whole."""
    if answer is None:
        return [], "it returned None; an empty list says that there is nothing to propose"
    if not isinstance(answer, list | tuple):
        return [as_json(answer)], f"it returned {type(answer).__name__}, not a list of patches"
    return [as_json(patch) for patch in answer], ""


async def _with_references(player: Player, played: Played, by_id: Mapping[str, Row]) -> list[Row]:
    """Return the scored rows, with the references of their items, which only analysts may see."""
    rows = [by_id[r.task_id] for r in played.results if r.task_id in by_id]
    if not rows or not played.items:
        return rows
    foreign, items = player.foreign, own_copies(played.items.values())
    extended = await foreign.consult(rows, foreign.adapter.attach_reference_context, rows, items)
    if not all(isinstance(row, dict) for row in extended):
        _log.warning("%s: attach_reference_context returned what are no rows", player.name)
        return rows
    named: set[str] = set()
    for item in items:
        nothing: dict[str, Any] = {}
        found = await foreign.consult(nothing, foreign.adapter.get_reference_metadata, item)
        named |= {str(name) for name in found.get("fields") or ()}
    if named:
        _log.info("%s: analysts see reference fields %s", player.name, ", ".join(sorted(named)))
    return extended


def _faults(played: Played) -> list[Skipped]:
    return [
        Skipped(result.task_id, f"it has no score: {result.failure.message}")
        for result in played.results
        if result.failure is not None
    ]


async def _own_prompts(player: Player) -> dict[str, str]:
    """Return the adapter's own prompts for analysts, by our names for them."""
    foreign, adapter = player.foreign, player.foreign.adapter
    found = {
        "analyst_error": await foreign.consult("", adapter.get_error_minibatch_prompt),
        "analyst_success": await foreign.consult("", adapter.get_success_minibatch_prompt),
    }
    for name in (prompt + form for prompt in _PROMPTS for form in _FORMS):
        found[name] = await foreign.consult("", adapter._load_env_prompt, name)
    return {name: text for name, text in found.items() if text}
