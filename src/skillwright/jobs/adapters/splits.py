"""The batches of an adapter: what its loader plans, or what seeds alone say.

The loader's state is a function of what was planned, so it is kept before every epoch's plan: a
resumed run plans the same epoch from the same state.

Source: SkillOpt (microsoft/SkillOpt), the batches of its trainer; seeds are equal to its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skillwright.core import ConfigError, ContractError
from skillwright.datasets import BaseDataLoader, BatchSpec
from skillwright.datasets.plan import shuffled
from skillwright.jobs.adapters.memory import AdapterMemory
from skillwright.jobs.parts.bench import SplitName
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.rollout.foreign_rows import Item, items_by_id

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
        """Plan the train episodes that an epoch is looked back on by."""
        if self.loader is None:
            return BatchSpec("train", "train", seed, count)
        at = f"look back on epoch {epoch}"
        await self._start_from(at)
        batch: BatchSpec = await self.foreign.call(
            partial(self.loader.build_train_batch, batch_size=count, seed=seed)
        )
        await self.checkpoint(f"after the {at}")
        return batch

    def others(self, taken: Mapping[str, Any]) -> list[Item]:
        """Return the train items that are not ``taken``, in the order in which samples go on."""
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
