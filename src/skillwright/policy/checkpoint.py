"""A training checkpoint: all state of the next step, in one file that is written atomically.

skillwright checkpoint 2 <sha-256 of the rest>
<length of the head> <head: JSON>
<length of the tree> <tree: JSON; the policy's state, tensors by number> <tensors>

Tensors are written in small pieces and memory-mapped for reading, so that no second copy of the
weights is held. Loading JSON and raw numbers cannot execute code, unlike pickle.
"""

import hashlib
import io
import json
import math
import mmap
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import torch

from skillwright.core.jsonio import dumps
from skillwright.policy.backend import BankVersionGone, CheckpointDamaged

_FIRST_LINE: Final = b"skillwright checkpoint %d %b\n"
_VERSION: Final = 2
_LONGEST_FIRST_LINE: Final = 200
_LONGEST_HEAD: Final = 10_000
_ALIGNED: Final = 64  # bytes; alignment of mapped tensors
_LONGEST_REASON: Final = 200
_PIECE: Final = 1 << 24  # bytes written or hashed at once

_DTYPES: Final = {
    str(dtype): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.bfloat16, torch.float16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
_Buffer = bytearray | mmap.mmap


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a training run between two steps.

    Attributes:
        policy: `PolicyBackend.state`: mappings, lists and tuples of tensors and plain values.
            Tensors from a file are memory-mapped: copy them.
        iteration: Completed steps.
        bank_version: Bank version of the next step; ``None`` without a bank.
        bank_digest: Digest of that version.
    """

    policy: Mapping[str, Any]
    iteration: int = 0
    bank_version: int | None = None
    bank_digest: str = ""


def pack(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as bytes, held in memory."""
    file = io.BytesIO()
    _write(file, checkpoint)
    return file.getvalue()


def unpack(packed: bytes, name: str = "this checkpoint") -> Checkpoint:
    """Read the bytes of `pack`."""
    return _read(bytearray(packed), name)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically.

    Raises:
        OSError: The folder cannot be written or the disk is full; the old file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the target's folder, because a rename is atomic only within a file system. A killed process
    # leaves it behind; the resumed run overwrites it.
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            _write(file, checkpoint)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_checkpoint(path: Path, bank_versions: Container[int] | None = None) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointDamaged: The file is missing, cut or changed.
        BankVersionGone: The bank does not have the version of the next step.
    """
    try:
        checkpoint = _read(_mapped(path), f"checkpoint {str(path)!r}")
    except OSError as error:
        raise CheckpointDamaged(
            f"checkpoint {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    version = checkpoint.bank_version
    if bank_versions is not None and version is not None and version not in bank_versions:
        raise BankVersionGone(
            f"checkpoint {str(path)!r} was trained with version {version} of its skill bank, and "
            "the bank does not have it: restore the bank's file that belongs to this run"
        )
    return checkpoint


def _mapped(path: Path) -> _Buffer:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return bytearray()  # an empty file cannot be mapped
        # Copy on write, so that the file is not changed.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


class _Digested:
    """A sequentially written file with a running digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._total, self._size = file, hashlib.sha256(), 0

    def write(self, part: bytes | memoryview) -> None:
        self._file.write(part)
        self._total.update(part)
        self._size += len(part)

    def fill(self, multiple: int, before: int) -> None:
        """Write zeros up to an aligned position; ``before`` bytes of the file precede this part."""
        self.write(bytes(-(before + self._size) % multiple))

    def hexdigest(self) -> str:
        return self._total.hexdigest()


def _write(file: BinaryIO, checkpoint: Checkpoint) -> None:
    facts = {
        "iteration": checkpoint.iteration,
        "bank_version": checkpoint.bank_version,
        "bank_digest": checkpoint.bank_digest,
    }
    head, tensors = dumps(facts).encode(), _Tensors()
    tree = {"tree": tensors.plain(checkpoint.policy), "tensors": tensors.table()}
    body = json.dumps(tree, separators=(",", ":")).encode()
    first = _FIRST_LINE % (_VERSION, bytes(64))  # the digest is filled in at the end
    file.write(first)
    digested = _Digested(file)
    digested.write(b"%d %b\n" % (len(head), head))
    digested.write(b"%d %b\n" % (len(body), body))
    for tensor in tensors.all:
        digested.fill(_ALIGNED, len(first))
        for piece in _pieces(tensor):
            digested.write(piece)
    end = file.tell()
    file.seek(0)
    file.write(_FIRST_LINE % (_VERSION, digested.hexdigest().encode()))
    file.seek(end)


def _pieces(tensor: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a tensor in small parts; on a CPU without a copy."""
    line = tensor.detach().reshape(-1)
    for piece in torch.split(line, max(1, _PIECE // line.element_size())):
        # Bytes as they are: numpy has no bfloat16.
        yield piece.cpu().view(torch.uint8).numpy().data


def _read(whole: _Buffer, name: str) -> Checkpoint:
    end = whole.find(b"\n", 0, _LONGEST_FIRST_LINE) + 1
    first = bytes(whole[:end])
    if not first.startswith(_FIRST_LINE[:-3] % _VERSION):
        raise CheckpointDamaged(
            f"{name} is no checkpoint of this version of Skillwright; start again from the one "
            "before it"
        )
    if first != _FIRST_LINE % (_VERSION, _digest(whole, end).encode()):
        raise CheckpointDamaged(
            f"{name} is damaged: its digest is not that of its content ({len(whole)} bytes). "
            "Start again from the one before it"
        )
    try:
        begin = whole.find(b"\n", end, end + _LONGEST_HEAD) + 1
        head = json.loads(bytes(whole[end:begin]).partition(b" ")[2])
        facts = head["iteration"], head["bank_version"], head["bank_digest"]
        return _checked(Checkpoint(_state(whole, begin), *facts))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise CheckpointDamaged(
            f"{name} was not written by this version of Skillwright (its head: {error}); continue "
            "with the version that wrote it, or start again from the one before it"
        ) from error


def _checked(read: Checkpoint) -> Checkpoint:
    """Refuse invalid facts: the digest of a forged file may be right."""
    version = 0 if read.bank_version is None else read.bank_version
    if not (_is_count(read.iteration) and _is_count(version) and isinstance(read.bank_digest, str)):
        raise ValueError("its iteration, bank version or bank digest cannot be")
    return read


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _digest(whole: _Buffer, begin: int) -> str:
    total = hashlib.sha256()
    with memoryview(whole) as view:
        for at in range(begin, len(whole), _PIECE):
            total.update(view[at : at + _PIECE])
    return total.hexdigest()


class _Tensors:
    """The distinct tensors of a state."""

    def __init__(self) -> None:
        self.all: list[torch.Tensor] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def plain(self, value: Any) -> Any:
        """Return a value as JSON; other types are marked by a letter."""
        match value:
            case torch.Tensor():
                return {"x": self._number(value)}
            case Mapping():
                return {"d": [[self.plain(key), self.plain(one)] for key, one in value.items()]}
            case tuple():
                return {"t": [self.plain(one) for one in value]}
            case list():
                return [self.plain(one) for one in value]
            case None | bool() | int() | float() | str():
                return value
            case _:
                raise TypeError(f"a checkpoint holds no {type(value).__name__}: {value!r:.80}")

    def table(self) -> list[tuple[str, list[int]]]:
        """Return dtype and shape of each tensor, in file order."""
        return [(str(one.dtype), list(one.shape)) for one in self.all]

    def _number(self, tensor: torch.Tensor) -> int:
        # Tied weights are stored once.
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        if not tensor.numel() or key not in self._known:
            self._known[key] = len(self.all)
            self.all.append(tensor)
        return self._known[key]


def _state(whole: _Buffer, begin: int) -> Mapping[str, Any]:
    """Return the state, with mapped tensors."""
    space = whole.find(b" ", begin, begin + _LONGEST_FIRST_LINE)
    end = space + 1 + int(whole[begin:space])
    body = json.loads(bytes(whole[space + 1 : end]))
    tensors, at = [], end + 1
    for kind, shape in body["tensors"]:
        at += -at % _ALIGNED
        tensor, at = _tensor(whole, at, _DTYPES[kind], shape)
        tensors.append(tensor)
    if at != len(whole):
        raise ValueError("its tensors are longer or shorter than the file")
    tree = _restored(body["tree"], tensors)
    if not isinstance(tree, dict):
        raise TypeError("its policy is no mapping")
    return tree


def _tensor(
    whole: _Buffer, at: int, dtype: torch.dtype, shape: Sequence[int]
) -> tuple[torch.Tensor, int]:
    if not all(_is_count(size) for size in shape):
        raise ValueError(f"a tensor has the shape {shape!r:.80}")
    count = math.prod(shape)
    end = at + count * dtype.itemsize
    if end > len(whole):
        raise ValueError("its tensors are longer than the file")
    if not count:
        return torch.empty(tuple(shape), dtype=dtype), end
    return torch.frombuffer(whole, dtype=dtype, count=count, offset=at).reshape(tuple(shape)), end


def _restored(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    match value:
        case {"x": int(number)}:
            return tensors[number]
        case {"d": pairs}:
            return {_restored(key, tensors): _restored(one, tensors) for key, one in pairs}
        case {"t": values}:
            return tuple(_restored(one, tensors) for one in values)
        case list():
            return [_restored(one, tensors) for one in value]
        case _:
            return value


@contextmanager
def fitting(same: str) -> Iterator[None]:
    """Convert errors of an unsuitable snapshot into one that names the cause."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointDamaged(
            f"this is no snapshot of this policy: {_reason(error)} Load it into a policy of the "
            f"same {same}, or start again from the checkpoint before it"
        ) from error


def _reason(error: Exception) -> str:
    """Return the cause in one short sentence."""
    if isinstance(error, KeyError):
        return f"it has no {error}."
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if len(said) <= _LONGEST_REASON:
        return f"{said}."
    return f"{said[:_LONGEST_REASON].rstrip(' .,')}..."
