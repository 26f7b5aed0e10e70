"""``skillwright data``: official data is fetched or converted, and it is told what is used."""

import json

import pytest

from tau_airline import TABLES, TASKS
from tau_built_in.generate import HERE
from tau_checkout import RETAIL, write_archive, write_checkout


@pytest.fixture
def nothing_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def checkout(tmp_path):
    return write_checkout(tmp_path / "checkout")


def test_a_checkout_is_converted_and_used(cli, checkout, nothing_named, tmp_path, monkeypatch):
    to = ("--from", checkout, "--to", "mine", "--any-version")
    made = json.loads(cli("data", "tau-bench", *to, "--json").stdout)
    assert made["folder"] == str(tmp_path / "mine")
    assert made["tasks"] == {"dev": 0, "test": 3, "train": 1}
    assert not made["is_pinned"]
    told = cli("data", "tau-bench", *to).stderr
    assert "3 test" in told
    assert f"SKILLWRIGHT_TAU_DATA={tmp_path / 'mine'}" in told
    assert "not the pinned commit's data" in told
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", "mine")
    row = json.loads(cli("data", "list", "--json").stdout)["tau-bench"]
    assert row == {
        "origin": "$SKILLWRIGHT_TAU_DATA",
        "splits": ["dev", "test", "train"],
        "path": str(tmp_path / "mine"),
    }


def test_an_archive_is_converted(cli, checkout, tmp_path):
    archive = write_archive(tmp_path / "archive.tar.gz", checkout)
    cli("data", "tau-bench", "--from", archive, "--to", "mine", "--any-version")
    assert (tmp_path / "mine" / "tasks_test.json").exists()


def test_a_checkout_holds_the_airline_too(cli, refused, nothing_named, tmp_path, monkeypatch):
    monkeypatch.delenv("SKILLWRIGHT_TAU_AIRLINE_DATA", raising=False)
    assert "tau-bench airline" not in json.loads(cli("data", "list", "--json").stdout)
    tables, tasks = ({name: json.dumps(of) for name, of in TABLES.items()}, {"test": TASKS})
    source = write_checkout(tmp_path / "air", domain="airline", tables=tables, tasks=tasks)
    to = ("--from", source, "--to", "mine", "--any-version", "--domain", "airline")
    told = cli("data", "tau-bench", *to).stderr
    assert "tau-bench airline was put" in told
    assert f"SKILLWRIGHT_TAU_AIRLINE_DATA={tmp_path / 'mine'}" in told
    monkeypatch.setenv("SKILLWRIGHT_TAU_AIRLINE_DATA", "mine")
    rows = json.loads(cli("data", "list", "--json").stdout)
    assert rows["tau-bench"]["origin"] == "built-in"
    assert rows["tau-bench airline"]["splits"] == ["test"]
    monkeypatch.setenv("COLUMNS", "300")  # a narrow table has no borders in any case
    assert "│" not in cli("data", "list").stdout
    assert "no folder tau_bench/envs/retail" in refused("data", "tau-bench", "--from", source)
    assert "Did you mean 'airline'" in refused("data", "tau-bench", "--domain", "airlines")


def test_before_anything_is_fetched_the_built_in_store_is_used(cli, nothing_named):
    row = json.loads(cli("data", "list", "--json").stdout)["tau-bench"]
    assert row == {"origin": "built-in", "splits": ["test", "train", "val"], "path": str(HERE)}
    assert "built-in" in cli("data", "list").stdout


def test_what_cannot_be_used_is_refused(refused, checkout, nothing_named):
    assert "59a200c" in refused("data", "tau-bench", "--from", checkout)
    assert "--to FOLDER" in refused("data", "tau-bench", "--from", checkout, "--any-version")
    assert "nowhere" in refused("data", "tau-bench", "--from", "nowhere", "--to", "mine")
    (checkout / RETAIL / "tasks_test.py").write_text("TASKS_TEST = [open('x')]")
    told = refused("data", "tau-bench", "--from", checkout, "--to", "mine", "--any-version")
    assert "line 1" in told


def test_without_a_network_the_exit_code_says_that_something_outside_failed(
    cli, nothing_named, monkeypatch
):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    told = cli("data", "tau-bench", "--from", "http://127.0.0.1:9/x.tar.gz", code=1).stderr
    assert "--from FILE" in told
    assert "git clone" in told


def test_a_blank_source_is_refused(refused, nothing_named):
    assert "blank" in refused("data", "tau-bench", "--from", "", "--to", "mine")


def test_a_folder_of_fetched_data_with_nothing_in_it_is_called_damaged(
    refused, nothing_named, tmp_path
):
    (tmp_path / "cache" / "skillwright" / "tau_retail").mkdir(parents=True)
    told = refused("data", "list")
    assert "damaged" in told
    assert "skillwright data tau-bench" in told
