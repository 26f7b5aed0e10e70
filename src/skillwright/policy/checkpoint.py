"""Everything that the next training step depends on, in one file that is there whole or not at all.

skillwright checkpoint 1 <sha-256 of the rest>
<length of the head> <head: JSON> <policy: the backend's snapshot>
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import torch

from skillwright.core.jsonio import dumps
from skillwright.policy.backend import BankVersionGone, CheckpointDamaged

_FORMAT = b"skillwright checkpoint 1 "
_LONGEST_FIRST_LINE = 200
_LONGEST_HEAD = 10_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a training run between two steps.

    Attributes:
        policy: `PolicyBackend.snapshot`: weights, optimizer, reference, random state.
        iteration: Steps that are done.
        bank_version: The version of the skill bank that the next step is played with; ``None``
            for no bank.
        bank_digest: Its digest, so that another bank of the same number is noticed.
    """

    policy: bytes
    iteration: int = 0
    bank_version: int | None = None
    bank_digest: str = ""


def pack(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as bytes."""
    return b"".join(_parts(checkpoint))


def unpack(packed: bytes, name: str = "this checkpoint") -> Checkpoint:
    """Read what `pack` wrote."""
    return _read(io.BytesIO(packed), name)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint: a reader finds the old one or the new one.

    Raises:
        OSError: The folder cannot be written or the disk is full; the old one is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its target, because a move is atomic within one file system only. A killed writer
    # leaves it behind; the run that is resumed writes it anew.
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.writelines(_parts(checkpoint))
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
        BankVersionGone: The bank has lost the version that the next step is played with.
    """
    try:
        with path.open("rb") as file:
            checkpoint = _read(file, f"checkpoint {str(path)!r}")
    except OSError as error:
        raise CheckpointDamaged(
            f"checkpoint {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    version = checkpoint.bank_version
    if bank_versions is not None and version is not None and version not in bank_versions:
        raise BankVersionGone(
            f"checkpoint {str(path)!r} was trained with version {version} of its skill bank, and "
            "the bank does not have it: bring back the bank's file that belongs to this run"
        )
    return checkpoint


def _parts(checkpoint: Checkpoint) -> tuple[bytes, bytes, bytes]:
    """Return what a file holds, without a copy of the policy: it may be most of the memory."""
    facts = {
        "iteration": checkpoint.iteration,
        "bank_version": checkpoint.bank_version,
        "bank_digest": checkpoint.bank_digest,
    }
    head = dumps(facts).encode()
    line = b"%d %b\n" % (len(head), head)
    digest = _digest(line, checkpoint.policy).encode()
    return _FORMAT + digest + b"\n", line, checkpoint.policy


def _read(file: BinaryIO, name: str) -> Checkpoint:
    first = file.readline(_LONGEST_FIRST_LINE)
    if not first.startswith(_FORMAT):
        raise CheckpointDamaged(
            f"{name} is no checkpoint of this version of Skillwright; start again from the one "
            "before it"
        )
    line, begin = file.readline(_LONGEST_HEAD), file.tell()
    # A read of unknown length holds all of it twice.
    length = file.seek(0, os.SEEK_END) - begin
    file.seek(begin)
    policy = file.read(length)
    if first != _FORMAT + _digest(line, policy).encode() + b"\n":
        raise CheckpointDamaged(
            f"{name} is damaged: its digest is not that of its content ({file.tell()} bytes). "
            "Start again from the one before it"
        )
    try:
        head = json.loads(line.partition(b" ")[2])
        return _checked(
            Checkpoint(policy, head["iteration"], head["bank_version"], head["bank_digest"])
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        # Its digest is right, so this is what was written.
        raise CheckpointDamaged(
            f"{name} was not written by this version of Skillwright (its head: {error}); continue "
            "with the version that wrote it, or start again from the one before it"
        ) from error


def _checked(read: Checkpoint) -> Checkpoint:
    """Refuse numbers that are none: what was written by hand has a right digest too."""
    version = 0 if read.bank_version is None else read.bank_version
    if not (_is_count(read.iteration) and _is_count(version) and isinstance(read.bank_digest, str)):
        raise ValueError("its iteration, bank version or bank digest cannot be")
    return read


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _digest(line: bytes, policy: bytes) -> str:
    total = hashlib.sha256(line)
    total.update(policy)
    return total.hexdigest()


# A policy as bytes: a backend looks whether every part fits before it takes anything over.


_LONGEST_REASON = 200
_MOMENTS = ("exp_avg", "exp_avg_sq")


def packed(state: Mapping[str, Any]) -> bytes:
    """Return tensors and plain values as bytes."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    return file.getvalue()


def unpacked(state: bytes) -> Mapping[str, Any]:
    """Read what `packed` wrote, with its tensors on the CPU."""
    try:
        _refuse_packed(state)
        # Tensors and plain values alone: a checkpoint runs no code.
        kept = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a changed byte may lead the reader anywhere
        raise CheckpointDamaged(
            f"these {len(state):,} bytes are no snapshot of this policy (they are cut or changed); "
            "start again from the checkpoint before it"
        ) from error
    if not isinstance(kept, Mapping):
        raise CheckpointDamaged(
            f"these {len(state):,} bytes are no snapshot of this policy (they hold a "
            f"{type(kept).__name__}); start again from the checkpoint before it"
        )
    return kept


def _refuse_packed(state: bytes) -> None:
    """Refuse what would take more memory than it has bytes: torch writes all parts uncompressed."""
    with zipfile.ZipFile(io.BytesIO(state)) as archive:
        parts = archive.infolist()
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError("a part of it is compressed")


@contextmanager
def fitting(same: str) -> Iterator[None]:
    """Turn whatever does not fit in a snapshot into one error that says what."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointDamaged(
            f"this is no snapshot of this policy: {_reason(error)} Load it into a policy of the "
            f"same {same}, or start again from the checkpoint before it"
        ) from error


def fill_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Take over what an AdamW's ``state_dict`` returned.

    torch itself looks at the number of parameters alone, and fails at the next step, or begins
    anew. Here it is checked that each moment belongs to a parameter, is there and has its shape,
    and that each setting is there; values of settings are not judged.
    """
    optimizer.load_state_dict(dict(state))
    mine = [group["params"] for group in optimizer.state_dict()["param_groups"]]
    theirs = [group["params"] for group in state["param_groups"]]
    if theirs != mine or not state["state"].keys() <= set(chain.from_iterable(mine)):
        raise ValueError("its optimizer is of other weights")
    for group in optimizer.param_groups:
        if missing := sorted(optimizer.defaults.keys() - group.keys()):
            raise ValueError(f"its optimizer does not say {', '.join(missing)}")
        for number, weight in enumerate(group["params"]):
            kept = optimizer.state.get(weight)
            if not kept:  # no step has moved it yet
                continue
            shapes = [getattr(kept.get(name), "shape", None) for name in _MOMENTS]
            if "step" not in kept or shapes != [weight.shape] * len(_MOMENTS):
                raise ValueError(
                    f"its optimizer remembers weight {number} of a group in another shape, or in "
                    "part"
                )


def _reason(error: Exception) -> str:
    """Return what went wrong in one short sentence."""
    if isinstance(error, KeyError):
        return f"it has no {error}."
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if len(said) <= _LONGEST_REASON:
        return f"{said}."
    return f"{said[:_LONGEST_REASON].rstrip(' .,')}..."
