"""Which rows of a table are for train, val and test."""

import csv
import json
from collections import Counter

import pytest

from skillwright.config import load_config
from skillwright.config.run import validated
from skillwright.core import ConfigError, DataError
from skillwright.datasets import parse_ratio
from skillwright.datasets.clusters import clusters_line, clusters_of
from skillwright.datasets.split import near_key
from skillwright.envs.table import TableEnv
from skillwright.envs.table.splits import MOST_TASKS, dealing_pattern
from skillwright.jobs.run import make_splits
from skillwright.jobs.run.preflight import look_at_environment
from skillwright.jobs.text.preflight import look_at_tasks

MODELS = {
    "target": {"backend": "scripted", "model": "clerk"},
    "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
}
CONFIG = {"prompt": "{{ text }}", "answer": "label"}


def write(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def rows(count, labels="abcd"):
    return [(f"text {number}", labels[number % len(labels)]) for number in range(count)]


def config_of(path, data=None, **config):
    env = {"name": "table", "config": {**CONFIG, **config}, "data": {"path": path, **(data or {})}}
    return validated({"env": env, "models": MODELS}, "table")


def split(path, data=None, **config):
    found = make_splits(config_of(path, data, **config))
    return found.train.tasks, found.val.tasks, found.test.open()


def refused(path, data=None, **config):
    with pytest.raises(DataError) as error:
        make_splits(config_of(path, data, **config))
    return str(error.value)


@pytest.mark.parametrize(
    ("ratio", "pattern"),
    [("1:1:1", [0, 1, 2]), ("2:1:1", [0, 1, 2, 0]), ("50:25:25", [0, 1, 2, 0])],
)
def test_rows_are_dealt_out_in_rounds_that_keep_the_shares(ratio, pattern):
    assert dealing_pattern(parse_ratio(ratio)) == pattern
    counts = Counter(dealing_pattern(parse_ratio("5:3:2")))
    assert counts == {0: 5, 1: 3, 2: 2}


def test_every_split_has_its_part_of_each_answer_whatever_the_order_of_the_rows(tmp_path):
    data = {"ratio": "2:1:1"}
    splits = split(write(tmp_path / "a.csv", sorted(rows(80), key=lambda row: row[1])), data)
    assert [len(tasks) for tasks in splits] == [40, 20, 20]
    for tasks, share in zip(splits, (10, 5, 5), strict=True):
        labels = Counter(task.extras["row"]["label"] for task in tasks)
        assert all(abs(labels[one] - share) <= 1 for one in "abcd")


def test_the_same_rows_are_split_alike_each_time_and_otherwise_by_another_seed(tmp_path):
    path = write(tmp_path / "a.csv", rows(40))

    def ids(seed):
        return [[task.id for task in tasks] for tasks in split(path, {"seed": seed})]

    assert ids(0) == ids(0)
    assert ids(0) != ids(1)


def test_a_ratio_without_quotes_is_read_as_a_ratio(tmp_path):
    path = write(tmp_path / "a.csv", rows(30))
    file = tmp_path / "train.yaml"
    file.write_text(
        f"env:\n  name: table\n  config: {{prompt: '{{{{ text }}}}', answer: label}}\n"
        f"  data: {{path: {path}, ratio: 1:1:1}}\n"
        "models:\n  target: {backend: scripted, model: clerk}\n"
        "  optimizer: {backend: scripted, model: clerk_analyst}\n",
        encoding="utf-8",
    )
    assert load_config(file).env.data.ratio == "1:1:1"
    assert load_config(file, ["env.data.ratio=2:1:1"]).env.data.ratio == "2:1:1"


def test_a_column_says_which_rows_are_for_what(tmp_path):
    words = ["train", "Validation", "test", "dev", "TRAIN"]
    table = [(*row, words[number % 5]) for number, row in enumerate(rows(10))]
    path = write(tmp_path / "a.csv", table, ("text", "label", "fold"))
    splits = split(path, {"split_column": "fold"})
    assert [sorted(task.id for task in tasks) for tasks in splits] == [
        ["row-1", "row-10", "row-5", "row-6"],
        ["row-2", "row-4", "row-7", "row-9"],
        ["row-3", "row-8"],
    ]


@pytest.mark.parametrize(
    ("word", "said"), [("tets", "Did you mean 'test'?"), ("", "Write train, val or test.")]
)
def test_a_split_that_is_none_is_refused_with_its_row(tmp_path, word, said):
    table = [("x", "a", "train"), ("y", "a", word)]
    path = write(tmp_path / "a.csv", table, ("text", "label", "fold"))
    message = refused(path, {"split_column": "fold"})
    assert "row 2: 'fold' is" in message
    assert said in message


def test_three_files_are_the_three_splits_and_need_no_names_of_their_own(tmp_path):
    names = ("train", "val", "test")
    for one in names:
        write(tmp_path / f"{one}.csv", [(f"{one} 1", "a"), (f"{one} 2", "b")])
    for name, tasks in zip(names, split(str(tmp_path)), strict=True):
        assert sorted(task.id for task in tasks) == [f"{name}-1", f"{name}-2"]


def test_a_folder_has_one_file_for_each_split_and_no_other_way_to_split(tmp_path):
    for one in ("train", "dev"):
        write(tmp_path / f"{one}.csv", rows(3))
    with pytest.raises(DataError, match="has none for test"):
        split(str(tmp_path))
    write(tmp_path / "test.csv", rows(3))
    write(tmp_path / "val.csv", rows(3))
    with pytest.raises(DataError, match=r"has two files for val: dev\.csv, val\.csv"):
        split(str(tmp_path))
    (tmp_path / "val.csv").unlink()
    with pytest.raises(DataError, match="ratio names another split; take one of them out"):
        split(str(tmp_path), {"ratio": "1:1:1"})


def test_a_question_is_in_one_split_only_and_rows_that_repeat_it_are_left_out(tmp_path, caplog):
    same = ("the same", "a")
    write(tmp_path / "train.csv", [*rows(3), same])
    write(tmp_path / "val.csv", [("other", "a"), same])
    write(tmp_path / "test.csv", [same, ("more", "b")])
    splits = split(str(tmp_path))
    assert [len(tasks) for tasks in splits] == [3, 1, 2]
    assert "2 rows left out that repeat another row's question" in caplog.text
    assert "train.csv row 4, val.csv row 2" in caplog.text


def test_at_most_so_many_rows_are_taken_evenly_over_the_answers(tmp_path):
    path = write(tmp_path / "a.csv", rows(300))
    train, val, test = split(path, {"train": 40, "val": 12, "test": 8})
    assert [len(train), len(val), len(test)] == [40, 12, 8]
    assert set(Counter(task.extras["row"]["label"] for task in val).values()) == {3}


def test_a_column_of_ids_names_the_tasks(tmp_path):
    path = write(
        tmp_path / "a.csv", [(f"t{n}", "a", f"T-{n}") for n in range(6)], ("text", "label", "id")
    )
    names = {task.id for tasks in split(path) for task in tasks}
    assert names == {f"T-{n}" for n in range(6)}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"prompt": "Answer!"}, "names no column, so that all rows ask the same"),
        ({"prompt": "{{ txt }}"}, "names the column 'txt', which"),
        ({"prompt": "{{ txt }}"}, "Did you mean 'text'?"),
        ({"prompt": '{{ row["txt"] }}'}, "Did you mean 'text'?"),
        ({"prompt": "{{ text"}, "template, line 1"),
        ({"prompt": "{{ text }} {{ label }}"}, "shows the column 'label', which is the answer"),
        ({"prompt": "{{ text / 0 }}"}, "cannot be filled in"),
        ({"prompt": "{{ row | random }}"}, "No filter named 'random'"),
        ({"prompt": "{{ text.__class__.__mro__ }}"}, "cannot be filled in"),
        ({"answer": "lable"}, "Did you mean 'label'?"),
        ({"task_type": "lbel"}, "env.config.task_type names the column 'lbel'"),
        ({"scorer": "number"}, "is no number, which scorer 'number' compares"),
        ({"scorer": "own.py:score"}, "cannot be read"),
    ],
)
def test_settings_that_fit_no_row_are_refused_before_anything_is_played(tmp_path, config, said):
    assert said in refused(write(tmp_path / "a.csv", rows(6)), **config)


