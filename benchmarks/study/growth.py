"""A bank with a planted gap that grows by evolution, under the weights that the recipe ended with.

The bank has the principles and the facts of as many new homes as make up 100 skills at most; facts
of these homes are taken out until 55 skills are left. Each update plays games of the evolution
split, the teacher proposes what was sought in vain, and the gate decides; the weights stay as they
are, so that what rises is what the bank is worth.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from skillwright.bank import Add, Bank, GrowthCaps
from skillwright.config.rl import RlEvolveSection
from skillwright.core import ConfigError, SkillStatus, Task
from skillwright.core.seeds import derive_seed
from skillwright.datasets import EvolutionTasks, StudyTasks, ValTasks
from skillwright.evaluation import ExploreGate, SplitReport
from skillwright.jobs.run import EvolutionLoop, PlayedRound
from skillwright.jobs.run.bench import terms_of
from skillwright.worlds.alfworld.generate import household_tasks
from study.exam import Examined, Silent, examined, new_homes, parts_of

FIRST, MOST = 55, 100
"""Skills that the bank begins with, and at most has."""

UPDATES = 20
PER_UPDATE = 6
SECTION = RlEvolveSection(
    every=1, trigger_accuracy=1.0, max_failures=200, per_checkpoint=PER_UPDATE
)
"""The teacher is shown every failed game: it learns a fact only from two of them."""


@dataclass(frozen=True)
class Planted:
    """A bank with a gap.

    Attributes:
        complete: The bank before anything was taken out.
        gap: What is left of it.
        homes: Numbers of the homes that it is about.
    """

    complete: Bank
    gap: Bank
    homes: tuple[int, ...]


def plant(bank: Bank, homes: Sequence[int], seed: int) -> Planted:
    """Take facts out of a bank of principles and of as many homes as there is room for.

    Raises:
        ConfigError: The bank has too few skills.
    """
    principles, *facts = parts_of(bank, [f"household {home}" for home in homes])
    totals = accumulate([len(principles), *map(len, facts)])
    count = sum(total <= MOST for total in totals) - 1
    known = [skill for part in facts[: max(count, 0)] for skill in part]
    if len(principles) + len(known) < FIRST:
        raise ConfigError(
            f"principles and {max(count, 0)} homes are {len(principles) + len(known)} skills, and "
            f"the bank is to begin with {FIRST}; survey more new homes"
        )
    kept = random.Random(derive_seed("planted gap", seed)).sample(known, FIRST - len(principles))
    names = {skill.id for skill in (*principles, *kept)}
    whole = replace(bank, skills=(*principles, *known))
    gap = replace(whole, skills=tuple(skill for skill in whole.skills if skill.id in names))
    return Planted(whole, gap, tuple(homes[:count]))


@dataclass(frozen=True)
class Games:
    """The games in the homes of a planted gap."""

    evolution: EvolutionTasks
    val: ValTasks
    test: tuple[Task, ...]


def _games(one: Examined, homes: tuple[int, ...]) -> Games:
    data = one.run.config.env.data
    # Behind the games of the survey, which the facts were distilled from.
    study = household_tasks(
        "train", 40 * len(homes), homes=homes, seed=data.seed, start=data.survey
    )
    val = household_tasks("val", data.val, homes=homes, seed=data.seed)
    test = household_tasks("test", data.test, homes=homes, seed=data.seed)
    evolution = EvolutionTasks(StudyTasks(tuple(study)), tuple(task.id for task in study))
    return Games(evolution, ValTasks(tuple(val)), tuple(test))


async def grow(folder: Path) -> dict[str, Any]:
    """Let a bank with a gap grow under the last weights of a finished run.

    Returns:
        ``updates``, the first of which is the bank as it begins; ``complete``, how many skills
        the bank without a gap has; and ``tables``, test scores by bank.
    """
    async with examined(folder) as one:
        one.load(one.chosen)
        data, config = one.run.config.env.data, one.run.config
        planted = plant(one.bank(one.chosen), new_homes(data), config.run.seed)
        games = _games(one, planted.homes)
        grown, updates = await _evolve(one, planted.gap, games)
        banks = {"gap": planted.gap, "grown": grown, "complete": planted.complete}
        source = one.run.injector.source
        played = {name: await one.play(games.test, source(bank)) for name, bank in banks.items()}
    return {
        "homes": len(planted.homes),
        "complete": len(planted.complete.active),
        "updates": updates,
        "tables": SplitReport.of("test", played, config.env.success_threshold).to_dict()["tables"],
    }


async def _evolve(one: Examined, bank: Bank, games: Games) -> tuple[Bank, list[dict[str, Any]]]:
    run, gate = one.run, ExploreGate(draws=2)
    loop = EvolutionLoop(
        engine=lambda: run.measuring_engine(one.policy, run.config.evaluation.temperature),
        source=run.injector.source,
        tasks=games.evolution,
        val=games.val,
        section=SECTION,
        gate=gate,
        terms=terms_of(run.config),
        embedder=run.injector.embedder,
        teacher=lambda stage: run.teacher(f"growth {stage}"),
        callback=Silent(),
    )
    ledger = gate.ledger(run.config.evaluation.alpha, UPDATES)
    earlier: list[str] = []
    updates: list[dict[str, Any]] = []
    for number in range(1, UPDATES + 1):
        if len(bank.active) + PER_UPDATE + GrowthCaps().weakest_extra > MOST:
            break
        accepts = sum(each["action"] == "accept" for each in updates)
        played = await loop.take(number, bank, ledger, earlier, 1 + accepts * gate.draws)
        updates.append(_update(played))
        print(f"{run.config.run.name}: {json.dumps(updates[-1])}", flush=True)
        earlier += played.lines()
        bank = played.after
    return bank, updates


def _update(played: PlayedRound) -> dict[str, Any]:
    solved, scored = (sum(column) for column in zip(*played.success.values(), strict=True))
    new = [one for one in played.found.changes if isinstance(one, Add)]
    facts = sum(bool(one.draft.scope) for one in new)
    return {
        "update": played.number,
        "before": len(played.before.active),
        "success": [solved, scored],
        "action": played.action,
        "proposed": {"facts": facts, "other": len(played.found.changes) - facts},
        "added": len(played.report.added) if played.action == "accept" else 0,
        "after": sum(one.status is SkillStatus.ACTIVE for one in played.after.skills),
    }
