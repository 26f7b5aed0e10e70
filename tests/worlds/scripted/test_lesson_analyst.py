"""A scripted optimizer that is made of lessons: a mark of a mistake, and sentences against it."""

import json

from skillwright.core import Purpose, Sampling
from skillwright.worlds.scripted.lesson_analyst import Lesson, LessonAnalyst

SHELF = Lesson(
    failure="chose a wrong shelf",
    shows=r"lost: (?P<parcel>\w+) goes to the (?P<shelf>\w+)",
    wordings=("Put {parcel} on the {shelf} shelf.", "The {shelf} shelf is for {parcel}."),
)
RUDE = Lesson("was rude", "You are rude", ("Greet people.",))


def episode(name, said, outcome="failure"):
    return (
        f'<trajectory id="{name}" outcome="{outcome}">\n<task>Sort.</task>\n'
        f"[1] action: middle\n[1] result: {said}\n</trajectory>\n"
    )


def prompt(*episodes, skill="(empty)", earlier="(none)", budget=4):
    return (
        f"## Current skill\n<skill>\n{skill}\n</skill>\n\n## Edit budget\n"
        f"Propose at most {budget} edits.\n\n## Earlier steps\n{earlier}\n\n"
        "## Optimizer notes\n(none)\n\n## Trajectories\n" + "".join(episodes)
    )


async def proposed(user, superstitions=(), seed=0, system="# Analyst: failures\nFind out why."):
    analyst = LessonAnalyst("scripted:test", [SHELF, RUDE], superstitions)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    answer = await analyst.complete(messages, sampling=Sampling(seed=seed), purpose=Purpose.REFLECT)
    assert answer.model == "scripted:test"
    try:
        return json.loads(answer.text)["patch"]["edits"]
    except (ValueError, KeyError):
        return None


def contents(edits):
    return [edit["content"] for edit in edits]


GLASS = episode("a", "lost: glass goes to the top shelf")


async def test_the_words_of_a_lesson_are_filled_in_and_its_episodes_named():
    edits = await proposed(prompt(GLASS, episode("b", "lost: glass goes to the top")))
    assert contents(edits) == ["- Put glass on the top shelf."]
    assert edits[0]["evidence"] == [{"id": "a", "turns": [1]}, {"id": "b", "turns": [1]}]


async def test_the_commonest_mistake_comes_first_and_the_budget_cuts_the_rest():
    rude = [episode(name, "You are rude.") for name in "bc"]
    assert contents(await proposed(prompt(GLASS, *rude))) == [
        "- Greet people.",
        "- Put glass on the top shelf.",
    ]
    assert contents(await proposed(prompt(GLASS, *rude, budget=1))) == ["- Greet people."]


async def test_what_the_skill_says_is_not_proposed_again():
    assert await proposed(prompt(GLASS, skill="- Put glass on the top shelf.")) == []


async def test_a_wording_that_was_tried_gives_way_to_the_next():
    tried = "Step 1: rejected: Put glass on the top shelf."
    assert contents(await proposed(prompt(GLASS, earlier=tried))) == [
        "- The top shelf is for glass."
    ]


async def test_episodes_that_succeeded_teach_nothing():
    won = episode("a", "lost: glass goes to the top shelf", "success")
    assert await proposed(prompt(won)) == []


async def test_now_and_then_it_believes_what_nothing_shows():
    said = [contents(await proposed(prompt(GLASS), ["Hurry."], seed)) for seed in range(40)]
    believers = [one for one in said if "- Hurry." in one]
    assert 0 < len(believers) < 20
    assert all(len(one) == 2 for one in believers)


async def test_what_is_no_question_for_analysts_gets_an_answer_without_edits():
    assert await proposed("Answer with the single word: ready") is None
    assert await proposed(prompt(GLASS), system="# Slow update") is None


async def test_a_function_can_tell_where_a_mistake_shows():
    lesson = Lesson("shouted", str.isupper, ("Be quiet.",))
    assert lesson.seen_in("LOUD") == ("Be quiet.",)
    assert lesson.seen_in("quiet") == ()