@pytest.mark.parametrize(
    "prompt",
    ["{{ row }}", "{% for one in row %}{{ row[one] }}{% endfor %}", "{{ row.get('text') }}"],
)
def test_a_prompt_of_the_whole_row_asks_each_row_once_and_holds_no_answer(tmp_path, prompt):
    table = [*rows(12, ["secret"]), ("text 3", "secret")]
    tasks = [
        task for part in split(write(tmp_path / "a.csv", table), prompt=prompt) for task in part
    ]
    assert len(tasks) == 12
    assert not [task for task in tasks if "secret" in task.description]


def test_an_answer_that_somebody_named_is_hidden_from_a_function_too(tmp_path):
    (tmp_path / "own.py").write_text("def score(row, reply):\n    return 1\n", encoding="utf-8")
    scorer = f"{tmp_path / 'own.py'}:score"
    said = refused(
        write(tmp_path / "a.csv", rows(6)), scorer=scorer, prompt="{{ text }} {{ label }}"
    )
    assert "shows the column 'label', which is the answer" in said


def test_a_scorer_that_cannot_be_imported_is_refused_before_anything_is_played(tmp_path):
    (tmp_path / "own.py").write_text("import no_such_package\n", encoding="utf-8")
    said = refused(write(tmp_path / "a.csv", rows(6)), scorer=f"{tmp_path / 'own.py'}:score")
    assert "No module named 'no_such_package'" in said


