"""A row of a table as an episode."""

import pytest

from skillwright.core import DataError
from skillwright.envs import check_env, make

ROWS = [{"row": {"text": f"What is {n} + 1?", "sum": str(n + 1), "Two words": n}} for n in range(3)]


@pytest.mark.parametrize("more", [{}, {"on_wrong": "retry"}])
@pytest.mark.parametrize("scorer", ["exact", "one_of", "contains", "number", "f1"])
def test_the_environment_keeps_the_contract_with_every_scorer_that_compares(scorer, more):
    config = {"prompt": "{{ text }}", "answer": "sum", "scorer": scorer, **more}
    report = check_env("table", extras_list=ROWS, env_config=config, fuzz=150)
    assert report.ok, [check for check in report.checks if not check.ok]


def test_the_environment_keeps_the_contract_as_it_is():
    report = check_env("table", fuzz=150)
    assert report.ok, [check for check in report.checks if not check.ok]


def test_a_column_of_any_name_is_reached_through_the_row():
    env = make("table", {"prompt": 'It is {{ row["Two words"] }}.'}, dict(ROWS[1]))
    messages, metadata = env.init([])
    assert messages[-1]["content"] == metadata["observation"] == "It is 1."


def test_the_answer_is_never_shown_before_it_is_given():
    row = {"row": {"prompt": "What?", "answer": "secret"}}
    messages, _ = make("table", {}, row).init([])
    assert "secret" not in str(messages)


def test_extras_without_a_row_are_refused():
    with pytest.raises(DataError, match=r"tasks of a file are made by env\.data"):
        make("table", {}, {})


@pytest.mark.parametrize(
    ("scorer", "right", "reply", "facts"),
    [
        ("exact", "repair", "<answer>login</answer>", ("repair", "login")),
        ("exact", "repair", "<answer>repair</answer>", ("repair", "repair")),
        ("json", {"city": "Köln"}, "none", ('{"city": "Köln"}', "none")),
        ("number", 4, "It is <answer>5</answer>", ("4", "5")),
    ],
)
def test_the_record_of_a_reply_names_the_right_answer_and_the_scored_one(
    scorer, right, reply, facts
):
    settings = {"prompt": "What?", "answer": "right", "scorer": scorer}
    env = make("table", settings, {"row": {"right": right}})
    env.init([])
    metadata = env.step(reply)["metadata"]
    assert (metadata["expected"], metadata["answer"]) == facts
