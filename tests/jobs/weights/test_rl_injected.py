"""What is injected: skills, raw trajectories or nothing; and which tasks the policy gets."""

from dataclasses import replace

import pytest

from fakes import make_episode
from skillwright.bank import Add, Bank, Embedder, LexicalEmbedder, RenderBudget, RetrievalSettings
from skillwright.bank import apply as changed
from skillwright.config import RlConfig, validated_rl
from skillwright.core import BankSkill, Counterfactual, PlainSkill, SkillKind, Task
from skillwright.jobs.weights import (
    Injector,
    Remembered,
    SometimesNothing,
    TrajectorySource,
    again_tasks,
    find_rl_tasks,
    harder_tasks,
    other_scopes,
    tasks_of_iteration,
)

HOMES = ("household 1", "household 2")


def skill(name, principle, kind=SkillKind.TASK_SPECIFIC, **fields):
    lesson = Counterfactual("a", "b", "c") if kind is SkillKind.LESSON else None
    return BankSkill("", name, principle, "always", kind, counterfactual=lesson, **fields)


def bank():
    drafts = [
        skill("Look", "Look before you leap into anything.", SkillKind.GENERAL),
        *(
            skill(f"Cup {n}", f"The cup is in cabinet {n} here.", scope=h)
            for n, h in enumerate(HOMES)
        ),
        skill("Heat", "Heat the cup with the microwave.", category="heat"),
        skill("Hands", "Hold a cup before you heat it.", SkillKind.LESSON, category="heat"),
    ]
    made, _ = changed(Bank(), [Add(draft) for draft in drafts])
    return made


def task(number=0, home=1, task_type="pick_heat_then_place_in_recep"):
    generated = {"split": "train", "index": 3 + 6 * number, "household": home, "seed": 0}
    return Task(f"t{number}", "alfworld", {"generated": generated}, task_type, "heat some cup")


def injector(**fields):
    settings = RetrievalSettings(k_task=6, delta=-1.0, k_lessons=5)
    return Injector(LexicalEmbedder(), settings, RenderBudget(), **fields)


def test_a_task_gets_skills_of_its_own_place_and_elsewhere_of_another_one():
    made = bank()
    own = injector().source(made).context(task()).text
    assert "cabinet 0" in own
    assert "cabinet 1" not in own
    moved = injector().elsewhere(made, other_scopes(HOMES)).context(task()).text
    assert "cabinet 1" in moved
    assert "cabinet 0" not in moved
    unlayered = injector(hierarchy=False).elsewhere(made, other_scopes(HOMES)).context(task())
    assert unlayered.version.startswith("any_kind")
    assert "cabinet 1" in unlayered.text
    assert "cabinet 0" not in unlayered.text


def test_principles_are_what_holds_everywhere_and_facts_what_holds_in_the_tasks_place():
    made = bank()
    facts = injector(part="facts").source(made).context(task()).text
    assert "cabinet 0" in facts
    assert "microwave" not in facts
    assert "leap" not in facts
    principles = injector(part="principles").source(made).context(task()).text
    assert "microwave" in principles
    assert "leap" in principles
    assert "cabinet" not in principles
    whole = injector(part="facts", hierarchy=False).whole(made).context(task())
    assert whole == injector().source(made).context(task())


def test_places_take_the_skills_of_the_next_one_and_a_place_alone_has_no_other():
    assert other_scopes(["b", "a", "c", "a", ""]) == {"a": "b", "b": "c", "c": "a"}
    assert other_scopes(["a", ""]) == {}


def test_without_hierarchy_the_most_similar_skills_are_injected_as_one_list():
    injected = injector(hierarchy=False).source(bank()).context(task())
    assert injected.text.startswith("### Skills\n")
    assert "General" not in injected.text
    assert list(injected.scores) == sorted(injected.scores, reverse=True)
    assert "cabinet 1" not in injected.text  # another household's, all the same
    short = replace(injector(hierarchy=False), budget=RenderBudget(30, 0)).source(bank())
    assert len(short.context(task()).skill_ids) < len(injected.skill_ids)


def test_of_raw_trajectories_those_of_the_same_category_and_place_come_the_solved_ones_first():
    lost, solved = (
        replace(one, spec=replace(one.spec, task=task(n)))
        for n, one in enumerate((make_episode("a", 0.0), make_episode("b", 1.0)))
    )
    elsewhere = replace(solved, spec=replace(solved.spec, task=task(2, home=2)))
    source = TrajectorySource.of([lost, solved, elsewhere], 1.0, 500)
    text = source.context(task(9)).text
    assert text.index("It was won") < text.index("It was lost")
    assert text.count("Task: ") == 2
    assert TrajectorySource.of([lost], 1.0, 10).context(task(9)).text.startswith("No earlier")


