"""What the end of a job looks like: tables that fit 80 columns and eat no brackets."""

from dataclasses import replace

import pytest

from shown import TASK_TYPE, WIDTH, episodes, pipe, verdict
from skillwright.cli import tables
from skillwright.cli.live import Tally, display
from skillwright.cli.tables import show_environment
from skillwright.core import Usage
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    Interval,
    Score,
    ScoreTable,
    SelectionBias,
    SplitReport,
)
from skillwright.jobs.run import Cause, EnvFindings, PricedModel, RunStarted, StepDecided
from skillwright.jobs.text import (
    Confirmation,
    EpochRecord,
    EvalReport,
    StepRecord,
    TrainReport,
    TrainState,
)
from skillwright.models import Prices
from skillwright.textopt import StepEntry, StepMemory, TriedEdit

PRICES = {"input_usd_per_mtok": 2.0, "output_usd_per_mtok": 8.0}


def train_report(tables_of, accepted=True):
    edits = (
        TriedEdit("append", "", "Open [every] cabinet.\nThen look.", "applied_append"),
        TriedEdit("replace", "[old] line", "", "skipped_replace_target_not_found"),
    )
    decision = Decision.ACCEPT if accepted else Decision.REJECT
    action = "accept_new_best" if accepted else "reject"
    steps = (
        StepRecord(1, 1, action, StepEntry(1, "accept", edits), verdict(decision), 1),
        StepRecord(2, 1, "skip_no_patches", StepEntry(2, "skip_no_patches")),
    )
    first = TrainState(StepMemory(), AlphaLedger(0.05, 2))
    report = SplitReport.of("test", tables_of)
    state = TrainState(first.memory, first.ledger, steps=steps, report=report)
    return TrainReport(state, "", "Open [every] cabinet.", "Open [every] cabinet.")


def parted(report):
    """The report of a run in which the current skill left the best one behind."""
    proof = verdict(reason="Accepted: 3 of 24 [tasks].")
    steps = (
        StepRecord(1, 1, "accept", StepEntry(1, "accept"), proof, 1, best_verdict=verdict()),
        StepRecord(2, 1, "force_accept", StepEntry(2, "accept"), None, 2),
        StepRecord(3, 1, "force_accept", StepEntry(3, "accept"), None, 3, best_verdict=proof),
    )
    epochs = (EpochRecord(1, 3, "inject_placeholder", skill_version=4),)
    kept = SplitReport.of("confirm", {"initial": episodes(2, 8), "best": episodes(7, 3)})
    state = replace(
        report.state,
        steps=steps,
        epochs=epochs,
        skill_version=4,
        best_version=3,
        idle_steps=5,
        ran_out_of_patience=True,
        final=verdict(Decision.REJECT, "Rejected: [luck]."),
        confirmation=Confirmation(kept, SelectionBias(0.62, kept.gains["best"], 0.12, None)),
    )
    return replace(report, state=state)


def test_what_entered_unmeasured_and_what_was_confirmed_is_told_apart():
    same = episodes(2, 10)
    console = pipe()
    same_state = parted(train_report({"initial": same, "best": same, "final": same})).state
    tables.show_state(console, same_state)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    joined = " ".join(text.split())
    for words in (
        "step 1: kept, but the best skill stays: 3 of 24 [tasks].",
        "step 2: kept without a gate",
        "step 3: kept without a gate; against the best skill: 3 of 24 [tasks].",
        "slow update of epoch 1: an empty region for guidance was added to the current skill",
        "stopped early: nothing was kept in 5 steps",
        "the last skill against the best one: Rejected: [luck].",
        "the current skill (version 4) is not the best one (version 3)",
        "Val tasks solved that no gate has drawn (95% interval)",
        "released over initial: +50.0 points",
        "The gates saw the best skill gain +62.0 points over the initial one; on 10",
    ):
        assert words in joined


def test_the_current_score_is_that_of_the_skill_that_was_accepted_last():
    tally = Tally(started_s=0.0)
    tally.add(StepDecided(1, 1, "accept_new_best", replace(verdict(), candidate_score=0.8)))
    tally.add(StepDecided(2, 1, "accept", replace(verdict(), candidate_score=0.6)))
    refused = replace(verdict(Decision.REJECT), candidate_score=0.9)
    tally.add(StepDecided(3, 1, "reject", refused))
    tally.add(StepDecided(4, 1, "force_accept", None))
    assert (tally.accepted, tally.rejected, tally.current) == (2, 1, 0.6)


def shown_training(report, path="runs/[red]/best_skill.md", scripted=True, causes=()):
    console = pipe()
    tables.show_training(console, report, "[red]", path, causes, scripted=scripted)
    return console.file.getvalue()


def test_the_end_of_a_training_shows_scores_the_artifact_and_three_commands_for_this_run():
    best = episodes(9, 3)
    report = train_report({"initial": episodes(2, 10), "best": best, "final": best})
    report = replace(report, state=replace(report.state, best_version=1, skill_version=1))
    text = shown_training(report, causes=[Cause("attic", "turn limit", 2, "e7")])
    joined = " ".join(text.split())
    for words in (
        "Held-out test tasks solved (95% interval)",
        "17% [5, 45]",
        "75% [47, 91]",
        "released = current over initial: +58.3 points",
        "Unsolved, the most frequent first attic: turn limit, 2 (such as e7)",
        "Scripted models took part: the numbers only show that the loop works.",
        "Released: version 1 (runs/[red]/best_skill.md)",
        "Next: skillwright report '[red]' skillwright runs episodes '[red]' --unsolved "
        "skillwright skill export '[red]' --to claude",
    ):
        assert words in joined
    assert "released = current" in text
    assert "went better" not in text  # each verdict was printed when it was decided
    assert "Scripted" not in shown_training(report, scripted=False)


