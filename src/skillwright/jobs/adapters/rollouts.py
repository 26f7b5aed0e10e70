"""An adapter's held-out splits, rolled out whole or in parts, and never twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillwright.core import EpisodeResult, skill_hash
from skillwright.datasets import BatchSpec
from skillwright.jobs.adapters.play import Ask, Played, Player
from skillwright.jobs.adapters.splits import AdapterPlanner, HeldOut
from skillwright.jobs.parts.bench import SplitName
from skillwright.rollout import EngineDown

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
