"""What a skill bank is worth, offline: distilled from a weak agent's games, then evolved.

Everything is scripted (`ScriptedHousehold` plays, `HouseholdTeacher` writes), so the figures show
that the machinery works, not how good a language model would be at it.

1. *Distill.* A weak agent plays base games of generated homes; the teacher makes a bank of them;
   the same agent plays held-out games with and without it, with the same seeds.
2. *Evolve.* A bank that was distilled from three of the six categories alone meets all six. Each
   round counts success on the evolution split, has the teacher change the bank within its caps, and
   asks the gate on validation games. Test games show the weakest category before and after.
3. *Refuse.* A harmful change is judged by the same gate.

    .venv/bin/python benchmarks/skill_bank.py [HOUSEHOLD]

With a household all games are set in that home, whose storage habits can be learned. The checks:
the bank wins clearly more (the interval of the gain is above 0), evolution raises the weakest
category, the harmful change is refused, and all of it takes so many pieces of plain work, which is
timed before and after.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from time import perf_counter, process_time
from typing import Any

from measuring import Kind, at_least, at_most, compared, long_plain_s, report
from skillwright.bank import (
    Add,
    Bank,
    BankSource,
    DistillSettings,
    EvolutionResults,
    EvolveSettings,
    GrowthCaps,
    Teacher,
    apply,
    bank_duel,
    candidate_sources,
    compression,
    distill,
    evolve,
    shown_change,
)
from skillwright.core import (
    BankSkill,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillKind,
    SkillSource,
    Task,
)
from skillwright.core.seeds import evaluation_seed
from skillwright.datasets import EvolutionTasks, Splits
from skillwright.evaluation import (
    AlphaLedger,
    Draws,
    PairedGate,
    paired_proportion_interval,
    wilson_interval,
)
from skillwright.models import ChatAgent
from skillwright.rollout import Limits, LocalEngine, MemoryRecorder
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold
from skillwright.worlds.alfworld.scripted.teacher import HouseholdTeacher

ROUNDS = 2
BASE_GAMES = 36
KNOWN = {"pick_and_place", "look_at_obj_in_light", "clean"}
REPEATS, MOST_WORK = 3, 24_000.0
"""CPU time of the whole, in pieces of plain work."""
# So tight that one round cannot teach all that is missing.
CAPS = GrowthCaps(per_checkpoint=2, per_category=1, weakest_extra=0)

categorize, scope = AlfworldEnv.category, AlfworldEnv.scope


class Houses:
    """The games, and who plays them."""

    def __init__(self, household: int | None) -> None:
        train, val, test = (
            generated_tasks(split, count, household=household)
            for split, count in (("train", 120), ("val", 120), ("test", 120))
        )
        self.splits = Splits.of(train, val, test)
        self.evolution = EvolutionTasks.every(self.splits.train, 3)
        self.test = self.splits.test.open()
        self.engine = LocalEngine(
            ChatAgent(ScriptedHousehold()),
            lambda task: AlfworldEnv(extras=dict(task.extras)),
            limits=Limits(max_concurrent=8),
            recorder=MemoryRecorder(),
        )

    async def play(
        self, tasks: Sequence[Task], skills: SkillSource, seed: int
    ) -> list[EpisodeResult]:
        """Play each game once."""
        specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0)) for task in tasks]
        return await self.engine.run(specs, skills)


def injected_by(bank: Bank) -> BankSource:
    """Return a source that injects the skills of a bank."""
    return BankSource(bank, categorize=categorize, scope=scope)


def success(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Count wins, with an interval, and by category."""
    wins, games = Counter[str](), Counter[str]()
    for result in results:
        wins[categorize(result.spec.task)] += result.is_success()
        games[categorize(result.spec.task)] += 1
    low, high = wilson_interval(wins.total(), games.total())
    return {
        "success": round(wins.total() / games.total(), 3),
        "interval": [round(low, 3), round(high, 3)],
        "by_category": {name: round(wins[name] / games[name], 2) for name in sorted(games)},
    }


async def distilled(houses: Houses) -> dict[str, Any]:
    """Compare the agent with itself, with a bank of its own games."""
    base = await houses.play(houses.evolution.training.tasks[:BASE_GAMES], PlainSkill(""), 1)
    bank, report = await bank_of(base)
    without = await houses.play(houses.test, PlainSkill(""), 2)
    with_bank = await houses.play(houses.test, injected_by(bank), 2)
    pairs = [(b.is_success(), a.is_success()) for b, a in zip(without, with_bank, strict=True)]
    gain = sum(after - before for before, after in pairs) / len(pairs)
    low, high = paired_proportion_interval(pairs)
    return {
        "base_games": success(base),
        "skills": {**Counter(str(skill.kind) for skill in bank.active), **report},
        "without": success(without),
        "with_bank": success(with_bank),
        "gain": round(gain, 3),
        "gain_interval": [round(low, 3), round(high, 3)],
    }


