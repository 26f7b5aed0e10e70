"""Whatever the scripted analyst writes, the agent understands as it was meant."""

import pytest

from skillwright.worlds.alfworld.scripted.lessons import FROM_FAILURES, FROM_SUCCESSES, LESSONS
from skillwright.worlds.scripted.skilltext import BAD_RULES, Rule, read_habits, read_stances

SHAPES = ("- {}", "{}", "## Searching\n- {}", "1. {}\n2. Be kind.")

LESSON_WORDINGS = [(rule, text) for rule, lesson in LESSONS.items() for text in lesson.wordings]
BELIEF_WORDINGS = [
    (one, text) for one in (*FROM_FAILURES, *FROM_SUCCESSES) for text in one.wordings
]


def heard(text):
    assert read_habits(text) == ()
    return {(stance.rule, stance.wanted) for stance in read_stances(text)}


def test_there_is_a_lesson_about_every_rule_in_several_wordings():
    assert set(LESSONS) == set(Rule)
    for rule, lesson in LESSONS.items():
        assert len(set(lesson.wordings)) >= (2 if rule in BAD_RULES else 4)


@pytest.mark.parametrize(("rule", "text"), LESSON_WORDINGS)
def test_a_lesson_is_heard_as_its_rule_and_nothing_else(rule, text):
    for shape in SHAPES:
        assert heard(shape.format(text)) == {(rule, rule not in BAD_RULES)}
    assert not any(stance.is_harmful for stance in read_stances(text))


@pytest.mark.parametrize(("one", "text"), BELIEF_WORDINGS)
def test_a_superstition_is_heard_as_the_rule_that_it_perverts(one, text):
    meant = set() if one.rule is None else {(one.rule, one.wanted)}
    for shape in SHAPES:
        assert heard(shape.format(text)) == meant
    assert all(stance.is_harmful for stance in read_stances(text))


def test_all_lessons_together_are_one_good_skill():
    for pick in range(4):
        lessons = [lesson.wordings[pick % len(lesson.wordings)] for lesson in LESSONS.values()]
        text = "\n".join(f"- {sentence}" for sentence in lessons)
        assert heard(text) == {(rule, rule not in BAD_RULES) for rule in Rule}
