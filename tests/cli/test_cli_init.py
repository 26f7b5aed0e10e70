"""From a file of rows in an empty folder to a trained skill."""

import asyncio
import csv
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mock_openai import MockOpenAI, answer_with
from skillwright.cli.app import app
from skillwright.cli.init import init
from skillwright.config import load_config
from skillwright.envs.table import Table
from skillwright.envs.table.draft import look_at
from skillwright.jobs.run import make_splits
from skillwright.worlds.scripted.clerk import ClerkAnalyst, ScriptedClerk

ROOT = Path(__file__).parents[2]
MESSAGES = ROOT / "examples" / "table_data" / "messages.csv"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


@pytest.fixture
def data(cli, tmp_path):
    """Put a table with so many rows into the empty folder."""
    del cli
    return lambda count: _put(tmp_path, count)


def _put(folder, count):
    lines = MESSAGES.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "data.csv").write_text("".join(lines[: count + 1]), encoding="utf-8")


def rates(report):
    tables = report["test"]["tables"]
    return {name: table["overall"]["success_rate"] for name, table in tables.items()}


def test_what_it_writes_is_short_commented_and_says_what_the_file_says(cli, data, tmp_path):
    data(200)
    said = cli("init", "data.csv").stdout
    assert "│" not in said
    text = (tmp_path / "data.yaml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    assert text.count("#") >= 5
    config = load_config(tmp_path / "data.yaml")
    assert config.env.config == {
        "prompt": "message: {{ message }}\nchannel: {{ channel }}\n"
        "Answer with one of: billing, cancellation, delivery, login, repair\n",
        "answer": "queue",
        "scorer": "exact",
        "task_type": "queue",
    }
    assert "67 train, 67 val, 66 test rows" in said
    assert "finds a true gain of" in said
    assert "skillwright train data.yaml" in said


@pytest.mark.heavy
def test_two_hundred_rows_train_offline_from_under_forty_to_over_eighty_percent(cli, data):
    data(200)
    cli("init", "data.csv")
    report = json.loads(cli("train", "data.yaml", "--json").stdout)
    found = rates(report)
    assert found["initial"] < 0.4
    assert found["best"] > 0.8


def test_twenty_rows_train_offline_and_little_is_proven(cli, data):
    data(20)
    said = cli("init", "data.csv").stdout
    assert "With so few rows only a large gain can be proven" in said
    shown = cli("train", "data.yaml").stdout
    assert "Held-out test tasks solved" in shown
    assert "Scripted models took part" in shown


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.heavy)])
async def test_it_trains_against_an_endpoint_without_an_edited_line(data, tmp_path, count):
    data(count)
    models = _ByPrompt()
    async with MockOpenAI(answer_with(models)) as server:
        where = ["--model", "mock-1", "--base-url", server.base_url]
        made = await asyncio.to_thread(CliRunner().invoke, app, ["init", "data.csv", *where])
        assert made.exit_code == 0, made.output
        command = [sys.executable, "-m", "skillwright", "train", "data.yaml", "--json"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, env=_with_key()
        )
        written, _ = await process.communicate()
    assert process.returncode == 0
    found = rates(json.loads(written))
    assert found["initial"] < 0.4
    assert count == 20 or found["best"] > 0.8


class _ByPrompt:
    """The clerk and its optimizer behind one name, as one model plays both roles."""

    identity = "scripted:both"

    async def complete(self, messages, **asked):
        acts = messages[0]["content"].startswith("Write your answer") or len(messages) == 1
        model = ScriptedClerk(0.05) if acts else ClerkAnalyst()
        return await model.complete(messages, **asked)


def _with_key():
    return {**os.environ, "OPENAI_API_KEY": "sk-mock"}


def test_the_guide_shows_what_it_writes_and_its_function_scores(cli, tmp_path):
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    blocks = dict(
        re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE)
    )
    shutil.copytree(MESSAGES.parent, tmp_path / "examples" / "table_data")
    cli("init", "examples/table_data/messages.csv")
    assert (tmp_path / "messages.yaml").read_text(encoding="utf-8") == blocks["messages.yaml"]
    found = {}
    exec(blocks["score.py"], found)
    row = {"city": "Rome"}
    scores = [found["score"](row, reply)[0] for reply in ("rome", "Rome" * 60, "Paris")]
    assert scores == [1.0, 0.5, 0.0]
    for count, points in ((200, "14 points"), (20, "29 points")):
        _put(tmp_path, count)
        made = json.loads(cli("init", "data.csv", "--json", "--to", f"{count}.yaml").stdout)
        assert points in made["proof"]
    assert "about 14 points of true gain with these 200 rows (near copies count once), 29" in page


