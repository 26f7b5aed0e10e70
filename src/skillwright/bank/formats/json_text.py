"""JSON that somebody hands us, read strictly: what could not be written again is refused."""

import json
from collections import Counter
from typing import Any, NoReturn

from skillwright.core import DataError


def read_json(text: str, where: str) -> Any:
    """Read a JSON value.

    Args:
        text: The document.
        where: Names it in messages.

    Raises:
        DataError: It is no JSON, or holds NaN, an infinity, half a surrogate pair, or a key twice
            in one object, of which one value would be lost.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
        # An escape in ASCII may stand for what no file and no endpoint takes.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"{where} holds {half!r}, half a surrogate pair; take it out") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
