"""A skill that holds tasks with their answers is found out, and one that quotes a rule is not."""

import pytest

from skillwright.core import Task
from skillwright.datasets.memorized import memorized, memorized_line


def row(number, **values):
    values = {str(name): value for name, value in values.items()}
    asked = str(next(iter(values.values())))
    return Task(f"row-{number}", "table", extras={"row": values}, description=asked[:300])


LABELED = [
    row(i, q=f"item val {i} {i * 7919 + 100000}", a=["red", "blue"][i % 2]) for i in range(6)
]
LONG = [
    row(1, q="How long is the warranty?", a="The warranty covers all parts for two whole years."),
    row(2, q="Who pays?", a=f"As section 4 says, {'the buyer pays for it and ' * 4}so on."),
    row(3, q="Where is it?", a="In the hall."),
]


@pytest.mark.parametrize(
    ("skill", "found"),
    [
        ('When it says "item val 2 115838", answer "red".', ["row-2"]),
        ("| Item  VAL 3 123757 | Blue |\n| item val 5 139595 | blue |", ["row-3", "row-5"]),
        ("item val 2 115838: think first.", []),
        ("Answer red or blue. Items from val have a number.", []),
        ("item val 2 11583, red", []),
    ],
)
def test_questions_with_their_answers_are_found_and_labels_alone_are_not(skill, found):
    assert memorized(skill, "", LABELED) == found


@pytest.mark.parametrize(
    ("skill", "found"),
    [
        ("Say: the warranty covers all parts for two whole years!", ["row-1"]),
        ("Know that the buyer pays for it and the buyer pays for it and the buyer.", ["row-2"]),
        ("The warranty covers many parts. The buyer pays. It is in the hall.", []),
    ],
)
def test_long_parts_of_answers_are_found_and_short_ones_are_not(skill, found):
    assert memorized(skill, "", LONG) == found


def test_what_the_user_wrote_or_several_tasks_share_is_not_memorized():
    skill = 'When it says "item val 2 115838", answer "red".'
    assert memorized(skill, skill, LABELED) == []
    shared = [
        row(i, q=f"Case {i}", rule="Always greet the customer by the first name.") for i in (1, 2)
    ]
    assert memorized("Always greet the customer by the first name.", "", shared) == []


def test_the_line_names_splits_and_tasks():
    said = memorized_line({"train": [], "val": ["a", "b", "c", "d"]})
    assert said.startswith(
        "The skill holds 4 val tasks with the answers (such as a, b, c) word for"
    )
    assert memorized_line({"train": [], "val": []}) == ""


def test_five_thousand_tasks_are_looked_up():
    tasks = [row(i, q=f"question {i} about a thing", a=f"answer {i}") for i in range(5000)]
    skill = "\n".join(
        f'"question {i} about a thing" means "answer {i}".' for i in range(0, 5000, 50)
    )
    assert len(memorized(skill, "", tasks)) == 100
