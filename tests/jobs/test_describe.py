"""A skill's description is trained on requests, judged on others, and changed alone."""

import json
from dataclasses import replace

import pytest
import yaml

from bank_houses import Replies
from skillwright.bank.formats.description import with_description
from skillwright.core import DataError, ModelError, ModelTimeout, UsageError
from skillwright.jobs.inspect import (
    DescribePlan,
    requests_in,
    train_description,
    verify_skills,
    write_description,
)
from skillwright.models import ModelConfig

THINGS = [
    *("users table", "orders table", "index on email", "foreign key of carts", "price column"),
    *("unique constraint", "session table", "audit column", "enum of states", "view of totals"),
    *("partition by month", "default of a column", "shard key", "trigger on stock", "sequence"),
]
VERBS = ["add a migration for the", "roll back the migration of the"]
OPENING = [f"{verb} {thing} in the database schema" for thing in THINGS for verb in VERBS]
OTHERS = [
    *("Plan a week of vegetarian meals", "Translate this letter to French", "Book a train to Rome"),
    *("Summarize the meeting notes", "Make a logo for a bakery", "What is the weather in Lima"),
    *("Convert three miles to kilometers", "Explain binary search", "Draft a note to the landlord"),
    *("Name the capital of Peru", "Write a poem about autumn", "Compare two phone contracts"),
]
BODY = "# Steps\n\n- Write the step and the way back.\n"


def folder_of(place, head, requests=None, body=BODY):
    folder = place / "skills" / "steps"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_bytes((head + body).encode())
    given = [{"query": one, "should_trigger": True} for one in OPENING]
    given += [{"query": one, "should_trigger": False} for one in OTHERS]
    triggers = given if requests is None else requests
    (folder / "evals" / "triggers.json").write_text(json.dumps(triggers))
    return folder


HEAD = "---\nname: steps\ndescription: Our process, step by step.\nlicense: MIT\n---\n\n"


async def trained(folder, **plan):
    found = await train_description(DescribePlan(folder, **plan))
    if found.content:
        write_description(found)
    return found


async def test_a_description_in_the_words_of_the_requests_is_proven_better(tmp_path):
    folder = folder_of(tmp_path, HEAD)
    found = await trained(folder)
    assert found.is_proven, found.verdict
    assert found.decided_by == "the lexical test"
    assert found.written_by == "words"
    assert found.held_out >= 20
    assert "migration" in found.new
    text = (folder / "SKILL.md").read_text()
    assert text == HEAD.replace("Our process, step by step.", json.dumps(found.new)) + BODY
    again = await trained(folder)
    assert not again.content


async def test_a_description_that_is_right_already_stays(tmp_path):
    said = "Adds and rolls back a migration of a table, column or index in the database schema."
    folder = folder_of(tmp_path, HEAD.replace("Our process, step by step.", said))
    before = (folder / "SKILL.md").read_bytes()
    assert not (await trained(folder)).is_proven
    assert (folder / "SKILL.md").read_bytes() == before


async def test_requests_of_neighbors_should_not_open_it(tmp_path):
    folder = folder_of(tmp_path, HEAD, [{"query": one} for one in OPENING])
    near = folder.parent / "meals"
    (near / "evals").mkdir(parents=True)
    (near / "SKILL.md").write_text("---\nname: meals\ndescription: Plans meals.\n---\n# Meals\n")
    cases = {"skill_name": "meals", "evals": [{"id": 1, "prompt": "Plan a dinner for six"}]}
    (near / "evals" / "evals.json").write_text(json.dumps(cases))
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken" / "SKILL.md").write_text("no frontmatter")
    found = await trained(folder)
    assert (found.rivals, found.opening) == (1, len(OPENING))
    assert "of built-in other skills" in found.notes[0]
    assert found.is_proven


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([], "no request is known that should open the skill"),
        ([{"query": "x", "should_trigger": False}], "no request is known that should open"),
        ([{"query": "one"}, {"query": "two"}], "are too few: of"),
        ([{"text": "x"}], "case 1 has no text; write it under 'query'"),
        ([{"query": "x", "should_trigger": "maybe"}], "should_trigger is 'maybe'"),
        ({"skills": []}, "holds no list of requests"),
        (7, "holds no list of requests"),
    ],
)
async def test_requests_that_cannot_be_used_are_refused(tmp_path, requests, said):
    with pytest.raises(UsageError, match=said):
        await trained(folder_of(tmp_path, HEAD, requests))


def test_triggers_are_read_in_the_forms_that_people_write(tmp_path):
    file = tmp_path / "evals.yaml"
    file.write_text(
        "scenarios:\n- prompt: Add a table\n  expect_activation: yes\n"
        "- {query: Say hello, should_trigger: 'no'}\n- Drop a column\n"
    )
    assert [one.opens for one in requests_in(file)] == [True, False, True]


