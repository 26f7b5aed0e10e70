"""Causes of failure on rows are grouped by what the scorer said of the replies."""

from test_zero_hints import Replies, config_of

from doors import evaluated, look
from skillwright.core.fence import is_hidden
from skillwright.jobs.run import top_causes
from skillwright.jobs.text import EvalPlan

ROWS = [("Yes!", "yes"), ("", "no"), ("It is blue.", "blue"), ("green", "green")]


async def causes_of(folder, rows, scorer="exact"):
    config = config_of(folder, rows, scorer)
    path, _ = await evaluated(config, EvalPlan("test", 1), Replies())
    with look(path) as store:
        return top_causes(store, 1.0)


async def test_equal_reasons_are_one_cause_and_other_reasons_are_others(tmp_path):
    found = await causes_of(tmp_path, ROWS)
    assert {one.ending for one in found} == {
        "it differs from the answer only in case or punctuation",
        "the reply is empty",
        "the answer is in the reply, with more text around it",
    }
    assert sum(one.count for one in found) == 12
    assert all(one.line.endswith(f", {one.count} (such as {one.episode})") for one in found)


async def test_a_number_scorer_says_which_replies_hold_no_number(tmp_path):
    found = await causes_of(tmp_path, [("none", "4"), ("5", "4")], "number")
    assert {one.ending for one in found} == {"no number found", "another number"}
    assert not any(map(is_hidden, "".join(one.line for one in found)))
