"""Dataclasses as JSON values and back: one codec for what a store, an event or a report holds."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from skillwright.core.errors import DataError

if TYPE_CHECKING:  # loading it takes a tenth of a second, so that only who decodes waits for it
    from pydantic import ConfigDict, TypeAdapter, ValidationError

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
    """Say what is wrong first of all, and where in the value."""
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
