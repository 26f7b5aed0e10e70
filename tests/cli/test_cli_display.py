"""What a person sees while a job runs, and afterwards: it fits 80 columns and eats no brackets."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.text import Text

from fakes import make_episode
from skillwright.cli import tables
from skillwright.cli.live import LiveDisplay, PlainDisplay, Tally, display
from skillwright.core import Usage
from skillwright.evaluation import Decision, Score, ScoreTable, SplitReport, Verdict
from skillwright.evaluation.intervals import Interval
from skillwright.jobs import (
    CallFinished,
    EpisodeFinished,
    EpochEnded,
    EvalReport,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
    StepRecord,
    TrainReport,
    TrainState,
)
from skillwright.textopt import StepEntry, TriedEdit

WIDTH = 80
FAMILY = "pick_clean_then_place_in_recep"
REASON = "Accepted: 9 of 24 tasks went better [and 1 worse]; mean 0.125 -> 0.458."


def verdict(decision=Decision.ACCEPT, reason=REASON):
    return Verdict(decision, reason, effect=0.3, interval=(0.1, 0.5), p_value=0.01, alpha=0.02)


def episodes(wins, losses, failures=0, family=FAMILY):
    rewards = [1.0] * wins + [0.0] * losses + [None] * failures
    return [make_episode(f"t{n}", r, task_type=family) for n, r in enumerate(rewards)]


SCORE = Score.of(episodes(3, 1, 1))
STORY = [
    RunStarted(
        "demo[1]",
        "runs/[dim]demo",
        {"target": "scripted:household", "optimiser": "openai_chat:gpt[x]"},
        ("alfworld: 12 train, 24 val, 12 sealed test tasks",),
        steps=2,
        epochs=1,
        episodes=200,
    ),
    StageStarted("baseline", episodes=24),
    EpisodeFinished(make_episode("t1", 1.0)),
    EpisodeFinished(make_episode("t2", None)),
    EpisodeFinished(make_episode("t3", 0.0), reused=True),
    Scored("initial skill", "val", SCORE),
    StageStarted("rollout", 1, 1, episodes=30),
    StageStarted("reflect", 1, 1),
    CallFinished("reflect", Usage(calls=1, input_tokens=4000, output_tokens=500, cost_usd=None)),
    StageStarted("gate", 1, 1, episodes=48),
    StepDecided(1, 1, "accept_new_best", verdict()),
    StepDecided(2, 1, "skip_no_patches", None),
]


def terminal():
    return Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, legacy_windows=False
    )


def pipe():
    return Console(file=io.StringIO(), width=WIDTH)


def test_plain_lines_tell_what_matters_once_each():
    console = pipe()
    shown = PlainDisplay(console)
    for event in STORY:
        shown.see(event)
    shown.close()
    lines = console.file.getvalue().splitlines()
    assert lines[:-1] == [
        "demo[1]  runs/[dim]demo",
        "  target: scripted:household",
        "  optimiser: openai_chat:gpt[x]",
        "  alfworld: 12 train, 24 val, 12 sealed test tasks",
        "  scripted minds are programs, not language models",
        "initial skill on val: 75% won (30% to 95%, n=4), 1 failures",
        f"step 1: {REASON}",
        "step 2: skip no patches",
    ]
    assert lines[-1].startswith("2 rollouts (")
    assert "1 reused  1 failures  4,500 tokens  money unknown  0:00 elapsed" in lines[-1]
    assert "left" not in lines[-1]


def test_a_slow_update_is_told_and_counted_like_a_step_and_a_mere_epoch_is_not():
    console, tally = pipe(), Tally(started_s=0.0)
    shown = PlainDisplay(console)
    rejected = verdict(Decision.REJECT, "Rejected: luck.")
    ends = [
        EpochEnded(1, "", None),
        EpochEnded(2, "accept_new_best", verdict()),
        EpochEnded(3, "reject", rejected),
        EpochEnded(4, "skip_no_pairs", None),
    ]
    for event in ends:
        shown.see(event)
        tally.add(event)
    assert console.file.getvalue().splitlines() == [
        f"slow update of epoch 2: {REASON}",
        "slow update of epoch 3: Rejected: luck.",
        "slow update of epoch 4: skip no pairs",
    ]
    assert (tally.accepted, tally.rejected) == (1, 1)


def test_the_panel_shows_the_epoch_of_a_look_back():
    console = terminal()
    shown = LiveDisplay(console)
    for event in (*STORY, StageStarted("look back", epoch=1, episodes=10)):
        shown.see(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    text = "\n".join(_plain(panel.get()))
    for words in ("look back", "epoch 1/1", "0/10", "accepted 1"):
        assert words in text
    assert "step " not in text


def test_a_resumed_run_says_where_it_goes_on():
    console = pipe()
    PlainDisplay(console).see(RunStarted("demo", "runs/demo", {}, resumed_at=3))
    assert "goes on at step 3" in console.file.getvalue()


def test_the_panel_shows_the_stage_the_score_and_what_it_costs():
    console = terminal()
    shown = LiveDisplay(console)
    for event in STORY[:10]:
        shown.see(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    text = "\n".join(_plain(panel.get()))
    for words in (
        "gate",
        "epoch 1/1",
        "step 1/2",
        "0/48",
        "initial skill on val: 75%",
        "rejected 0",
    ):
        assert words in text
    for words in ("2 rollouts", "1 reused", "4,500 tokens", "money unknown", "left"):
        assert words in text


def test_the_panel_shows_the_best_skill_so_far():
    console = terminal()
    shown = LiveDisplay(console)
    accepted = replace(verdict(), candidate_score=0.875)
    for event in (*STORY[:7], StepDecided(1, 1, "accept_new_best", accepted)):
        shown.see(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    assert "accepted 1, rejected 0  best 0.88 at the gate" in "\n".join(_plain(panel.get()))


def test_the_panel_fits_before_during_and_after_a_run():
    console = terminal()
    shown = LiveDisplay(console)
    for event in [None, *STORY]:
        if event is not None:
            shown.see(event)
        with console.capture() as panel:
            console.print(shown.draw())
        assert max(map(len, _plain(panel.get()))) <= WIDTH
    shown.close()
    text = console.export_text()
    assert f"step 1: {REASON}"[:60] in text
    assert "runs/[dim]demo" in text


def _plain(text):
    return [line.plain for line in Text.from_ansi(text).split("\n")]


def test_a_terminal_gets_the_panel_and_anything_else_plain_lines():
    for console, kind in ((terminal(), LiveDisplay), (pipe(), PlainDisplay)):
        with display(console) as watcher:
            assert isinstance(watcher, kind)


def test_the_display_is_taken_away_when_the_job_breaks():
    console = pipe()
    with pytest.raises(ZeroDivisionError), display(console):
        _ = 1 / 0
    assert "0 rollouts" in console.file.getvalue()


def test_the_time_left_is_estimated_from_what_was_really_played():
    tally = Tally(started_s=100.0)
    assert tally.left_s(150.0) is None
    tally.add(RunStarted("r", "f", {}, episodes=10))
    assert tally.left_s(150.0) is None
    tally.add(EpisodeFinished(make_episode("t", 1.0)))
    tally.add(EpisodeFinished(make_episode("t", 1.0)))
    assert tally.left_s(120.0) == pytest.approx(80.0)  # 10 s each, 8 to go
    for _ in range(3):
        tally.add(EpisodeFinished(make_episode("t", 1.0), reused=True))
    assert tally.left_s(120.0) == pytest.approx(50.0)


def test_an_unknown_price_makes_the_sum_unknown_and_never_zero():
    tally = Tally(started_s=0.0)
    tally.add(CallFinished("reflect", Usage(calls=1, cost_usd=0.5)))
    tally.add(CallFinished("reflect", Usage(calls=1, cost_usd=None)))
    assert tally.usage.cost_usd is None


def train_report(tables_of, accepted=True):
    edits = (
        TriedEdit("append", "", "Open [every] cabinet.\nThen look.", "applied_append"),
        TriedEdit("replace", "[old] line", "", "skipped_replace_target_not_found"),
    )
    decision = Decision.ACCEPT if accepted else Decision.REJECT
    steps = (
        StepRecord(1, 1, decision.value, StepEntry(1, "accept", edits), verdict(decision), 1),
        StepRecord(2, 1, "skip_no_patches", StepEntry(2, "skip_no_patches")),
    )
    first = TrainState.first(0.05, 2)
    report = SplitReport.of("test", tables_of)
    state = TrainState(first.memory, first.ledger, steps=steps, report=report)
    return TrainReport(state, "", "Open [every] cabinet.")


def shown_training(report, path="runs/[red]/best_skill.md", scripted=True):
    console = pipe()
    tables.show_training(console, report, path, scripted)
    return console.file.getvalue()


def test_the_end_of_a_training_shows_decisions_scores_and_the_artefact():
    best = episodes(9, 3)
    report = train_report({"initial": episodes(2, 10), "best": best, "final": best})
    text = shown_training(report)
    joined = " ".join(text.split())
    for words in (
        "Accepted step 1: Accepted: 9 of 24 tasks went better [and 1 worse];",
        "append: Open [every] cabinet. Then look.",
        "replace: [old] line (skipped replace target not found)",
        "Not accepted step 2: skip no patches",
        "Held-out test tasks won (95% interval)",
        "17% [5, 45]",
        "75% [47, 91]",
        "best = final over initial: +0.583",
        "Scripted minds played here: deterministic programs, not language models.",
        "best skill: runs/[red]/best_skill.md",
    ):
        assert words in joined
    assert "best = final" in text
    assert "Scripted" not in shown_training(report, scripted=False)


@pytest.mark.parametrize("family", [FAMILY, "a[b]c", "x" * 70])
def test_the_widest_table_fits_the_terminal(family):
    def scored(rate):
        score = Score(99_999, 99_999, rate, Interval(rate, rate), rate, 0, 0)
        return ScoreTable(score, {family: score})

    report = SplitReport(
        "test",
        1.0,
        {"initial": scored(0.0), "best": scored(1.0), "final": scored(1.0), "placebo": scored(0.1)},
        gains={},
    )
    console = pipe()
    console.print(tables.split_table(report))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "100% [100, 100]" in text
    assert "…" not in text  # nothing is cut off
    assert "a[b]c" in text or family != "a[b]c"


def test_where_nothing_was_accepted_best_and_final_still_share_a_column():
    same = episodes(2, 10)
    text = shown_training(
        train_report({"initial": same, "best": same, "final": same}, accepted=False)
    )
    assert "best = final" in text
    assert "\nAccepted\n" not in text


def test_failures_stand_apart_from_losses_in_an_evaluation():
    console = pipe()
    table = ScoreTable.of([*episodes(3, 1, 2), *episodes(0, 0, 1, family="[empty]")])
    report = EvalReport("test", 2, "hash", table, (0.75, 0.5), 4)
    tables.show_evaluation(console, report, scripted=False)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= WIDTH
    (empty,) = [line for line in text.splitlines() if "[empty]" in line]
    assert [cell.strip() for cell in empty.split("│")[1:-1]] == ["[empty]", "0", "-", "0", "1"]
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
    bare = SimpleNamespace(state=report.state, test=None)
    assert "Held-out" not in shown_training(bare)
