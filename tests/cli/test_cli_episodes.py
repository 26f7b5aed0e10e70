"""Episodes on the command line: a list that finds them, and one of them turn by turn."""

import io
import json
import sys
from dataclasses import replace

import pytest
from rich.text import Text

from fakes import make_episode
from skillwright.cli import episodes as command
from skillwright.cli.words import PlainConsole
from skillwright.core import (
    Act,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Usage,
    skill_hash,
)
from skillwright.runs import RunStore

SKILL = "Take the apple first."


def heated(reward=1.0, key="ab12cd34", **more):
    """Return an episode of two turns: a text with reasoning, and a native call with reasoning."""
    called = Act(
        "",
        Usage(calls=1, input_tokens=30, output_tokens=4),
        tool_calls=(ToolCall("1", "heat", '{"object": "apple"}'),),
        native={"dialect": "x", "content": {"reasoning_content": "It has to be hot."}},
        finish_reason="tool_calls",
    )
    prompt = (
        {"role": "system", "content": f"You cook.\n\n{SKILL}"},
        {"role": "user", "content": "A kitchen."},
    )
    spoken = Act(
        "<think>First the apple.</think><action>take apple</action>",
        Usage(calls=1, input_tokens=1200, output_tokens=10),
    )
    one = make_episode("kitchen-1", reward, task_type="heat_then_place", key=key)
    return replace(
        one,
        spec=replace(one.spec, phase="train", step=3, seed=7),
        trajectory=Trajectory(
            "A kitchen.",
            (
                Turn(0, prompt, spoken, "You hold the\nApple.", 0.0),
                Turn(1, prompt, called, "It is hot.", 1.0),
            ),
        ),
        skill_version=skill_hash(SKILL),
        **more,
    )


def failed():
    """Return an episode that a fault ended."""
    one = make_episode("attic-1", None, turns=(), task_type="look_around")
    broken = Failure(FailureCause.TIMEOUT, "no answer within 30 s")
    return replace(one, failure=broken, stop_reason=StopReason.FAILURE)


@pytest.fixture
def kitchen(cli, tmp_path):
    """A run with five episodes, e1 to e5."""
    folder = tmp_path / "runs" / "kitchen"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("env:\n  success_threshold: 0.8\n", encoding="utf-8")
    with RunStore.open(folder / "run.sqlite") as store:
        store.append_event("made", {"job": "train"})
        store.add_skill_version("", origin="initial_skill", step=0)
        store.add_skill_version(SKILL, parent=0, origin="step", step=2)
        store.record_episode(heated())
        store.record_episode(make_episode("cellar-1", 0.5, stop=StopReason.MAX_TURNS, key="ab99"))
        store.record_episode(failed())
        store.record_episode(make_episode("cellar-2", 0.9, [("open BOX", "An Egg lies here.")]))
        store.record_episode(make_episode("cellar-2", 0.0, draw=1, key="ff00"))
    return cli


def names(result):
    return [one["episode"] for one in json.loads(result.stdout)]


def test_a_run_lists_its_episodes_the_latest_first(kitchen):
    lines = kitchen("runs", "episodes", "kitchen").stdout.splitlines()
    assert lines[0] == "kitchen  5 episodes: 2 solved, 2 unsolved, 1 fault"
    rows = [line.split() for line in lines if line.startswith(" e")]
    assert [row[0] for row in rows] == ["e5", "e4", "e3", "e2", "e1"]
    assert rows[2] == ["e3", "other", "attic-1", "look", "around", "-", "0", "0", "timeout"]
    assert rows[3][1:] == ["other", "cellar-1", "waiting", "0.5", "1", "0", "turn", "limit"]
    assert rows[4] == [
        "e1",
        "train",
        "3",
        "v1",
        "kitchen-1",
        "heat",
        "then",
        "place",
        "1",
        "2",
        "1.2k",
    ]
    assert lines[-1] == "read one with:  skillwright runs view kitchen e5"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--faults"], ["e3"]),
        (["--unsolved"], ["e5", "e2"]),  # e4 reaches the run's own threshold of 0.8
        (["--faults", "--unsolved"], ["e5", "e3", "e2"]),
        (["--type", "heat_then_place"], ["e1"]),
        (["--type", "heat then place"], ["e1"]),
        (["--phase", "train"], ["e1"]),
        (["--step", 3], ["e1"]),
        (["--task", "cellar-2"], ["e5", "e4"]),
        (["--task", "cellar-2", "--unsolved"], ["e5"]),
        (["--limit", 2], ["e5", "e4"]),
        (["--grep", "an egg"], ["e4"]),  # an observation
        (["--grep", "open box"], ["e4"]),  # an action
        (["--grep", "first the"], ["e1"]),  # reasoning in the text
        (["--grep", "has to be HOT"], ["e1"]),  # reasoning beside it
        (["--grep", '"object"'], ["e1"]),  # a call
        (["--grep", "within 30 s"], ["e3"]),  # a failure
        (["--grep", "nobody said this"], []),
    ],
)
def test_options_choose_episodes(kitchen, options, found):
    assert names(kitchen("runs", "episodes", "kitchen", "--json", *options)) == found


