"""Files of runs as older releases wrote them, made of new ones.

make_older(path, 3)      # the store is one of schema 3 now, with what its columns can hold
copy_without_log(run, copy)   # a copy of a folder as somebody makes it who forgets the log
"""

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

from skillwright.core.sqlite_file import Schema, log_of
from skillwright.runs.database import SCHEMA

SCHEMAS = range(1, len(SCHEMA.migrations) + 1)


def make_older(path: Path, version: int, schema: Schema = SCHEMA) -> None:
    """Put a file of an older schema in the place of one of the newest."""
    newer = path.with_name(f"newer-{path.name}")
    path.rename(newer)
    connection = sqlite3.connect(path, isolation_level=None)
    replace(schema, migrations=schema.migrations[:version]).migrate(connection, str(path))
    connection.execute("ATTACH ? AS newer", (str(newer),))
    tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")
    for (table,) in tables.fetchall():
        rows = connection.execute(f"PRAGMA main.table_info({table})")
        columns = ", ".join(row[1] for row in rows)
        connection.execute(
            f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}"
        )
    connection.execute("DETACH newer")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    newer.unlink()


def copy_without_log(run: Path, copy: Path) -> None:
    """Copy a folder while a process works in it, and leave out what was written last."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("*-wal", "*-shm"))


def damage_log(path: Path) -> bytes:
    """Damage the head of a file's log, and return the log as it is then."""
    log = log_of(path)
    damaged = b"\0" * 32 + log.read_bytes()[32:]
    log.write_bytes(damaged)
    return damaged
