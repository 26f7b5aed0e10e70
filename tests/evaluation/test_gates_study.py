"""The study of gates: simulated runs whose truth is known, and what is made of them."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "benchmarks" / "gates.py"


@pytest.fixture
def part(monkeypatch):
    """Import a part of the study, as its script does."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module


@pytest.fixture
def cell(part):
    """Make a cell of the main world."""
    worlds = part("gates_study.worlds")

    def make(mixture="mixed", tasks=20, steps=6, **fields):
        return worlds.Cell(worlds.MAIN, mixture, tasks, steps, **fields)

    return make


def test_the_strict_gate_and_the_plain_rule_decide_alike(part, cell):
    rules, worlds = part("gates_study.rules"), part("gates_study.worlds")
    for number in range(40):
        run = worlds.make_run(cell(), number)
        gate, plain = (rules.play(name, run) for name in ("strict gate", "strict, 1 draw"))
        assert gate[:5] == plain[:5]


def test_equal_numbers_make_equal_runs_and_others_make_others(part, cell):
    make_run = part("gates_study.worlds").make_run
    one, same, other = (make_run(cell(), number) for number in (3, 3, 4))
    assert np.array_equal(one.rates, same.rates)
    assert [edit.kind for edit in one.edits] == [edit.kind for edit in same.edits]
    assert not np.array_equal(one.rates, other.rates)


def test_one_useful_step_gains_fifteen_points_in_every_world_that_has_room(part):
    worlds = part("gates_study.worlds")
    for world in set(worlds.WORLDS) - {"high beta(5,.5)"}:
        cell = worlds.Cell(world, "one useful step", 40, 3)
        gains = []
        for number in range(200):
            run = worlds.make_run(cell, number)
            rates = run.rates
            for edit in run.edits:
                rates = edit.of(rates)
            gains.append(run.gain(rates))
        assert np.mean(gains) == pytest.approx(0.15, abs=0.01)


def test_edits_do_what_their_kind_says_to_the_tasks_that_they_hit(part):
    worlds = part("gates_study.worlds")
    rates, hit = np.array([0.2, 0.4, 0.6]), np.array([True, False, True])
    assert worlds.Edit(0, hit, 0.5).of(rates) == pytest.approx(rates)
    assert worlds.Edit(1, hit, 0.5).of(rates) == pytest.approx([0.6, 0.4, 0.8])
    assert worlds.Edit(-1, hit, 0.5).of(rates) == pytest.approx([0.1, 0.4, 0.3])


def test_the_measured_rates_are_those_of_a_hundred_tasks(part):
    rates = part("gates_study.worlds").measured_rates()
    assert len(rates) == 100
    assert 0 <= rates.min() < rates.mean() < rates.max() <= 1


async def test_an_episode_of_the_incumbent_is_paid_for_once(part):
    duels = part("gates_study.duel")
    rng = np.random.default_rng(1)
    incumbent, first, second = (duels.Side(np.full(3, 0.5), 4, rng, 0.0) for _ in range(3))
    incumbent.paid = [1, 1, 1]
    one = duels.FakeDuel(incumbent, first)
    drawn = await one.draw(one.task_ids, 1)
    drawn += await one.draw(one.task_ids[:1], 3)
    assert (one.rollouts, one.waves) == (3 + 3 + 3, 2)
    outcomes = [(int(pair.incumbent.reward), int(pair.candidate.reward)) for pair in drawn]
    wanted = [(incumbent.outcomes[task][0], first.outcomes[task][0]) for task in range(3)]
    wanted += list(zip(incumbent.outcomes[0], first.outcomes[0], strict=True))[1:]
    assert outcomes == wanted
    two = duels.FakeDuel(incumbent, second)
    again = await two.draw(two.task_ids, 2)
    assert two.rollouts == 6 + 2  # of the incumbent, only tasks 1 and 2 lack a second draw
    assert [int(pair.incumbent.reward) for pair in again[:2]] == incumbent.outcomes[0][:2]


