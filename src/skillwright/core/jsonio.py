"""JSON: the same bytes for the same value, dataclasses as JSON, and never half a file."""

import hashlib
import json
import os
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from skillwright.core.errors import DataError

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter, ValidationError


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


T = TypeVar("T")

REFUSE_UNKNOWN: Final["ConfigDict"] = {"extra": "forbid"}
"""As ``__pydantic_config__`` of a dataclass: `decode` refuses keys without a field."""

_LONGEST_SHOWN = 80


class NotDecodable(DataError, ValueError):
    """A stored value is not what its type says."""


class JsonRecord:
    """A dataclass that is stored as the JSON object of its fields."""

    __slots__ = ()
    __pydantic_config__: ClassVar["ConfigDict"] = {"extra": "ignore"}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return encode_fields(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            NotDecodable: A field is missing or has a bad value.
        """
        return decode(cls, data)


def encode(value: Any) -> Any:
    """Return a value in JSON's types: objects of fields, lists, and the values of enums.

    A ``to_dict`` of its own goes before a dataclass's fields.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {encode(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(encode(item) for item in value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return encode_fields(value) if is_dataclass(value) else value


def encode_fields(record: Any) -> dict[str, Any]:
    """Return a dataclass as the JSON object of its fields, in their order."""
    kind: Any = type(record)
    return {name: encode(getattr(record, name)) for name in _names(kind)}


def decode(kind: type[T], data: Any, where: str = "") -> T:
    """Read a value of a type from JSON; a field that is missing takes its default.

    Keys without a field are dropped, unless the dataclass says `REFUSE_UNKNOWN`.

    Args:
        kind: A dataclass, or what else pydantic can validate.
        data: The JSON value.
        where: What is read, for messages; by default the type's name.

    Raises:
        NotDecodable: A value is missing, unknown or bad; the message names which.
    """
    from pydantic import ValidationError

    cached: Any = kind  # mypy takes a type for unhashable
    try:
        read: T = _adapter(cached).validate_python(data)
    except ValidationError as error:
        raise NotDecodable(f"{where or kind.__name__}: {_problem(error)}") from error
    return read


def _problem(error: "ValidationError") -> str:
    """Return the first error and its place in the value."""
    first = error.errors(include_url=False)[0]
    path = ".".join(map(str, first["loc"]))
    match first["type"]:
        case "missing":
            return f"{path!r} is missing"
        case "unexpected_keyword_argument":
            return f"{path!r} is unknown"
        case "value_error":
            return first["msg"].removeprefix("Value error, ")
    shown = repr(first["input"])[:_LONGEST_SHOWN]
    return f"{path}: {first['msg']}, not {shown}".removeprefix(": ")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


MOST_BYTES: Final = 64 << 20


class PackedDamaged(DataError):
    """A compressed text is damaged, cut, or stands for too much."""


def inflate(body: bytes, what: str, most: int = MOST_BYTES) -> bytes:
    """Unpack what zlib packed.

    Raises:
        PackedDamaged: It is damaged, cut short, or too large.
    """
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(body, most)
    except (zlib.error, TypeError) as error:
        raise PackedDamaged(f"{what} is damaged ({error}); restore its file from a copy") from error
    if reader.unconsumed_tail:
        raise PackedDamaged(
            f"{what} unpacks to more than {most:,} bytes, which nothing of ours does; restore its "
            "file from a copy"
        )
    if not reader.eof:
        raise PackedDamaged(f"{what} is cut; restore its file from a copy")
    return text
