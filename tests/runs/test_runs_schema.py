"""A store has one version of its tables; a file of another version is refused."""

import sqlite3
from dataclasses import replace

import pytest

from skillwright.core import RunError
from skillwright.runs import RunStore
from skillwright.runs.database import APPLICATION_ID, SCHEMA


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "run.sqlite"
    RunStore.open(made).close()
    return made


def version_of(path):
    connection = sqlite3.connect(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return found


def test_a_new_file_has_the_version_and_opens_again(path):
    assert version_of(path) == SCHEMA.version
    RunStore.open(path).close()
    RunStore.open(path, read_only=True).close()


@pytest.mark.parametrize("version", [0, SCHEMA.version - 1, SCHEMA.version + 1])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_version_is_refused_and_left_alone(path, version, read_only):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(RunError) as caught:
        RunStore.open(path, read_only=read_only)
    assert str(caught.value) == (
        f"{path} was written by another version of Skillwright (schema {version}; this one reads "
        f"schema {SCHEMA.version}). Open it with that version, or start a new run."
    )
    assert version_of(path) == version


def test_tables_that_cannot_be_created_leave_an_empty_file(tmp_path):
    connection = sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)
    broken = replace(SCHEMA, tables=("CREATE TABLE events (id INTEGER)", "NO SQL AT ALL"))
    with pytest.raises(sqlite3.OperationalError, match="syntax"):
        broken.create(connection, "run.sqlite")
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    SCHEMA.create(connection, "run.sqlite")
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


def test_what_an_adapter_reported_is_read_back(path, make_episode):
    plain, row = make_episode(), replace(make_episode("t2"), hard=0.5, row={"id": "t2"})
    with RunStore.open(path) as store:
        for episode in (plain, row):
            store.record_episode(episode)
            assert store.find_episode(episode.key) == episode
    with RunStore.open(path, read_only=True) as store:
        assert [summary.hard for summary in store.episodes()] == [None, 0.5]