def model_of(reply):
    """A model's settings, and what makes it: it answers with ``reply`` of the request's text."""
    settings = {"backend": "openai_chat", "model": "small", "base_url": "http://x.test/v1"}
    model = Replies(reply)
    return ModelConfig.model_validate(settings), lambda config, client: model


async def test_a_model_writes_and_chooses_where_there_is_one(tmp_path):
    better = "Writes a migration of a database schema and its way back. Use for tables and columns."

    def reply(messages):
        said = messages[-1]["content"]
        if "## Prompts" in said:
            return {"description": better}
        is_right = better[:30] in said and "in the database schema" in said
        return {"skill": "steps" if is_right else ""}

    llm, make = model_of(reply)
    folder = folder_of(tmp_path, HEAD)
    found = await trained(folder, writer=llm, chooser=llm, make=make)
    assert found.is_proven, found
    assert (found.new, found.decided_by) == (better, "openai_chat:small")


async def test_a_model_that_does_not_answer_is_an_error_and_no_zero(tmp_path):
    def down(messages):
        raise ModelTimeout("no route")

    llm, make = model_of(down)
    with pytest.raises(ModelError, match="openai_chat:small decided no request: no route"):
        await trained(folder_of(tmp_path, HEAD), writer=llm, chooser=llm, make=make)


HEADS = {
    "plain": "description: Our process.\n",
    "quoted": 'description: "Our process."   # keep\n',
    "single": "description: 'Our process: it''s ours.'\n",
    "folded": "description: >-\n  Our process,\n\n  step by step.\nlicense: MIT\n",
    "literal": "description: |\n  Our process.\n  # no comment\nlicense: MIT\n",
    "long": "description: Our process,\n  step by step\n  for all.\nlicense: MIT\n",
    "first": "description: Our process.\nmetadata:\n  description: another\n",
    "colon": "description: Our process: step by step\n",
    "spaced": "description:    Our process.   \n",
    "anchored": "license: &one MIT\ncompatibility: *one\ndescription: Our process.\n",
    "unicode": "description: \u4f60\u597d \U0001f600\n",
    "empty": "description: ''\n",
}
NEW = 'Adds "steps": tables, columns; use when #1 matters.'


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", HEADS)
def test_only_the_value_of_the_description_changes(kind, mark, end):
    head = f"---\n# ours\nname: steps\n{HEADS[kind]}x: [1,  2] # odd\n---\n\n{BODY}---\nend\n"
    text = mark + head.replace("\n", end)
    new = with_description(text, NEW, "it")
    start = text.index(f"{end}description:")
    follows = "# keep" if kind == "quoted" else "license: MIT" if "license" in text else "metadata"
    follows = follows if follows in text[start:] and kind != "anchored" else "x: [1,  2]"
    assert new.startswith(text[:start])
    assert new.endswith(text[text.index(follows, start) :])
    assert new.count(end) <= text.count(end)
    fields = yaml.safe_load(new.lstrip("\ufeff").split("---")[1])
    assert fields["description"] == NEW
    assert new.endswith(text[text.index(f"{end}---{end}") :])
    back = with_description(new, "Our process.", "it")
    assert with_description(back, NEW, "it") == new


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("name: steps\n", "has no description; write a first one"),
        ("description: One.\ndescription: Two.\n", "stands there twice"),
        ("a: &d Our.\ndescription: *d\n", "no text of its own"),
        ("description: &d Our.\nlicense: *d\n", "other fields refer to its description"),
        ("description: [a, b]\n", "no text of its own"),
        ("- a\n", "no map in YAML"),
        ("name: a: b\ndescription: Our.\n", "cannot be read as YAML even with"),
    ],
)
def test_a_description_that_cannot_be_replaced_alone_is_refused(head, said):
    with pytest.raises(DataError, match=said):
        with_description(f"---\n{head}---\n{BODY}", NEW, "it")


async def test_the_evidence_of_a_folder_follows_its_new_description(tmp_path):
    from test_forged_evidence import TEXT, proven, write

    made = write(await proven("exact"), tmp_path / "out")
    folder = folder_of(tmp_path, (made / "SKILL.md").read_text().split("# Refunds")[0])
    for one in made.rglob("*"):
        if one.is_file():
            (folder / one.relative_to(made)).parent.mkdir(exist_ok=True)
            (folder / one.relative_to(made)).write_bytes(one.read_bytes())
    folder = folder.rename(folder.with_name("refunds"))
    (before,) = await verify_skills(folder)
    found = await trained(folder)
    assert found.is_proven
    (after,) = await verify_skills(folder)
    outcome = {one.name: one.outcome for one in after.checks}
    assert (outcome["hash"], outcome["evidence"]) == ("pass", "pass")
    assert outcome == {one.name: one.outcome for one in before.checks}
    assert TEXT in (folder / "SKILL.md").read_text()
    assert replace(found, content="").new in (folder / "SKILL.md").read_text()
