"""A checkpoint is whole or refused, and names the bank that it belongs to."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.policy import (
    BankVersionGone,
    Checkpoint,
    CheckpointDamaged,
    load_checkpoint,
    save_checkpoint,
)
from skillwright.policy.checkpoint import pack, unpack

WHOLE = Checkpoint(
    policy=bytes(range(256)) * 3,
    iteration=7,
    bank_version=4,
    bank_digest="abc",
)


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    path = tmp_path / "deep" / "last.ckpt"
    save_checkpoint(path, WHOLE)
    assert load_checkpoint(path) == WHOLE
    assert load_checkpoint(path, bank_versions={3, 4}) == WHOLE
    assert [one.name for one in path.parent.iterdir()] == ["last.ckpt"]


@given(st.integers(0, len(pack(WHOLE)) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place, change):
    packed = bytearray(pack(WHOLE))
    packed[place] ^= change
    with pytest.raises(CheckpointDamaged):
        unpack(bytes(packed))


@given(st.integers(0, len(pack(WHOLE)) - 1))
def test_half_a_file_is_noticed(size):
    with pytest.raises(CheckpointDamaged):
        unpack(pack(WHOLE)[:size])


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointDamaged, match=r"nowhere\.ckpt.* cannot be read"):
        load_checkpoint(tmp_path / "nowhere.ckpt")


def test_a_bank_version_that_is_gone_is_named(tmp_path):
    save_checkpoint(tmp_path / "last.ckpt", WHOLE)
    with pytest.raises(BankVersionGone, match="version 4 of its skill bank"):
        load_checkpoint(tmp_path / "last.ckpt", bank_versions={1, 2, 3})


def test_a_checkpoint_without_a_bank_asks_for_none(tmp_path):
    save_checkpoint(tmp_path / "last.ckpt", Checkpoint(b"x"))
    assert load_checkpoint(tmp_path / "last.ckpt", bank_versions=()).bank_version is None


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, WHOLE)

    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        save_checkpoint(path, Checkpoint(b"new"))
    assert load_checkpoint(path) == WHOLE
    assert [one.name for one in tmp_path.iterdir()] == ["last.ckpt"]


def test_what_a_killed_writer_left_is_written_over(tmp_path, monkeypatch):
    path = tmp_path / "one"
    for pid in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        monkeypatch.setattr(Path, "replace", lambda *_: None)  # killed before the move
        save_checkpoint(path, WHOLE)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_large_policy_is_not_copied_to_be_written_or_read(tmp_path):
    size = 20_000_000
    checkpoint = Checkpoint(bytes(size))
    tracemalloc.start()
    try:
        save_checkpoint(tmp_path / "one", checkpoint)
        _, written = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert load_checkpoint(tmp_path / "one") == checkpoint
        _, read = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written < 0.1 * size
    assert read < 1.1 * size


def test_a_move_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, WHOLE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(path, Checkpoint(b"new"))
    assert load_checkpoint(path) == WHOLE
    assert [one.name for one in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_whole_file_with_another_head_is_of_another_version(monkeypatch):
    def without(facts):
        return json.dumps({name: value for name, value in facts.items() if name != "bank_digest"})

    monkeypatch.setattr("skillwright.policy.checkpoint.dumps", without)
    packed = pack(WHOLE)
    with pytest.raises(CheckpointDamaged, match=r"one\.ckpt was not written by .* 'bank_digest'"):
        unpack(packed, "one.ckpt")


def test_a_file_that_is_cut_in_any_of_its_parts_is_named(tmp_path):
    path = tmp_path / "cut.ckpt"
    packed = pack(WHOLE)
    first, head = packed.index(b"\n") + 1, packed.index(b"\n", 100) + 1
    for size in (0, 5, first - 1, first, first + 9, head - 1, head, head + 7, len(packed) - 1):
        path.write_bytes(packed[:size])
        with pytest.raises(CheckpointDamaged, match=r"cut\.ckpt.* the one before it"):
            load_checkpoint(path)
