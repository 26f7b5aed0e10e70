"""The YAML at the top of a SKILL.md: written strictly, read leniently.

Source: the Agent Skills standard (agentskills.io). Clients differ in what they forgive, so every
value is quoted, and nothing but the standard's keys is written.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from skillwright.core import DataError

NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1024

_LONGEST = 50_000  # reading YAML takes a second per 100 KB
_BLOCK = re.compile(r"^---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^(?P<key>[\w-]+):[ \t]+(?P<value>[^\s'\"|>\[{].*)$", re.MULTILINE)


def write_frontmatter(name: str, description: str, metadata: Mapping[str, str]) -> str:
    """Write the lines from ``---`` to ``---``.

    A JSON text is a YAML text too, whatever colons, hashes and hyphens are in it.
    """
    lines = [f"name: {_quoted(name)}", f"description: {_quoted(description)}", "metadata:"]
    lines += [f"  {key}: {_quoted(value)}" for key, value in metadata.items()]
    return "\n".join(["---", *lines, "---", ""])


def read_frontmatter(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Split a SKILL.md into its fields and its body.

    Raises:
        DataError: It has no frontmatter, one that is too long, or one that is no map in YAML even
            with its values quoted.
    """
    plain = text.lstrip("\ufeff").replace("\r\n", "\n")
    block = _BLOCK.match(plain)
    if block is None:
        raise DataError(f"{where}: it does not begin with frontmatter between two lines of ---")
    if len(block["yaml"]) > _LONGEST:
        raise DataError(f"{where}: its frontmatter is longer than {_LONGEST:,} characters")
    fields = _parsed(block["yaml"])
    if fields is None:  # a colon in a value is the usual reason
        fields = _parsed(_PLAIN_VALUE.sub(_requoted, block["yaml"]))
    if fields is None:
        raise DataError(f"{where}: its frontmatter is no map in YAML; quote its values")
    return fields, plain[block.end() :]


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _requoted(line: re.Match[str]) -> str:
    return f"{line['key']}: {_quoted(line['value'].strip())}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)
