"""A skill document as the ``SKILL.md`` that agents at a command line load (agentskills.io).

Source of `render_skill_md`: SkillOpt (microsoft/SkillOpt).
"""

import re
from pathlib import Path

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.core.skill import with_line_feeds

SKILL_NAME = "skillopt-target"
DESCRIPTION = "What was learned about this job. Read it before you start on the task."
PREAMBLE = "Follow these instructions wherever they apply to the task."
CLIENT_FOLDERS = (".agents/skills", ".claude/skills")
"""Folders in which clients look for skills."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024


def render_skill_md(
    content: str, name: str = SKILL_NAME, description: str = DESCRIPTION, preamble: str = PREAMBLE
) -> str:
    """Write a skill document as a SKILL.md: frontmatter, title, preamble, body.

    ``name`` has 1 to 64 of ``a-z0-9-`` and ``description`` 1 to 1024 characters; otherwise a
    `DataError` is raised.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise DataError(
            f"skill name {name!r}: use 1 to {_LONGEST_NAME} lower-case letters, digits and single "
            "hyphens between them, such as 'house-rules'"
        )
    shown = "".join(c for c in " ".join(description.split()) if c.isprintable() and c not in "<>")
    if not 0 < len(shown) <= _LONGEST_DESCRIPTION:
        raise DataError(
            f"skill {name!r}: its description has {len(shown)} characters; 1 to "
            f"{_LONGEST_DESCRIPTION} are allowed"
        )
    # A JSON string is a quoted YAML string, in which colons, '#' and '-' are plain text.
    front = f"---\nname: {dumps(name)}\ndescription: {dumps(shown)}\n---\n"
    title = name.replace("-", " ").capitalize()
    body = with_line_feeds(content.removeprefix("\ufeff")).strip()
    return f"{front}\n# {title}\n\n{preamble}\n\n{body}\n"


def write_file(path: Path, text: str) -> None:
    """Write any text; lone surrogates become question marks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))
