"""What a person sees while a job runs, and afterwards: it fits 80 columns and eats no brackets."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from fakes import make_episode
from shown import WIDTH, episodes, pipe, terminal, verdict
from skillwright import cli
from skillwright.cli.live import LiveDisplay, PlainDisplay, Tally, _pace, display
from skillwright.cli.words import make_console
from skillwright.core import Usage
from skillwright.evaluation import (
    Decision,
    Expected,
    Interval,
    Score,
    Verdict,
)
from skillwright.jobs.run import (
    CallFinished,
    EpisodeFinished,
    EpochEnded,
    PricedModel,
    ReleaseTested,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
)
from skillwright.models import Prices

SCORE = Score.of(episodes(3, 1, 1))
STORY = [
    RunStarted(
        "demo[1]",
        "runs/[dim]demo",
        {"target": "scripted:household", "optimizer": "openai_chat:gpt[x]"},
        ("alfworld: 12 train, 24 val, 12 sealed test tasks",),
        steps=2,
        epochs=1,
        episodes=20,
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
    StepDecided(3, 1, "skip_no_patches", None, remarks=("1 of 1 replies [was] cut",)),
]


def test_plain_lines_tell_what_matters_once_each():
    console = pipe()
    shown = PlainDisplay(console)
    for event in STORY:
        shown.on_event(event)
    shown.close()
    lines = console.file.getvalue().splitlines()
    assert lines[:-1] == [
        "demo[1]  runs/[dim]demo",
        "  target: scripted:household",
        "  optimizer: openai_chat:gpt[x]",
        "  alfworld: 12 train, 24 val, 12 sealed test tasks",
        "initial skill on val: 75% solved (30% to 95%, n=4), 1 fault",
        "step 1   kept       +30.0 points (95%: +10.0 to +50.0)  .12 -> .42",
        "         p 0.01 (limit 0.02)",
        "step 2   skipped    nothing proposed",
        "step 3   skipped    nothing usable proposed",
        "  1 of 1 replies [was] cut",
    ]
    assert lines[-1].startswith("2 rollouts (")
    assert "1 reused  1 fault  4.5k tokens  money unknown  0:00 elapsed" in lines[-1]
    assert "left" not in lines[-1]


def test_a_slow_update_is_told_and_counted_like_a_step_and_a_mere_epoch_is_not():
    console, tally = pipe(), Tally(started_s=0.0)
    shown = PlainDisplay(console)
    rejected = Verdict(
        Decision.REJECT, "Rejected: luck.", -0.01, incumbent_score=0.42, candidate_score=0.41
    )
    ends = [
        EpochEnded(1, "", None),
        EpochEnded(2, "accept_new_best", verdict()),
        EpochEnded(3, "reject", rejected),
        EpochEnded(4, "skip_no_pairs", None),
        EpochEnded(4, "skip_no_content", None),
        EpochEnded(5, "", None, remarks=("1 of 1 optimizer calls failed: 503",)),
    ]
    for event in ends:
        shown.on_event(event)
        tally.add(event)
    assert console.file.getvalue().splitlines() == [
        "epoch 2  kept       +30.0 points (95%: +10.0 to +50.0)  .12 -> .42",
        "         p 0.01 (limit 0.02)  slow update",
        "epoch 3  dropped    -1.0 points                         .42 -> .41  slow update",
        "epoch 4  skipped    slow update: nothing to compare",
        "meta skill of epoch 5:",
        "  1 of 1 optimizer calls failed: 503",
    ]
    assert (tally.accepted, tally.rejected) == (1, 1)


def test_the_panel_shows_the_epoch_of_a_look_back():
    console = terminal()
    shown = LiveDisplay(console)
    for event in (*STORY, StageStarted("epoch update", epoch=1, episodes=10)):
        shown.on_event(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    text = "\n".join(_plain(panel.get()))
    text = text[text.rindex("epoch update") :]  # the display may refresh once more before it
    for words in ("epoch update", "epoch 1/1", "0/10", "kept 1"):
        assert words in text
    assert "step " not in text


def test_a_resumed_run_says_where_it_goes_on():
    console = pipe()
    PlainDisplay(console).on_event(RunStarted("demo", "runs/demo", {}, resumed_at=3))
    assert "continues at step 3" in console.file.getvalue()


def test_the_panel_shows_the_stage_the_score_and_what_it_costs():
    console = terminal()
    shown = LiveDisplay(console)
    for event in STORY[:10]:
        shown.on_event(event)
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
        "dropped 0",
    ):
        assert words in text
    for words in ("2 rollouts", "1 reused", "4.5k tokens", "money unknown", "left"):
        assert words in text


def test_the_panel_shows_how_good_the_current_skill_is():
    console = terminal()
    shown = LiveDisplay(console)
    accepted = replace(verdict(), candidate_score=0.875)
    for event in (*STORY[:7], StepDecided(1, 1, "accept_new_best", accepted)):
        shown.on_event(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    assert "kept 1, dropped 0  current 0.88 at the gate" in "\n".join(_plain(panel.get()))


def test_the_panel_fits_before_during_and_after_a_run():
    console = terminal()
    shown = LiveDisplay(console)
    for event in [None, *STORY]:
        if event is not None:
            shown.on_event(event)
        with console.capture() as panel:
            console.print(shown.draw())
        assert max(map(len, _plain(panel.get()))) <= WIDTH
    shown.close()
    text = console.export_text()
    assert "step 1   kept       +30.0 points" in text
    assert "runs/[dim]demo" in text


def _plain(text):
    return [line.plain for line in Text.from_ansi(text).split("\n")]


def test_a_terminal_gets_the_panel_and_anything_else_plain_lines():
    for console, kind in ((terminal(), LiveDisplay), (pipe(), PlainDisplay)):
        with display(console) as callback:
            assert isinstance(callback, kind)


def test_the_display_is_taken_away_when_the_job_breaks():
    console = pipe()
    with suppress(ZeroDivisionError), display(console) as shown:
        shown.on_event(STORY[0])
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


def test_the_first_episodes_say_nothing_about_the_time_left():
    tally = Tally(started_s=0.0)
    tally.add(RunStarted("r", "f", {}, episodes=1_000))
    for _ in range(49):
        tally.add(EpisodeFinished(make_episode("t", 1.0)))
    assert tally.left_s(2.0) is None
    tally.add(EpisodeFinished(make_episode("t", 1.0)))
    assert tally.left_s(2.0) == pytest.approx(38.0)


def test_an_unknown_price_makes_the_sum_unknown_and_never_zero():
    tally = Tally(started_s=0.0)
    tally.add(CallFinished("reflect", Usage(calls=1, cost_usd=0.5)))
    tally.add(CallFinished("reflect", Usage(calls=1, cost_usd=None)))
    assert tally.usage.cost_usd is None


def test_the_panel_tells_why_a_run_is_slow():
    tally = Tally(started_s=0.0)
    assert "failed" not in " ".join(_pace(tally, 1.0))
    lost = replace(make_episode("t", 1.0), lost_usage=Usage(failed_calls=1))
    tally.add(EpisodeFinished(lost, in_flight=48))
    tally.add(CallFinished("reflect", Usage(calls=4, failed_calls=0)))
    share = 1 / (1 + tally.usage.calls)
    assert f"{share:.0%} of calls failed, 48 in flight" in _pace(tally, 1.0)


def played(phase):
    episode = make_episode("t", 1.0)
    return EpisodeFinished(replace(episode, spec=replace(episode.spec, phase=phase)))


@pytest.mark.parametrize(
    ("stage", "own", "beside"), [("baseline", "gate", "train"), ("confirm", "confirm", "test")]
)
def test_a_stage_counts_its_own_episodes_and_not_those_of_the_stage_beside_it(stage, own, beside):
    tally = Tally(started_s=0.0)
    tally.add(StageStarted(stage, episodes=2))
    for phase in (own, beside, own, beside):
        tally.add(played(phase))
    assert (tally.in_stage, tally.fresh) == (2, 4)
    tally.add(StageStarted("rollout", 1, 1, episodes=1))
    tally.add(played("train"))
    assert tally.in_stage == 1


def test_the_panel_breaks_its_pace_between_facts_and_never_inside_one():
    console = terminal()
    prices = Prices(input_usd_per_mtok=1.0, output_usd_per_mtok=2.0, as_of="2026-01-31")
    shown = LiveDisplay(console, [PricedModel("target", "m", prices)])
    spent = Usage(calls=8, failed_calls=2, input_tokens=123_456_789, cost_usd=1234.5)
    lost = replace(make_episode("t", None), lost_usage=spent)
    for event in (RunStarted("r", "f", {}), EpisodeFinished(lost, in_flight=1000)):
        shown.on_event(event)
    with console.capture() as panel:
        console.print(shown.draw())
    shown.close()
    # What stays is below all that was drawn over.
    for lines in (_plain(panel.get()), console.export_text().rstrip().splitlines()[-2:]):
        assert max(map(len, lines)) <= WIDTH
        for fact in (
            "1 fault",
            "of calls failed, 1000 in flight",
            "123.5M tokens",
            "money $1234.50 (prices of 2026-01-31)",
        ):
            assert any(fact in line for line in lines), fact


def test_names_of_others_are_no_emoji(capsys):
    fact = RunStarted("r:A:", "f", {"target": "m:B:"}, ("ids.py:A: 16 train",))
    out = make_console()
    PlainDisplay(out).on_event(fact)
    table = Table()
    table.add_row("pick:A:up")
    out.print(table)
    make_console(stderr=True).print("ids.py:A: 17")
    said = capsys.readouterr()
    for name in ("r:A:", "m:B:", "ids.py:A: 16 train", "pick:A:up"):
        assert name in said.out
    assert "ids.py:A: 17" in said.err


def test_every_console_of_the_commands_comes_from_one_place():
    files = Path(cli.__file__).parent.glob("*.py")
    made = [file.name for file in files if re.search(r"\b\w*Console\(", file.read_text())]
    assert made == ["words.py"]


MEASURED = {"incumbent_score": 0.61, "candidate_score": 0.652, "effect": 0.042}
NARROW = Interval(0.012, 0.072)


@pytest.mark.parametrize(
    ("action", "found", "lines"),
    [
        (
            "accept",
            Verdict(Decision.ACCEPT, "Accepted as current: so.", interval=NARROW, **MEASURED),
            ["step 3   kept       +4.2 points (95%: +1.2 to +7.2)     .61 -> .65"],
        ),
        (
            "reject",
            Verdict(Decision.REJECT, "Rejected: a task type got worse.", **MEASURED),
            [
                "step 3   dropped    +4.2 points                         .61 -> .65",
                "         a task type got worse.",
            ],
        ),
        (
            "reject",
            Verdict(Decision.REJECT, "Rejected: chance.", p_value=0.2, alpha=0.0063, **MEASURED),
            [
                "step 3   dropped    +4.2 points                         .61 -> .65",
                "         p 0.2 (limit 0.0063)",
            ],
        ),
        (
            "undecided",
            Verdict(Decision.UNDECIDED, "Undecided: 9 of 20 pairs were lost.", lost=9, **MEASURED),
            [
                "step 3   undecided  +4.2 points                         .61 -> .65",
                "         9 of 20 pairs were lost.",
            ],
        ),
        (
            "undecided",
            Verdict(Decision.UNDECIDED, "Undecided: 4 tasks are too few."),
            ["step 3   undecided  4 tasks are too few."],
        ),
        (
            "accept_new_best",
            Verdict(Decision.ACCEPT, "Proven.", expected=Expected(0.03, 0.01, 0.05), **MEASURED),
            [
                "step 3   kept       +3.0 points (95%: +1.0 to +5.0)     .61 -> .65",
                "         expected on further tasks; +4.2 points in this test",
            ],
        ),
        (
            "accept_new_best",
            Verdict(Decision.ACCEPT, "Accepted: so.", pairs=70, lost=2, **MEASURED),
            [
                "step 3   kept       +4.2 points                         .61 -> .65",
                "         2 of 72 pairs left out for faults",
            ],
        ),
        ("skip_analyst_faults", None, ["step 3   skipped    optimizer replies unreadable"]),
        ("force_accept", None, ["step 3   kept without a gate"]),
    ],
)
def test_a_verdict_is_one_line_and_its_reason_follows_only_where_numbers_do_not_say_it(
    action, found, lines
):
    console = pipe()
    PlainDisplay(console).on_event(StepDecided(3, 1, action, found))
    assert console.file.getvalue().splitlines() == lines
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("decision", Decision)
def test_the_release_test_is_told_like_a_step(decision):
    console = pipe()
    found = Verdict(
        decision,
        "Not proven better: chance.",
        effect=-1.0,
        interval=Interval(-1.0, 1.0),
        p_value=0.00012,
        alpha=0.03,
        incumbent_score=1.0,
        candidate_score=0.0,
    )
    PlainDisplay(console).on_event(ReleaseTested(found))
    first, *others = console.file.getvalue().splitlines()
    assert first.startswith("release  ")
    assert first.endswith("-100.0 points (95%: -100.0 to +100.0)  1.00 -> .00")
    reason = ["         chance."] if decision is Decision.UNDECIDED else []
    assert others == ["         p 0.00012 (limit 0.03)", *reason]


def test_optimizer_calls_that_failed_are_no_unreadable_replies():
    console = pipe()
    failed = ("2 of 2 optimizer calls failed: 503",)
    PlainDisplay(console).on_event(StepDecided(1, 1, "skip_analyst_faults", None, remarks=failed))
    assert console.file.getvalue().splitlines() == [
        "step 1   skipped    optimizer calls failed",
        "  2 of 2 optimizer calls failed: 503",
    ]
