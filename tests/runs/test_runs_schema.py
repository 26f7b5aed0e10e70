"""Schema versions and migrations."""

import sqlite3

import pytest

from skillwright.core import RunError
from skillwright.runs import RunStore
from skillwright.runs.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    check_version,
    migrate,
    schema_version,
)

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


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(tmp_path / "old.sqlite", isolation_level=None)
    migrate(opened, "old.sqlite", [OLD])
    opened.execute("INSERT INTO events (kind) VALUES ('started')")
    yield opened
    opened.close()


def test_a_new_file_goes_through_every_migration(tmp_path):
    path = tmp_path / "run.sqlite"
    RunStore.open(path).close()
    connection = sqlite3.connect(path)
    assert schema_version(connection) == len(MIGRATIONS)
    connection.close()
    RunStore.open(path).close()  # and an up-to-date one through none


def test_an_older_file_is_migrated_with_its_rows(connection):
    migrate(connection, "old.sqlite", [OLD, NEWER])
    assert schema_version(connection) == 2
    assert connection.execute("SELECT kind, time FROM events").fetchall() == [("run_started", 0.0)]


def test_migrating_twice_is_migrating_once(connection):
    migrate(connection, "old.sqlite", [OLD, NEWER])
    migrate(connection, "old.sqlite", [OLD, NEWER])
    assert connection.execute("SELECT kind FROM events").fetchall() == [("run_started",)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(connection):
    with pytest.raises(sqlite3.OperationalError, match="nothing"):
        migrate(connection, "old.sqlite", [OLD, NEWER, BROKEN])
    assert schema_version(connection) == 1
    assert connection.execute("SELECT * FROM events").fetchall() == [(1, "started")]


def test_looking_does_not_migrate(connection):
    with pytest.raises(RunError, match=r"older Skillwright \(schema 1, now 2\)"):
        check_version(connection, "old.sqlite", [OLD, NEWER])
    check_version(connection, "old.sqlite", [OLD])


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run.sqlite"
    RunStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(RunError, match=r"newer Skillwright.*upgrade"):
            RunStore.open(path, read_only=read_only)
