"""Load a language model and its tokenizer from this machine.

A GGUF file is unpacked to float32 by transformers once, and stored as a `save_pretrained` folder in
the user's cache, named by the file's digest.
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from skillwright.core import DataError
from skillwright.core.waits import Wait, waiting
from skillwright.datasets import cache_dir
from skillwright.models import find_weights, read_gguf
from skillwright.policy.backend import ModelMissing, ModelUnfit

_READING: Final = 1
"""Increases when the conversion of a GGUF file changes."""
_ROOM: Final = 2
"""Weights are cached where this many times their size is free."""
_PLAIN_SPLITS: Final = frozenset({"gpt-2"})


def load_pretrained(name: str) -> tuple[nn.Module, Any]:
    """Load a causal language model and its tokenizer.

    Args:
        name: A `save_pretrained` folder, a GGUF file, an installed package with one, or a name on
            the hub.

    Returns:
        The model in float32 on the CPU, and the tokenizer.

    Raises:
        ModelMissing: It is not on this machine, or is damaged.
        ModelUnfit: Its weights and its tokenizer do not match.
    """
    source = gguf_source(name)
    with without_bars():
        if source is None:
            model, tokenizer = _from_folder(name)
        else:
            model, tokenizer = _from_gguf(source)
    _check_fit(name, model, tokenizer)
    return model, tokenizer


def gguf_source(name: str) -> Path | None:
    """Return the GGUF file of a model's name; ``None`` for a folder or a hub's name.

    Raises:
        ModelMissing: It looks like a GGUF file but is not one, or the package contains none.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return None
    is_file = path.suffix.lower() == ".gguf" or path.is_file()
    try:
        return find_weights(name)
    except DataError as error:
        if is_file or _is_installed(name):
            raise ModelMissing(f"policy.model: {error}") from error
        return None


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(name) is not None
    except (PackageNotFoundError, ValueError):
        return False


