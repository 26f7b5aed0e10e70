"""The study's flat memory: what is remembered of episodes, and what is injected of it."""

import importlib
from pathlib import Path

import pytest

from skillwright.bank import (
    Bank,
    LexicalEmbedder,
    RenderBudget,
    RetrievalSettings,
    approximate_tokens,
)
from skillwright.core import (
    Act,
    BankSkill,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillKind,
    Task,
    Trajectory,
    Turn,
)

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a countertop 1, "
    "a fridge 1, and a microwave 1.\n\nYour task is to: put some egg on countertop."
)


@pytest.fixture
def memory(monkeypatch):
    """Import the study's memory, as its script does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("study.memory")


def task(home=7, goal="put some egg on countertop", name="t"):
    extras = {"generated": {"split": "train", "index": 0, "seed": 0, "household": home}}
    return Task(name, "alfworld", description=goal, extras=extras)


def episode(*steps, home=7):
    """Return an episode of (command, observation) in a kitchen."""
    turns = tuple(
        Turn(index, (), Act(command), seen, 0.0) for index, (command, seen) in enumerate(steps)
    )
    played = Trajectory(OPENING, turns)
    return EpisodeResult(EpisodeSpec(task(home), 0), 1.0, trajectory=played)


def at_fridge(*names):
    listed = ", ".join(f"a {name}" for name in names)
    return (
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        (
            "open fridge 1",
            f"You open the fridge 1. The fridge 1 is open. In it, you see {listed}.",
        ),
    )


def at_countertop(*names):
    listed = ", ".join(f"a {name}" for name in names) or "nothing"
    seen = f"You arrive at countertop 1. On the countertop 1, you see {listed}."
    return ("go to countertop 1", seen)


def test_an_episode_is_remembered_by_where_things_were_when_first_seen(memory):
    take = ("take egg 1 from fridge 1", "You pick up the egg 1 from the fridge 1.")
    put = ("move egg 1 to countertop 1", "You move the egg 1 to the countertop 1.")
    one = episode(*at_fridge("egg 1", "cup 2"), take, at_countertop("cup 1"), put)
    after = episode(*at_fridge("egg 1"), take, at_countertop(), put, at_countertop("egg 1"))
    texts = [said.text for said in memory.statements(one)]
    assert sorted(texts) == [
        "In this home's kitchen, the cup was in fridge 1 and on countertop 1.",
        "In this home's kitchen, the egg was in fridge 1.",
    ]
    assert [said.places for said in memory.statements(after)] == [("in fridge 1",)]
    (egg,) = [said for said in memory.statements(one) if said.thing == "egg"]
    assert egg.other_text == "Fridge 1 of the kitchen held this home's egg."


def test_the_newest_statement_wins_and_what_says_nothing_new_changes_nothing(memory):
    first, elsewhere = episode(*at_fridge("egg 1")), episode(at_countertop("egg 1"))
    other_home = episode(*at_fridge("egg 1"), home=8)
    known, counts = memory.remember([first, first, other_home, elsewhere])
    assert counts == {"added": 2, "updated": 1, "unchanged": 1}
    assert {one.home: one.places for one in known} == {
        "household 7": ("on countertop 1",),
        "household 8": ("in fridge 1",),
    }
    assert [memory.Memory.from_dict(one.to_dict()) for one in known] == known


def test_memories_of_the_home_are_injected_at_the_length_of_the_skills_nearest_first(memory):
    things = ("egg", "cup", "pan", "fork", "apple")
    known = [
        memory.Memory(f"household {home}", "kitchen", thing, (f"in drawer {home}",))
        for home in (7, 8)
        for thing in things
    ]
    memories = memory.Memories(known, LexicalEmbedder(), lambda one: one.text)
    for size in (0, 100, 200, 5000):
        source = memory.MemorySource(memories, PlainSkill("x" * size))
        here, there = source.contexts([task(7), task(8, "put a fork on countertop")])
        assert approximate_tokens(here.text) <= approximate_tokens("x" * size)
        if size:
            assert here.text.splitlines()[0] == memory.HEADING
            assert "the egg was in drawer 7" in here.text.splitlines()[1]
            assert "the fork was in drawer 8" in there.text.splitlines()[1]
        assert "drawer 8" not in here.text
    assert len(here.text.splitlines()) == 1 + len(things)
    assert memory.MemorySource(memories, PlainSkill("x" * 99)).context(task(9)).text == ""


def test_the_policy_reads_memories_and_the_expert_the_skills(memory):
    homes = ("household 7", "household 8")
    known = [memory.Memory(home, "kitchen", "egg", (f"on shelf {home[-1]}",)) for home in homes]
    skill = BankSkill(
        "g001", "Look", "Look into each place once. " * 4, "always", SkillKind.GENERAL
    )
    bank, embedder = Bank(1, (skill,)), LexicalEmbedder()
    injector = memory.MemoryInjector(
        embedder,
        RetrievalSettings(),
        RenderBudget(),
        memories=memory.Memories(known, embedder, lambda one: one.text),
    )
    said = injector.source(bank).context(task(7))
    assert said.text == f"{memory.HEADING}\n- In this home's kitchen, the egg was on shelf 7."
    assert not said.skill_ids
    moved = injector.elsewhere(bank, {homes[0]: homes[1], homes[1]: homes[0]})
    assert "shelf 8" in moved.context(task(7)).text
    assert injector.whole(bank).context(task(7)).skill_ids == ("g001",)
