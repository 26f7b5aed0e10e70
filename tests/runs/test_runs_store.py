"""The store as a whole: events, transactions, faults of the disk."""

import math
import re
import sqlite3
import threading

import pytest

from skillwright.core import Purpose, RunError, Usage
from skillwright.runs import CallRecord, Event, Redactor, RunStore, VerdictRecord
from skillwright.runs.database import Database


def pragma(database, name):
    return database.rows(f"PRAGMA {name}")[0][0]


def fill_disk(database):
    database.rows(f"PRAGMA max_page_count = {pragma(database, 'page_count')}")


def test_events_are_appended_and_listed_in_order(store):
    assert store.append_event("run_started", {"name": "demo"}) == 1
    assert store.append_event("step_finished", {"step": 1, "scores": [0.5, None]}) == 2
    assert store.append_event("step_finished", {"step": 2}) == 3
    assert store.events()[0] == Event(1, "run_started", {"name": "demo"}, 1000.0)
    assert [event.payload for event in store.events("step_finished")] == [
        {"step": 1, "scores": [0.5, None]},
        {"step": 2},
    ]
    assert [event.id for event in store.events(after=2)] == [3]
    assert store.events("run_started", after=1) == []


def test_an_event_that_json_cannot_carry_is_refused(store):
    with pytest.raises(ValueError, match="JSON"):
        store.append_event("step", {"score": math.nan})
    with pytest.raises(TypeError, match="JSON"):
        store.append_event("step", {"when": object()})
    assert store.events() == []


def test_an_event_keeps_no_secret(store_path):
    with RunStore.open(store_path, redactor=Redactor(["tr0ub4dor"])) as store:
        store.append_event(
            "started",
            {
                "max_tokens": 5,
                "key": "ab" * 32,
                "command": "run tr0ub4dor",
                "said": ["Authorization: Bearer abcdefghijklmnop"],
            },
        )
        assert store.events()[0].payload == {
            "max_tokens": 5,
            "key": "ab" * 32,  # a content address
            "command": "run <redacted>",
            "said": ["Authorization: <redacted> <redacted>"],
        }


def test_names_in_an_event_are_data_and_hide_nothing(store):
    scores = {"task_types": {"reset_password": {"success_rate": 0.5, "prev_key": "ab" * 32}}}
    store.append_event("scores", scores)
    assert store.events()[0].payload == scores


def test_a_transaction_takes_effect_as_a_whole_or_not_at_all(store, make_episode):
    def fail_half_way():
        with store.transaction():
            store.append_event("step_finished", {})
            store.record_episode(make_episode())
            store.add_skill_version("text")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert set(store.counts().values()) == {0}
    with store.transaction(), store.transaction():
        store.append_event("step_finished", {})
    assert store.counts()["events"] == 1


def test_a_decision_waits_for_the_disk_and_an_episode_does_not(store, database, make_episode):
    store.record_episode(make_episode())
    assert pragma(database, "synchronous") == 1  # NORMAL
    store.record_verdict(VerdictRecord(1, {"decision": "reject", "reason": "no gain"}))
    assert pragma(database, "synchronous") == 2  # FULL
    store.append_event("step", {})
    with store.transaction(durable=True):
        store.append_event("step", {})
        assert pragma(database, "synchronous") == 2


def test_the_file_uses_a_write_ahead_log_and_checks_references(store, database):
    assert pragma(database, "journal_mode") == "wal"
    assert pragma(database, "foreign_keys") == 1
    with pytest.raises(sqlite3.IntegrityError):
        store.add_skill_version("text", parent=7)


def test_a_reader_sees_the_run_while_it_is_written_and_cannot_write(
    store_path, store, make_episode
):
    store.record_episode(make_episode())
    with RunStore.open(store_path, read_only=True) as reader:
        assert reader.counts()["episodes"] == 1
        store.record_episode(make_episode("t2"))
        assert reader.counts()["episodes"] == 2
        with pytest.raises(RunError, match="cannot be written"):
            reader.append_event("step", {})