async def test_a_lost_episode_of_the_incumbent_is_played_again_and_paid_again(part):
    duels = part("gates_study.duel")
    rng = np.random.default_rng(1)
    incumbent = duels.Side(np.ones(2), 1, rng, 0.0)
    incumbent.outcomes, incumbent.paid = [[duels.LOST], [1]], [1, 1]
    duel = duels.FakeDuel(incumbent, duels.Side(np.ones(2), 1, rng, 0.0))
    drawn = await duel.draw(duel.task_ids, 1)
    assert duel.rollouts == 3
    assert [pair.gain for pair in drawn] == [0.0, 0.0]


def test_lost_episodes_are_failures_and_never_scores(part):
    duels = part("gates_study.duel")
    side = duels.Side(np.ones(200), 5, np.random.default_rng(1), 0.03)
    outcomes = [outcome for task in side.outcomes for outcome in task]
    assert 10 <= outcomes.count(duels.LOST) <= 60
    assert outcomes.count(0) == 0


def table(part, **fields):
    """Return outcomes of runs; every field lists a value per run, or says one for all."""
    outcome = part("gates_study.rules").Outcome
    usual = {"current": 0.0, "released": 0.0, "out": 0.0, "rollouts": 100.0, "accepts": 0.0}
    columns = np.broadcast_arrays(*{**usual, **fields}.values())
    rows = zip(*columns, strict=True)
    names = list({**usual, **fields})
    return np.array([outcome(**dict(zip(names, row, strict=True))) for row in rows])


def test_strict_is_interpolated_at_the_rollouts_that_explore_took(part):
    summary = part("gates_study.summary")
    tables = {
        "explore": table(part, current=[0.2, 0.3], released=[0.2, 0.0], rollouts=250.0),
        "strict, 1 draw": table(part, current=[0.1, 0.1], rollouts=100.0),
        "strict, 2 draws": table(part, current=[0.2, 0.4], rollouts=300.0),
    }
    result = summary.against_strict(tables)
    assert result["strict_draws"] == pytest.approx(1.75)
    assert result["strict"] == pytest.approx(0.25 * 0.1 + 0.75 * 0.3)
    assert result["current_of_strict"] == pytest.approx(0.25 / 0.25)
    assert result["released_of_strict"] == pytest.approx(0.1 / 0.25)


def test_a_release_that_is_no_better_is_counted_and_one_that_is_worse_too(part):
    result = part("gates_study.summary").rule_summary(
        table(
            part, current=[0.1, 0.0, -0.1, 0.2], released=[0.1, 0.0, -0.1, 0.0], out=[1, 1, 1, 0]
        ),
        steps=1,
    )
    assert (result["out"], result["not_better"], result["worse"]) == (0.75, 0.5, 0.25)


def test_targets_name_the_cells_that_miss_them(part, cell):
    summary = part("gates_study.summary")
    fine = table(part, released=[0.0] * 400, out=[1] * 8 + [0] * 392)
    many = table(part, released=[0.0] * 400, out=[1] * 40 + [0] * 360)
    rows = [
        summary.cell_summary(cell("all useless", tasks=tasks), {"explore": outcomes})
        for tasks, outcomes in ((20, fine), (40, many))
    ]
    result = summary.targets(rows)["false_releases"]
    assert not result["ok"]
    assert [one["tasks"] for one in result["above"]] == [40]
    assert summary.targets(rows[:1])["false_releases"]["ok"]
    assert not summary.targets([])["false_releases"]["ok"]
    assert not summary.targets(rows)["current"]["ok"]  # the cells that decide are not there


def test_the_page_keeps_what_stands_above_its_mark_and_its_figures_are_drawn(part, tmp_path):
    generate = part("generate_gates_study")
    results = json.loads((ROOT / "benchmarks" / "gates_results.json").read_text(encoding="utf-8"))
    text = generate.page(results, "Above.\n")
    assert text.startswith("Above.\n" + generate.MARK)
    assert text == generate.page(results, "Above.\n")
    written = (ROOT / "docs" / "gates_study.md").read_text(encoding="utf-8")
    assert written.partition(generate.MARK)[2] == text.partition(generate.MARK)[2]
    generate.draw(results, tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert sorted(drawn) == ["gates_study_false.svg", "gates_study_gain.svg"]
    assert "nan" not in "".join(drawn.values())


@pytest.mark.heavy
def test_the_short_form_holds_its_bounds():
    done = subprocess.run(
        [sys.executable, str(STUDY), "--short"], capture_output=True, text=True, check=False
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["ok"]) == (0, True), result["met"]
