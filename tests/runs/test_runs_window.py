"""A window of an episode: the turns that are wanted, and nothing else is unpacked."""

import zlib

import pytest

from skillwright.core import RunError
from skillwright.runs.window import find_in, read_window


@pytest.mark.parametrize(("first", "most"), [(0, 2), (0, 100), (2, 3), (6, 1), (7, 4)])
def test_a_window_has_the_turns_that_the_whole_episode_has(store, make_episode, first, most):
    number = store.record_episode(make_episode(turns=7))
    whole = store.load_episode(number)
    window = store.load_window(number, first, most)
    wanted = whole.trajectory.turns[first : first + most]
    assert [turn.index for turn in window.trajectory.turns] == [turn.index for turn in wanted]
    for shown, turn in zip(window.trajectory.turns, wanted, strict=True):
        assert (shown.act, shown.observation, shown.reward) == (
            turn.act,
            turn.observation,
            turn.reward,
        )
        assert shown.metadata == turn.metadata
        assert shown.prompt == (turn.prompt if turn.index == 0 else ())
    assert window.trajectory.metadata == whole.trajectory.metadata
    assert (window.spec, window.reward, window.metrics) == (whole.spec, whole.reward, whole.metrics)


def test_text_that_looks_like_a_border_is_text():
    text = '],"turns":[ {"metadata":[ ],"messages":[ é\\"'
    body = packed([text] * 3)
    assert read_window(body, 1, 1, 1) == {
        "metadata": [{}, {"at": 1}],
        "messages": [["user", text]],
        "turns": [[[0], text, text, []]],
    }


def test_a_cut_or_damaged_text_is_said_to_be_so():
    body = packed(["x" * 5000] * 40)
    with pytest.raises(RunError, match=r"cut|damaged"):
        read_window(body[: len(body) // 2], 0, 100, 1)
    with pytest.raises(RunError, match="damaged"):
        read_window(b"no zlib at all", 0, 1, 1)


def test_a_text_is_found_across_pieces_and_in_any_case():
    body = zlib.compress(("é" * 1_048_570 + "The Needle is here").encode())
    assert find_in(body, ("needle",), 4) == "The Needle i"
    assert find_in(body, ("nowhere",), 4) == ""
    assert find_in(zlib.compress(("ß" * 200 + "needle").encode()), ("NEEDLE",), 1) == "ßneedle"


def packed(texts):
    from skillwright.runs.archive import to_json

    body = {
        "metadata": [{}, *({"at": at} for at in range(len(texts)))],
        "messages": [["user", text] for text in texts],
        "turns": [[[0], text, text, []] for text in texts],
    }
    return zlib.compress(to_json(body).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("size", [9_000_000, 3_000_000, 1 << 20])
def test_a_long_text_that_packs_well_is_read_to_its_end(size):
    window = read_window(packed(["a", "x" * size]), 0, 5, 1)
    assert [len(turn[1]) for turn in window["turns"]] == [1, size]
