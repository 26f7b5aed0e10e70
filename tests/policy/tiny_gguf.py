"""A tiny random model as a GGUF file, as the converter of llama.cpp writes one."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from policy.tiny_models import TEMPLATE, tiny_model, tiny_tokenizer

_CONTROL, _NORMAL = 3, 1
_SPLITS = {"llama": "smollm", "qwen2": "qwen2"}


def write_tiny_gguf(path: Path, architecture: str = "llama", **changes: Any) -> Any:
    """Write it, and return the model that is in it.

    Queries and keys of a llama are turned as llama.cpp wants them: of each head, the numbers of its
    two halves in turn.
    """
    import gguf

    kind, size = "llama" if architecture == "llama" else "qwen", len(tiny_tokenizer())
    model = tiny_model(kind, vocab_size=size, **changes)
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(0)
    _add_tokenizer(writer, architecture)
    names = gguf.get_tensor_name_map(
        {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}[architecture],
        config.num_hidden_layers,
    )
    heads = {".attn_q.": config.num_attention_heads, ".attn_k.": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        other, values = names.get_name(name, try_suffixes=(".weight", ".bias")), tensor.numpy()
        for mark, count in heads.items():
            if architecture == "llama" and mark in other:
                rows = [
                    head.reshape(2, -1, *values.shape[1:])[half, at]
                    for head in np.split(values, count)
                    for at in range(values.shape[0] // count // 2)
                    for half in (0, 1)
                ]
                values = np.stack(rows)
        writer.add_tensor(other, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _add_tokenizer(writer: Any, architecture: str) -> None:
    tokenizer = tiny_tokenizer()
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    special = {one["content"] for one in inner["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_SPLITS[architecture])
    writer.add_token_list(tokens)
    writer.add_token_types([_CONTROL if one in special else _NORMAL for one in tokens])
    writer.add_token_merges([" ".join(pair) for pair in inner["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
