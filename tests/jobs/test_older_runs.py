"""Runs that an older release began, and runs whose files are not whole."""

import shutil
import sqlite3

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, look, resumed, start_run, story, trained
from older_stores import SCHEMAS, copy_without_log, damage_log, make_older
from rl_world import Notebook, Stopped, lanes_config, recipe
from rl_world import resumed as resumed_rl
from skillwright.bank import BankError, BankStore
from skillwright.core import ModelRefused, RunError
from skillwright.core.sqlite_file import log_of, schema_version
from skillwright.jobs import find_run, open_run, read_run, study_run, summarize_runs
from skillwright.jobs.weights import is_rl_run, open_rl, start_rl
from skillwright.runs.database import SCHEMA

PLAN = [[ALL_RULES], ["Be quick."]]
NEWEST = len(SCHEMA.migrations)


def refuse_after(calls):
    def on_call(number):
        if number > calls:
            raise ModelRefused("the key expired")

    return on_call


async def stopped(folder, calls=90):
    """Train until the key expires; return where."""
    config = doors_config(folder)
    with pytest.raises(ModelRefused):
        await trained(config, Walker(refuse_after(calls)), Coach(PLAN))
    return find_run("doors", folder / "runs")


def version_of(path):
    connection = sqlite3.connect(path / "run.sqlite")
    version = schema_version(connection)
    connection.close()
    return version


@pytest.fixture
async def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    path, _ = await trained(doors_config(folder), Walker(), Coach(PLAN))
    return story(path)


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_run_of_every_schema_is_shown_as_it_is_and_resumed(tmp_path, reference, schema):
    path = await stopped(tmp_path)
    before = read_run(path)
    make_older(path / "run.sqlite", schema)
    shown = read_run(path)
    assert (shown.steps, shown.episodes) == (before.steps, before.episodes)
    assert study_run(str(path)).episodes
    assert version_of(path) == schema  # looking changed nothing
    await resumed(path, Walker(), Coach(PLAN))
    assert version_of(path) == NEWEST
    assert story(path) == reference


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_recipe_of_every_schema_is_found_and_resumed(tmp_path, schema):
    with pytest.raises(Stopped):
        await recipe(lanes_config(tmp_path), Notebook(stop_at=60))
    path = tmp_path / "runs" / "lanes"
    make_older(path / "run.sqlite", schema)
    assert is_rl_run(path)
    assert read_run(path).rl is not None
    report = await resumed_rl(path)
    assert report.state.finished


def test_an_empty_store_is_called_what_it_is(tmp_path):
    start_run(doors_config(tmp_path), "").close()
    path = tmp_path / "runs" / "doors"
    (path / "run.sqlite").write_bytes(b"")
    for use in (open_run, read_run, lambda run: study_run(str(run))):
        with pytest.raises(RunError, match=r"run\.sqlite is empty: the run was killed before"):
            use(path)
    assert (path / "run.sqlite").read_bytes() == b""
    (listed,) = summarize_runs(tmp_path / "runs")
    assert "is empty" in listed.problem


def test_an_empty_store_of_a_recipe_is_called_what_it_is(tmp_path):
    start_rl(lanes_config(tmp_path)).close()
    path = tmp_path / "runs" / "lanes"
    (path / "run.sqlite").write_bytes(b"")
    assert is_rl_run(path)
    with pytest.raises(RunError, match=r"run\.sqlite is empty"):
        open_rl(path)


def test_a_run_copied_without_its_log_is_told_to_bring_the_log(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        copy = tmp_path / "copy"
        copy_without_log(run.folder.path, copy)
    for use in (open_run, read_run):
        with pytest.raises(RunError, match=r"copied without 'run\.sqlite-wal'") as caught:
            use(copy)
        assert "emove" not in str(caught.value)
    assert (copy / "config.yaml").is_file()


def test_a_damaged_log_is_named_and_left_alone(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        copy = tmp_path / "copy"
        shutil.copytree(run.folder.path, copy)
    damaged = damage_log(copy / "run.sqlite")
    for use in (open_run, read_run, find_and_list):
        with pytest.raises(RunError, match=r"run\.sqlite-wal is damaged.*Restore both") as caught:
            use(copy)
        assert "emove" not in str(caught.value)
        assert log_of(copy / "run.sqlite").read_bytes() == damaged


def find_and_list(path):
    (listed,) = [one for one in summarize_runs(path.parent) if one.name == path.name]
    raise RunError(listed.problem)


def test_a_log_whose_first_entry_is_damaged_is_named_and_left_alone(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        copy = tmp_path / "copy"
        shutil.copytree(run.folder.path, copy)
    log = log_of(copy / "run.sqlite")
    whole = log.read_bytes()
    log.write_bytes(whole[:100] + b"x" * 100 + whole[200:])
    with pytest.raises(RunError, match=r"its log 'run\.sqlite-wal' \(.* bytes\) is damaged"):
        open_run(copy)
    assert len(log.read_bytes()) == len(whole)


def test_the_log_of_a_file_that_was_cut_to_nothing_is_kept(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        copy = tmp_path / "copy"
        shutil.copytree(run.folder.path, copy)
    (copy / "run.sqlite").write_bytes(b"")
    for use in (open_run, read_run):
        with pytest.raises(
            RunError, match=r"is empty \(0 bytes\), but its log 'run.sqlite-wal' is"
        ):
            use(copy)
    assert log_of(copy / "run.sqlite").stat().st_size


def test_a_whole_copy_of_a_run_that_is_going_on_can_be_resumed(tmp_path):
    with start_run(doors_config(tmp_path), "Be kind.\n") as run:
        copy = tmp_path / "copy"
        shutil.copytree(run.folder.path, copy)
    with open_run(copy) as run:
        assert run.store.skill(0) == "Be kind.\n"


def test_a_bank_with_a_damaged_log_or_nothing_but_a_log_is_left_alone(tmp_path):
    path = tmp_path / "bank.sqlite"
    with BankStore.open(path) as store:
        store.commit((), reason="nothing")
        shutil.copy(path, tmp_path / "cut.sqlite")
        for name in ("damaged", "cut"):
            shutil.copy(path, tmp_path / f"{name}.sqlite")
            shutil.copy(log_of(path), log_of(tmp_path / f"{name}.sqlite"))
    damaged = damage_log(tmp_path / "damaged.sqlite")
    (tmp_path / "cut.sqlite").write_bytes(b"")
    for name, said in (("damaged", "is damaged"), ("cut", r"is empty \(0 bytes\), but its log")):
        for read_only in (True, False):
            with pytest.raises(BankError, match=said):
                BankStore.open(tmp_path / f"{name}.sqlite", read_only=read_only)
    assert log_of(tmp_path / "damaged.sqlite").read_bytes() == damaged
    assert log_of(tmp_path / "cut.sqlite").stat().st_size


def test_looking_at_an_older_run_cannot_write_it(tmp_path):
    start_run(doors_config(tmp_path), "").close()
    path = tmp_path / "runs" / "doors"
    make_older(path / "run.sqlite", 1)
    with look(path) as store, pytest.raises(RunError, match="cannot be written"):
        store.append_event("anything", {})
