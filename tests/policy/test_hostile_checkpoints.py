"""Checkpoints and models that somebody made to do harm: no code runs, no memory is filled."""

import json
import sys

import pytest

from skillwright.policy import Checkpoint, CheckpointDamaged, ModelMissing
from skillwright.policy.checkpoint import pack, unpack
from skillwright.policy.hf import load_pretrained

HEADS = {
    "deep": "[" * 9_000,
    "a list": [1],
    "a text": {"iteration": "7", "bank_version": None, "bank_digest": ""},
    "negative": {"iteration": -1, "bank_version": None, "bank_digest": ""},
    "not finite": '{"iteration": 1e400, "bank_version": null, "bank_digest": ""}',
    "no number": '{"iteration": NaN, "bank_version": null, "bank_digest": ""}',
    "a truth": {"iteration": True, "bank_version": None, "bank_digest": ""},
    "half a version": {"iteration": 1, "bank_version": 1.5, "bank_digest": ""},
    "no digest": {"iteration": 1, "bank_version": 1, "bank_digest": None},
    "very long": {"iteration": 1, "bank_version": 1, "bank_digest": "x" * 20_000},
}


@pytest.mark.parametrize("head", HEADS)
def test_a_forged_head_with_a_right_digest_is_refused(monkeypatch, head):
    text = HEADS[head] if isinstance(HEADS[head], str) else json.dumps(HEADS[head])
    monkeypatch.setattr("skillwright.policy.checkpoint.dumps", lambda facts: text)
    with pytest.raises(CheckpointDamaged):
        unpack(pack(Checkpoint({"likes": 1})))


def test_a_model_with_code_of_its_own_is_refused_and_nobody_is_asked(tmp_path, monkeypatch):
    named = {
        "AutoConfig": "own.C",
        "AutoModelForCausalLM": "own.M",
        "AutoTokenizer": ["own.T", None],
    }
    settings = {"model_type": "own_kind", "auto_map": named}
    for name in ("config.json", "tokenizer_config.json"):
        (tmp_path / name).write_text(json.dumps(settings), encoding="utf-8")
    (tmp_path / "own.py").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})\n")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody was asked"))
    with pytest.raises(ModelMissing):
        load_pretrained(str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert "own" not in sys.modules
