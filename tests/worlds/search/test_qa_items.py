"""Questions of files: many names and shapes are read, and nothing is guessed."""

import json

import pytest

from skillwright.config.run import validated
from skillwright.core import DataError
from skillwright.jobs.run.tasks import make_splits, tasks_in_file
from skillwright.worlds.search import Passage, read_question
from skillwright.worlds.search.items import fitting, with_ids

WHOLE = {"question": "Where?", "passages": ["In Rome."], "answers": ["Rome"]}


def changed(**parts):
    return {name: part for name, part in {**WHOLE, **parts}.items() if part is not None}


@pytest.mark.parametrize(
    "item",
    [
        WHOLE,
        {"query": " Where? ", "context": "In Rome.", "answer": "Rome"},
        {"question": "Where?", "contexts": [{"text": "In Rome."}], "golds": ["Rome"]},
        {
            "question": "Where?",
            "paragraphs": [{"content": "In Rome.", "title": ""}],
            "gold": "Rome",
        },
        changed(answers={"text": ["Rome"], "answer_start": [3]}),
        changed(labels=[{"start": 1}], key="abc"),  # what it does not know it leaves alone
    ],
)
def test_a_question_is_read_under_its_usual_names_and_shapes(item):
    question = read_question(item)
    assert question.text == "Where?"
    assert question.passages == (Passage("", "In Rome."),)
    assert question.answers == ("Rome",)


def test_a_searchqa_context_is_cut_into_its_documents():
    context = "[DOC] [TLE] Rome - Wiki [PAR] A city. [PAR] Old. [DOC] [TLE] Milan [PAR] Another."
    question = read_question(changed(passages=None, context=context))
    assert question.passages == (
        Passage("Rome - Wiki", "A city. Old."),
        Passage("Milan", "Another."),
    )


def test_numbers_are_answers_as_they_are_written():
    assert read_question(changed(answers=[12, 7.5])).answers == ("12", "7.5")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (
            {"quesion": "Where?", "context": "x", "answer": "y"},
            "there is no 'question', nor query; there is quesion, context, answer",
        ),
        (changed(answers=None), "there is no 'answers'"),
        (changed(answer="Rome"), "'answers' and 'answer' are the same part"),
        (changed(question="  "), "the question is '  '"),
        (changed(question=7), "the question is 7"),
        (changed(passages=[" "]), "no passage with a text"),
        (changed(passages=[3]), "a passage is 3"),
        (changed(passages=5), "passages are 5"),
        (changed(passages=[{"title": "x"}]), "there is no 'text'"),
        (changed(passages=[{"title": 3, "text": "x"}]), "its title and its text are texts"),
        (changed(answers=[]), "no right answer"),
        (changed(answers=[""]), "a right answer is ''"),
        (changed(answers=[True]), "a right answer is True"),
        (changed(answers={"texts": ["x"]}), "a right answer is {'texts'"),
    ],
)
def test_half_a_question_is_refused_with_the_part_that_is_wrong(item, said):
    with pytest.raises(DataError) as raised:
        read_question(item)
    assert said in str(raised.value)


def test_items_get_ids_that_depend_on_what_they_say_alone():
    keyed, bare = with_ids([{**WHOLE, "key": 17}, WHOLE])
    assert keyed["id"] == "17"
    assert bare["id"] == with_ids([dict(reversed(WHOLE.items()))])[0]["id"]
    assert bare["id"] != with_ids([changed(question="Who?")])[0]["id"]
    assert bare["description"] == "Where?"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({**WHOLE, "key": "k9", "answers": []}, "question 1 (id 'k9'): there is"),
        ("x", "question 1 is 'x'"),
    ],
)
def test_a_file_with_a_wrong_item_is_refused_with_its_place(item, said):
    with pytest.raises(DataError) as raised:
        with_ids([WHOLE, item])
    assert said in str(raised.value)


def test_passages_are_shown_whole_while_they_fit_and_the_first_is_cut_alone():
    texts = [Passage("", "abc"), Passage("", "def"), Passage("", "g")]
    assert fitting(texts, 7) == tuple(texts)
    assert fitting(texts, 5) == (texts[0],)
    assert fitting(texts, 2) == (Passage("", "ab"),)


def searchqa(count):
    return [
        {
            "key": f"k{number}",
            "question": f"What is number {number}?",
            "context": f"[DOC] [TLE] N [PAR] It is {number}.",
            "answers": [str(number)],
        }
        for number in range(count)
    ]


def qa_config(**data):
    llm = {"backend": "scripted", "model": "reader"}
    models = {"target": llm, "optimizer": {**llm, "model": "reader_analyst"}}
    return validated({"env": {"name": "qa", "data": data}, "models": models}, "test")


def test_a_jsonl_file_of_searchqa_is_cut_by_ratio(tmp_path):
    file = tmp_path / "searchqa.jsonl"
    file.write_text("\n".join(map(json.dumps, searchqa(10))), encoding="utf-8")
    splits = make_splits(qa_config(kind="ratio", path=str(file), ratio="2:1:7"))
    assert [len(splits.train.tasks), len(splits.val.tasks), len(splits.test)] == [2, 1, 7]
    assert {task.id for task in tasks_in_file("qa", file)} == {f"k{n}" for n in range(10)}


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_folder_of_splits_is_read_in_either_format(tmp_path, suffix):
    items = iter(searchqa(3))
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
        item = next(items)
        text = json.dumps([item] if suffix == "json" else item)
        (tmp_path / split / f"data.{suffix}").write_text(text, encoding="utf-8")
    splits = make_splits(qa_config(kind="split_dir", path=str(tmp_path)))
    assert [task.id for task in splits.val.tasks] == ["k1"]


def test_a_wrong_item_is_told_with_its_file(tmp_path):
    file = tmp_path / "searchqa.jsonl"
    file.write_text(json.dumps({"question": "Where?"}), encoding="utf-8")
    with pytest.raises(DataError, match=r"searchqa\.jsonl': question 0: there is no 'passages'"):
        make_splits(qa_config(kind="ratio", path=str(file)))
