"""JSON, digests and files."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.core.jsonio import canonical, digest, dumps, read_text, text_digest, write_text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_text_reads_back_as_the_same_value(value):
    assert json.loads(dumps(value)) == value
    assert json.loads(canonical(value)) == value


@given(st.dictionaries(st.text(), JSON, max_size=6), st.randoms())
def test_the_order_of_keys_changes_the_text_but_not_the_digest(value, random):
    keys = list(value)
    random.shuffle(keys)
    shuffled = {key: value[key] for key in keys}
    assert digest(shuffled) == digest(value)
    assert list(json.loads(dumps(shuffled))) == keys


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_cannot_carry_nan_or_infinity(number):
    for write in (dumps, canonical, digest):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write({"reward": number})


def test_a_digest_is_the_sha_256_of_the_canonical_text():
    assert canonical({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'
    assert text_digest("hello").startswith("2cf24dba5fb0a30e")
    assert digest("hello") == text_digest('"hello"')
    assert len(text_digest("\ud800")) == 64


def test_a_file_is_written_and_read_as_it_is(tmp_path):
    path = tmp_path / "deep" / "file.md"
    write_text(path, "é\r\nline\n")
    assert path.read_bytes() == "é\r\nline\n".encode()
    assert read_text(path, "skill") == "é\r\nline\n"
    write_text(path, "new")
    assert read_text(path, "skill") == "new"
    assert [file.name for file in path.parent.iterdir()] == ["file.md"]


def test_a_written_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").write_text("x", encoding="utf-8")
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file.md"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.md"]


def test_a_file_that_is_not_utf_8_names_the_byte(tmp_path):
    path = tmp_path / "skill.md"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"initial skill .*skill\.md' is not UTF-8: byte 3 is 0xe9"):
        read_text(path, "initial skill")


def test_a_missing_file_names_the_nearest_folder_that_exists(tmp_path):
    with pytest.raises(DataError, match="there is no such file") as caught:
        read_text(tmp_path / "a" / "b" / "skill.md", "initial skill")
    assert f"the nearest folder that exists is {str(tmp_path)!r}" in str(caught.value)
    with pytest.raises(DataError, match="there is no such file"):
        read_text(Path("no-such-folder/skill.md"), "initial skill")


def test_a_folder_in_the_place_of_a_file_is_said_to_be_one(tmp_path):
    with pytest.raises(DataError, match="it is a folder; name the file inside it"):
        read_text(tmp_path, "config")