def test_the_details_of_a_training_are_its_decisions_with_edits_and_reasons():
    best = episodes(9, 3)
    console = pipe()
    tables.show_state(console, train_report({"initial": episodes(2, 10), "best": best}).state)
    joined = " ".join(console.file.getvalue().split())
    for words in (
        "Decisions step 1: kept: 9 of 24 tasks went better [and 1 worse];",
        "append: Open [every] cabinet. Then look.",
        "replace: [old] line (skipped replace target not found)",
        "step 2: skipped: nothing proposed",
    ):
        assert words in joined


@pytest.mark.parametrize("family", [TASK_TYPE, "a[b]c", "x" * 70])
@pytest.mark.parametrize("others", [("best",), ("empty", "best", "placebo")])
def test_the_widest_table_fits_the_terminal(family, others):
    def scored(rate):
        score = Score(99_999, 99_999, rate, Interval(rate, rate), rate, 0, 0)
        return ScoreTable(score, {family: score})

    report = SplitReport(
        "test",
        1.0,
        {
            "initial": scored(0.0),
            "final": scored(1.0),
            **{name: scored(0.1 * at) for at, name in enumerate(others, start=1)},
        },
        gains={},
    )
    console = pipe()
    console.print(tables.split_table(report))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert ("100% [100, 100]" in text) is (len(others) == 1)
    assert "[100, 100]" in text
    assert "…" not in text  # nothing is cut off
    assert "a[b]c" in text or family != "a[b]c"


def test_the_final_weights_are_no_current_skill():
    score = Score(9, 9, 1.0, Interval(1.0, 1.0), 1.0, 0, 0)
    tables_of = {name: ScoreTable(score, {}) for name in ("cold_start", "final")}
    shown = tables.split_table(SplitReport("test", 1.0, tables_of, gains={}))
    assert [str(column.header) for column in shown.columns][2:] == ["cold start", "final"]


def test_rates_in_one_line_of_tau_bench_share_one_denominator():
    rates = {
        "truncated": 0.25,
        "parse_error": 0.0,
        "tool_error": 0.5,
        "user_failure": 0.1,
        "failure": 0.2,
    }
    none = Score.of([], 1.0)
    console = pipe()
    facts = {
        "settings": {},
        "data_origin": "built-in",
        "free_tasks": [],
        "rates": rates,
        "failures_as_losses": None,
        "departures": ["the data is not tau-bench's"],
    }
    found = EnvFindings("tau_bench", facts, {"no_op": none, "without_free": none})
    show_environment(console, found)
    told = [line for line in console.file.getvalue().splitlines() if "episodes:" in line]
    assert told == [
        "of scored episodes: 25.0% ran out of turns, 0.0% had a call that could not be parsed, "
        "50.0% had a tool answer with an error",
        "of all episodes: 10.0% failed because of the simulated user, 20.0% failed for any fault "
        "of the infrastructure",
    ]


def test_where_nothing_was_accepted_released_and_current_still_share_a_column():
    same = episodes(2, 10)
    text = shown_training(
        train_report({"initial": same, "best": same, "final": same}, accepted=False)
    )
    assert "released = current" in text
    assert "Released: the initial skill; nothing was kept" in text
    assert "skill export" not in text  # there is nothing to export


def test_failures_stand_apart_from_losses_in_an_evaluation():
    console = pipe()
    table = ScoreTable.of([*episodes(3, 1, 2), *episodes(0, 0, 1, family="[empty]")])
    report = EvalReport("test", 2, "hash", table, (0.75, 0.5), 4)
    tables.show_evaluation(console, report, scripted=False)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    (empty,) = [line for line in text.splitlines() if "[empty]" in line]
    assert empty.split() == ["[empty]", "0", "-", "0", "1"]
    assert "pass^1: 0.750  (4 tasks)" in text
    assert "pass^2: 0.500" in text


def test_what_was_consumed_is_shown_by_purpose():
    console = pipe()
    usage = {
        "rollout": Usage(calls=12_345, input_tokens=123_456_789, output_tokens=9, cost_usd=1.239),
        "reflect": Usage(calls=1, failed_calls=2, cost_usd=None),
    }
    console.print(tables.usage_table(usage))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    for words in ("12,345", "123,456,789", "$1.24", "unknown"):
        assert words in text


def test_a_run_that_did_not_test_shows_no_table():
    report = train_report({"initial": episodes(1, 1)})
    bare = replace(report, state=replace(report.state, report=None))
    assert "Held-out" not in shown_training(bare)


def test_money_stands_beside_the_age_of_its_prices():
    llms = (
        PricedModel("target", "m[1]", Prices(**PRICES, as_of="2026-11-01, the vendor's page")),
        PricedModel("optimizer", "free", None, is_free=True),
    )
    console = pipe()
    tables.show_money(console, {"rollout": Usage(cost_usd=0.5), "merge": Usage(cost_usd=0.1)}, llms)
    said = console.file.getvalue()
    assert "money: $0.60 (prices of 2026-11-01)" in said
    assert "target m[1]: 2 in, 8 out, USD per million (2026-11-01, the vendor's page)" in said
    assert "free" not in said
    console = pipe()
    tables.show_money(console, {"rollout": Usage(cost_usd=None)}, llms[:1])
    assert "money: unknown\n" in console.file.getvalue()
    console = pipe()
    tables.show_money(console, {}, llms[1:])
    assert not console.file.getvalue()


def test_the_last_line_of_a_display_tells_the_age_of_the_prices():
    console = pipe()
    with display(console, (PricedModel("target", "m", Prices(**PRICES)),)) as callback:
        callback.on_event(RunStarted("r", "runs/r", {}))
    assert "money $0.00 (prices of the configuration)" in console.file.getvalue()
