"""The study of gates: simulated runs of known truth, and their summary."""

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

    def make(mixture="mixed", tasks=20, budget=800, **fields):
        return worlds.Cell(worlds.MAIN, mixture, tasks, budget, **fields)

    return make


def test_a_run_has_the_same_tasks_and_edits_under_every_rule_and_budget(part, cell):
    worlds = part("gates_study.worlds")
    one, same, other = (
        worlds.Run(cell(budget=budget), number, rule)
        for budget, number, rule in ((800, 3, "strict"), (3000, 3, "explore"), (800, 4, "strict"))
    )
    assert np.array_equal(one.initial, same.initial)
    assert not np.array_equal(one.initial, other.initial)
    assert np.array_equal(one.propose(one.initial), same.propose(same.initial))
    assert not np.array_equal(one.draw_all(one.initial), same.draw_all(one.initial))


@pytest.mark.parametrize("edits", ["share", "dense", "small", "type", "trade"])
def test_edits_do_what_their_kind_says(part, edits):
    worlds = part("gates_study.worlds")
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.1, 0.9, 4000)
    types = rng.integers(0, worlds.TASK_TYPES, 4000)
    for kind in (1, -1):
        moves = [worlds.EDITS[edits](rates, kind, types, rng) - rates for _ in range(100)]
        assert kind * np.mean(moves) > 0.005
        assert all((rates + move).min() >= 0 and (rates + move).max() <= 1 for move in moves)


def test_the_better_the_skill_the_less_an_edit_gains(part):
    worlds = part("gates_study.worlds")
    low, high = (
        worlds.EDITS["share"](rates, 1, np.zeros(4000), np.random.default_rng(1)) - rates
        for rates in (np.full(4000, 0.2), np.full(4000, 0.8))
    )
    assert high.mean() == pytest.approx(low.mean() / 4)


def test_the_measured_rates_are_those_of_a_hundred_tasks(part):
    rates = part("gates_study.worlds").measured_rates()
    assert len(rates) == 100
    assert 0 <= rates.min() < rates.mean() < rates.max() <= 1


async def test_every_draw_is_paid_and_stored_ones_are_paid_once(part, cell):
    worlds, duels = part("gates_study.worlds"), part("gates_study.duel")
    run = worlds.Run(cell(tasks=3), 1, "test")
    stored = {0: [1.0], 1: [0.0], 2: [1.0]}
    one = duels.SimulatedDuel(run, run.initial, run.initial, stored)
    drawn = await one.draw(one.task_ids, 1)
    assert [pair.incumbent.reward for pair in drawn] == [1.0, 0.0, 1.0]
    assert run.cost == 3
    await one.draw(one.task_ids[:1], 2)
    assert run.cost == 3 + 2 * 2
    two = duels.SimulatedDuel(run, run.initial, run.initial, stored)
    again = await two.draw(two.task_ids[:1], 3)
    assert run.cost == 7 + 3
    assert [pair.incumbent.reward for pair in again] == stored[0]
    await two.draw_candidate(two.task_ids, 2)
    assert run.cost == 10 + 6


@pytest.mark.parametrize("budget", [100, 400, 800])
def test_no_rule_exceeds_its_budget(part, cell, budget):
    rules = part("gates_study.rules")
    for rule in set(rules.RULES) - {rules.BEFORE}:
        for outcome in rules.play(cell(budget=budget), rule, range(3)):
            assert outcome.cost <= budget, rule
            assert outcome.out or outcome.released == 0


def test_the_oracle_keeps_exactly_the_useful_edits(part, cell):
    rules, worlds = part("gates_study.rules"), part("gates_study.worlds")
    never = rules.play(cell("all useless", budget=1200), rules.ORACLE, range(5))
    assert {one.current for one in never} == {0.0}
    for number in range(5):
        run = worlds.Run(cell(budget=1200), number, rules.ORACLE)
        assert rules.oracle(run).current > 0


