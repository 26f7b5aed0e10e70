"""The rows that SkyRL's trainer reads."""

import json
import sys

import pytest

from skillwright.core import DataError
from skillwright.plugins.skyrl import (
    ROW_COLUMNS,
    expected_tokens,
    register_with_skyrl,
    tau_bench_rows,
    write_rows,
)
from tau_store import TASKS, write_store


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return {"data_dir": str(write_store(tmp_path_factory.mktemp("shop")))}


def test_a_row_per_task_has_the_columns_that_the_environment_reads(config):
    rows = tau_bench_rows("test", config, max_turns=12)
    assert [row["task_index"] for row in rows] == list(range(len(TASKS)))
    for row in rows:
        assert tuple(row) == ROW_COLUMNS
        assert (row["env_class"], row["task_split"], row["max_turns"]) == ("tau_bench", "test", 12)
        assert [message["role"] for message in row["prompt"]] == ["user"]


def test_rows_are_written_as_json_lines(config, tmp_path):
    path = tmp_path / "new" / "test.jsonl"
    write_rows(tau_bench_rows("test", config), path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == tau_bench_rows("test", config)


def test_rows_are_written_as_parquet(config, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "test.parquet"
    write_rows(tau_bench_rows("test", config), path)
    assert parquet.read_table(path).to_pylist() == tau_bench_rows("test", config)


def test_without_pyarrow_it_says_what_to_do(config, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"skillwright\[skyrl\].*test\.jsonl"):
        write_rows(tau_bench_rows("test", config), tmp_path / "test.parquet")
    assert not list(tmp_path.iterdir())


def test_without_skyrl_gym_it_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "skyrl_gym", None)
    with pytest.raises(DataError, match=r"pip install 'skillwright\[skyrl\]'"):
        register_with_skyrl()


@pytest.mark.parametrize(
    ("split", "name", "turns", "told"),
    [
        ("exam", "x.jsonl", 30, "exam"),
        ("test", "x.csv", 30, r"\.parquet or \.jsonl"),
        ("test", "x.jsonl", 0, "at least 1"),
    ],
)
def test_what_cannot_be_written_is_refused(config, tmp_path, split, name, turns, told):
    with pytest.raises(DataError, match=told):
        write_rows(tau_bench_rows(split, config, turns), tmp_path / name)


def test_the_longest_conversation_grows_with_its_turns(config):
    short, long = (expected_tokens(config, turns) for turns in (1, 30))
    assert 0 < short < long