def test_with_a_key_models_and_a_bound_of_money_are_written(cli, data, tmp_path, monkeypatch):
    data(200)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    cli("init", "data.csv")
    text = (tmp_path / "data.yaml").read_text(encoding="utf-8")
    config = load_config(tmp_path / "data.yaml")
    assert config.models.target.backend == "openai_chat"
    assert config.models.target.known_prices is not None
    assert config.models.optimizer.known_prices is not None
    assert config.budget.usd == 5
    assert "sk-secret" not in text
    assert len(text.splitlines()) <= 25
    cli("init", "data.csv", "--offline", "--to", "offline.yaml")
    assert load_config(tmp_path / "offline.yaml").models.target.backend == "scripted"


def test_flags_answer_the_three_questions(cli, data, tmp_path):
    data(200)
    words = ["--answer", "queue", "--columns", "message", "--scorer", "contains"]
    made = json.loads(cli("init", "data.csv", *words, "--json").stdout)
    assert made["tasks"] == {"train": 67, "val": 67, "test": 66}
    config = load_config(tmp_path / "data.yaml").env.config
    assert config["prompt"].startswith("{{ message }}\nAnswer with one of: billing")
    assert config["scorer"] == "contains"


class Terminal:
    """A standard input that a person types into."""

    def isatty(self):
        return True


def test_on_a_terminal_four_questions_are_asked(cli, data, tmp_path, monkeypatch):
    data(200)
    asked = []

    def answer(question, default):
        asked.append(question)
        return {0: default, 1: "message", 2: "f1", 3: "channel"}[len(asked) - 1]

    monkeypatch.setattr("typer.prompt", answer)
    monkeypatch.setattr("sys.stdin", Terminal())
    init(Path("data.csv"))
    assert len(asked) == 4
    config = load_config(tmp_path / "data.yaml").env.config
    assert (config["scorer"], config["task_type"]) == ("f1", "channel")


@pytest.mark.parametrize(("wanted", "kept"), [("channel", "channel"), ("-", None)])
def test_the_column_by_which_results_are_shown_is_named_or_none(cli, data, tmp_path, wanted, kept):
    data(200)
    cli("init", "data.csv", "--task-type", wanted)
    assert load_config(tmp_path / "data.yaml").env.config.get("task_type") == kept


def test_answers_that_are_no_classes_have_no_task_type_unless_a_person_names_it(cli, tmp_path):
    rows = [("ask", "lane", "answer"), *((f"{n} + 1", "ab"[n % 2], n + 1) for n in range(40))]
    _write(tmp_path / "sums.csv", rows)
    cli("init", "sums.csv")
    assert "task_type" not in load_config(tmp_path / "sums.yaml").env.config
    look = look_at(Table(tmp_path / "sums.csv"))
    assert look.task_type("answer", look_further=True) == "lane"


@pytest.mark.parametrize(
    ("file", "written"), [("sentiment.csv", "sentiment"), ("My Data (2024).csv", "my-data-2024")]
)
def test_configuration_run_and_skill_are_called_as_the_file_is(cli, tmp_path, file, written):
    shutil.copy(MESSAGES, tmp_path / file)
    assert f"skillwright train {written}.yaml" in cli("init", file).stdout
    text = (tmp_path / f"{written}.yaml").read_text(encoding="utf-8")
    assert "base_url: http://localhost:8000/v1" in text
    small = ("--limit", 20, "--set", "train.epochs=1")
    assert f"{written}  runs/{written}" in cli("train", f"{written}.yaml", *small).stdout


