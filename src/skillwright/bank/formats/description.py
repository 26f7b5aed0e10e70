"""Replace the value of ``description`` in the frontmatter of a SKILL.md, and nothing else."""

import json
import re
from typing import Any

import yaml

from skillwright.bank.formats.agent_skills import split_frontmatter
from skillwright.core import DataError

_PLAIN = re.compile(r"[A-Za-z][^\n]*")
_LINE = re.compile(
    r"(?P<key>description[ \t]*:[ \t]*)(?P<value>[^\s'\"|>&*!\[{][^\r\n]*?)[ \t]*(?=\r?$)", re.M
)


def with_description(text: str, description: str, where: str) -> str:
    """Return a SKILL.md with another description; every other character stays.

    Args:
        text: The file, with its line ends.
        description: One line.
        where: The file's name, for messages.

    Raises:
        DataError: The frontmatter cannot be read, or its description cannot be replaced alone.
    """
    split_frontmatter(text, where)  # refuses what is no frontmatter
    at = re.match(r"\ufeff?---[ \t]*\r?\n", text)
    if at is None:
        raise DataError(f"{where}: there is something before its frontmatter; take it out")
    end = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(text, at.end())
    written = text[at.end() : end.start() if end else len(text)]
    begin, stop = _span(written, where)
    line_end = "\r\n" if "\r\n" in written else "\n"
    old = written[begin:stop]
    tail = line_end if old.endswith("\n") else ""  # a block ends with its line
    value = description
    if old[:1] in "'\"|>" or not _is_plain(description):
        value = json.dumps(description, ensure_ascii=False)
    new = written[:begin] + value + tail + written[stop:]
    _refuse_other_changes(written, new, description, where)
    return text[: at.end()] + new + text[at.end() + len(written) :]


def _span(written: str, where: str) -> tuple[int, int]:
    """Return where the value of the description begins and ends.

    Raises:
        DataError: There is none, or it is a reference to another value.
    """
    try:
        root: Any = yaml.compose(written, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        root = None
    if not isinstance(root, yaml.MappingNode):
        # Often a value with a colon that is not in quotes, which most clients do not read.
        if line := _LINE.search(written):
            return line.start("value"), line.end("value")
        raise DataError(f"{where}: its frontmatter is no map in YAML; quote its values")
    found = [(key, value) for key, value in root.value if key.value == "description"]
    if not found:
        raise DataError(
            f"{where}: its frontmatter has no description; write a first one, in a line "
            "description: ..."
        )
    if len(found) > 1:
        raise DataError(f"{where}: description stands there twice; take one out")
    (key, value) = found[0]
    between = written[key.end_mark.index : value.start_mark.index]
    if not isinstance(value, yaml.ScalarNode) or not re.fullmatch(r"\s*:\s*", between):
        raise DataError(f"{where}: its description is no text of its own; write it as one line")
    return value.start_mark.index, value.end_mark.index


def _is_plain(text: str) -> bool:
    """Tell whether YAML reads a text as itself without quotes."""
    try:
        return bool(_PLAIN.fullmatch(text)) and yaml.safe_load(f"a: {text}") == {"a": text}
    except yaml.YAMLError:
        return False


def _refuse_other_changes(old: str, new: str, description: str, where: str) -> None:
    """Raise `DataError` if another field would change, as where it refers to the description."""
    before, after = _loaded(old), _loaded(new)
    if before is None and after is None:
        raise DataError(
            f"{where}: its frontmatter cannot be read as YAML even with another description; put "
            "its other values in quotes"
        )
    if before is not None and {**before, "description": description} != after:
        raise DataError(f"{where}: other fields refer to its description; write them out")
    if not isinstance(after, dict) or after.get("description") != description:
        raise DataError(f"{where}: its description cannot be replaced alone; write it as one line")


def _loaded(written: str) -> dict[str, Any] | None:
    try:
        found = yaml.safe_load(written)
    except (yaml.YAMLError, ValueError):
        return None
    return found if isinstance(found, dict) else None
