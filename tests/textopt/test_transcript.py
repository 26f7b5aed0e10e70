"""Transcripts are built from episodes and from adapters' rows; what cannot be read is reported."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from fakes import make_episode
from skillwright.core import StopReason
from skillwright.textopt import Line, Skipped, read_episodes, read_rows


def saved(folder, row_id, items):
    place = folder / row_id
    place.mkdir(parents=True)
    (place / "conversation.json").write_text(
        items if isinstance(items, str) else json.dumps(items), encoding="utf-8"
    )


def row(row_id, hard=0, **more):
    return {"id": row_id, "hard": hard, "soft": hard, **more}


def test_an_episode_becomes_a_transcript_of_actions_and_results():
    episode = make_episode(
        "T1",
        0.5,
        [("go to desk 1", "You arrive."), ("take pen 1", "You take it.")],
        opening="Find a pen.",
        stop=StopReason.MAX_TURNS,
        key="k1",
    )
    (transcript,) = read_episodes([episode]).rows
    assert (transcript.id, transcript.task_id, transcript.task_type) == ("T1", "T1", "waiting")
    assert (transcript.reward, transcript.stop, transcript.turns) == (0.5, "max_turns", 2)
    assert (transcript.opening, transcript.key) == ("Find a pen.", "k1")
    assert transcript.lines == (
        Line(0, "action", "go to desk 1"),
        Line(0, "result", "You arrive."),
        Line(1, "action", "take pen 1"),
        Line(1, "result", "You take it."),
    )


@pytest.mark.parametrize(("reward", "hard"), [(0.9, 0.0), (0.2, 1.0)])
def test_an_episode_that_says_itself_whether_it_passed_is_believed(reward, hard):
    episode = replace(make_episode("T1", reward), hard=hard)
    (transcript,) = read_episodes([episode]).rows
    assert transcript.reward == hard


def test_an_agents_reasoning_is_shown_apart_from_its_command():
    said = "<think>The pen is there.</think>\n<action> take pen 1 </action>"
    (transcript,) = read_episodes([make_episode("T", 0, [(said, "ok")])]).rows
    assert transcript.lines[:2] == (
        Line(0, "reasoning", "The pen is there."),
        Line(0, "action", "take pen 1"),
    )


def test_a_failure_has_no_transcript_and_is_reported():
    read = read_episodes([make_episode("well", 1.0), make_episode("sick", None)])
    assert [t.id for t in read.rows] == ["well"]
    assert read.skipped == (Skipped("sick", "it ended in a fault (model) and has no reward"),)


def test_an_episode_without_a_turn_keeps_its_place_and_is_reported():
    read = read_episodes([make_episode("short", 0.0, [])])
    assert [t.lines for t in read.rows] == [()]
    assert read.skipped == (Skipped("short", "it ended before its first turn"),)


def test_attempts_at_one_task_have_names_of_their_own():
    episodes = [make_episode("T"), make_episode("T", draw=1), make_episode("T", draw=1)]
    read = read_episodes(episodes)
    assert [t.id for t in read.rows] == ["T", "T#1", "T#2"]
    assert {t.task_id for t in read.rows} == {"T"}


def test_every_kind_of_recorded_turn_is_read(tmp_path):
    saved(
        tmp_path,
        "r1",
        [
            {"type": "tool_call", "cmd": "ls", "obs": "a b"},
            {"step": 7, "action": "open", "env_feedback": "opened", "reasoning": "why not"},
            {"role": "system", "content": "2 of 3 tests pass"},
            {"role": "assistant", "content": "I am done"},
            "bye",
            {"strange": 1},
        ],
    )
    (transcript,) = read_rows([row("r1", fail_reason="wrong: 3")], tmp_path).rows
    assert transcript.lines == (
        Line(0, "action", "ls"),
        Line(0, "result", "a b"),
        Line(7, "reasoning", "why not"),
        Line(7, "action", "open"),
        Line(7, "result", "opened"),
        Line(2, "verification", "2 of 3 tests pass"),
        Line(3, "assistant", "I am done"),
        Line(4, "agent", "bye"),
        Line(5, "note", '{"strange": 1}'),
    )
    assert transcript.fail_reason == "wrong: 3"
    assert transcript.facts == (("why it failed", "wrong: 3"),)


def test_a_rows_own_words_fill_the_heading(tmp_path):
    saved(tmp_path, "r1", [{"role": "user", "content": "hi"}])
    (tmp_path / "r1" / "target_system_prompt.txt").write_text("Be brief.", encoding="utf-8")
    given = row("r1", 1, instruction="Add 1 and 2", instruction_type="sum", n_turns=4)
    (transcript,) = read_rows([given], tmp_path).rows
    assert (transcript.opening, transcript.task_type, transcript.turns) == ("Add 1 and 2", "sum", 4)
    assert transcript.facts == (("system prompt", "Be brief."),)


@pytest.mark.parametrize("content", ["[]", "{}", "not json", "[1"])
def test_a_row_without_a_readable_conversation_keeps_its_place_and_is_reported(tmp_path, content):
    saved(tmp_path, "bad", content)
    read = read_rows([row("bad"), row("missing", 1)], tmp_path)
    assert [(t.id, t.reward, t.lines) for t in read.rows] == [("bad", 0, ()), ("missing", 1, ())]
    assert [s.id for s in read.skipped] == ["bad", "missing"]
    assert all(s.reason.startswith("no conversation can be read") for s in read.skipped)


def test_a_row_whose_score_is_no_number_is_left_out_and_reported(tmp_path):
    read = read_rows([row("r1", None), row("r2", float("nan"))], tmp_path)
    assert read.rows == ()
    assert [s.id for s in read.skipped] == ["r1", "r2"]


def test_a_fact_that_is_not_json_is_told_in_words_and_the_conversation_stays(tmp_path):
    saved(tmp_path, "r1", '[{"role": "user", "content": NaN}, {"action": "go", "note": 1}]')
    (tmp_path / "r1" / "target_user_prompt.txt").write_bytes(b"caf\xe9")
    odd = {
        "n_turns": None,
        "fail_reason": ValueError("locked"),
        "reference_text": {"share": float("nan")},
        "target_system_prompt": b"x",
        "spreadsheet_preview": Decimal("1.5"),
        "instruction": Path("/a"),
    }
    read = read_rows([row("r1", Decimal(1), **odd)], tmp_path)
    (transcript,) = read.rows
    assert read.skipped == ()
    assert [line.text for line in transcript.lines] == ["null", "go"]
    assert dict(transcript.facts) == {
        "why it failed": "locked",
        "reference, hidden from the agent": '{"share": null}',
        "system prompt": "b'x'",
        "user prompt": "caf\ufffd",
        "spreadsheet preview": "1.5",
    }
    assert (transcript.reward, transcript.turns, transcript.opening) == (1.0, 2, "/a")


def test_a_folder_is_found_by_an_id_that_we_would_write_in_another_way(tmp_path):
    saved(tmp_path, "202602:12", [{"role": "user", "content": "Which holds?"}])
    (transcript,) = read_rows([row("202602:12")], tmp_path).rows
    assert [line.text for line in transcript.lines] == ["Which holds?"]


@pytest.mark.parametrize("row_id", ["../secret", "/etc", "", ".", "..", "x\0y", "long" * 99])
def test_an_id_cannot_choose_files_outside_the_predictions(tmp_path, row_id):
    saved(tmp_path, "secret", [{"role": "user", "content": "password"}])
    predictions = tmp_path / "predictions"
    predictions.mkdir()
    read = read_rows([row(row_id)], predictions)
    assert read.rows[0].lines == ()
    assert "no conversation can be read" in read.skipped[0].reason