def test_several_answer_columns_are_asked_for_as_one_json_object(cli, tmp_path):
    rows = [("mail", "amount", "due, by"), *((f"m {n}", n, f"day {n}") for n in range(40))]
    _write(tmp_path / "bills.csv", rows)
    cli("init", "bills.csv", "--answer", "due, by")  # a name with a comma is one column
    assert load_config(tmp_path / "bills.yaml").env.config["answer"] == "due, by"
    _write(tmp_path / "bills.csv", [("mail", "amount", "due"), *rows[1:]])
    cli("init", "bills.csv", "--answer", "amount,due", "--to", "both.yaml")
    config = load_config(tmp_path / "both.yaml").env.config
    assert (config["answer"], config["scorer"]) == (["amount", "due"], "json")
    said = 'Answer with one JSON object with the keys "amount", "due".'
    assert config["prompt"] == "{{ mail }}\n" + said + "\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("question", "answer"), *((f"{n} + 1", n + 1) for n in range(40))], ("answer", "number")),
        (
            [("id", "q", "gold"), *((n, f"q {n}", f'{{"a": {n}}}') for n in range(40))],
            ("gold", "json"),
        ),
        (
            [("text", "summary"), *((f"t {n}", "word " * 9 + str(n)) for n in range(40))],
            ("summary", "f1"),
        ),
        (
            [("label", "text"), *(("ab"[n % 2], f"text {n}") for n in range(40))],
            ("label", "exact"),
        ),
        (
            [("Customer says", "True one"), *((f"t {n}", "ab"[n % 2]) for n in range(40))],
            ("True one", "exact"),
        ),
    ],
)
def test_the_answer_and_its_scorer_are_found(cli, tmp_path, rows, expected):
    _write(tmp_path / "rows.csv", rows)
    cli("init", "rows.csv")
    config = load_config(tmp_path / "rows.yaml").env.config
    assert (config["answer"], config["scorer"]) == expected
    assert "id" not in yaml.safe_load(json.dumps(config["prompt"]))[:3]


