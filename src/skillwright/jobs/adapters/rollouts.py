"""An adapter's held-out splits, rolled out whole or in parts, and never twice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from skillwright.core import ConfigError, ContractError, EpisodeResult, skill_hash
from skillwright.datasets import BaseDataLoader, BatchSpec
from skillwright.datasets.split import shuffled
from skillwright.jobs.adapters.play import AdapterMemory, Ask, Played, Player
from skillwright.jobs.parts.bench import SplitName
from skillwright.rollout import EngineDown
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.rollout.foreign_rows import Item, items_by_id

# The batches of an adapter: what its loader plans, or what seeds alone say.
#
# The loader's state is a function of what was planned, so it is kept before every epoch's plan: a
# resumed run plans the same epoch from the same state.
#
# Source: SkillOpt (microsoft/SkillOpt), the batches of its trainer; seeds are equal to its own.


THEIR_NAMES: Mapping[SplitName, str] = {
    "train": "train",
    "val": "valid_seen",
    "test": "valid_unseen",
}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A split that is rolled out: all of it, or its first ``count`` episodes where that is not 0.

    Without a loader there is no batch; the items, by id, are known where the adapter takes them.
    """

    batch: BatchSpec | None
    count: int
    items: Mapping[str, Item] | None

    @property
    def size(self) -> int | None:
        """How many episodes it has, or ``None`` where only a rollout tells."""
        if self.items is not None:
            return len(self.items)
        return (self.batch.batch_size if self.batch else self.count) or None


@dataclass(slots=True)
class AdapterPlanner:
    """Plans batches, and builds what `rollout` takes of them; without a loader, by seeds alone."""

    foreign: ForeignAdapter
    loader: BaseDataLoader | None
    memory: AdapterMemory
    seed: int
    out_root: str
    accumulation: int
    _epochs: dict[int, list[BatchSpec]] = field(default_factory=dict, init=False)

    @property
    def can_choose(self) -> bool:
        """Whether the adapter rolls out the very items of a batch, rather than a number of them."""
        return self.loader is not None and self.foreign.overrides("build_env_from_batch")

    async def epoch(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch of ``count`` micro-batches of ``size``; asked again, it is the same."""
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
        """Give the loader the state that it had here before, or keep the one that it has."""
        before = self.memory.state(at)
        if self.loader is not None and before is not None:
            await self.foreign.call(self.loader.load_state_dict, before)
        else:
            await self.checkpoint(at)

    async def checkpoint(self, at: str) -> None:
        """Keep the state of the loader, if there is one."""
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
        at = f"look back on epoch {epoch}"  # stored name
        await self._start_from(at)
        batch: BatchSpec = await self.foreign.call(
            partial(self.loader.build_train_batch, batch_size=count, seed=seed)
        )
        await self.checkpoint(f"after the {at}")
        return batch

    def others(self, taken: Mapping[str, Any]) -> list[Item]:
        """Return the train items that are not ``taken``, in the order in which samples continue."""
        pool = items_by_id(getattr(self.loader, "train_items", None)) if self.can_choose else None
        order = shuffled(list(pool or ()), self.seed)
        return [(pool or {})[one] for one in order if one not in taken]

    def known_items(self, batch: BatchSpec) -> dict[str, Item] | None:
        """Return the items that a batch will roll out, where that is known beforehand."""
        return items_by_id(batch.payload) if self.can_choose else None

    def part(self, split: SplitName, items: list[Item]) -> BatchSpec:
        """Return a batch of chosen items."""
        phase = "train" if split == "train" else "eval"
        return BatchSpec(phase, THEIR_NAMES[split], self.seed, len(items), items)

    def builder(self, batch: BatchSpec) -> Callable[[], Any]:
        """Return what builds a fresh environment manager of a batch, each time it is called."""
        adapter, given = self.foreign.adapter, {"out_root": self.out_root}
        if self.loader is not None:
            return lambda: self.foreign.call(adapter.build_env_from_batch, batch, **given)
        size, seed = batch.batch_size, batch.seed
        if batch.phase == "train":
            build = partial(adapter.build_train_env, batch_size=size, seed=seed)
        else:
            build = partial(adapter.build_eval_env, env_num=size, split=batch.split, seed=seed)
        return lambda: self.foreign.call(build, **given)

    def held_out_batch(self, split: SplitName, held: HeldOut) -> BatchSpec:
        """Return the batch that is the whole of a split."""
        return held.batch or BatchSpec("eval", THEIR_NAMES[split], self.seed, held.count)


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
        """Return the question that a batch is."""
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
    ) -> list[EpisodeResult]:
        """Roll out a split, or some of it, and return the results in its order.

        What is known from an earlier rollout is not rolled out again. Where the adapter cannot be
        asked for single episodes, the whole split is.
        """
        held = self.held_out.get(split) or await self.planner.held_out(split, 0)
        # Named by the text and the draw, so that no two rollouts share an adapter's own files.
        folder = f"{_FOLDERS[split]}/{skill_hash(skill)}/draw_{draw:02d}"

        def asked(batch: BatchSpec) -> Ask:
            ask = self.ask(batch, skill, split, folder)
            return replace(ask, phase=phase, draw=draw, step=step)

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

    async def _whole(self, ask: Ask) -> Played:
        """Roll out the whole of a split whose ids the adapter alone knows.

        The first rollout says the order of all others, and which rows they miss. So nothing else
        begins before it is over; else what is missed would depend on when a run was stopped.
        """
        known = self.player.memory.order
        async with self.player.order_of(ask.split):
            if known(ask.split) is None:
                return await self.player.play(ask)
        return await self.player.play(replace(ask, ids=known(ask.split)))


def refuse_no_score(results: Sequence[EpisodeResult], split: str, name: str) -> None:
    """Stop where a held-out split has not one score: nothing came back, and that is no zero.

    Raises:
        EngineDown: There is none.
    """
    if any(result.reward is not None for result in results):
        return
    said = next((r.failure.message for r in results if r.failure), "no rows came back")
    raise EngineDown(
        f"adapter {name!r} gave no score for the {split} split: {said}. Mend it, and the run goes "
        "on."
    )
