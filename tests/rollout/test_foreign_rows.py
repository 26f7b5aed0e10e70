"""Rows of an adapter: each is a score or a Failure, and what is left out is noted."""

import math
import re
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from skillwright.core import ContractError, FailureCause, RolloutResult
from skillwright.core.jsonio import dumps
from skillwright.rollout.foreign_rows import (
    RowsAbout,
    all_failed,
    as_json,
    items_by_id,
    read_batch,
)


def about(*ids, **more):
    """Say what was asked for."""
    facts = {"env": "rooms", "split": "val", "phase": "gate", "seed": 7, "skill_version": "v"}
    return RowsAbout(**facts, key=partial("{}{}".format, "k-"), ids=ids or None, **more)


def row(row_id, hard=1, soft=0.5, **more):
    return {"id": row_id, "hard": hard, "soft": soft, **more}


def scores(read):
    return {result.task_id: result.reward for result in read.results}


def test_a_row_becomes_a_scored_episode_that_keeps_the_row():
    given = row("a", hard=1, soft=0.25, task_type="attic", n_turns=3, color="red")
    [result] = read_batch([given], about("a", draw=2, step=4)).results
    assert (result.reward, result.hard, result.row) == (0.25, 1.0, given)
    assert (result.task_id, result.task_type, result.spec.task.split) == ("a", "attic", "val")
    assert (result.spec.seed, result.spec.draw, result.spec.step) == (7, 2, 4)
    assert (result.key, result.skill_version, result.spec.phase) == ("k-a", "v", "gate")
    assert result.metrics == {"n_turns": 3.0}


def test_results_come_in_the_order_asked_for_and_rows_as_they_are():
    given = [row("b"), row("a")]
    read = read_batch(given, about("a", "b"))
    assert [result.task_id for result in read.results] == ["a", "b"]
    assert read.rows["b"] is given[0]
    assert read.notes == ()


def test_a_missing_row_is_a_failure_and_not_a_zero():
    read = read_batch([row("a")], about("a", "b", "c"))
    assert scores(read) == {"a": 0.5, "b": None, "c": None}
    assert read.results[1].failure.cause is FailureCause.ENVIRONMENT
    assert read.notes == ("2 rows are missing: 'b', 'c'",)


def test_a_row_that_was_not_asked_for_is_dropped_and_noted():
    read = read_batch([row("a"), row("z")], about("a"))
    assert scores(read) == {"a": 0.5}
    assert read.notes == ("1 row has an id not asked for: 'z'",)
    read = read_batch([row("a"), row("y"), row("z")], about("a"))
    assert read.notes == ("2 rows have ids not asked for: 'y', 'z'",)


def test_of_two_rows_with_one_id_the_first_counts():
    read = read_batch([row("a", soft=0.1), row("a", soft=0.9)], about("a"))
    assert scores(read) == {"a": 0.1}
    assert read.notes == ("row 1 has the id 'a' again; the first one counts",)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"id": "b", "soft": 1.0}, "has no 'hard'"),
        ({"id": "b", "hard": 1}, "has no 'soft'"),
        (row("b", soft=math.nan), "soft is nan"),
        (row("b", hard=math.inf), "hard is inf"),
        (row("b", soft=1.2), r"soft is 1.2, and every score lies in \[0, 1\]"),
        (row("b", hard=-1), "hard is -1"),
        (row("b", hard=None), "hard is None"),
        (row("b", soft="high"), "soft is 'high'"),
        (row("b", n_turns="many"), "n_turns is 'many'"),
    ],
)
def test_a_row_that_breaks_the_contract_costs_itself_only(bad, said):
    read = read_batch([row("a"), bad], about("a", "b"))
    assert scores(read) == {"a": 0.5, "b": None}
    assert list(read.rows) == ["a"]
    failure = read.results[1].failure
    assert failure.cause is FailureCause.ENVIRONMENT
    assert re.search(said, failure.message)
    assert read.notes == (failure.message,)


def test_a_score_that_rounding_lifted_above_one_is_one():
    [result] = read_batch([row("a", hard=1 + 1e-12, soft=1 + 1e-12)], about("a")).results
    assert (result.reward, result.hard) == (1.0, 1.0)


def test_rows_with_other_ids_than_all_items_score_nothing_and_each_failure_says_why():
    read = read_batch([row("row-1"), row("row-2")], about("a", "b"))
    assert scores(read) == {"a": None, "b": None}
    assert not read.has_score
    why = "no row has the id of an item: rows 'row-1', 'row-2'; items 'a', 'b'"
    assert why in read.notes[0]
    assert all(why in result.failure.message for result in read.results)


def test_a_bug_of_every_row_is_one_note_with_an_example():
    ids = [f"t{at}" for at in range(30)]
    read = read_batch([row(one, soft=math.nan) for one in ids], about(*ids))
    assert len({result.failure.message for result in read.results}) == 30
    [note] = read.notes
    assert note.startswith("30 rows have no score; the first: rollout row 't0': soft is nan")
    read = read_batch([row("a")] * 4, about("a"))
    assert read.notes == (
        "3 rows have an id again; the first: row 1 has the id 'a' again; the first one counts",
    )


def test_without_known_ids_the_rows_say_what_there_is():
    assert list(scores(read_batch([row(2), row("x")], about()))) == ["2", "x"]


def test_an_empty_list_is_a_failure_for_everything_that_was_asked():
    read = read_batch([], about("a"))
    assert scores(read) == {"a": None}
    assert not read.has_score
    assert read_batch([], about()).results == ()


