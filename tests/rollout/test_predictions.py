import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Act, Trajectory, Turn
from skillwright.rollout import folder_name
from skillwright.rollout.transcript import write_predictions


@pytest.mark.parametrize("safe", ["7", "pick_and_place-12", "val.3", "a" * 100, "_x"])
def test_a_safe_id_is_its_own_folder(safe):
    assert folder_name(safe) == safe


@pytest.mark.parametrize(
    "unsafe",
    [
        "",
        ".",
        "..",
        "../up",
        "a/b",
        "a:b",
        "a\\b",
        "nul",
        "COM1.txt",
        "x.",
        "@x",
        "a" * 101,
        "é",
        "names.json",
    ],
)
def test_an_unsafe_id_gets_an_escaped_folder(unsafe):
    assert folder_name(unsafe).startswith("@")


@given(st.text(max_size=40), st.text(max_size=40))
def test_folders_are_safe_everywhere_and_never_shared(one, other):
    name = folder_name(one)
    assert 0 < len(name) <= 100
    assert not set(name) & set('/\\:*?"<>|\x00 ')
    assert name not in {".", ".."}
    assert (name == folder_name(other)) is (one == other)


def test_escaped_folders_are_mapped_back_to_their_ids(tmp_path):
    write_predictions(tmp_path, {"safe": Trajectory("a"), "a/b": Trajectory("b")})
    names = json.loads((tmp_path / "names.json").read_text("utf-8"))
    assert names == {folder_name("a/b"): "a/b"}
    assert (tmp_path / folder_name("a/b") / "conversation.json").is_file()


def test_whatever_a_model_writes_can_be_written(tmp_path):
    turn = Turn(0, (), Act("half \ud83d a pair"), "é", 0.0)
    write_predictions(tmp_path, {"t": Trajectory("go", (turn,))})
    text = (tmp_path / "t" / "conversation.json").read_text("utf-8")
    assert json.loads(text)[1]["action"] == "half \ud83d a pair"
    assert "é" in text