def _from_folder(name: str, *, plain: bool = False) -> tuple[nn.Module, Any]:
    """Load a `save_pretrained` folder; ``plain`` skips the conversion of its tokenizer."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    # Explicit: the library would ask at the terminal whether to run a model's own code.
    where = {"local_files_only": True, "trust_remote_code": False}
    try:
        reader: Any = PreTrainedTokenizerFast if plain else AutoTokenizer
        tokenizer = reader.from_pretrained(name, **where)
        found: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, output_loading_info=True, **where
        )
    except (OSError, ValueError) as error:
        raise ModelMissing(
            f"base model {name!r} is not on this machine ({_first_line(error)}); `hf download "
            f"{name}` fetches it, or name a folder, a GGUF file or an installed package that holds "
            "it"
        ) from error
    except (SafetensorError, RuntimeError) as error:
        raise ModelUnfit(
            f"the weights in {name!r} cannot be read ({_first_line(error)}); they are cut, or of "
            "other shapes than its config.json says. Save or fetch the folder again"
        ) from error
    model, report = found
    if missing := sorted(report["missing_keys"]):
        # The library would fill them with random numbers, and warn.
        raise ModelUnfit(
            f"the weights in {name!r} lack {len(missing)} tensors ({missing[0]}, ...); they are of "
            "another model, or were saved in part. Save or fetch the folder again"
        )
    return model, tokenizer


def _from_gguf(path: Path) -> tuple[nn.Module, Any]:
    with waiting(f"reading {path.name}", "its weights are loaded"), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    kept = cache_dir() / "weights" / f"{digest[:32]}-{_READING}"
    if (kept / "config.json").is_file():
        with suppress(ModelMissing, ModelUnfit):  # damaged: it is made again
            return _from_folder(str(kept), plain=True)
        shutil.rmtree(kept, ignore_errors=True)
    with waiting(f"unpacking {path.name}", "the next time it is there at once") as wait:
        with _counted(wait):
            model, tokenizer = _read_gguf(path)
        return _kept(model, tokenizer, kept)


def _kept(model: Any, tokenizer: Any, kept: Path) -> tuple[nn.Module, Any]:
    """Cache an unpacked model if there is room."""
    size = sum(one.numel() * one.element_size() for one in model.parameters())
    with tempfile.TemporaryDirectory(prefix="skillwright-") as scratch:
        # Through files even without caching, so that the first load equals every later one.
        tokenizer.save_pretrained(scratch)
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            _remove_parts(kept.parent)
            if shutil.disk_usage(kept.parent).free > _ROOM * size:
                _keep(model, tokenizer, kept)
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast.from_pretrained(scratch, local_files_only=True)
    return model, tokenizer


def _keep(model: Any, tokenizer: Any, kept: Path) -> None:
    part = Path(tempfile.mkdtemp(prefix=f".part-{os.getpid()}-", dir=kept.parent))
    try:
        tokenizer.save_pretrained(part)
        model.save_pretrained(part)
        part.rename(kept)  # refused where another process was faster, whose folder is the same
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_parts(folder: Path) -> None:
    """Remove what processes that were killed had begun to write."""
    for part in folder.glob(".part-*") if sys.platform != "win32" else ():
        try:
            os.kill(int(part.name.split("-")[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(part, ignore_errors=True)
        except (PermissionError, ValueError):  # another user's process, or another program's folder
            continue


@contextmanager
def _counted(wait: Wait) -> Iterator[None]:
    """Note on a wait the share of the tensors that the library has unpacked."""
    from transformers.utils import logging

    def count(factory: Any, words: tuple[Any, ...], more: dict[str, Any]) -> Any:
        tensors = words[0] if words else more.get("iterable")
        is_counted = hasattr(tensors, "__len__")
        return _noted(tensors, wait) if is_counted else factory(*words, **more)

    library: Any = logging
    before = library.set_tqdm_hook(count)
    try:
        yield
    finally:
        library.set_tqdm_hook(before)


def _noted(tensors: Any, wait: Wait) -> Iterator[Any]:
    for number, one in enumerate(tensors):
        wait.share = number / len(tensors)
        yield one


def _read_gguf(path: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    architecture = read_gguf(path).architecture
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **where)
        _drop_foreign_tokens(tokenizer, path)
        _split_as_trained(tokenizer, path)
        with redirect_stderr(io.StringIO()):  # one bar is not among those that can be turned off
            model = AutoModelForCausalLM.from_pretrained(
                str(path.parent), dtype=torch.float32, **where
            )
    except ImportError as error:
        raise ModelMissing(
            f"to read weights from {path.name!r}, install gguf:  pip install 'skillwright[gguf]'"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelMissing(
            f"{str(path)!r} (architecture {architecture!r}) cannot be read as torch weights "
            f"({_first_line(error)}); name a folder with the same model as safetensors"
        ) from error
    # Otherwise the library treats the model as quantized.
    model.config.__dict__.pop("quantization_config", None)
    for mark in ("hf_quantizer", "is_quantized", "quantization_method"):
        model.__dict__.pop(mark, None)
    model.config._name_or_path = str(path)
    return model, tokenizer


def _drop_foreign_tokens(tokenizer: Any, path: Path) -> None:
    """Drop tokens that the library adds (5.23): the model has no embeddings for them."""
    inner, size = tokenizer.backend_tokenizer, read_gguf(path).metadata["tokenizer.ggml.tokens"]
    if inner.get_vocab_size() <= size["length"]:
        return
    state = json.loads(inner.to_str())
    state["added_tokens"] = [one for one in state["added_tokens"] if one["id"] < size["length"]]
    tokenizer._tokenizer = inner.from_str(json.dumps(state))


def _split_as_trained(tokenizer: Any, path: Path) -> None:
    """Configure the file's pre-tokenizer; transformers does not know all of them (5.23).

    Source: ``llama-vocab.cpp`` of llama.cpp.
    """
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    metadata = read_gguf(path).metadata
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        return
    split = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if split == "smollm":
        from tokenizers import pre_tokenizers

        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif split not in GGUF_PRE_TOKENIZER_SPLITS and split not in _PLAIN_SPLITS:
        raise ValueError(f"how its tokenizer splits text, {split!r}, is not known here")


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds a LoRA adapter."""
    return (folder / "adapter_config.json").is_file()


