"""Tiny language models, made on the spot: random weights, a tokenizer of characters and words."""

import warnings
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMMING = TEMPLATE.replace("m['content'] }}", "m['content'] | trim }}")

torch.set_num_threads(1)  # models this small only lose by more


@cache
def _bytes() -> tuple[str, ...]:
    return tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))


def tiny_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """Bytes and a few merges, as GPT-2 and Qwen have them; texts have several spellings."""
    vocabulary = {token: index for index, token in enumerate(_bytes())}
    merges = []
    for pair in ("go", "to", "ta", "ke", "he", "at", "mu", "lo", "ok", "sh", "el", "in"):
        merges.append((pair[0], pair[1]))
        vocabulary[pair] = len(vocabulary)
    for left, right in (("ta", "ke"), ("he", "at"), ("mu", "g"), ("lo", "ok")):
        merges.append((left, right))
        vocabulary[left + right] = len(vocabulary)
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(
    kind: str = "qwen", seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any
) -> Any:
    """Two layers of width 32."""
    settings = {
        "vocab_size": 300,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    } | changes
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        if kind == "qwen":
            return Qwen2ForCausalLM(Qwen2Config(**settings)).to(dtype)
        return LlamaForCausalLM(LlamaConfig(**settings)).to(dtype)


def with_fields(settings, **fields):
    """Return settings with other values of some fields."""
    return settings.model_copy(update=fields)
