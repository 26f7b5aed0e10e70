"""The example benchmark trains, and the pages around it say only what can be run."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

import test_docs as pages
from doors import Coach, Walker, trained
from skillwright.cli.app import app
from skillwright.config import RunConfig, load_config
from skillwright.config.yaml_files import key_paths
from skillwright.core.jsonio import read_text

ROOT, DOCS = pages.ROOT, pages.DOCS
GUIDE = DOCS / "add_a_benchmark.md"
EXAMPLE = ROOT / "examples" / "tickets.yaml"
RULES = (
    "Send tickets about invoice to bookkeeping.",
    "Send tickets about login to second line.",
    "Send tickets about parcel to night shift.",
    "Send tickets about screen to repair desk.",
)
SECTIONS = tuple(RunConfig.model_fields)
KEY = re.compile(rf"`((?:{'|'.join(SECTIONS)})\.[a-z_]+(?:\.[a-z_]+)*)")
FILES = {"run.sqlite", "run.lock"}


@pytest.fixture
def at_root(monkeypatch):
    """Paths of an example are relative to the repository's root."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """The example, trained as its page says: the folder, and what was printed as JSON."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        root = tmp_path_factory.mktemp("runs")
        words = ["train", str(EXAMPLE), "--json", "--set", f"run.root={root}"]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return root / "tickets", json.loads(result.stdout)


# The example


def test_the_example_adapter_learns_its_rules_offline(tickets):
    _, report = tickets
    tables = report["test"]["tables"]
    rates = {name: table["overall"]["success_rate"] for name, table in tables.items()}
    assert rates == {"initial": 0, "best": 1, "final": 1}
    assert sorted(filter(None, report["best_skill"].splitlines())) == sorted(RULES)


def test_the_example_adapter_leaves_the_folders_that_its_page_shows(tickets):
    path, _ = tickets
    (tree,) = [block.body for block in pages.blocks(GUIDE, "") if "adapter/" in block.body]
    for line in tree.splitlines()[1:]:
        pattern = re.sub(r"<[^>]+>", "*", line.strip().split("  ")[0])
        assert list((path / "adapter").glob(pattern)), line


@pytest.mark.usefixtures("at_root")
async def test_without_a_reflect_of_its_own_our_analysts_read_what_the_clerk_wrote(tmp_path):
    name, root = "env.name=examples/tickets_adapter.py:Tickets", f"run.root={tmp_path}"
    coach = Coach([list(RULES)])
    _, report = await trained(load_config(EXAMPLE, [name, root]), Walker(), coach)
    assert report.test.tables["best"].overall.success_rate == 1
    shown = coach.calls[0][0]
    assert "front desk cannot help." in shown
    assert "The right queue is " in shown


@pytest.mark.usefixtures("at_root")
def test_a_finished_example_is_shown_again_and_rolls_nothing_out(tickets):
    path, report = tickets
    made = sorted((path / "adapter").rglob("*"))
    result = CliRunner().invoke(app, ["resume", str(path), "--json"])
    assert json.loads(result.stdout)["best_skill"] == report["best_skill"]
    assert sorted((path / "adapter").rglob("*")) == made


def test_no_ticket_of_the_example_stands_in_two_splits():
    texts = []
    for split in ("train", "val", "test"):
        file = ROOT / "examples" / "tickets_data" / split / "items.json"
        texts += [item["text"] for item in json.loads(read_text(file, "items"))]
    assert len(texts) == len(set(texts)) == 88


@pytest.mark.heavy
@pytest.mark.usefixtures("at_root")
def test_the_example_table_goes_from_under_forty_to_over_eighty_percent(tmp_path):
    words = ["train", "examples/table.yaml", "--json", "--set", f"run.root={tmp_path}"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    tables = json.loads(result.stdout)["test"]["tables"]
    rates = {name: table["overall"]["success_rate"] for name, table in tables.items()}
    assert rates["initial"] < 0.4
    assert rates["best"] > 0.8


# The pages


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name_of)
def test_every_json_and_python_block_of_a_page_can_be_read(path):
    for block in pages.blocks(path, "json"):
        json.loads(block.body)
    for block in pages.blocks(path, "python"):
        compile(block.body, str(path), "exec")


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=pages.name_of)
def test_every_question_to_a_run_on_a_page_is_answered_by_one(path, tickets):
    questions = pages.blocks(path, "sql")
    assert bool(questions) == (path.parent.name == "stages")
    with closing(sqlite3.connect(f"file:{tickets[0] / 'run.sqlite'}?mode=ro", uri=True)) as store:
        for question in questions:
            store.execute(question.body).fetchall()


@pytest.mark.parametrize("path", sorted((DOCS / "stages").glob("*.md")), ids=pages.name_of)
def test_every_key_that_a_stage_page_names_is_one(path):
    named = set(KEY.findall(read_text(path, "page"))) - FILES
    assert named
    assert named <= {place.path for place in key_paths(RunConfig)}


def test_the_pages_of_the_stages_name_every_key_of_learning():
    text = "".join(read_text(path, "page") for path in (DOCS / "stages").glob("*.md"))
    sections = ("train.", "gradient.", "optimizer.", "evaluation.")
    paths = [place.path for place in key_paths(RunConfig) if place.path.startswith(sections)]
    keys = {path for path in paths if not any(other.startswith(f"{path}.") for other in paths)}
    assert keys - set(KEY.findall(text)) == set()
