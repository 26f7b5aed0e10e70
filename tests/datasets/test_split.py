"""How a data set is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.datasets import (
    Ratio,
    SplitError,
    by_split,
    canonical_split,
    parse_ratio,
    split_counts,
    split_items,
)

RATIOS = st.builds(Ratio, *[st.integers(1, 20)] * 3)


def rows(*ids):
    return [{"id": str(item_id)} for item_id in ids]


def ids(items):
    return [int(item["id"]) for item in items]


def test_a_tie_goes_to_the_larger_weight_and_then_to_the_first():
    assert split_counts(1, Ratio(1, 1, 1)) == (1, 0, 0)
    assert split_counts(3, Ratio(1, 1, 4)) == (1, 0, 2)  # remainders 3, 3, 0 of 6
    assert split_counts(2, Ratio(1, 3, 4)) == (0, 1, 1)
    assert split_counts(1, Ratio(1, 2, 1)) == (0, 1, 0)


@given(st.integers(0, 5000), RATIOS)
def test_counts_share_everything_and_stray_less_than_one_from_the_ratio(n_items, ratio):
    counts = split_counts(n_items, ratio)
    assert sum(counts) == n_items
    for count, weight in zip(counts, ratio, strict=True):
        assert abs(count - n_items * weight / sum(ratio)) < 1


@given(st.integers(0, 60), RATIOS, st.integers(0, 2**31))
def test_a_split_loses_and_repeats_nothing(n_items, ratio, seed):
    items = rows(*range(n_items))
    split = split_items(items, ratio, seed)
    assert sorted(ids(split.train + split.val + split.test)) == list(range(n_items))
    assert ids(items) == list(range(n_items))  # the input is left as it is
    assert tuple(len(part) for part in split) == split_counts(n_items, ratio)


def test_a_ratio_may_have_spaces_and_prints_as_it_is_written():
    assert parse_ratio(" 2 : 1:7 ") == (2, 1, 7)
    assert str(parse_ratio("2:1:7")) == "2:1:7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "split_ratio must be in train:val:test form"),
        ("2:1", "split_ratio must be in train:val:test form"),
        ("1::2:3", "split_ratio must be in train:val:test form"),
        ("1:2:3:", "split_ratio must be in train:val:test form"),
        (":1:2", "split_ratio must be in train:val:test form"),
        ("a:1:2", "must contain integers"),
        ("0.5:1:2", "must contain integers"),
        ("0:1:2", "parts must be positive"),
        ("2:-1:2", "parts must be positive"),
    ],
)
def test_a_malformed_ratio_is_a_data_error_and_a_value_error(text, message):
    with pytest.raises(DataError, match=message):
        parse_ratio(text)
    with pytest.raises(ValueError, match="split_ratio"):
        parse_ratio(text)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("train", "train"),
        ("val", "val"),
        ("valid_seen", "val"),
        ("selection", "val"),
        ("test", "test"),
        ("valid_unseen", "test"),
    ],
)
def test_split_names_and_aliases(name, canonical):
    assert canonical_split(name) == canonical


def test_an_unknown_split_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(SplitError, match=r"no split is called 'valid_sen'.*'valid_seen'"):
        canonical_split("valid_sen")
    with pytest.raises(ValueError, match="eval_out_of_domain"):
        canonical_split("eval_out_of_domain")


def test_what_is_given_by_split_may_use_any_name_once():
    assert by_split({"valid_seen": 1, "test": 2}) == {"val": 1, "test": 2}
    with pytest.raises(SplitError, match="'val' and 'selection' name the same split"):
        by_split({"val": 1, "selection": 2})
    with pytest.raises(SplitError, match="no split is called 'dev'"):
        by_split({"dev": 1})
