"""Runs of another version, and runs whose files are not whole."""

import shutil
import sqlite3

import pytest

from doors import doors_config, look, start_run
from rl_world import lanes_config
from skillwright.bank import BankError, BankStore
from skillwright.core import RunError
from skillwright.core.sqlite_file import log_of
from skillwright.jobs.bank import study_run
from skillwright.jobs.inspect import read_run, summarize_runs
from skillwright.jobs.text import open_run
from skillwright.jobs.weights import is_rl_run, open_rl, start_rl


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


def test_looking_at_a_run_cannot_write_it(tmp_path):
    start_run(doors_config(tmp_path), "").close()
    run = look(tmp_path / "runs" / "doors")
    with run as store, pytest.raises(RunError, match="cannot be written"):
        store.append_event("anything", {})


def test_a_run_of_another_version_is_refused_before_its_configuration_is_read(tmp_path):
    start_run(doors_config(tmp_path), "").close()
    start_rl(lanes_config(tmp_path)).close()
    for name, resume in (("doors", open_run), ("lanes", open_rl)):
        path = tmp_path / "runs" / name
        (path / "config.yaml").write_text("a_key_of_another_version: 1\n", encoding="utf-8")
        connection = sqlite3.connect(path / "run.sqlite")
        connection.execute("PRAGMA user_version = 1")
        connection.close()
        for use in (resume, read_run):
            with pytest.raises(RunError, match=r"another version.*start a new run\.$"):
                use(path)


def copy_without_log(run, copy):
    """Copy a folder while a process works in it, and leave out what was written last."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("*-wal", "*-shm"))


def damage_log(path):
    """Damage the head of a file's log, and return the log as it is then."""
    log = log_of(path)
    damaged = b"\0" * 32 + log.read_bytes()[32:]
    log.write_bytes(damaged)
    return damaged
