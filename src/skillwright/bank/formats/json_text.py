"""JSON that somebody hands us, read strictly: what could not be written again is refused."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from skillwright.core import DataError, SkillKind


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


def read_sections(
    document: Mapping[str, Any], where: str, general: str, by_category: Sequence[str], lessons: str
) -> Iterator[tuple[list[Any], SkillKind, str, str]]:
    """Yield each list of items of a bank's document, with its kind, its category and its name.

    Args:
        document: The document; a section that is not there or null has no items.
        where: Names it in messages.
        general: The key of the general skills.
        by_category: Keys of objects that hold lists by category.
        lessons: The key of the lessons.

    Raises:
        DataError: A section is no list, or no object of categories.
    """
    yield _items(document.get(general), where, general), SkillKind.GENERAL, "", general
    for key in by_category:
        categories = {} if document.get(key) is None else document[key]
        if not isinstance(categories, Mapping):
            raise DataError(f"{where}: {key} is no object of categories")
        for category, items in categories.items():
            name = f"{key}[{category!r}]"
            yield _items(items, where, name), SkillKind.TASK_SPECIFIC, str(category), name
    yield _items(document.get(lessons), where, lessons), SkillKind.LESSON, "", lessons


def _items(value: object, where: str, name: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise DataError(f"{where}: {name} is no list")
    return value or []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
