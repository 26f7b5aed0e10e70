"""Save a policy as a folder or file for other programs, atomically."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from skillwright.core import ConfigError, RunError
from skillwright.policy.hf.loading import without_bars
from skillwright.policy.hf.policy import HfPolicy

GgufKind = Literal["q8_0", "f16", "f32"]
GGUF_NAME = "model.gguf"

_PERMUTES = {"llama": True, "qwen2": False}
"""Architectures whose GGUF is written; whether llama.cpp turns queries and keys another way."""
_DTYPES: Mapping[GgufKind, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32}
_Q8_BLOCK = 32
"""Values of a row that share a scale."""
_LEFT_OUT = ("general.architecture", "general.file_type", "general.quantization_version")


def save_folder(policy: HfPolicy, folder: Path, card: str, *, adapter: bool = False) -> None:
    """Write a policy as transformers' ``save_pretrained`` does, with its model card.

    The folder has the trained weights (safetensors), tokenizer, chat template, end tokens, and
    ``README.md``. Generation settings are neutral: a repetition penalty would change the policy.

    Args:
        policy: The policy to write.
        folder: Must not exist.
        card: The text of ``README.md``.
        adapter: Write the LoRA adapter separately; by default it is merged into the base's weights.

    Raises:
        ConfigError: The folder exists, or the policy has no adapter.
        RunError: The folder cannot be written; it is removed.
    """
    weights, adapted = policy.weights, policy.settings.lora is not None
    if adapter and not adapted:
        raise ConfigError(
            "this policy has no adapter: all of its weights were trained; save it without --adapter"
        )
    with _whole(folder) as part, without_bars():
        part.mkdir()
        if adapter:
            weights.model.save_pretrained(
                str(part), selected_adapters=["default"], save_embedding_layers=False
            )
        else:
            base = weights.model.get_base_model() if adapted else weights.model
            kept, base.generation_config = base.generation_config, _generation(policy)
            try:
                base.save_pretrained(str(part), state_dict=dict(merged(policy)))
            finally:
                base.generation_config = kept
        policy.speech.tokenizer.save_pretrained(str(part))
        (part / "README.md").write_text(card, encoding="utf-8")
        for path in part.iterdir():
            path.chmod(0o644)  # safetensors keeps other users out


def save_gguf(
    policy: HfPolicy, original: Path, folder: Path, kind: GgufKind = "f16", card: str = ""
) -> Path:
    """Write a policy that came from a GGUF file as one, for llama.cpp and ``backend: local``.

    Vocabulary, chat template and other metadata are the original's. An adapter is merged.

    Args:
        policy: The policy to write.
        original: The GGUF file of its base model.
        folder: Must not exist; it gets ``model.gguf`` and ``README.md``.
        kind: Format of matrices; vectors are float32. ``q8_0``: 8 bits and a scale per 32 values of
            a row, and float16 for rows whose length is not a multiple of 32.
        card: The text of ``README.md``.

    Returns:
        The file.

    Raises:
        ConfigError: The folder exists, or the architecture is not supported.
        RunError: The folder cannot be written; it is removed.
    """
    try:
        import gguf
    except ImportError as error:
        raise ConfigError(
            "to write weights as GGUF, install gguf:  pip install 'skillwright[gguf]'"
        ) from error
    reader: Any = gguf.GGUFReader(original)
    architecture = reader.fields["general.architecture"].contents()
    if architecture not in _PERMUTES:
        raise ConfigError(
            f"a GGUF of architecture {architecture!r} is not written here (only "
            f"{', '.join(sorted(_PERMUTES))}); save a folder, and convert it with "
            "convert_hf_to_gguf.py of llama.cpp"
        )
    names = _names(gguf, architecture, policy)
    with _whole(folder) as part:
        part.mkdir()
        writer: Any = gguf.GGUFWriter(part / GGUF_NAME, architecture)
        try:
            _copy_metadata(gguf, reader, writer, kind)
            _write_tensors(gguf, reader, writer, policy, names, kind)
        finally:
            writer.close()
        (part / "README.md").write_text(card, encoding="utf-8")
    return folder / GGUF_NAME


def _names(gguf: Any, architecture: str, policy: HfPolicy) -> dict[str, str]:
    """Return transformers' name of each tensor by GGUF's name."""
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    layers = policy.weights.config.num_hidden_layers
    known = gguf.get_tensor_name_map(kinds[architecture], layers)
    named = {}
    for name, _ in merged(policy):
        other = known.get_name(name, try_suffixes=(".weight", ".bias"))
        if other is None:
            raise ConfigError(f"tensor {name!r} has no name in a GGUF of {architecture!r}")
        named[other] = name
    return named


def _copy_metadata(gguf: Any, reader: Any, writer: Any, kind: GgufKind) -> None:
    for field in reader.fields.values():
        if field.name in _LEFT_OUT or field.name.startswith("GGUF."):
            continue
        first = field.types[0]
        inner = field.types[-1] if first == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), first, sub_type=inner)
    file_type = {"q8_0": "MOSTLY_Q8_0", "f16": "MOSTLY_F16", "f32": "ALL_F32"}[kind]
    writer.add_file_type(gguf.LlamaFileType[file_type])
    if kind == "q8_0":
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _write_tensors(
    gguf: Any, reader: Any, writer: Any, policy: HfPolicy, names: dict[str, str], kind: GgufKind
) -> None:
    """Write the policy's tensors one at a time, in the original's order."""
    tensors = dict(merged(policy))
    there = {one.name for one in reader.tensors}
    tied = {"output.weight"} if policy.weights.config.tie_word_embeddings else set()
    if lost := sorted(names.keys() - there - tied):
        raise ConfigError(f"the original has no tensor {lost[0]!r}, which the policy has")
    for one in reader.tensors:
        shape = tuple(int(size) for size in reversed(one.shape))
        mine = tensors.get(names.get(one.name, ""))
        if mine is not None and tuple(mine.shape) != shape:
            raise ConfigError(
                f"tensor {one.name!r} has shape {shape} in the original and {tuple(mine.shape)} in "
                "the policy; name the file that the policy came from"
            )
        if mine is None and one.tensor_type != 0:
            raise ConfigError(f"the policy has no tensor {one.name!r}, which the original has")
        _announce(gguf, writer, one.name, shape, _kind_of(shape, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for one in reader.tensors:
        mine = tensors.get(names.get(one.name, ""))
        if mine is None:
            writer.write_tensor_data(np.array(one.data))
            continue
        values = _as_gguf(one.name, mine, policy)
        stored = _kind_of(values.shape, kind)
        if stored == "q8_0":
            quantized = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.write_tensor_data(quantized)
        else:
            writer.write_tensor_data(values.astype(_DTYPES[stored]))


def _kind_of(shape: Sequence[int], kind: GgufKind) -> GgufKind:
    """Return the storage format of a tensor of this shape."""
    if len(shape) < 2:
        return "f32"
    return "f16" if kind == "q8_0" and shape[-1] % _Q8_BLOCK else kind


def _announce(gguf: Any, writer: Any, name: str, shape: tuple[int, ...], kind: GgufKind) -> None:
    """Add a tensor to the file's table, before any values."""
    if kind == "q8_0":
        q8_0 = gguf.GGMLQuantizationType.Q8_0
        in_bytes = gguf.quant_shape_to_byte_shape(shape, q8_0)
        size = int(np.prod(in_bytes))
        writer.add_tensor_info(name, in_bytes, np.dtype(np.uint8), size, raw_dtype=q8_0)
        return
    dtype = np.dtype(_DTYPES[kind])
    writer.add_tensor_info(name, shape, dtype, int(np.prod(shape)) * dtype.itemsize)