def test_rows_without_an_answer_are_refused_by_number(tmp_path):
    table = [("x", "a"), ("y", ""), ("z", " ")]
    said = refused(write(tmp_path / "a.csv", table))
    assert "2 of its rows have no answer in 'label': rows 2, 3" in said


def test_a_function_needs_no_answers(tmp_path):
    (tmp_path / "own.py").write_text("def score(row, reply):\n    return 1\n", encoding="utf-8")
    path = write(tmp_path / "a.csv", [(f"x {n}",) for n in range(6)], ("text",))
    env = {"name": "table", "data": {"path": path}}
    env["config"] = {"prompt": "{{ text }}", "scorer": f"{tmp_path / 'own.py'}:score"}
    found = make_splits(validated({"env": env, "models": MODELS}, "table"))
    assert len(found.train.tasks) == 2


def test_a_split_without_rows_is_refused_with_what_would_do(tmp_path):
    said = refused(write(tmp_path / "a.csv", rows(2)))
    assert "no row is left for test (1 train, 1 val, 0 test, of 2 rows)" in said
    assert "Add rows" in said


def test_two_ways_to_split_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", rows(6))
    with pytest.raises(ConfigError, match="ratio and split_column both define"):
        config_of(path, {"ratio": "1:1:1", "split_column": "label"})


def test_more_rows_than_anybody_plays_are_refused_with_the_bounds_to_set(tmp_path):
    path = write(tmp_path / "a.csv", rows(MOST_TASKS + 3))
    assert "env.data: {train: 1000, val: 500, test: 1000}" in refused(path)
    train, val, test = split(path, {"train": 10, "val": 10, "test": 10})
    assert len(train) == len(val) == len(test) == 10


def test_a_changed_file_is_read_again(tmp_path):
    path = write(tmp_path / "a.csv", rows(6))
    assert len(split(path)[0]) == 2
    write(tmp_path / "a.csv", rows(9))
    assert len(split(path)[0]) == 3


def test_retrying_has_three_turns_where_nobody_says_how_many(tmp_path):
    path = write(tmp_path / "a.csv", rows(6))
    assert config_of(path).env.max_turns == 1
    assert config_of(path, on_wrong="retry").env.max_turns == 3


def test_a_bank_cannot_tell_the_answer_by_the_task_type(tmp_path):
    from skillwright.envs.table import TableEnv

    path = write(tmp_path / "a.csv", rows(6))
    (one, *_), _, _ = split(path, task_type="label")
    assert one.task_type in "abcd"
    assert TableEnv.category(one) == ""
    (other, *_), _, _ = split(path, task_type="text")
    assert TableEnv.category(other) == other.task_type