@pytest.mark.parametrize("returned", [None, 3, "rows", {"id": "a", "hard": 1, "soft": 1}])
def test_what_is_no_list_breaks_the_contract(returned):
    with pytest.raises(ContractError, match="not a list of rows"):
        read_batch(returned, about("a"))


def test_rows_may_be_objects():
    @dataclass
    class Made:
        id: str
        hard: int
        soft: float

    class Loose:
        def __init__(self):
            self.id, self.hard, self.soft = "c", 0, 0.0

    read = read_batch(
        [Made("a", 1, 1.0), RolloutResult("b", 1, 0.5), Loose()], about("a", "b", "c")
    )
    assert scores(read) == {"a": 1.0, "b": 0.5, "c": 0.0}


def test_what_is_no_row_is_noted():
    read = read_batch([3, {"hard": 1, "soft": 1}, row("a")], about("a"))
    assert scores(read) == {"a": 0.5}
    [note] = read.notes
    assert note.startswith("2 rows cannot be read; the first: row 0 is a int")
    [lost] = read_batch([{"hard": 1, "soft": 1}], about("a")).results
    assert "row 0 is without an id" in lost.failure.message


def test_a_rollout_that_raised_is_a_failure_for_each_known_episode():
    read = all_failed(about("a", "b"), TimeoutError("too slow"))
    assert [result.failure.cause for result in read.results] == [FailureCause.TIMEOUT] * 2
    assert read.notes == ("rollout raised TimeoutError: too slow",)


def test_what_json_cannot_carry_is_told_in_words():
    class Number:
        def item(self):
            return 0.5

    class Thing:
        def __repr__(self):
            return "<thing>"

    told = as_json({"a": math.nan, 1: (1, 2), "n": Number(), "t": Thing(), "e": EOFError})
    assert told == {"a": None, "1": [1, 2], "n": 0.5, "t": "<thing>", "e": "<class 'EOFError'>"}


def cycle():
    inner: dict = {}
    inner["self"] = [inner]
    return inner


def deep(levels):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def wide():
    """Two references a level: 2**60 values, of which each is small."""
    value: list = []
    for _ in range(60):
        value = [value, value]
    return value


class Grumpy(dict):
    def items(self):
        raise OSError("not today")


class Mute:
    def __str__(self):
        raise RecursionError


class Endless:
    def to_dict(self):
        return {"more": Endless()}


@dataclass
class Pair:
    left: object
    right: object


UNSTORABLE = {
    "cycle": (cycle(), {"self": ["(a value that holds itself)"]}),
    "grumpy": (Grumpy(), "(a Grumpy that raises OSError when it is read)"),
    "mute": (Mute(), "(a Mute that raises RecursionError when it is read)"),
    "bits": (1 << 20_000, "(an integer too large)"),
    "infinity": (-math.inf, None),
    "bytes": (b"\x00\xff", "b'\\x00\\xff'"),
    "set": ({"b", "a"}, ["a", "b"]),
    "frozen": (frozenset({2, 1}), [1, 2]),
    "array": (np.zeros(3), "[0. 0. 0.]"),
    "number": (np.float32(0.5), 0.5),
    "flag": (np.bool_(True), True),
    "date": (date(2026, 2, 3), "2026-02-03"),
    "path": (PurePosixPath("a/b"), "a/b"),
    "fields": (Pair(1, {2}), {"left": 1, "right": [2]}),
    "class": (Pair, "<class 'test_foreign_rows.Pair'>"),
    "keys": ({(1, 2): 3, None: 4}, {"(1, 2)": 3, "None": 4}),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_cannot_be_stored_is_stored_in_words(name):
    value, stored = UNSTORABLE[name]
    [result] = read_batch([row("a", odd=value)], about("a")).results
    assert (result.reward, result.row["odd"]) == (0.5, stored)


@pytest.mark.parametrize("value", [deep(5_000), wide(), Endless(), "x" * 100_000, [1] * 1_200_000])
def test_a_huge_value_loses_no_row(value):
    [result] = read_batch([row("a", odd=value)], about("a")).results
    assert result.reward == 0.5
    assert len(dumps(result.row)) < 10_000_000


def test_a_value_in_words_is_the_same_in_another_process():
    with Path(__file__).open() as log:
        told = as_json({"call": lambda: 1, "thing": object(), "log": log, "rows": iter([1])})
    assert "lambda" in told["call"]
    assert told["thing"] == "<object object>"
    assert "0x" not in dumps(told)


def test_a_row_that_is_an_object_may_hold_what_cannot_be_copied():
    @dataclass
    class Result:
        id: str
        hard: int
        soft: float
        log: object

    with Path(__file__).open() as log:
        [result] = read_batch([Result("a", 1, 0.5, [log])], about("a")).results
    assert result.reward == 0.5


def test_a_score_too_large_for_a_float_costs_its_row_only():
    read = read_batch([row("a", hard=10**400), row("b")], about("a", "b"))
    assert scores(read) == {"a": None, "b": 0.5}


def test_families_come_from_the_row_or_else_from_its_item():
    items = {"a": {"id": "a", "subtype": "hall"}, "b": {"id": "b", "task_type": "attic"}}
    read = read_batch([row("a"), row("b"), row("c", instruction_type="cellar")], about(items=items))
    assert [result.task_type for result in read.results] == ["hall", "attic", "cellar"]


@pytest.mark.parametrize(
    ("items", "known"),
    [
        ([{"id": 1}, {"id": "b"}], ["1", "b"]),
        ([{"id": 1}, {"id": "1"}], None),
        ([{"name": "a"}], None),
        ([], None),
        (object(), None),
        ("text", None),
    ],
)
def test_items_are_known_where_each_has_an_id_of_its_own(items, known):
    found = items_by_id(items)
    assert (list(found) if found else found) == known