def with_weights(wanted: Mapping[str, torch.Size], folder: Path) -> nn.Module:
    """Return the model in a folder, whose weights must have these shapes.

    Raises:
        ModelUnfit: Shapes differ, or the weights are damaged.
    """
    with without_bars():
        found, _ = _from_folder(str(folder))
    shapes = shapes_of(found)
    differing = sorted(name for name in {*wanted, *shapes} if wanted.get(name) != shapes.get(name))
    if differing:
        one = differing[0]
        raise ModelUnfit(
            f"the weights in {str(folder)!r} are not of policy.model: {one!r} is "
            f"{_shape_text(shapes, one)} there and {_shape_text(wanted, one)} in the model"
        )
    return found


def with_adapter(model: Any, folder: Path) -> nn.Module:
    """Return a model with a folder's LoRA adapter merged into its weights.

    Raises:
        ModelUnfit: The adapter is of another model, or damaged.
    """
    from peft import PeftModel

    with _fitting_adapter(folder):
        merged: nn.Module = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
    return merged


def fill_adapter(adapted: Any, folder: Path, rank: int, alpha: int) -> None:
    """Load a folder's weights into the adapter that is trained.

    Raises:
        ModelUnfit: Rank, alpha, scale or layers differ.
    """
    from peft import PeftConfig, get_peft_model_state_dict, set_peft_model_state_dict
    from peft.utils import load_peft_weights

    with _fitting_adapter(folder):
        theirs: Any = PeftConfig.from_pretrained(str(folder))
        if (theirs.r, theirs.lora_alpha) != (rank, alpha):
            raise ValueError(
                f"its rank is {theirs.r} and its alpha {theirs.lora_alpha}, and policy.lora has "
                f"{rank} and {alpha}; set those, or leave policy.lora out to merge it"
            )
        if theirs.use_rslora or theirs.alpha_pattern:
            raise ValueError(
                "it is not scaled by alpha / rank everywhere (use_rslora, alpha_pattern), as "
                "policy.lora is; leave policy.lora out to merge it"
            )
        tensors = load_peft_weights(str(folder), device="cpu")
        mine = get_peft_model_state_dict(adapted)
        if {name: one.shape for name, one in tensors.items()} != {
            name: one.shape for name, one in mine.items()
        }:
            raise ValueError("it is on other layers, or of other shapes")
        set_peft_model_state_dict(adapted, tensors)


@contextmanager
def _fitting_adapter(folder: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        with warnings.catch_warnings():
            # peft uses a name that transformers has deprecated, and warns about missing adapter
            # weights.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            warnings.filterwarnings("error", "Found missing adapter keys")
            yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError, UserWarning) as error:
        raise ModelUnfit(
            f"the adapter in {str(folder)!r} does not fit policy.model ({_first_line(error)})"
        ) from error


def shapes_of(model: nn.Module) -> dict[str, torch.Size]:
    """Return the shapes of a model's weights by name."""
    return {name: one.shape for name, one in model.state_dict().items()}


def _shape_text(shapes: Mapping[str, torch.Size], name: str) -> str:
    return str(list(shapes[name])) if name in shapes else "missing"


def _check_fit(name: str, model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer with ids that the model has no embeddings for."""
    rows = model.get_input_embeddings().weight.shape[0]
    most = max(tokenizer.get_vocab().values(), default=-1)
    if most >= rows:
        raise ModelUnfit(
            f"the tokenizer of {name!r} has ids up to {most}, and the model has {rows} embeddings: "
            "it is of another model. Put the model's own tokenizer next to its weights"
        )
    settings = model.generation_config
    for kind in ("bos_token_id", "eos_token_id", "pad_token_id"):
        named = getattr(settings, kind, None)
        for one in named if isinstance(named, list) else [named]:
            if one is not None and not 0 <= one < rows:
                raise ModelUnfit(
                    f"{kind} of {name!r} is {one}, and the model has {rows} embeddings; correct "
                    "generation_config.json"
                )


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the library's progress bars, which would disturb the run's display."""
    from transformers.utils import logging

    bars: Any = logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