def test_conflicting_answers_to_one_question_are_called_so(tmp_path, caplog):
    table = [*rows(9), ("text 0", "other"), ("text 1", rows(9)[1][1].upper() + " ")]
    split(write(tmp_path / "a.csv", table))
    assert 'conflicting answers to one question in 1 row: row 10 says "other", and row 1 says' in (
        caplog.text
    )
    assert "1 row left out that repeat another row's question: row 11" in caplog.text


def test_near_copies_across_splits_are_named_with_the_splits(tmp_path, caplog):
    texts = ["Where is my parcel, please?", "The code 1.5 fails!", "\u4f60\u597d \u4e16\u754c"]
    write(tmp_path / "train.csv", [(text, "a") for text in texts])
    write(tmp_path / "val.csv", [(f"{texts[0]} ", "a"), ("The code 15 fails!", "b")])
    wide = "\uff37\uff28\uff25\uff32\uff25 is my parcel please"
    write(tmp_path / "test.csv", [(wide, "a"), ("the  code 1.5\u200b fails", "a"), ("x", "b")])
    split(str(tmp_path))
    assert (
        "near-copies across splits, equal but for case, blanks, punctuation or width" in caplog.text
    )
    assert "1 of 2 val tasks repeat one of train (such as val-1 and train-1" in caplog.text
    assert "2 of 3 test tasks repeat one of train" in caplog.text
    assert "1 of 3 test tasks repeat one of val (such as test-1 and val-1" in caplog.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 2 - 3?", "What is 2 + 3?"),
        ("What is 2-3?", "What is 23?"),
        ("Is it 1.5?", "Is it 15?"),
        ("Is it -5?", "Is it 5?"),
        ("rows 1 2", "rows 12"),
        ("5%", "5"),
        ("a < b", "a > b"),
        ("C# code", "C code"),
        ("2 * (3 + 4)", "2 * 3 + 4"),
        ("m\u00b2", "m2"),
        ("resume", "resumed"),
        ("caf\u00e9", "cafe"),
    ],
)
def test_questions_that_mean_different_things_are_no_near_copies(one, other):
    assert near_key(one) != near_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where is it?", "WHERE  is it"),
        ("It's \u201cred\u201d.", 'it\u2019s "red"'),
        ("Caf\u00e9 \u2013 open", "cafe\u0301 - open"),
        ("\uff2f\uff2b\uff01", "ok!"),
        ("\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u4f60\u597d \u4e16\u754c"),
        ("in 2024, we", "In 2024 we"),
        ("a\nb\tc", "a b c"),
        ("Stra\u00dfe", "STRASSE"),
        ("\uff76\uff9e\uff97\uff7d", "\u30ac\u30e9\u30b9"),
    ],
)
def test_questions_that_differ_in_form_alone_are_near_copies(one, other):
    assert near_key(one) == near_key(other)


@pytest.mark.parametrize(
    ("answers", "right", "reply", "score"),
    [
        (["3,5", "1,234", "12"], "1,234", "1,234", 1),
        (["3,5", "1,234", "12"], "1,234", "1234", 0),
        (["3,5", "1,234", "1.234"], "1.234", "1234", 1),
        (["3.5", "1,234", "12"], "1,234", "1234", 1),
        (["3.5", "1,234", "12"], "1,234", "1.234", 0),
        (["7", "1,234", "1,23,456"], "1,234", "1234", 1),
    ],
)
async def test_a_decimal_comma_is_read_where_the_column_uses_it(
    tmp_path, answers, right, reply, score
):
    rows = [(f"{number}?", answers[number % len(answers)]) for number in range(30)]
    found = split(write(tmp_path / "a.csv", rows), scorer="number")
    task = next(one for tasks in found for one in tasks if one.extras["row"]["label"] == right)
    env = TableEnv({**CONFIG, "scorer": "number"}, {**task.extras, "max_turns": 1})
    env.init([])
    assert (await env.astep(reply))["reward"] == score


