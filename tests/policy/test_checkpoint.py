"""A checkpoint is whole or refused, and names the bank that it belongs to."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skillwright.policy import (
    BankVersionGone,
    Checkpoint,
    CheckpointDamaged,
    load_checkpoint,
    save_checkpoint,
)
from skillwright.policy.checkpoint import _Tensors, pack, unpack

WHOLE = Checkpoint(
    policy={
        "numbers": [1, 2.5, None, True, "text", float("inf")],
        "by number": {0: (1, (2,)), 1: {}},
        "bytes": list(range(256)),
    },
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
    save_checkpoint(tmp_path / "last.ckpt", Checkpoint({"x": 1}))
    assert load_checkpoint(tmp_path / "last.ckpt", bank_versions=()).bank_version is None


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, WHOLE)

    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        save_checkpoint(path, Checkpoint({"new": 1}))
    assert load_checkpoint(path) == WHOLE
    assert [one.name for one in tmp_path.iterdir()] == ["last.ckpt"]


def test_what_a_killed_writer_left_is_written_over(tmp_path, monkeypatch):
    path = tmp_path / "one"
    for pid in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        monkeypatch.setattr(Path, "replace", lambda *_: None)  # killed before the move
        save_checkpoint(path, WHOLE)
    assert len(list(tmp_path.iterdir())) == 1


def test_tensors_come_back_as_they_were_and_tied_ones_are_written_once(tmp_path):
    tied = torch.arange(1000.0).reshape(10, 100)
    state = {
        "tied": (tied, tied.view(10, 100)),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "turned": torch.arange(6).reshape(2, 3).T,
        "none": torch.empty(0, 3),
        "one": torch.tensor(7.0),
        "whether": torch.tensor([True, False]),
    }
    save_checkpoint(tmp_path / "one", Checkpoint(state))
    read = load_checkpoint(tmp_path / "one").policy
    assert read.keys() == state.keys()
    assert torch.equal(read["tied"][0], tied)
    assert read["tied"][0].data_ptr() == read["tied"][1].data_ptr()
    for name in ("half", "turned", "none", "one", "whether"):
        assert torch.equal(read[name], state[name]), name
        assert read[name].dtype == state[name].dtype
    assert (tmp_path / "one").stat().st_size < 2 * tied.nbytes


def test_what_was_read_may_be_changed_and_the_file_stays(tmp_path):
    save_checkpoint(tmp_path / "one", Checkpoint({"a": torch.zeros(8)}))
    read = load_checkpoint(tmp_path / "one").policy["a"]
    read += 1
    assert torch.equal(load_checkpoint(tmp_path / "one").policy["a"], torch.zeros(8))


def test_what_has_no_place_in_a_checkpoint_is_named():
    with pytest.raises(TypeError, match="holds no PosixPath"):
        pack(Checkpoint({"a": Path()}))


TABLES = {
    "too long": [["torch.float32", [4]]],
    "too short": [["torch.float32", [1]]],
    "negative": [["torch.float32", [-2]]],
    "huge": [["torch.float32", [1 << 40, 1 << 40]]],
    "half a number": [["torch.float32", [1.5]]],
    "no shape": [["torch.float32", None]],
    "no such kind": [["torch.quint8", [2]]],
    "none": [],
    "no table": 7,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_forged_table_of_tensors_with_a_right_digest_is_refused(monkeypatch, name):
    monkeypatch.setattr(_Tensors, "table", lambda _: TABLES[name])
    with pytest.raises(CheckpointDamaged, match="was not written by this version"):
        unpack(pack(Checkpoint({"a": torch.zeros(2)})))


@pytest.mark.parametrize("tree", [5, [], {"d": 1}, {"d": [[{"d": []}, 1]]}, {"x": 9}, {"d": [[1]]}])
def test_a_forged_tree_with_a_right_digest_is_refused(monkeypatch, tree):
    monkeypatch.setattr(_Tensors, "plain", lambda *_: tree)
    with pytest.raises(CheckpointDamaged, match="was not written by this version"):
        unpack(pack(Checkpoint({})))


PEAK_OF_SAVING = """
import resource, sys, torch
from pathlib import Path
from skillwright.policy import Checkpoint, save_checkpoint
state = {str(n): torch.ones(10_000_000) for n in range(4)}
size = sum(one.nbytes for one in state.values())
save_checkpoint(Path(sys.argv[1]), Checkpoint({"a": torch.ones(10)}))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
save_checkpoint(Path(sys.argv[1]), Checkpoint(state))
print((peak() - before) / size)
"""


def test_weights_are_not_held_twice_to_be_written(tmp_path):
    command = [sys.executable, "-c", PEAK_OF_SAVING, str(tmp_path / "one")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.25


def test_weights_are_not_held_twice_to_be_read(tmp_path):
    size = 20_000_000
    save_checkpoint(tmp_path / "one", Checkpoint({"a": torch.ones(size // 4)}))
    into = torch.zeros(size // 4)
    with torch.profiler.profile(profile_memory=True):
        pass  # its first use imports modules, which are not what is measured
    tracemalloc.start()
    try:
        with torch.profiler.profile(profile_memory=True) as profiled:
            into.copy_(load_checkpoint(tmp_path / "one").policy["a"])
        _, read = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert torch.equal(into, torch.ones(size // 4))
    assert read < 0.1 * size
    assert sum(max(0, one.self_cpu_memory_usage) for one in profiled.key_averages()) < 0.1 * size


def test_a_move_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, WHOLE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(path, Checkpoint({"new": 1}))
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