def test_a_text_is_shown_where_it_was_found(kitchen):
    shown = kitchen("runs", "episodes", "kitchen", "--grep", "egg").stdout
    assert "1 of 5 episodes: 1 solved, 0 unsolved, 0 faults" in shown
    assert "An Egg lies here." in shown


def test_the_list_says_how_many_it_leaves_out(kitchen):
    shown = kitchen("runs", "episodes", "kitchen", "--limit", 1).stdout
    assert "4 more; --limit 5 shows all" in shown


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--type", "heat_then_plaice"], "Did you mean 'heat_then_place'?"),
        (["--phase", "trian"], "no episode of phase 'trian'. Did you mean 'train'?"),
        (["--step", 4], "no episode of step 4. Known: 3."),
        (["--task", "cellar-3"], "no episode of task 'cellar-3'. Did you mean 'cellar-2'?"),
    ],
)
def test_a_misspelled_choice_is_refused_with_the_nearest(kitchen, option, said):
    assert said in " ".join(kitchen("runs", "episodes", "kitchen", *option, code=2).stderr.split())


def test_an_episode_is_shown_turn_by_turn(kitchen):
    shown = kitchen("runs", "view", "kitchen", "e1").stdout
    for said in (
        "e1  kitchen-1  in run kitchen",
        "  skill    v1 of this run's document",
        "  outcome  solved: reward 1",
        "  user  A kitchen.",
        SKILL,
        "turn 0  1,200 + 10 tokens",
        "  reasoning  First the apple.",
        "  action     take apple",
        "  result\n    You hold the\n    Apple.",
        "turn 1  30 + 4 tokens, reward 1, answer ended: tool calls",
        "  reasoning  It has to be hot.",
        '  tool call  heat {"object": "apple"}',
        "  result     It is hot.",
        "  2 turns, 1,230 + 14 tokens in 2 calls",
    ):
        assert said in shown
    assert not [line for line in shown.splitlines() if line != line.rstrip()]


def test_a_failed_episode_says_what_ended_it(kitchen):
    shown = kitchen("runs", "view", "kitchen", "e3").stdout
    assert "outcome  fault (timeout): no answer within 30 s" in shown
    assert "Your task is to: wait." in shown  # the opening, for there is no prompt


def test_an_episode_as_json_holds_what_is_shown(kitchen):
    found = json.loads(kitchen("runs", "view", "kitchen", "e1", "--json").stdout)
    assert (found["episode"], found["reward"], found["solved"]) == ("e1", 1.0, True)
    assert found["prompt"][0]["content"].endswith(SKILL)
    assert found["turns"][0]["lines"] == [
        {"kind": "reasoning", "text": "First the apple."},
        {"kind": "action", "text": "take apple"},
        {"kind": "result", "text": "You hold the\nApple."},
    ]
    assert found["turns"][1]["usage"]["input_tokens"] == 30


def test_skills_of_a_bank_are_named_with_their_scores(kitchen, tmp_path):
    with RunStore.open(tmp_path / "runs" / "kitchen" / "run.sqlite") as store:
        store.record_episode(heated(key="b", skill_ids=("g001", "t002"), skill_scores=(1.0, 0.457)))
    shown = kitchen("runs", "view", "kitchen", "e6").stdout
    assert "  skill    g001 (1.00), t002 (0.46)\n" in shown


