"""Weights in: folders, GGUF files and packages, and what is refused of them."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import load_file, save_file

from policy.tiny_gguf import write_tiny_gguf
from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core.waits import Wait
from skillwright.policy import ModelMissing, ModelUnfit
from skillwright.policy.hf import gguf_source, load_pretrained, loading


@pytest.fixture
def folder(tmp_path):
    tiny_model().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_tokenizer_with_more_ids_than_embeddings_is_of_another_model(tmp_path):
    tiny_model(vocab_size=100).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelUnfit, match="ids up to 274, and the model has 100 embeddings"):
        load_pretrained(str(tmp_path))


def test_an_end_of_turn_that_the_model_does_not_have_is_refused(folder):
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [3, 151645]}), encoding="utf-8")
    with pytest.raises(ModelUnfit, match=r"eos_token_id .* is 151645, and the model has 300"):
        load_pretrained(str(folder))


def test_cut_weights_are_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelUnfit, match="cannot be read"):
        load_pretrained(str(folder))


def test_weights_that_lack_a_tensor_are_refused_instead_of_being_drawn_at_random(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelUnfit, match=r"lack 1 tensors \(model\.layers\.1\.mlp\.up_proj"):
        load_pretrained(str(folder))


def test_weights_of_other_shapes_are_refused(folder):
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) | {"intermediate_size": 32}
    path.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ModelUnfit, match="other shapes"):
        load_pretrained(str(folder))


def test_a_truncated_gguf_file_is_refused_before_anything_is_unpacked(tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(10))
    with pytest.raises(ModelMissing, match="truncated or damaged"):
        load_pretrained(str(path))


def test_a_gguf_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelMissing, match="there is no file"):
        load_pretrained(str(tmp_path / "none.gguf"))


def test_a_package_without_weights_is_no_model():
    with pytest.raises(ModelMissing, match="ships no"):
        load_pretrained("pytest")


def test_a_name_that_is_neither_a_file_nor_a_package_may_be_one_on_the_hub():
    assert gguf_source("nobody/nothing") is None


def test_an_unpacked_gguf_file_is_kept_and_its_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "waiting", waiting_noted)
    source = tmp_path / "tiny.gguf"
    write_tiny_gguf(source)
    left = tmp_path / "cache/skillwright/weights" / f".part-{ended_process()}-x"
    left.mkdir(parents=True)
    first, _ = load_pretrained(str(source))
    shares = noted.pop("unpacking tiny.gguf")
    assert shares == sorted(shares)
    assert len(shares) > 2
    assert not left.exists()
    again, _ = load_pretrained(str(source))
    assert "unpacking tiny.gguf" not in noted
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


noted = {}


@contextmanager
def waiting_noted(what, then=""):
    noted[what] = []

    class Noted(Wait):
        def __setattr__(self, name, value):
            if name == "share" and value is not None:
                noted[what].append(value)
            object.__setattr__(self, name, value)

    yield Noted(what, then, 0.0)


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