@pytest.mark.parametrize(
    ("answers", "scorer"),
    [
        (['["red", "crimson"]', '["blue"]'], "one_of"),
        (["['red', 'RED']", "['blue', 'navy']"], "one_of"),
        ([["red", "crimson"], ["blue"]], "one_of"),
        ([{"name": "Ann", "a{b}": 1}, {"name": "Bo", "city": "Rome"}], "json"),
        (['{"name": "Ann", "a{b}": 1}', '{"name": "Bo", "city": "Rome"}'], "json"),
        ([True, False], "exact"),
        (["[" * 5000, "[" * 5001], "exact"),
    ],
)
def test_lists_and_objects_in_cells_find_their_scorer(cli, tmp_path, answers, scorer):
    rows = [{"q": f"What is it? ({n})", "answer": answers[n % 2]} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    cli("init", "rows.jsonl")
    config = load_config(tmp_path / "rows.yaml").env.config
    assert config["scorer"] == scorer
    if scorer == "json":
        said = 'Answer with one JSON object with the keys "name", "a(b)", "city".'
        assert said in config["prompt"]
    if answers[0] is True:
        assert "Answer with one of: false, true" in config["prompt"]


@pytest.mark.parametrize(
    ("answer", "learnable"),
    [
        ("ab", True),
        ("abcdefghijklmnopqrst", True),
        (['["x", "y"]', '["z"]'], True),
        (range(40), False),
        (['{"a": 1}'] * 2, False),
    ],
)
def test_it_says_where_scripted_models_cannot_learn(cli, tmp_path, answer, learnable):
    rows = [(f"text {n}", answer[n % len(answer)]) for n in range(40)]
    _write(tmp_path / "rows.csv", [("text", "label"), *rows])
    words = ("init", "rows.csv", "--offline", "--to")
    assert (
        "cannot learn these data" in " ".join(cli(*words, "a.yaml").stdout.split())
    ) != learnable
    made = json.loads(cli(*words, "b.yaml", "--json").stdout)
    assert made["unlearnable"] != learnable
    real = ("--model", "gpt-5.5", "--to", "c.yaml", "--json")
    assert not json.loads(cli("init", "rows.csv", *real).stdout)["unlearnable"]


def test_rows_that_lack_a_key_are_named_or_asked_without_it(cli, refused, tmp_path):
    rows = [{"q": f"q {n}?", "answer": "ab"[n % 2], "context": "c"} for n in range(24)]
    del rows[3]["context"]
    rows[5]["context"] = None
    _write_lines(tmp_path / "part.jsonl", rows)
    cli("init", "part.jsonl")
    splits = make_splits(load_config(tmp_path / "part.yaml"))
    tasks = (*splits.train.tasks, *splits.val.tasks, *splits.test.open())
    asked = {task.id: task.description for task in tasks}
    assert asked["row-4"] == "q: q 3?\ncontext: \nAnswer with one of: a, b"
    assert asked["row-6"] == "q: q 5?\ncontext: \nAnswer with one of: a, b"
    del rows[7]["answer"]
    _write_lines(tmp_path / "bare.jsonl", rows)
    said = refused("init", "bare.jsonl", "--json", "--to", "b.yaml")
    assert "1 of its rows have no answer in 'answer': rows 8, counted from 1" in said
    rows[7] = {"answer": "a", "q": " ", "context": None}
    _write_lines(tmp_path / "dumb.jsonl", rows)
    said = refused("init", "dumb.jsonl", "--json", "--to", "b.yaml")
    assert "1 of its rows ask nothing: context, q is blank: rows 8" in said
    _write_lines(tmp_path / "empty.jsonl", [{}] * 9)
    header = ",".join(f"c{n}" for n in range(2000))
    (tmp_path / "wide.csv").write_text(f"{header}\n{',' * 1999}x", encoding="utf-8")
    said = refused("init", "wide.csv", "--json", "--to", "b.yaml", "--answer", "c1")
    assert "has 2,000 columns" in said
    assert "has no column" in refused("init", "empty.jsonl", "--json", "--to", "b.yaml")


def _write_lines(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def test_a_column_that_says_the_split_is_used(cli, tmp_path):
    names = ["train", "val", "val", "test"]
    rows = [(f"text {n}", "ab"[n % 2], names[n % 4]) for n in range(60)]
    _write(tmp_path / "rows.csv", [("text", "label", "split"), *rows])
    made = json.loads(cli("init", "rows.csv", "--json").stdout)
    assert made["tasks"] == {"train": 15, "val": 30, "test": 15}
    assert "split" not in load_config(tmp_path / "rows.yaml").env.config["prompt"]


def test_a_split_column_is_found_in_a_long_file_that_is_sorted_by_it(cli, tmp_path):
    parts = ["train"] * 5500 + ["validation"] * 300 + ["test"] * 300
    rows = [(f"text {n}", "ab"[n % 2], part) for n, part in enumerate(parts)]
    _write(tmp_path / "rows.csv", [("text", "label", "split"), *rows])
    made = json.loads(cli("init", "rows.csv", "--json").stdout)
    assert made["tasks"] == {"train": 300, "val": 200, "test": 300}
    config = load_config(tmp_path / "rows.yaml")
    assert config.env.data.split_column == "split"
    assert "split" not in config.env.config["prompt"]


@pytest.mark.parametrize(
    "names", [("in", "true"), ("not", "{{ x }} {#"), ("\U0001f600", "a\u00e9")]
)
def test_columns_and_labels_of_any_name_are_asked_for(cli, tmp_path, names):
    labels = ("\U0001f600 yes: no", "# off")
    rows = [(f"first {n}", f"second {n}", labels[n % 2]) for n in range(60)]
    _write(tmp_path / "rows\U0001f600.csv", [(*names, "label \U0001f600"), *rows])
    cli("init", "rows\U0001f600.csv")
    config = load_config(tmp_path / "rows.yaml")
    for task in make_splits(config).train.tasks:
        number = task.id.removeprefix("row-")
        asked = task.description.splitlines()
        assert [line.partition(": ")[2] for line in asked[:2]] == [
            f"first {int(number) - 1}",
            f"second {int(number) - 1}",
        ]
        assert asked[2] == "Answer with one of: # off, \U0001f600 yes: no"


@pytest.mark.parametrize(
    ("name", "said", "is_read"),
    [
        ("label_text", "class {answer}", False),
        ("copy", "{answer}", False),
        ("solution", "line {n}, so: {answer}", False),
        ("context", "line {n}, so: {answer}", True),
        ("group", "{third}", True),
    ],
)
def test_a_column_that_says_the_answer_is_not_read_unless_it_is_named(
    cli, tmp_path, name, said, is_read
):
    rows = [
        (f"Is {n} odd?", said.format(n=n, answer="ab"[n % 2], third=n % 3), "ab"[n % 2])
        for n in range(24)
    ]
    _write(tmp_path / "rows.csv", [("question", name, "answer"), *rows])
    said = cli("init", "rows.csv", "--answer", "answer").stderr
    assert (f"{{{{ {name} }}}}" in (tmp_path / "rows.yaml").read_text()) == is_read
    assert (f"because it says the answer: '{name}'" in " ".join(said.split())) != is_read
    cli("init", "rows.csv", "--answer", "answer", "--columns", f"question,{name}", "--to", "b.yaml")
    assert f"{{{{ {name} }}}}" in (tmp_path / "b.yaml").read_text()


def test_a_file_that_is_there_already_is_never_overwritten(data, refused, tmp_path):
    data(20)
    (tmp_path / "data.yaml").write_text("mine", encoding="utf-8")
    assert "name another file with --to" in refused("init", "data.csv")
    assert (tmp_path / "data.yaml").read_text(encoding="utf-8") == "mine"


def test_bad_files_and_answers_are_refused_and_leave_nothing(data, refused, tmp_path):
    data(20)
    assert "there is no file 'none.csv'" in refused("init", "none.csv", "--json")
    assert "Did you mean 'data.csv'?" in refused("init", "date.csv", "--json")
    assert "has no column 'quue'. Did you mean 'queue'?" in refused(
        "init", "data.csv", "--answer", "quue", "--json"
    )
    assert "no scorer 'exct'. Did you mean 'exact'?" in refused(
        "init", "data.csv", "--scorer", "exct", "--json"
    )
    assert "must be columns other than the answer" in refused(
        "init", "data.csv", "--columns", "queue", "--json"
    )
    assert "--base-url needs --model" in refused(
        "init", "data.csv", "--base-url", "http://127.0.0.1:1", "--json"
    )
    _write(tmp_path / "few.csv", [("text", "label"), *((f"t {n}", "ab"[n % 2]) for n in range(8))])
    assert "has 8 rows, and the release test cannot prove a gain on" in refused(
        "init", "few.csv", "--json"
    )
    _write(tmp_path / "one.csv", [("text",), ("a",)])
    assert "has one column" in refused("init", "one.csv", "--json")
    _write(tmp_path / "bare.csv", [(f"text {n}", "ab"[n % 2]) for n in range(20)])
    assert "looks like a row, not like names of columns" in refused("init", "bare.csv", "--json")
    (tmp_path / "old.csv").write_bytes("text,label\nCafé,a\n".encode("cp1252"))
    assert "init --encoding cp1252" in refused("init", "old.csv", "--json")


def test_a_file_in_another_encoding_trains_where_it_is_named(cli, tmp_path):
    text = MESSAGES.read_text(encoding="utf-8").replace("parcel", "paquet à moi")
    (tmp_path / "old.csv").write_bytes(text.encode("cp1252"))
    cli("init", "old.csv", "--encoding", "cp1252")
    assert load_config(tmp_path / "old.yaml").env.data.encoding == "cp1252"


def test_a_scorer_that_raises_is_a_recorded_failure_that_names_function_and_row(
    cli, data, tmp_path
):
    data(20)
    (tmp_path / "own.py").write_text(
        "def score(row, reply):\n    if row['queue'] == 'login':\n        return 1 / 0\n"
        "    return 0.5, 'half'\n",
        encoding="utf-8",
    )
    cli("init", "data.csv", "--scorer", "own.py:score")
    set_ = ["--set", "rollout.retries=0"]
    report = json.loads(cli("eval", "data.yaml", "--json", *set_, "--max-faults", "1").stdout)
    overall = report["table"]["overall"]
    assert (overall["failures"], overall["episodes"], overall["mean_reward"]) == (1, 4, 0.5)
    (failed,) = json.loads(cli("runs", "episodes", "latest", "--faults", "--json").stdout)
    assert failed["reward"] is None
    said = failed["failure"]["message"]
    assert f"task {failed['task_id']!r}" in said
    assert "own.py:score gave no score: ZeroDivisionError: division by zero (line 3" in said


@pytest.mark.parametrize("words", [("estimate", "data.yaml"), ("doctor", "data.yaml")])
def test_other_commands_know_the_table(cli, data, words):
    data(200)
    cli("init", "data.csv")
    assert "67 val tasks" in cli(*words).stdout