@pytest.mark.parametrize("name", ["e1", "kitchen-1", "1", "ab12", "ab12cd34"])
def test_an_episode_has_several_names(kitchen, name):
    assert kitchen("runs", "view", "kitchen", name).stdout.startswith("e1  kitchen-1")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("e9", "has no episode 'e9'; the last one is 'e5'"),
        ("kichen-1", "Did you mean 'kitchen-1'? `skillwright runs episodes kitchen` lists them."),
        ("cellar-2", "2 episodes of run 'kitchen' are called 'cellar-2'; name one of them, the "
                     "latest first: e5 (reward 0), e4 (reward 0.9)"),
        ("ab", "no task and no key is called so"),
    ],
)  # fmt: skip
def test_a_name_of_no_or_several_episodes_is_refused_with_the_next_move(kitchen, name, said):
    assert said in " ".join(kitchen("runs", "view", "kitchen", name, code=2).stderr.split())


def test_a_missing_run_is_refused_with_the_nearest(kitchen):
    for words in (["episodes", "kitchem"], ["view", "kitchem", "e1"]):
        assert "Did you mean 'kitchen'?" in kitchen("runs", *words, code=2).stderr


def test_what_was_played_beside_a_bank_is_found_by_the_name_of_the_bank(cli, tmp_path):
    (tmp_path / "my.sqlite").touch()
    (tmp_path / "my.work").mkdir()
    with RunStore.open(tmp_path / "my.work" / "run.sqlite") as store:
        store.record_episode(heated())
    assert names(cli("runs", "episodes", "my.sqlite", "--json")) == ["e1"]
    assert cli("runs", "view", "my.work", "e1").stdout.startswith("e1  kitchen-1")


def test_what_an_adapter_returned_and_the_skill_that_it_rolled_out_are_shown(kitchen, tmp_path):
    row = {"id": "r1", "hard": 0, "fail_reason": "wrong cell", "cells": [1, 2]}
    rolled = EpisodeResult(
        EpisodeSpec(make_episode("r1").spec.task, seed=1), reward=0.0, hard=0.0, row=row
    )
    with RunStore.open(tmp_path / "runs" / "kitchen" / "run.sqlite") as store:
        store.record_episode(rolled, skill=SKILL)
    shown = kitchen("runs", "view", "kitchen", "e6").stdout
    assert f"skill\n  {SKILL}\n" in shown
    assert "  fail_reason  wrong cell\n" in shown
    assert "  cells        [1, 2]\n" in shown


def test_a_list_fits_80_columns_and_cuts_types_between_words(kitchen, tmp_path):
    long = "pick_clean_then_place_in_recep_and_look_at_obj_in_light_and_more"
    with RunStore.open(tmp_path / "runs" / "kitchen" / "run.sqlite") as store:
        store.record_episode(make_episode("house-train-0042", 0.0, task_type=long))
    lines = kitchen("runs", "episodes", "kitchen").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if "house-train-0042" in line]
    shown = row.partition("\N{HORIZONTAL ELLIPSIS}")[0].partition("0042")[2].split()
    assert shown == long.split("_")[: len(shown)]
    assert len(shown) >= 2


