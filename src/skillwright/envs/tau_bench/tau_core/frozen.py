"""JSON values that cannot be changed, so that any number of episodes can share them."""

from typing import Any, NoReturn


def _refuse(record: dict[str, Any], *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "this record is shared by every episode and cannot be changed; put a new one instead"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; JSON encoders and ``==`` take it for a plain one."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

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
