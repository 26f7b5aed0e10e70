"""JSON values that cannot be changed, so that any number of episodes can share them."""

from typing import Any, NoReturn

_REFUSAL = "this record is shared by every episode and cannot be changed; put a new one instead"


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; JSON encoders and ``==`` take it for a plain one."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(_REFUSAL)

    def __delitem__(self, key: Any) -> NoReturn:
        raise TypeError(_REFUSAL)

    def __ior__(self, other: Any) -> NoReturn:  # type: ignore[misc]  # it never returns
        raise TypeError(_REFUSAL)

    def clear(self) -> NoReturn:
        """Refuse."""
        raise TypeError(_REFUSAL)

    def pop(self, *args: Any) -> NoReturn:
        """Refuse."""
        raise TypeError(_REFUSAL)

    def popitem(self) -> NoReturn:
        """Refuse."""
        raise TypeError(_REFUSAL)

    def setdefault(self, *args: Any) -> NoReturn:
        """Refuse."""
        raise TypeError(_REFUSAL)

    def update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        raise TypeError(_REFUSAL)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuilds a dict by setting its items, which this one refuses.
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Return a JSON value with every object a `FrozenDict` and every array a tuple."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(freeze(inner) for inner in value)
    return value
