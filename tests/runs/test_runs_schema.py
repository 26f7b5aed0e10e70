"""Schema versions and migrations."""

import hashlib
import sqlite3
from dataclasses import replace

import pytest

from older_stores import make_older
from skillwright.core import RunError
from skillwright.core.sqlite_file import schema_version
from skillwright.runs import RunStore
from skillwright.runs.database import APPLICATION_ID, SCHEMA

# A fabricated history: the first version had only events, without a time.
OLD = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL)",
)
NEWER = (
    "ALTER TABLE events ADD COLUMN time REAL NOT NULL DEFAULT 0",
    "UPDATE events SET kind = 'run_' || kind",
)
BROKEN = ("ALTER TABLE events ADD COLUMN payload TEXT", "ALTER TABLE nothing ADD COLUMN x")


def of(migrations):
    """Return the schema of runs with another history."""
    return replace(SCHEMA, migrations=tuple(migrations))


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(tmp_path / "old.sqlite", isolation_level=None)
    of([OLD]).migrate(opened, "old.sqlite")
    opened.execute("INSERT INTO events (kind) VALUES ('started')")
    yield opened
    opened.close()


def test_a_new_file_goes_through_every_migration(tmp_path):
    path = tmp_path / "run.sqlite"
    RunStore.open(path).close()
    connection = sqlite3.connect(path)
    assert schema_version(connection) == len(SCHEMA.migrations)
    connection.close()
    RunStore.open(path).close()  # and an up-to-date one through none


def test_an_older_file_is_migrated_with_its_rows(connection):
    of([OLD, NEWER]).migrate(connection, "old.sqlite")
    assert schema_version(connection) == 2
    assert connection.execute("SELECT kind, time FROM events").fetchall() == [("run_started", 0.0)]


def test_migrating_twice_is_migrating_once(connection):
    of([OLD, NEWER]).migrate(connection, "old.sqlite")
    of([OLD, NEWER]).migrate(connection, "old.sqlite")
    assert connection.execute("SELECT kind FROM events").fetchall() == [("run_started",)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(connection):
    with pytest.raises(sqlite3.OperationalError, match="nothing"):
        of([OLD, NEWER, BROKEN]).migrate(connection, "old.sqlite")
    assert schema_version(connection) == 1
    assert connection.execute("SELECT * FROM events").fetchall() == [(1, "started")]


def test_looking_tells_an_older_file_from_a_new_one_and_changes_neither(connection):
    assert not of([OLD, NEWER]).is_newest(connection, "old.sqlite")
    assert of([OLD]).is_newest(connection, "old.sqlite")
    assert schema_version(connection) == 1


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run.sqlite"
    RunStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(SCHEMA.migrations) + 1}")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(RunError, match=r"newer Skillwright.*upgrade"):
            RunStore.open(path, read_only=read_only)


def test_the_migrations_that_files_went_through_are_never_touched():
    first = hashlib.sha256("\n".join(SCHEMA.migrations[0]).encode()).hexdigest()
    assert first.startswith("f8505632c39ad168")


def test_a_store_without_adapters_columns_opens_with_all_its_episodes(tmp_path, make_episode):
    path, episode = tmp_path / "run.sqlite", make_episode()
    with RunStore.open(path) as store:
        store.record_episode(episode)
    make_older(path, 1)
    with RunStore.open(path, read_only=True) as store:
        assert store.find_episode(episode.key) == episode
    later = replace(make_episode("t2"), hard=0.5, row={"id": "t2"})
    with RunStore.open(path) as store:
        assert store.find_episode(episode.key) == episode
        store.record_episode(later)
        assert store.find_episode(later.key) == later
    with RunStore.open(path, read_only=True) as store:
        assert [summary.hard for summary in store.episodes()] == [None, 0.5]