def test_a_share_of_the_tasks_gets_no_skills_and_always_the_same_ones():
    tasks = [task(number) for number in range(200)]
    source = SometimesNothing(PlainSkill("rule"), 0.25, seed=3)
    injected = [one.text for one in source.contexts(tasks)]
    assert 30 < injected.count("") < 70
    assert injected == [source.context(one).text for one in tasks]


def test_a_source_is_asked_once_per_task():
    class Counting:
        waits, asked = False, 0

        def contexts(self, tasks):
            self.asked += len(tasks)
            return PlainSkill("x").contexts(tasks)

    counting = Counting()
    source = Remembered(counting)
    source.contexts([task(1), task(1), task(2)])
    source.context(task(2))
    assert counting.asked == 2


def config(**data) -> RlConfig:
    return validated_rl(
        {
            "env": {"data": {"kind": "households", "val": 6, "test": 6, **data}},
            "models": {
                "teacher": {"backend": "scripted", "model": "household_teacher"},
                "expert": {"backend": "scripted", "model": "searcher"},
            },
        },
        "test",
    )


def test_a_survey_is_read_and_never_trained_on_and_val_and_test_lie_in_its_homes():
    tasks = find_rl_tasks(config(train=12, homes=4, new_homes=4, survey=12))
    surveyed = {one.id for one in tasks.splits.train.tasks if one.split == "survey"}
    assert len(surveyed) == 12
    assert not surveyed & {one.id for one in tasks.training}
    assert surveyed & {one.id for one in tasks.base}

    def homes(of):
        return {one.extras["generated"]["household"] for one in of}

    assert homes(tasks.val) <= homes(t for t in tasks.base if t.id in surveyed)
    assert not homes(tasks.training) & homes(tasks.val)


def test_the_evolution_split_is_neither_trained_on_nor_distilled():
    tasks = find_rl_tasks(config(train=60, homes=2))
    evolution = {one.id for one in tasks.evolution.tasks}
    assert evolution
    assert not evolution & {one.id for one in (*tasks.training, *tasks.base)}
    assert len(tasks.training) + len(evolution) == 60


@pytest.mark.parametrize("count", [4, 5, 12, 40])
def test_a_pass_meets_no_task_twice_and_the_next_one_has_another_order(count):
    tasks = [task(number) for number in range(12)]
    portions = max(1, 12 // count)
    first = [one.id for n in range(portions) for one in tasks_of_iteration(tasks, n + 1, count, 5)]
    again = [
        one.id
        for n in range(portions)
        for one in tasks_of_iteration(tasks, portions + n + 1, count, 5)
    ]
    assert len(set(first)) == len(first) == min(12, portions * count)
    assert first != again


def test_task_types_that_fail_come_more_often_and_no_task_twice():
    easy = [replace(task(n), task_type="easy") for n in range(100)]
    hard = [replace(task(100 + n), task_type="hard") for n in range(100)]
    drawn = [
        one
        for n in range(1, 40)
        for one in harder_tasks([*easy, *hard], n, 4, 1, {"easy": 1.0, "hard": 0.2})
    ]
    share = sum(one.task_type == "hard" for one in drawn) / len(drawn)
    assert 0.8 < share < 1
    alone = harder_tasks(easy[:3], 1, 8, 1, {})
    assert len({one.id for one in alone}) == len(alone) == 3


def test_only_undecided_tasks_come_again_and_none_twice():
    tasks = [task(number) for number in range(12)]
    open_ones = {one.id for one in tasks[:5]}
    drawn = [again_tasks(tasks, n, 3, 5, open_ones) for n in range(1, 9)]
    assert all(len({one.id for one in some}) == 3 for some in drawn)
    assert {one.id for some in drawn for one in some} == open_ones
    assert len(again_tasks(tasks, 1, 8, 5, open_ones)) == 5
    assert again_tasks(tasks, 1, 8, 5, ()) == ()


def test_the_embedder_of_an_injector_encodes_a_skill_once():
    class Counting(LexicalEmbedder):
        encoded = 0

        def encode_skills(self, texts):
            self.encoded += len(texts)
            return super().encode_skills(texts)

    counting: Embedder = Counting()
    one, made = replace(injector(), embedder=counting), bank()
    one.source(made).context(task())
    more, _ = changed(made, [Add(skill("New", "Wipe the plate with a cloth.", category="clean"))])
    one.source(more).context(task())
    assert counting.encoded == 5
