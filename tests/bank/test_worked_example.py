"""Heat the apple: distilled, stored, retrieved, and evolved until it is no longer lost."""

from dataclasses import replace

from bank_houses import added, categorize, engine, injected_by, play, scope, skill, tasks_of
from skillwright.bank import (
    Bank,
    BankStore,
    DistillSettings,
    EvolutionResults,
    EvolveSettings,
    Teacher,
    apply,
    bank_duel,
    candidate_sources,
    distill,
    evolve,
)
from skillwright.core import Completion, SkillKind
from skillwright.datasets import EvolutionTasks, Splits
from skillwright.evaluation import AlphaLedger, Draws, PairedGate
from skillwright.worlds.alfworld import AlfworldEnv
from skillwright.worlds.alfworld.scripted.teacher import HouseholdTeacher

SAFE = "not already inside"
"""What the cook has to read to keep the food in hand."""


class Cook:
    """Finds everything, but puts food into the microwave to heat it, as one does at home.

    Told to check that it is not already inside, it keeps the food in hand and wins.

    Args:
        tasks: The games that it knows its way about.
        is_careful: It needs not be told.
    """

    identity = "test:cook"

    def __init__(self, tasks, *, is_careful=False):
        self._plans = {}
        for task in tasks:
            env = AlfworldEnv(extras=dict(task.extras))
            messages, _ = env.init([])
            self._plans[messages[-1]["content"]] = env.gold_actions(task.extras)
        self._is_careful = is_careful

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        told, opening, *since = messages
        plan = self._plans[opening["content"]]
        if not (self._is_careful or SAFE in told["content"]):
            plan = list(self._clumsy(plan))
        return Completion(f"<action>{plan[min(len(since) // 2, len(plan) - 1)]}</action>")

    @staticmethod
    def _clumsy(plan):
        for command in plan:
            if command.startswith("heat "):
                thing, place = command.removeprefix("heat ").split(" with ")
                yield f"open {place}"
                yield f"move {thing} to {place}"
                yield f"close {place}"
                yield command
                return
            yield command


async def test_heat_the_apple_from_the_first_trace_to_the_skill_that_evolution_adds(tmp_path):
    games = tasks_of("heat", 16)
    apple = next(task for task in games if "apple" in task.description)
    lost, *others = [task for task in games if task is not apple]
    settings, teacher = DistillSettings(), Teacher(HouseholdTeacher())

    # 1. A success becomes a principle with its applicability, a failure a lesson of four parts.
    won = await play([apple], model=Cook([apple], is_careful=True))
    failed = await play([lost], model=Cook([lost]))
    assert [won[0].reward, failed[0].reward] == [1.0, 0.0]
    found = await distill([*won, *failed], teacher, settings, categorize, scope)
    found.refuse_gaps()
    drafts = [change.draft for change in found.changes]
    heating = next(d for d in drafts if d.kind == SkillKind.TASK_SPECIFIC)
    assert "with the object in hand, go to the microwave" in heating.principle
    assert heating.applicability.startswith("when a goal asks to heat")
    assert heating.category == "heat"
    taught = next(d for d in drafts if d.kind == SkillKind.LESSON)
    rejected = [t.index for t in failed[0].trajectory.turns if t.observation == "Nothing happens."]
    assert taught.provenance.turns[0] == (failed[0].key, rejected[0])
    assert "lies inside it" in taught.counterfactual.failure_point
    assert "put into the appliance" in taught.counterfactual.flawed_reasoning
    assert taught.counterfactual.corrective_action.startswith("take the object first")
    assert "not already inside the appliance" in taught.principle

    # 2. It is stored, and retrieved for heating: all general skills, and none of other categories.
    store = BankStore.open(tmp_path / "bank.sqlite")
    sanity = skill("Sanity check", "Before each action, check that it can succeed.")
    for other in ("clean", "pick_two"):
        drafts.append(
            skill("Other", f"This is about {other}.", kind=SkillKind.TASK_SPECIFIC, category=other)
        )
    bank = store.commit(added(sanity, *drafts), reason="distilled")
    asked = replace(apple, description="heat the apple")
    (got,) = injected_by(bank).retrieve([asked])
    assert {one.skill.id for one in got.general} == {
        s.id for s in bank.active if s.kind == SkillKind.GENERAL
    }
    assert {one.skill.name for one in got.task_specific} == {heating.name}
    assert all(one.score > got.delta for one in got.task_specific)
    assert {one.skill.category for one in got.lessons} == {"heat"}

    # 4. Repeated failures of a bank without that lesson add a skill, which the next round is told.
    poor, _ = apply(Bank(version=bank.version), added(sanity, heating), None)
    evolution, val = others[:4], others[4:]
    splits = Splits.of(evolution, val, [apple])
    split = EvolutionTasks.every(splits.train, 1)
    cook = Cook(games)
    before = await play(evolution, injected_by(poor), model=cook)
    assert not any(result.is_success() for result in before)
    update = await evolve(
        EvolutionResults(split, tuple(before)),
        poor,
        Teacher(HouseholdTeacher(), seed=1),
        EvolveSettings(),
        categorize,
        scope,
    )
    candidate, report = update.candidate(poor, EvolveSettings().caps)
    (new,) = [s for s in map(candidate.get, report.added) if SAFE in s.principle]
    assert (new.kind, new.category) == (SkillKind.TASK_SPECIFIC, "heat")
    assert len(new.provenance.episodes) == len(before)
    assert candidate.version == poor.version + 1
    assert new.id in injected_by(candidate).context(apple).skill_ids
    after = await play(evolution, injected_by(candidate), model=cook, seed=2)
    assert all(result.is_success() for result in after)

    duel = bank_duel(
        engine(cook), splits.val, candidate_sources(poor, candidate, injected_by), Draws(seed=1)
    )
    verdict = await PairedGate().judge(duel, AlphaLedger(0.05, 1))
    assert verdict.accepted, verdict.reason
