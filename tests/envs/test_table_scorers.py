"""How the answers of a table are compared."""

import pytest

from skillwright.core import DataError
from skillwright.envs.table import TableEnv, TableSettings
from skillwright.envs.table.final_number import final_number
from skillwright.envs.table.scorers import as_number
from skillwright.envs.table.settings import read_settings

ASK = {"prompt": "{{ prompt }}"}


async def graded(reply, right, scorer="exact", **more):
    row = {"prompt": "What?", "answer": right}
    env = TableEnv({**ASK, "scorer": scorer, **more}, {"row": row, "max_turns": 1})
    env.init([])
    return await env.astep(reply)


@pytest.mark.parametrize(
    ("scorer", "right", "reply", "score"),
    [
        ("exact", "Billing", "billing.", 1),
        ("exact", "billing", "I think <answer> billing </answer>", 1),
        ("exact", "billing", "<think>login?</think>billing", 1),
        ("exact", "billing", "It is billing", 0),
        ("exact", "C++", "C", 0),
        ("exact", -5, "5", 0),
        ("exact", True, "true", 1),
        ("one_of", "NYC | New York", "new york", 1),
        ("one_of", ["NYC", "New York"], "NYC", 1),
        ("one_of", "NYC | New York", "York", 0),
        ("contains", "no", "Well, no.", 1),
        ("contains", "no", "unknown", 0),
        ("contains", "New York", "in new\nyork today", 1),
        ("number", "1,234.5", "It is 1234.5", 1),
        ("number", "12", "3 times 4 is 12.", 1),
        ("number", "12", "twelve", 0),
        ("number", "-3", "\u22123", 1),
        ("number", "0.3", "0.30000000000000004", 1),
        ("number", "3.5", "3,5 kg", 1),
        ("number", "5", "page A-5", 1),
        ("number", "5", "pages 3-5", 0),
        ("number", "-5", "x = -5", 1),
        ({"kind": "number", "tolerance": 0.5}, "10", "10.4", 1),
        ({"kind": "number", "tolerance": "1%"}, "200", "202", 1),
        ({"kind": "number", "tolerance": "1%"}, "200", "203", 0),
        ("json", '{"a": 1, "b": "x"}', 'Here: {"a": "1.0", "b": "X."}', 1),
        ("json", '{"a": 1, "b": "x"}', '{"a": 1, "b": "y", "c": 2}', 0.5),
        ("json", {"a": [1]}, '{"a": [1]}', 1),
        ("json", '{"a": null}', "{}", 0),
        ("json", '{"a": 1}', "no object", 0),
        ("json", '{"a": 1}', f'{{"a": {"9" * 400}}}', 0),
        ("exact", ".", "", 0),
        ("contains", '"', "anything", 0),
        ("f1", "the red house", "a red house", 1),
        ("f1", "red house", "red car", 0.5),
        ("regex", r"^\d{4}$", "<answer>2026</answer>", 1),
        ("regex", r"^\d{4}$", "26", 0),
    ],
)
async def test_a_reply_has_the_score_that_its_scorer_gives(scorer, right, reply, score):
    step = await graded(reply, right, scorer)
    assert step["done"]
    assert step["reward"] == pytest.approx(score)


async def test_several_answer_columns_are_the_fields_of_an_object():
    row = {"prompt": "?", "amount": "12.50", "day": "Monday"}
    config = {**ASK, "scorer": "json", "answer": ["amount", "day"]}
    env = TableEnv(config, {"row": row})
    messages, _ = env.init([])
    assert "fields amount, day" in messages[0]["content"]
    step = await env.astep('{"amount": 12.5, "day": "Friday"}')
    assert step["reward"] == 0.5
    assert 'day: expected "Monday", and you answered "Friday"' in step["metadata"]["observation"]


async def test_who_learns_from_a_wrong_answer_reads_the_right_one():
    step = await graded("login", "billing")
    said = step["metadata"]["observation"]
    assert said == 'Expected "billing", and you answered "login".'


async def test_an_agent_that_may_try_again_is_never_shown_the_answer():
    config = {**ASK, "on_wrong": "retry"}
    env = TableEnv(config, {"row": {"prompt": "?", "answer": "secret"}, "max_turns": 3})
    env.init([])
    for _ in range(2):
        step = await env.astep("guess")
        assert not step["done"]
        assert step["observations"][0]["content"] == "That is not right. Answer again."
    step = await env.astep("secret")
    assert step["done"]
    assert step["reward"] == 1.0
    assert env.get_metrics() == {"score": 1.0, "tries": 3.0}


async def test_the_last_try_ends_the_episode_with_its_own_score():
    config = {**ASK, "on_wrong": "retry", "scorer": "f1"}
    env = TableEnv(config, {"row": {"prompt": "?", "answer": "red house"}, "max_turns": 2})
    env.init([])
    assert (await env.astep("red car"))["reward"] == 0
    last = await env.astep("red car")
    assert last["done"]
    assert last["reward"] == 0.5


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"promt": "x"}, "Did you mean 'prompt'?"),
        ({"scorer": "exakt"}, "exact"),
        ({"scorer": {"kind": "number", "tolerance": "much"}}, "tolerance is 'much'"),
        ({"scorer": {"kind": "number", "tolerance": -1}}, "tolerance is -1"),
        ({"scorer": "score.py:"}, "write file.py:name"),
        ({"scorer": "judge"}, "rubric"),
        ({"on_wrong": "cry"}, "on_wrong"),
        ({"prompt": object()}, "plain YAML values"),
        ([], "write a mapping"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(config, said):
    with pytest.raises(DataError) as error:
        read_settings(config)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", 1234.5),
        ("1/2", 0.5),
        ("0.5", 0.5),
        ("01234", None),
        ("5 km", None),
        (True, None),
    ],
)
def test_a_code_with_a_zero_before_it_is_no_number(text, number):
    assert as_number(text) == number


def test_settings_that_are_settings_are_taken_as_they_are():
    settings = TableSettings(prompt="{{ x }}")
    assert read_settings(settings) is settings


@pytest.mark.parametrize(
    ("scorer", "right", "said"),
    [
        ("number", "many", "is no number"),
        ("json", "[1]", "is no JSON object"),
        ("json", "{}", "is no JSON object"),
        ("regex", "(", "is no regular expression"),
        ("one_of", " | ", "lists no right answer"),
        ("exact", ["a"], "for a list take scorer 'one_of'"),
    ],
)
def test_a_right_answer_that_does_not_fit_its_scorer_is_refused(scorer, right, said):
    with pytest.raises(DataError) as error:
        read_settings({"scorer": scorer}).scorer.check(right)
    assert said in str(error.value)


def test_a_long_word_after_emphasis_is_searched_in_linear_time():
    assert final_number("42 **" + "a" * 40_000).value == 42