@pytest.mark.parametrize("kind", ["split_dir", "ratio"])
def test_near_copies_of_items_are_named_too(tmp_path, caplog, kind):
    items = [
        {"id": f"{n}", "text": f"Text {n % 30} is red{'!' * (n // 30)}", "label": "a"}
        for n in range(60)
    ]
    for number, name in enumerate(("train", "val", "test")):
        (tmp_path / name).mkdir()
        part = json.dumps(items[number * 20 : number * 20 + 20])
        (tmp_path / name / "items.json").write_text(part, encoding="utf-8")
    (tmp_path / "all.json").write_text(json.dumps(items), encoding="utf-8")
    where = tmp_path if kind == "split_dir" else tmp_path / "all.json"
    env = {"name": "table", "config": {"prompt": "{{ text }}", "answer": "label"}}
    env["data"] = {"kind": kind, "path": str(where)}
    make_splits(validated({"env": env, "models": MODELS}, "table"))
    make_splits(validated({"env": env, "models": MODELS}, "table"))
    assert caplog.text.count("near-copies across splits") == 1
    if kind == "split_dir":
        assert (
            "10 of 20 val tasks repeat one of train (such as 30 and 0: 'Text 0 is red! a')"
            in caplog.text
        )


def test_more_rows_than_an_index_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("skillwright.envs.table.splits._MOST_ROWS", 20)
    said = refused(write(tmp_path / "a.csv", rows(30)))
    assert "has more than 20 rows; take part of them into a file of its own" in said


def test_rows_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("skillwright.envs.table.splits._MOST_CHARS", 200)
    said = refused(write(tmp_path / "a.csv", rows(90)))
    assert "all of them would be kept in memory. Take part of each split" in said


def test_a_split_without_rows_is_refused_with_its_own_next_move(tmp_path):
    marked = [(f"t{n}", "ab"[n % 2], ("train", "test")[n % 2]) for n in range(6)]
    path = write(tmp_path / "a.csv", marked, ("text", "label", "part"))
    said = refused(path, {"split_column": "part"})
    assert "Add rows whose 'part' is val, or take env.data.split_column out" in said
    same = refused(write(tmp_path / "b.csv", [("same", "a")] * 6))
    assert "of 6 rows, 5 of which repeat another row's question" in same


def test_val_and_test_rows_that_differ_in_a_word_are_clusters(tmp_path):
    ends = ("now", "kindly", "soon", "today")
    for name in ("train", "val", "test"):
        texts = [f"question {name}{i} please {end}" for i in range(4) for end in ends]
        write(tmp_path / f"{name}.csv", [(text, "red") for text in texts])
    train, val, test = split(str(tmp_path))
    assert clusters_of(train) == {}
    for tasks in (val, test):
        found = clusters_of(tasks)
        assert len(found) == 16
        assert len({(task.extras["row"]["text"].split()[1], found[task.id]) for task in tasks}) == 4


def test_a_column_may_name_the_clusters(tmp_path):
    table = [(f"text {number}", "a", number % 5 or "") for number in range(60)]
    path = write(tmp_path / "t.csv", table, ("text", "label", "customer"))
    _, val, _ = split(path, {"cluster_column": "customer"})
    found = clusters_of(val)
    assert found == {t.id: t.extras["row"]["customer"] for t in val if t.extras["row"]["customer"]}
    assert "Did you mean 'customer'?" in refused(path, {"cluster_column": "costumer"})


async def test_clusters_are_told_and_too_few_of_them_are_refused_before_the_run(tmp_path):
    texts = [f"{word} the parcel {number} to me" for number in range(12) for word in "abcdefghij"]
    path = write(tmp_path / "t.csv", [(text, "sent") for text in texts])
    data = {"split_column": None, "ratio": "1:1:1"}
    found = look_at_environment(config_of(path, data))
    assert "40 val tasks count as 12" in clusters_line(found.sizes.val, found.clusters)
    few = write(tmp_path / "few.csv", [(text, "sent") for text in texts[:30]])
    with pytest.raises(ConfigError, match="10 val tasks count as 3: near copies"):
        await look_at_tasks(config_of(few, data))