def test_a_finished_run_can_be_read_where_nothing_can_be_written(store_path, make_episode):
    folder = store_path.parent
    with RunStore.open(store_path) as store:
        store.record_episode(make_episode())
    assert [item.name for item in folder.iterdir()] == ["run.sqlite"]
    folder.chmod(0o555)
    try:
        with RunStore.open(store_path, read_only=True) as reader:
            assert reader.find_episode(make_episode().key) == make_episode()
    finally:
        folder.chmod(0o755)


def test_a_full_disk_says_what_is_saved_and_how_to_go_on(store, database, make_episode):
    store.record_episode(make_episode())
    store.record_verdict(VerdictRecord(1, {"decision": "reject", "reason": "no gain"}))
    fill_disk(database)

    def record_many():
        for number in range(200):
            store.record_episode(make_episode(f"more {number}"))

    with pytest.raises(RunError, match="disk is full") as caught:
        record_many()
    message = str(caught.value)
    saved = store.counts()
    assert f"Saved are {saved['episodes']} episodes and 1 verdicts" in message
    assert re.search(r"`skillwright resume .*demo`", message)
    assert store.find_episode(make_episode().key) == make_episode()

    database.rows("PRAGMA max_page_count = 100000")  # room again
    store.record_episode(make_episode("after"))
    assert store.counts()["episodes"] == saved["episodes"] + 1


def test_a_full_disk_inside_a_transaction_takes_all_of_it_back(store, database, make_episode):
    fill_disk(database)

    def record_many():
        with store.transaction():
            for number in range(200):
                store.record_episode(make_episode(f"more {number}"))

    with pytest.raises(RunError, match="Saved are 0 episodes"):
        record_many()
    assert store.counts()["episodes"] == 0


def test_a_second_writer_is_named_as_the_reason(store_path, store):
    other = Database(store_path, busy_timeout_s=0.01)
    with store.transaction(), pytest.raises(RunError, match="another process is writing to it"):
        other.insert("events", {"kind": "x", "payload": "{}", "time": 0.0})
    other.close()


def test_a_missing_file_a_damaged_one_and_another_programs_are_refused(tmp_path, store_path):
    with pytest.raises(RunError, match="cannot be opened"):
        RunStore.open(tmp_path / "nowhere" / "run.sqlite")
    with pytest.raises(RunError, match="cannot be opened"):
        RunStore.open(store_path, read_only=True)
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"not a database, but long enough to look at" * 50)
    with pytest.raises(RunError, match="damaged or no run"):
        RunStore.open(damaged)
    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(RunError, match="no run of Skillwright"):
        RunStore.open(foreign)
    assert foreign.read_bytes() == before


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    with pytest.raises(RunError, match="is closed"):
        store.counts()


def test_a_store_belongs_to_the_thread_that_opened_it(store):
    faults = []

    def count():
        try:
            store.counts()
        except sqlite3.ProgrammingError as error:
            faults.append(str(error))

    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    assert "thread" in faults[0]


def test_usage_is_summed_per_purpose_over_episodes_calls_and_failures(store, make_episode):
    store.record_episode(make_episode(turns=2))
    for number, spent in enumerate((Usage(failed_calls=3), Usage(1, 5, cost_usd=None))):
        failed = CallRecord(f"k{number}", Purpose.REFLECT, "m", [], error="timeout", usage=spent)
        store.record_call(failed)
    assert store.usage_by_purpose() == {
        "reflect": Usage(1, 5, failed_calls=3, cost_usd=None),
        "rollout": Usage(2, 201, 20, cost_usd=1.0),
    }


def test_counts_name_every_kind_of_row(store):
    assert store.counts() == dict.fromkeys(
        (
            "episodes",
            "failures",
            "turns",
            "calls",
            "skills",
            "patches",
            "edits",
            "verdicts",
            "events",
        ),
        0,
    )
