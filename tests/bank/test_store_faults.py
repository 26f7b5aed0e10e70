"""The store of a bank in trouble: full disks, damage, old schemas, other processes, kill -9."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest
from test_changes import adds

from skillwright.bank import BankError, BankStore, CountedEpisode
from skillwright.bank.store.tables import SCHEMA, BankFile

WRITER = """
import sys
from pathlib import Path
from skillwright.bank import Add, BankStore, CountedEpisode
from skillwright.core import BankSkill, SkillKind

who = sys.argv[2]
with BankStore.open(Path(sys.argv[1]), busy_timeout_s=60) as store:
    print("open", flush=True)
    for number in range(int(sys.argv[3])):
        text = f"Take the object of {who} {number} first."
        draft = BankSkill("", f"{who} {number}", text, "Always.", SkillKind.GENERAL)
        bank = store.commit([Add(draft)], reason=f"{who} {number}")
        print(bank.version, bank.skills[-1].id, flush=True)
        store.count([CountedEpisode(f"{who} {number}", ("g001",), True)])
"""


def writer(path, who, count):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bank.db"


def test_a_full_disk_loses_only_the_change_in_flight(path):
    file = BankFile(path)
    store = BankStore(file, lambda: 1.0)
    first = store.commit(adds([1]), reason="one")
    file.rows(f"PRAGMA max_page_count = {file.rows('PRAGMA page_count')[0][0]}")
    with pytest.raises(BankError, match=r"disk is full.*earlier versions are safe"):
        store.commit(adds(range(2, 200)), reason="too much")
    assert store.load() == first
    assert len(store.log()) == 1
    file.rows("PRAGMA max_page_count = 100000")  # room again
    assert store.commit(adds([2]), reason="two").version == 2
    store.close()


def test_two_processes_never_make_the_same_version_or_id(path):
    BankStore.open(path).close()
    processes = [writer(path, who, 12) for who in ("left", "right")]
    said = [process.communicate()[0].split("\n")[1:-1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    pairs = [line.split() for lines in said for line in lines]
    assert sorted(int(version) for version, _ in pairs) == list(range(1, 25))
    assert len({skill_id for _, skill_id in pairs}) == 24
    with BankStore.open(path, read_only=True) as store:
        assert len(store.load().active) == 24
        assert [entry.version for entry in store.log()] == list(range(1, 25))
        assert store.totals()["g001"].wins == 24


@pytest.mark.parametrize("lines", [1, 2, 5, 9])
def test_what_a_killed_process_said_was_kept_is_kept(path, lines):
    process = writer(path, "victim", 10_000)
    heard = [process.stdout.readline().split() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].split("\n")[:-1]
    heard += [line.split() for line in rest]
    with BankStore.open(path) as store:
        for version, skill_id in heard[1:]:
            assert store.load(int(version)).skills[-1].id == skill_id
        bank = store.load()
        assert store.versions() == list(range(1, bank.version + 1))
        assert len(store.log()) == bank.version == len(bank.skills)
        assert store.commit(adds([1]), reason="on").version == bank.version + 1


def test_another_process_that_writes_is_named_as_the_reason(path):
    with BankStore.open(path), sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            BankStore.open(path, busy_timeout_s=0.01) as store,
            pytest.raises(BankError, match="another process is writing"),
        ):
            store.count([CountedEpisode("e", (), solved=True)])
        other.execute("ROLLBACK")
    other.close()


def test_a_reader_sees_the_bank_while_it_is_written_and_cannot_write(path):
    with BankStore.open(path) as store, BankStore.open(path, read_only=True) as reader:
        store.commit(adds([1]), reason="one")
        assert reader.load() == store.load()
        with pytest.raises(BankError, match="cannot be written"):
            reader.commit(adds([2]), reason="two")
        assert store.commit(adds([2]), reason="two") == reader.load()


def test_a_missing_file_a_damaged_one_and_another_programs_are_refused(tmp_path, path):
    with pytest.raises(BankError, match="cannot be opened"):
        BankStore.open(path, read_only=True)
    path.write_bytes(b"This is no database at all, but a text that is long enough. " * 20)
    with pytest.raises(BankError, match="damaged or no bank"):
        BankStore.open(path)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as file:
        file.execute("CREATE TABLE mine (x)")
    file.close()
    with pytest.raises(BankError, match="no bank of Skillwright"):
        BankStore.open(foreign)
    under = tmp_path / "file"
    under.write_text("x")
    with pytest.raises(BankError, match="cannot be made"):
        BankStore.open(under / "bank.db")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE wordings SET body = '{'",
        "UPDATE wordings SET body = '{\"title\": 3}'",
        "UPDATE wordings SET body = replace(body, 'shelf 1', 'shelf 9')",
        "DELETE FROM wordings WHERE skill = 1",
        "UPDATE versions SET issued = '{'",
    ],
)
def test_damage_inside_the_file_is_found_when_it_is_read(path, damage):
    with BankStore.open(path) as store:
        store.commit(adds([1, 2]), reason="one")
    with sqlite3.connect(path) as file:
        file.execute(damage)
    file.close()
    with (
        BankStore.open(path) as store,
        pytest.raises(BankError, match=r"version 1 is damaged.*Restore"),
    ):
        store.load()


def test_a_torn_file_is_a_clear_error(path):
    with BankStore.open(path) as store:
        store.commit(adds(range(200)), reason="many")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BankError, match="damaged"):
        BankStore.open(path).load()


def test_a_file_can_be_read_where_nothing_can_be_written(tmp_path, path):
    with BankStore.open(path) as store:
        bank = store.commit(adds([1]), reason="one")
    folder = tmp_path / "sealed"
    folder.mkdir()
    shutil.copy(path, folder / "bank.db")
    folder.chmod(0o555)
    try:
        with BankStore.open(folder / "bank.db", read_only=True) as store:
            assert store.load() == bank
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("version", [SCHEMA.version - 1, SCHEMA.version + 1])
def test_another_schema_is_refused_with_the_way_out(path, version):
    BankStore.open(path).close()
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {version}")
    file.close()
    for read_only in (True, False):
        with pytest.raises(BankError, match=r"another version.*that version, or start a new bank"):
            BankStore.open(path, read_only=read_only)