def test_a_bet_accepts_a_sure_gain_and_no_loss(part, cell, monkeypatch):
    rules, worlds = part("gates_study.rules"), part("gates_study.worlds")
    for rates, accepted in ((1.0, True), (0.0, False)):
        run = worlds.Run(cell(tasks=40, budget=200), 1, "PACE")
        run.initial = np.full(run.initial.shape, 0.0 if accepted else 1.0)
        proposed = np.full(run.initial.shape, rates)
        monkeypatch.setattr(
            run,
            "propose",
            lambda current, proposed=proposed, run=run: (
                setattr(run, "cost", run.cost + 100),
                proposed,
            )[1],
        )
        assert rules.betting(run).out == accepted


def table(part, **fields):
    """Return outcomes of runs; every field lists a value per run, or one for all."""
    outcome = part("gates_study.rules").Outcome
    usual = dict.fromkeys(outcome._fields[:6], 0.0)
    columns = np.broadcast_arrays(*{**usual, **fields}.values())
    rows = zip(*columns, strict=True)
    names = list({**usual, **fields})
    return np.array([outcome(**dict(zip(names, row, strict=True))) for row in rows])


def test_a_share_of_another_rules_gain_has_the_error_of_paired_runs(part, cell):
    summary = part("gates_study.summary")
    gains = np.linspace(0.1, 0.3, 50)
    row = summary.cell_summary(
        cell(),
        {
            "explore": table(part, released=1.5 * gains),
            "strict": table(part, released=gains),
        },
    )
    assert row["of_strict"]["share"] == pytest.approx(1.5)
    assert row["of_strict"]["share_se"] == pytest.approx(0, abs=1e-9)
    assert row["of_strict"]["difference"] == pytest.approx(0.1)
    assert row["of_strict"]["difference_se"] > 0


def test_a_release_that_is_no_better_is_counted(part):
    summary = part("gates_study.summary")
    result = summary.rule_summary(
        "explore", table(part, released=[0.1, 0.0, -0.1, 0.0], out=[1, 1, 1, 0])
    )
    assert (result["out"], result["not_better"]) == (0.75, 0.5)


def test_printed_gains_are_compared_with_the_truth_where_something_is_proven(part):
    summary = part("gates_study.summary")
    nan = float("nan")
    proven = {
        "released": [0.2, 0.4, 0.0],
        "printed": [0.3, 0.4, nan],
        "low": [0.25, 0.3, nan],
        "high": [0.4, 0.5, nan],
        "measured": [0.4, 0.5, nan],
        "measured_low": [0.1, 0.1, nan],
        "measured_high": [0.6, 0.6, nan],
    }
    proofs = summary.rule_summary("explore", table(part, **proven))["proofs"]
    assert proofs["proofs"] == 2
    assert (proofs["bias"], proofs["covered"]) == (pytest.approx(0.05), 0.5)
    assert (proofs["measured_bias"], proofs["measured_covered"]) == (pytest.approx(0.15), 1)
    assert (proofs["width"], proofs["measured_width"]) == pytest.approx((0.175, 0.5))


def test_proofs_are_pooled_by_world_and_few_say_nothing(part, cell):
    summary = part("gates_study.summary")

    def row(proofs, excess):
        printed = table(
            part,
            released=[0.2] * proofs,
            **dict.fromkeys(("printed", "measured"), 0.2 + excess),
            **dict.fromkeys(("low", "measured_low"), 0.1),
            **dict.fromkeys(("high", "measured_high"), 0.3),
        )
        return summary.cell_summary(cell(), {"explore": printed})

    pooled = summary.proofs_by([row(150, 0.0), row(50, 0.04)], "world")
    found = pooled[cell().world]
    assert found["proofs"] == 200
    assert (found["bias"], found["covered"]) == (pytest.approx(0.01), 1)
    assert found["bias_se"] == pytest.approx(0.04 * (0.25 * 0.75 / 200) ** 0.5)
    assert summary.proofs_by([row(50, 0.0)], "world") == {}


