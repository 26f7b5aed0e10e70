"""Everything that the next training step depends on, in one file that is there whole or not at all.

skillwright checkpoint 1 <sha-256 of the rest>
<length of the head> <head: JSON> <policy: the backend's snapshot>
"""

import hashlib
import io
import json
import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillwright.core.jsonio import dumps
from skillwright.policy.errors import BankVersionGone, CheckpointDamaged

_FORMAT = b"skillwright checkpoint 1 "
_LONGEST_FIRST_LINE = 200
_LONGEST_HEAD = 10_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a training run between two steps.

    Attributes:
        policy: `PolicyBackend.snapshot`: weights, optimiser, reference, random state.
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
    told = {
        "iteration": checkpoint.iteration,
        "bank_version": checkpoint.bank_version,
        "bank_digest": checkpoint.bank_digest,
    }
    head = dumps(told).encode()
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
            f"{name} was not written by this version of Skillwright (its head: {error}); go on "
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