class Terminal(io.TextIOWrapper):
    """A file that a console takes for a terminal, and a pager can write to."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    """Let the command write to a terminal of 60 columns; returns what was written there."""
    stream = Terminal((tmp_path / "screen").open("wb"), encoding="utf-8")
    console = PlainConsole(file=stream, force_terminal=True, width=60, legacy_windows=False)
    monkeypatch.setattr(command, "out", console)

    def written():
        stream.flush()
        return (tmp_path / "screen").read_text("utf-8")

    yield written
    stream.close()


PAGER = "import os, sys; print('PAGED', os.environ['LESS']); print(sys.stdin.read())"


def test_a_terminal_shows_an_episode_through_its_pager(kitchen, terminal, tmp_path, monkeypatch):
    (tmp_path / "pager.py").write_text(PAGER, encoding="utf-8")
    monkeypatch.setenv("PAGER", f"{sys.executable} pager.py")
    monkeypatch.delenv("LESS", raising=False)
    kitchen("runs", "view", "kitchen", "e1")
    assert terminal().startswith("PAGED FRX\n\x1b[1me1")
    assert "take apple" in terminal()


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager", "false"])
def test_no_pager_or_one_that_reads_nothing_is_no_fault(kitchen, terminal, monkeypatch, pager):
    monkeypatch.setenv("PAGER", pager)
    kitchen("runs", "view", "kitchen", "e1")
    assert ("take apple" in terminal()) == (pager != "false")


def test_a_terminal_breaks_long_texts_between_words(kitchen, terminal, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGER", "cat")
    said = "You see a bowl. " * 20
    with RunStore.open(tmp_path / "runs" / "kitchen" / "run.sqlite") as store:
        store.record_episode(make_episode("long", 0.0, [("look", said)]))
    kitchen("runs", "view", "kitchen", "long")
    rows = [line for line in terminal().splitlines() if "bowl" in line]
    assert len(rows) > 5
    assert all(row.startswith(" " * 10) for row in rows[1:])
    assert max(len(row) for row in rows[1:]) <= 60


def test_without_a_terminal_every_line_stays_one(kitchen, tmp_path):
    said = "You see a bowl. " * 20
    with RunStore.open(tmp_path / "runs" / "kitchen" / "run.sqlite") as store:
        store.record_episode(make_episode("long", 0.0, [("look", said)]))
    assert f"  result  {said.rstrip()}\n" in kitchen("runs", "view", "kitchen", "long").stdout


def test_a_long_text_is_broken_where_rich_would_break_it(terminal):
    words = "\n".join("You see a bowl, andalongshelf " * (n % 9) for n in range(200))
    command._put(Text(words), indent=4)
    room = command.out.width - 4
    broken = [
        part.plain for line in Text(words).split("\n") for part in line.wrap(command.out, room)
    ]
    assert terminal().splitlines() == [f"    {line}".rstrip() for line in broken]


def test_wide_characters_are_broken_by_their_columns(terminal):
    command._put(Text("\u58f6" * 40), indent=2)
    first, second = terminal().splitlines()
    assert (len(first), len(second)) == (2 + 29, 2 + 11)


def test_a_narrow_terminal_shows_whole_task_types(kitchen, monkeypatch):
    shown = PlainConsole(file=io.StringIO(), width=40)
    monkeypatch.setattr(command, "out", shown)
    kitchen("runs", "episodes", "kitchen")
    said = shown.file.getvalue()
    assert "task type heat then place" in said
    assert max(map(len, said.splitlines()[1:-1])) <= 40
    assert "\N{HORIZONTAL ELLIPSIS}" not in said


@pytest.fixture
def questions(cli, tmp_path):
    """A run with a right, a wrong, a faulted and a long reply to questions with one answer."""
    folder = tmp_path / "runs" / "quiz"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("env: {}\n", encoding="utf-8")
    with RunStore.open(folder / "run.sqlite") as store:
        store.append_event("made", {"job": "train"})
        for number, (answer, reward) in enumerate(
            [("repair", 1.0), ("login [now]", 0.0), (None, None), ("so\nlong " * 40, 0.0)]
        ):
            one = make_episode(f"row-{number}", reward, () if answer is None else [(answer, "")])
            turns = tuple(
                replace(turn, metadata={"expected": "repair", "answer": answer})
                for turn in one.trajectory.turns
            )
            asked = f"message: The device number {number} makes a noise.\nchannel: mail"
            spec = replace(one.spec, task=replace(one.spec.task, description=asked))
            said = replace(one.trajectory, turns=turns)
            store.record_episode(replace(one, spec=spec, trajectory=said))
    return cli


def test_tasks_with_a_right_answer_list_question_expected_answer_and_score(questions):
    lines = questions("runs", "episodes", "quiz", "--task", "row-1").stdout.splitlines()
    (row,) = [line for line in lines if line.startswith(" e2")]
    assert "message: The device number 1" in row
    assert row.split()[-4:] == ["repair", "login", "[now]", "0"]
    whole = questions("runs", "episodes", "quiz").stdout
    assert max(map(len, whole.splitlines())) <= 80
    heads = whole.splitlines()[2].split()
    assert heads[-5:] == ["question", "expected", "answer", "score", "remark"]
    assert "message: " not in whole  # a label that all questions share is left out
    for row in (line for line in whole.splitlines() if line.startswith(" e")):
        assert "The device" in row
    listed = json.loads(questions("runs", "episodes", "quiz", "--json").stdout)
    assert [one["expected"] for one in listed] == ["repair", "", "repair", "repair"]
    assert listed[2]["answer"] == "login [now]"
    assert listed[0]["question"].startswith("message: The device number 3 makes")
