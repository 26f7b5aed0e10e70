"""What a skill changed on an adapter's train episodes: rolled out under both skills, and paired.

Source: SkillOpt (microsoft/SkillOpt), longitudinal pairs; the sample and its seed equal its own.
"""

from collections.abc import Mapping
from dataclasses import replace

from skillwright.core.together import together
from skillwright.datasets import BatchSpec
from skillwright.jobs.adapters.play import Played
from skillwright.jobs.adapters.rollouts import Rollouts
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.parts.text_bench import Longitudinal
from skillwright.rollout.foreign_rows import Item, Row
from skillwright.textopt import Comparison, PairPolicy, Skipped

SAMPLE_STRIDE = 2_000
"""How far apart the seeds of two epochs' samples are."""


async def compare_skills(
    rollouts: Rollouts, wanted: Longitudinal, sides: tuple[str, str], epoch: int
) -> Comparison:
    """Roll a sample of train episodes out under both skills, until there are enough pairs."""
    comparison = Comparison(wanted.wanted, wanted.policy, wanted.success_threshold)
    # Nothing can have changed under one and the same text, so nothing is played to find it.
    if sides[0] == sides[1] and wanted.policy is PairPolicy.CHANGED:
        return comparison
    planner = rollouts.planner
    batch: BatchSpec | None = await planner.sample(
        epoch, wanted.wanted, planner.seed + epoch * SAMPLE_STRIDE
    )
    rounds, items, rows = 0, dict[str, Item](), dict[str, Row]()
    while batch is not None:
        before, after = await _both(rollouts, batch, sides, (epoch, rounds))
        comparison = _with_pairs(comparison, before, after)
        items |= {**(before.items or {}), **(after.items or {})}
        rows |= after.stored
        rounds += 1
        seen = {result.task_id for result in before.results} | items.keys()
        batch = _next_batch(rollouts, comparison, seen)
    return await _representative_first(rollouts, comparison, items, rows)


async def _both(
    rollouts: Rollouts, batch: BatchSpec, sides: tuple[str, str], at: tuple[int, int]
) -> tuple[Played, Played]:
    epoch, number = at
    again = f"_more_{number:02d}" if number else ""
    player = rollouts.player
    player.watcher.see(StageStarted("look back", epoch=epoch, episodes=2 * batch.batch_size))
    before, after = await together(
        player.play(
            replace(
                rollouts.ask(
                    batch, text, "train", f"slow_update/epoch_{epoch:02d}/rollout_{side}{again}"
                ),
                phase="slow_update",
                is_once=True,
            )
        )
        for side, text in zip(("prev", "curr"), sides, strict=True)
    )
    return before, after


def _with_pairs(comparison: Comparison, before: Played, after: Played) -> Comparison:
    """Add what both skills have in common, by row id, in the order of the previous one."""
    current = {result.task_id: result for result in after.results}
    old = [result for result in before.results if result.task_id in current]
    old = old[: comparison.wanted]
    new = [current[result.task_id] for result in old]
    shared = {result.task_id for result in old}
    alone = [r for r in (*before.results, *after.results) if r.task_id not in shared]
    lost = tuple(Skipped(r.task_id, "it was rolled out under one skill only") for r in alone)
    tasks = tuple(result.spec.task for result in old)
    added = replace(comparison, queue=tasks).add(old, new)
    return replace(added, queue=(), lost=(*added.lost, *lost))


def _next_batch(rollouts: Rollouts, comparison: Comparison, seen: set[str]) -> BatchSpec | None:
    """Return what tops the sample up, where the policy needs more pairs and there are items."""
    enough = len(comparison.pairs) >= comparison.wanted
    if enough or comparison.policy is PairPolicy.MIXED:
        return None
    more = rollouts.planner.others(dict.fromkeys(seen))[: comparison.wanted]
    return rollouts.planner.part("train", [dict(item) for item in more]) if more else None


async def _representative_first(
    rollouts: Rollouts, comparison: Comparison, items: Mapping[str, Item], rows: Mapping[str, Row]
) -> Comparison:
    """Put first what stands for the others: prompts have room for the first pairs only."""
    drawn = {pair.task_id: pair for pair in comparison.drawn}
    if not items or not drawn:
        return comparison
    foreign = rollouts.player.foreign
    chosen: list[Item] = await foreign.consult(
        [],
        foreign.adapter.select_representative_items,
        [rows[one] for one in drawn if one in rows],
        [dict(items[one]) for one in drawn if one in items],
        n_failures=len(drawn),
        n_successes=len(drawn),
        seed=rollouts.planner.seed,
    )
    first = [str(item.get("id")) for item in chosen if isinstance(item, Mapping)]
    order = [one for one in dict.fromkeys([*first, *drawn]) if one in drawn]
    return replace(comparison, drawn=tuple(drawn[one] for one in order))
