"""Goals as tasks: train, val and test share no goal, and no product either.

Products are put in an order by a hash of the world's seed and their id. Test takes them from the
front until it has 500 goals (the size that reports use) or 30% of all, val the next until it has
1,000 or 20%, and train has the rest. A product's goals stay together.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.seeds import derive_seed
from skillwright.envs.webshop.catalogue import Catalogue, open_catalogue
from skillwright.envs.webshop.categories import category_of
from skillwright.envs.webshop.config import WebShopEnvConfig, read_config
from skillwright.envs.webshop.nouns import resolve_tagger
from skillwright.envs.webshop.product import GOAL_KINDS, Goal, GoalKind

NAME: Final = "webshop"
SPLITS: Final = ("train", "val", "test")
_MOST: Final = {"test": (500, 0.3), "val": (1_000, 0.2)}


def webshop_tasks(
    split: str,
    count: int | None = None,
    *,
    seed: int = 0,
    goals: GoalKind = "human",
    env_config: object | None = None,
) -> list[Task]:
    """Return the tasks of a split, in an order that the seed decides.

    Args:
        split: ``train``, ``val`` or ``test``.
        count: At most so many, the first; ``None`` for all.
        seed: The world's: the built-in products, prices, price limits and splits.
        goals: ``human`` goals are what people wrote; ``synthetic`` ones are one for every way to
            choose a product's options.
        env_config: The environment's settings; they name catalogue, engine and tagger, and all
            three stand in every task: over others it is another task.

    Raises:
        DataError: A setting is wrong, there is no such split or catalogue, or no goal of the kind.
    """
    if split not in SPLITS:
        raise DataError(f"webshop: no split {split!r}. {did_you_mean(split, SPLITS)}")
    if goals not in GOAL_KINDS:
        raise DataError(f"webshop: no goals {goals!r}. {did_you_mean(goals, GOAL_KINDS)}")
    config = read_config(env_config)
    catalogue = open_catalogue(config.source(seed))
    tagger = resolve_tagger(config.tagger)
    asins = split_asins(catalogue, goals)[split]
    if not asins:
        raise DataError(
            f"webshop: catalogue {config.catalogue!r} has no {goals} goals for split {split!r}; "
            f"use goals '{'synthetic' if goals == 'human' else 'human'}', or another catalogue"
        )
    found = (goal for asin in asins for goal in catalogue.goals_of(asin, goals))
    return [
        _task(goal, split, config, catalogue, tagger) for goal in islice(_distinct(found), count)
    ]


@lru_cache(maxsize=32)
def split_asins(catalogue: Catalogue, goals: GoalKind) -> dict[str, tuple[str, ...]]:
    """Return the products that the goals of each split are about, in order."""
    seed = catalogue.source.seed
    counts = catalogue.products_with_goals(goals)
    ordered = sorted(counts, key=lambda row: (derive_seed("webshop-split", seed, row[0]), row[0]))
    total, rest = sum(count for _, count in ordered), iter(ordered)
    splits: dict[str, tuple[str, ...]] = {}
    for split, (most, share) in _MOST.items():
        room, chosen = min(most, int(share * total)), []
        while room > 0 and (row := next(rest, None)):
            chosen.append(row[0])
            room -= row[1]
        splits[split] = tuple(chosen)
    splits["train"] = tuple(asin for asin, _ in rest)
    return splits


def _distinct(goals: Iterator[Goal]) -> Iterator[Goal]:
    """Drop goals that say and want the same as one before."""
    seen: set[str] = set()
    for goal in goals:
        if goal.id not in seen:
            seen.add(goal.id)
            yield goal


def _task(
    goal: Goal, split: str, config: WebShopEnvConfig, catalogue: Catalogue, tagger: str
) -> Task:
    return Task(
        id=f"webshop-{goal.id}",
        env=NAME,
        extras={
            "goal": goal.key,
            "goal_id": goal.id,
            "world_seed": catalogue.source.seed,
            "catalogue_sha256": catalogue.digest,
            "tagger": tagger,
            "engine": config.engine,
        },
        task_type=category_of(goal.instruction_text),
        description=goal.instruction_text,
        split=split,
    )