async def bank_of(episodes: Sequence[EpisodeResult]) -> tuple[Bank, dict[str, Any]]:
    """Distill a bank."""
    teacher = Teacher(HouseholdTeacher())
    found = await distill(episodes, teacher, DistillSettings(), categorize, scope)
    found.refuse_gaps()
    bank, report = apply(Bank(), found.changes, None)
    trajectories = {one.key: one.trajectory for one in episodes if one.reward is not None}
    shorter = compression(bank, trajectories)
    return bank, {
        "requests": len(found.calls),
        "merged": len(report.merged),
        "raw_trajectories_over_skills": round(shorter.raw_ratio or 0.0, 1),
        "summaries_over_skills": round(shorter.summary_ratio or 0.0, 1),
    }


async def evolved(houses: Houses) -> dict[str, Any]:
    """Evolve a bank that knows half of the categories, and try to harm it."""
    known = [t for t in houses.evolution.training.tasks if categorize(t) in KNOWN]
    bank, _ = await bank_of(await houses.play(known[:BASE_GAMES], PlainSkill(""), 1))
    settings = EvolveSettings(trigger_accuracy=0.9, caps=CAPS)
    ledger = AlphaLedger(0.1, ROUNDS + 1)
    earlier: list[str] = []
    rounds = [{"test": success(await houses.play(houses.test, injected_by(bank), 2))}]
    for number in range(ROUNDS):
        played = await houses.play(houses.evolution.tasks, injected_by(bank), 10 + number)
        found = await evolve(
            EvolutionResults(houses.evolution, tuple(played)),
            bank,
            Teacher(HouseholdTeacher(), seed=number),
            settings,
            categorize,
            scope,
            earlier,
        )
        candidate, report = found.candidate(bank, CAPS)
        duel = bank_duel(
            houses.engine,
            houses.splits.val,
            candidate_sources(bank, candidate, injected_by),
            Draws(3, first=10 * number),
        )
        verdict = await PairedGate().judge(duel, ledger)
        ledger = ledger.spend(verdict)
        outcome = "accepted" if verdict.accepted else "rejected"
        earlier += [shown_change(change, outcome) for change in found.changes]
        bank = candidate if verdict.accepted else bank
        rounds.append(
            {
                "weakest": found.weakest,
                "failures_shown": len(found.failures),
                "changes": [shown_change(change, "proposed") for change in found.changes],
                "over_the_caps": len(report.refused),
                "verdict": verdict.reason,
                "test": success(await houses.play(houses.test, injected_by(bank), 2)),
            }
        )
    harm, _ = apply(bank, [Add(harmful())], None)
    duel = bank_duel(
        houses.engine,
        houses.splits.val,
        candidate_sources(bank, harm, injected_by),
        Draws(3, first=10 * ROUNDS),
    )
    refused = await PairedGate().judge(duel, ledger)
    return {"rounds": rounds, "harmful": refused.reason, "harm_accepted": refused.accepted}


def harmful() -> BankSkill:
    """Return advice that sounds careful, and costs a turn at every place."""
    return BankSkill(
        "", "Examine all", "Examine every receptacle and every object before you move on.",
        "in every task", SkillKind.GENERAL,
    )  # fmt: skip


def lowest(test: dict[str, Any]) -> float:
    """Return the success of the weakest category."""
    return float(min(test["by_category"].values()))


def main() -> int:
    """Run the three parts and print the checks."""
    household = int(sys.argv[1]) if len(sys.argv) > 1 else None
    found: list[dict[str, Any]] = []

    def play() -> float:
        begun = process_time()
        found.append(asyncio.run(distilled(Houses(household))))
        found.append(asyncio.run(evolved(Houses(household))))
        return process_time() - begun

    start = perf_counter()
    work = compared(play, REPEATS, long_plain_s)
    first, second = found[:2]
    before, *_, after = [one["test"] for one in second["rounds"]]
    raised = lowest(after) - lowest(before)
    checks = [
        at_least("gain with the bank, lower bound", Kind.SHARE, first["gain_interval"][:1], 0.01),
        at_least("weakest category, raised by", Kind.SHARE, [raised], 0.01),
        at_most("harmful changes accepted", Kind.COUNT, [float(second["harm_accepted"])], 0),
        at_most("CPU time of the whole", Kind.PLAIN, work, MOST_WORK),
    ]
    return report(
        checks,
        household=household,
        distill=first,
        evolve=second,
        weakest_category=[lowest(before), lowest(after)],
        seconds=round(perf_counter() - start, 1),
    )


if __name__ == "__main__":
    sys.exit(main())
