"""JSON, digests and files: the same bytes for the same value, and never half a file."""

import hashlib
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillwright.core.errors import DataError

# Built once: making an encoder takes longer than encoding a message.
_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return JSON text with keys in insertion order and non-ASCII kept.

    Raises:
        ValueError: The value holds NaN or an infinity, which JSON cannot carry.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)


def canonical(value: Any) -> str:
    """Return JSON text that is equal for equal values: sorted keys, no spaces."""
    return _CANONICAL.encode(value)


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical form as 64 hexadecimal digits."""
    return text_digest(canonical(value))


def read_text(path: Path, what: str) -> str:
    """Read a UTF-8 file that a person named: its text as it is, line breaks included.

    Raises:
        DataError: The file is missing, is a folder, cannot be read, or is not UTF-8
            (the message gives the byte offset).
    """
    try:
        # Asked before it is opened: a pipe is waited for without end, and a device has no end.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(f"{what} {str(path)!r} is a pipe or a device; name a regular file.")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(
            f"{what} {str(path)!r} is not UTF-8: byte {error.start} is 0x{byte:02x}. "
            "Save it as UTF-8 and try again."
        ) from error
    except OSError as error:
        raise DataError(f"{what} {str(path)!r} cannot be read: {_why(path, error)}") from error


def write_text(path: Path, body: str) -> None:
    """Write a UTF-8 file so that a reader sees the old bytes or the new ones, never a mixture.

    Raises:
        OSError: The folder is missing or the disk is full; the old file is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The temporary file sits next to its target because os.replace is only atomic within one
    # filesystem, and the system's temporary folder is often another.
    # It is named by its writer, so that two writers never share one, and opened plainly, so that
    # the result has the permissions of any other file (mkstemp would keep readers out).
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # the name that a person knows
        raise


def _why(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        near = path.parent
        while not near.exists():
            near = near.parent
        return f"there is no such file (the nearest folder that exists is {str(near)!r})."
    if path.is_dir():
        return "it is a folder; name the file inside it."
    return f"{error.strerror}."