def test_targets_name_the_cells_that_miss_them(part, cell):
    summary = part("gates_study.summary")
    few = summary.cell_summary(cell("all useless"), {"explore": table(part, out=[1] * 100)})
    assert summary.targets([few])["false_releases"]["cells"] == 0  # too few runs to say
    fine = table(part, out=[1] * 8 + [0] * 392)
    many = table(part, out=[1] * 40 + [0] * 360)
    rows = [
        summary.cell_summary(cell("all useless", tasks=tasks), {"explore": outcomes})
        for tasks, outcomes in ((20, fine), (40, many))
    ]
    result = summary.targets(rows)["false_releases"]
    assert not result["ok"]
    assert [one["where"] for one in result["above"]] == [summary.where(rows[1])]
    assert summary.targets(rows[:1])["false_releases"]["ok"]
    assert not any(one["ok"] for one in summary.targets([]).values())
    behind = summary.cell_summary(
        cell(),
        {
            "explore": table(part, released=np.linspace(0.1, 0.2, 50)),
            "explore before": table(part, released=np.linspace(0.2, 0.3, 50)),
        },
    )
    assert not summary.targets([behind])["before"]["ok"]


def test_a_stopped_study_resumes_from_its_parts(part, cell, tmp_path, monkeypatch):
    study = part("gates")
    plan_work = part("gates_study.plan").Work
    plan = [plan_work(cell(), "strict", first, first + 2) for first in (0, 2)]
    kept = tmp_path / "parts.jsonl"
    whole = study.simulate(plan)
    calls = iter([True, False])
    assert list(study.simulate(plan, kept, lambda: next(calls))) == plan[:1]
    with kept.open("a", encoding="utf-8") as file:
        file.write('\n{"cell": {"wor')  # a line that was cut off
    monkeypatch.setattr(study, "play", lambda *_: pytest.fail("played again"))
    again = study.simulate(plan[:1], kept)
    assert list(again) == plan[:1]
    assert np.array_equal(again[plan[0]], whole[plan[0]], equal_nan=True)
    assert study.summarize(whole)[0]["rules"]["strict"]["runs"] == 4


def test_several_processes_play_the_same_runs(part, cell, tmp_path):
    study = part("gates")
    plan_work = part("gates_study.plan").Work
    plan = [plan_work(cell(), rule, 0, 1) for rule in ("strict", "explore", "oracle")]
    kept = tmp_path / "parts.jsonl"
    together = study.simulate(plan, kept, processes=2)
    assert list(together) == plan
    alone = study.simulate(plan)
    assert all(np.array_equal(together[one], alone[one], equal_nan=True) for one in plan)
    assert study.read_parts(kept).keys() == alone.keys()


def test_the_plan_plays_no_part_twice_and_begins_with_what_decides(part):
    plan = part("gates_study.plan")
    works = plan.whole(300)
    assert len(works) == len(set(works))
    assert works[0].cell == plan.Cell(plan.MAIN, "mixed", 40, 1600)
    assert {work.last for work in works} <= {100, 200, 300}


def test_the_page_keeps_what_stands_above_its_mark_and_its_figure_is_drawn(part, tmp_path):
    generate = part("generate_gates_study")
    results = json.loads((ROOT / "benchmarks" / "gates_results.json").read_text(encoding="utf-8"))
    text = generate.page(results, "Above.\n")
    assert text.startswith("Above.\n" + generate.MARK)
    written = (ROOT / "docs" / "gates_study.md").read_text(encoding="utf-8")
    assert written.partition(generate.MARK)[2] == text.partition(generate.MARK)[2]
    generate.draw(results, tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert list(drawn) == ["gates_study_gain.svg"]
    assert "nan" not in "".join(drawn.values())


@pytest.mark.heavy
def test_the_short_form_holds_its_bounds():
    done = subprocess.run(
        [sys.executable, str(STUDY), "--short"], capture_output=True, text=True, check=False
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["ok"]) == (0, True), result["met"]
