"""The referee's worlds know their truth, and its figures say who loses."""

import importlib
import json
import sys
from pathlib import Path
from statistics import fmean
from unittest import mock

import pytest

from skillwright.core import Patch, apply_patch

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
NOWHERE = Path("nowhere")


@pytest.fixture
def part(monkeypatch):
    """Import a part of the referee, as it does itself."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def learned(world, steps=3):
    """Take what the optimizer proposes, step by step."""
    skill, draws = "", [0] * len(world.items["train"])
    for number in range(steps):
        rows = world.play(skill, world.items["train"], draws, NOWHERE)
        skill = apply_patch(skill, Patch(world.propose(skill, rows, number, NOWHERE)))
    return skill


def drawn(world, skill, draws):
    items = [item for item in world.items["test"] for _ in range(draws)]
    numbers = [draw for _ in world.items["test"] for draw in range(draws)]
    return fmean(row["hard"] for row in world.play(skill, items, numbers, NOWHERE))


def test_the_value_of_a_skill_with_rules_is_what_many_plays_show(part):
    worlds = part("referee_study.worlds")
    world = worlds.Rules(4)
    skill = learned(world)
    assert world.value("") == pytest.approx(worlds.RATES.none)
    assert world.value(skill) != pytest.approx(world.value(""))
    assert drawn(world, skill, 50) == pytest.approx(world.value(skill), abs=0.02)


def test_a_rule_replaces_the_one_for_its_kind(part):
    world = part("referee_study.worlds").Rules(2)
    lines = [line for line in learned(world, steps=9).splitlines() if line]
    kinds = [line.partition(":")[0] for line in lines]
    assert len(kinds) == len(set(kinds)) > 4


def test_the_value_of_a_clerks_skill_is_what_many_plays_show(part):
    world = part("referee_study.episodes").Clerk(3, sizes=(20, 5, 10))
    skill = learned(world, steps=1)
    assert world.value(skill) > world.value("") + 0.1
    assert drawn(world, skill, 30) == pytest.approx(world.value(skill), abs=0.08)


def test_each_play_of_a_task_is_random_on_its_own_and_runs_repeat(part):
    worlds = part("referee_study.worlds")

    def played():
        bench = worlds.Bench(worlds.Rules(1))
        items = bench.world.items["val"]
        return [[row["hard"] for row in bench.play("", items, NOWHERE)] for _ in range(2)], bench

    (first, second), bench = played()
    assert first != second
    assert played()[0] == [first, second]
    assert bench.calls == 2 * len(first)


def test_a_streak_of_better_candidates_ends_with_one_that_is_accepted(part):
    referee, trainers = part("referee"), part("referee_study.trainers")
    bench = part("referee_study.worlds").Bench(None)
    bench._values = {"a": 0.3, "b": 0.4, "c": 0.2}

    def decisions(said):
        return [trainers.Decision("a", after, after.isupper()) for after in said.split()]

    bench._values |= {"B": 0.4}
    assert referee.missed(bench, decisions("b b B b")) == 2
    assert referee.missed(bench, decisions("b c b")) == 1
    assert referee.missed(bench, []) == 0


def test_a_world_has_other_numbers_by_its_name(part):
    numbers = part("referee_study.numbers")
    for kind in numbers.KINDS:
        assert numbers.numbers_of(kind) == ""
        assert numbers.numbers_of(f"{kind}:1") != numbers.numbers_of(f"{kind}:2") != ""
    plain, other = numbers.world_of("rules", 3), numbers.world_of("rules:2", 3)
    assert len(other.items["val"]) == 30
    assert other.value("") != plain.value("")
    assert other.value("") == numbers.world_of("rules:2", 4).value("")
    for wrong in ("sums", "rules:", "rules:one"):
        with pytest.raises(ValueError, match=wrong):
            numbers.world_of(wrong, 0)


def test_trainings_run_in_processes_and_none_begins_late(part, capsys):
    pytest.importorskip("gepa", reason="gepa is not installed")
    referee = part("referee")
    job = referee.Job("rules:1", "gepa 0.1.4", 30, 0)
    todo = iter([job, job._replace(trainer="none"), job._replace(seed=1)])
    kept = [row and row["seed"] for row in referee.played(todo, 1, 0)]
    assert (kept, len(list(todo))) == ([0], 2)
    todo = iter([job._replace(trainer="none"), job])
    found = list(referee.played(todo, 1, None))
    assert found[0] is None
    assert "KeyError: 'none'" in capsys.readouterr().err
    assert found[1]["calls"] >= 30


def test_of_equal_trainings_the_last_counts(part, tmp_path):
    referee, path = part("referee"), tmp_path / "kept.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows("gepa 0.1.4", [0.4, 0.5])))
    with path.open("a") as file:
        file.write(json.dumps(rows("gepa 0.1.4", [0.6])[0]) + "\n")
    assert [row["released"] for row in referee.read_kept(path)] == [0.6, 0.5]


def rows(trainer, released, **other):
    row = {"world": "rules", "trainer": trainer, "budget": 1600, "start": 0.3, "calls": 1600}
    row |= {"nothing": False, "missed": 0}
    return [
        {**row, "seed": seed, "released": one, "current": one, **other}
        for seed, one in enumerate(released)
    ]


def test_it_is_said_plainly_who_loses(part):
    summary = part("referee_study.summary")
    groups = summary.cells(
        [*rows("Skillwright", [0.5, 0.52, 0.51]), *rows("gepa 0.1.4", [0.6, 0.61, 0.63])]
    )
    (_, _, said) = summary.lines(groups)
    assert said.startswith("  Skillwright is behind: -0.103")
    failed = [check.measured for check in summary.checks(groups) if not check.ok]
    assert failed == ["rules, 1600 calls: released over gepa 0.1.4"]


def test_what_is_released_worse_than_the_start_counts(part):
    summary = part("referee_study.summary")
    groups = summary.cells(rows("Skillwright", [0.2, 0.5], missed=6))
    failed = [check.measured for check in summary.checks(groups) if not check.ok]
    assert failed == [
        "released skills worse than the start",
        "rules, 1600 calls: truly better candidates rejected in a row",
    ]


PEERS = {"SkillOpt 0.2.0": "skillopt.prompts", "gepa 0.1.4": "gepa"}
"""Modules that tell that a peer is installed."""


def forget():
    for name in [one for one in sys.modules if one.partition(".")[0] == "skillopt"]:
        del sys.modules[name]


@pytest.fixture
def _forgotten(monkeypatch):
    """Forget SkillOpt's package and variables: other tests have ours in its place."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget()
    with mock.patch.dict("os.environ"):
        yield
    forget()


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_learns_within_its_budget(part, tmp_path, name):
    worlds, trainers = part("referee_study.worlds"), part("referee_study.trainers")
    sys.path.append(str(trainers.PEERS))
    pytest.importorskip(PEERS[name], reason=f"{name} is not installed")
    bench = worlds.Bench(worlds.Rules(5))
    trained = trainers.TRAINERS[name](bench, 400, 5, tmp_path)
    assert bench.value(trained.released) > bench.value("")
    assert bench.calls <= 400 * trainers.OVERSHOOT
    assert any(one.accepted for one in trained.decisions)
    assert trained.decisions[0].before.strip() == ""