def _as_gguf(name: str, tensor: torch.Tensor, policy: HfPolicy) -> NDArray[np.float32]:
    """Return the values of a tensor in llama.cpp's order.

    Its queries and keys interleave the two halves of each head, which transformers concatenates
    (source: ``permute`` in ``convert_hf_to_gguf.py`` of llama.cpp).
    """
    values: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    config = policy.weights.config
    heads = {".attn_q.": config.num_attention_heads, ".attn_k.": config.num_key_value_heads}
    for mark, count in heads.items():
        if mark in name and _PERMUTES.get(config.model_type):
            halves = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
    return np.ascontiguousarray(values)


def merged(policy: HfPolicy) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights with the adapter merged, by the names of the model without an adapter."""
    weights = policy.weights
    if policy.settings.lora is None:
        yield from weights.model.state_dict().items()
        return
    base = weights.model.get_base_model()
    changed = {
        f"{name}.weight": module
        for name, module in base.named_modules()
        if "default" in getattr(module, "lora_A", ())
    }
    for name, tensor in base.state_dict().items():
        if ".lora_" in name:
            continue
        plain = name.replace(".base_layer.", ".")
        if plain in changed:
            with torch.no_grad():
                yield plain, tensor.float() + changed[plain].get_delta_weight("default").float()
        else:
            yield plain, tensor


def _generation(policy: HfPolicy) -> Any:
    from transformers import GenerationConfig

    mine = policy.weights.model.generation_config
    make: Any = GenerationConfig
    return make(
        bos_token_id=mine.bos_token_id,
        eos_token_id=sorted(policy.speech.stop_ids),
        pad_token_id=policy.speech.tokenizer.pad_token_id,
        max_new_tokens=policy.settings.max_new_tokens,
        do_sample=False,
    )


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to the target at the end; refuse an existing target."""
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists, and nothing is overwritten; name another")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.rename(path)  # refused where a folder came in between, unless it is empty
    except OSError as error:
        raise RunError(
            f"{str(path)!r} cannot be written: {error.strerror or error}; nothing is left of it"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
