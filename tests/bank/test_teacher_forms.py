"""Forms in which a teacher sends its skills and changes."""

import json

import pytest

from skillwright.bank.teaching.teacher import EvolveReply, LessonsReply, SkillsReply
from skillwright.core import ReplyInvalid
from skillwright.models.structured import read_reply

SKILL = {
    "name": "Search once",
    "principle": "Search once, then read.",
    "applicability": "when a task names a thing",
    "evidence": [{"id": "T0", "turns": [1, 2]}],
}
LESSON = {**SKILL, "failure_point": "f", "flawed_reasoning": "g", "corrective_action": "h"}
SKILLS, LESSONS = {"skills": [SKILL]}, {"lessons": [LESSON]}
EVOLVED = {
    "reasoning": "r",
    "changes": [
        {"op": "add", "kind": "lesson", **LESSON},
        {"op": "refine", "id": "s1", "principle": "P.", "reason": "x", "evidence": [{"id": "T0"}]},
        {"op": "retire", "id": "s2", "reason": "bad"},
    ],
}
OTHER_NAMES = {
    "title": "Search once",
    "rule": "Search once, then read.",
    "when_to_apply": "when a task names a thing",
    "evidence": ["T0"],
}
YAML = """
skills:
- name: Search once
  principle: Search once, then read.
  applicability: when a task names a thing
  evidence:
  - id: T0
    turns: [1, 2]
"""


def near(value):
    return json.dumps(value)[:-1] + ",}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        *((text, SKILLS) for text in (near(SKILLS), repr(SKILLS), YAML)),
        *(
            (json.dumps(value), SKILLS)
            for value in (
                [SKILL],
                SKILL,
                {"skills": SKILL},
                {"result": SKILLS},
                {"skills": json.dumps([SKILL])},
                {"general_skills": [SKILL]},
                {"Skills": [{name.title(): part for name, part in SKILL.items()}]},
                [SKILLS, {"skills": []}],
                {"skills": [{**SKILL, "name": None, "title": SKILL["name"]}]},
                {"skills": [{**SKILL, "evidence": {"id": "T0", "turns": ["1", "2"]}}]},
            )
        ),
        (
            json.dumps({"skills": [OTHER_NAMES]}),
            {"skills": [{**SKILL, "evidence": [{"id": "T0"}]}]},
        ),
        *(
            (
                json.dumps({"skills": [{**SKILL, "evidence": [{"id": "T0", "turns": turns}]}]}),
                {"skills": [{**SKILL, "evidence": [{"id": "T0", "turns": read}]}]},
            )
            for turns, read in ((None, []), (2, [2]))
        ),
        (json.dumps({"reasoning": "r", "changes": None}), {"reasoning": "r", "changes": []}),
        (f"<|channel|>final<|message|>{near(LESSONS)}<|return|>", LESSONS),
        (json.dumps([LESSON]), LESSONS),
        (near(EVOLVED), EVOLVED),
        (json.dumps({"name": "evolve", "arguments": json.dumps(EVOLVED)}), EVOLVED),
        (json.dumps(EVOLVED).replace('"op"', '"operation"'), EVOLVED),
        (json.dumps(EVOLVED["changes"]), {**EVOLVED, "reasoning": "(none)"}),
        (
            json.dumps(EVOLVED)
            .replace('"add"', '"ADD"')
            .replace('"refine"', '"update"')
            .replace('"retire"', '"remove"')
            .replace('"lesson"', '"Lesson"'),
            EVOLVED,
        ),
    ],
)
def test_a_form_of_one_meaning_is_read_and_noted(text, wanted):
    form = next(
        form
        for key, form in (("skills", SkillsReply), ("lessons", LessonsReply), ("c", EvolveReply))
        if key in wanted or form is EvolveReply
    )
    read = read_reply(text, "stop", form)
    assert read.value == form.model_validate(wanted)
    assert read.repairs


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        json.dumps({"changes": []}),
        json.dumps({"reasoning": "r", "changes": None, "notes": [{"rule": "x"}]}),
        json.dumps({"reasoning": "r", "changes": [{"op": "merge", "id": "s1", "reason": "x"}]}),
        json.dumps({"reasoning": "r", "changes": "none"}),
        json.dumps([EVOLVED, {**EVOLVED, "reasoning": "another"}]),
    ],
)
def test_what_may_mean_something_else_stays_a_fault(text):
    with pytest.raises(ReplyInvalid):
        read_reply(text, "stop", EvolveReply)


def test_no_skill_is_lost_where_a_teacher_sends_a_list_of_replies():
    other = {**SKILL, "name": "Read twice"}
    text = json.dumps([SKILLS, {"skills": [other]}])
    found = read_reply(text, "stop", SkillsReply).value.skills
    assert [one.name for one in found] == [SKILL["name"], other["name"]]


def test_persian_and_latex_in_a_principle_are_kept():
    principle = "پاسخ را کوتاه می\u200cنویسید"
    text = json.dumps({"skills": [{**SKILL, "principle": principle}]}, ensure_ascii=False)
    text = text.replace("when a task", r"when \boxed{x}\u00ad and \theta stand in a task")
    (skill,) = read_reply(text, "stop", SkillsReply).value.skills
    assert skill.principle == principle
    assert skill.applicability.startswith(r"when \boxed{x} and \theta stand")
