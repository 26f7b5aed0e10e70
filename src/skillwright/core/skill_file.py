"""A skill file: a plain document, or the ``SKILL.md`` of an Agent Skills folder (agentskills.io).

Training changes the body. The frontmatter and every file that is not trained stay as they are,
byte for byte; scripts are never run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillwright.core.errors import DataError
from skillwright.core.jsonio import read_text
from skillwright.core.skill import file_marker, split_files, with_line_feeds

SKILL_FILE: Final = "SKILL.md"

_BREAK = r"(?:\r\n|\r(?!\n)|\n)"  # one reading only, or a search would take exponential time
_FRONTMATTER = re.compile(
    rf"\ufeff?(?:[ \t]*{_BREAK})*---[ \t]*{_BREAK}(?:[^\r\n]*{_BREAK})*?---[ \t]*(?:{_BREAK}|\Z)"
    rf"(?:[ \t]*{_BREAK})*"
)
# Lines of fields that are not between two lines of three dashes
_OTHER_HEAD = re.compile(rf"\ufeff?\s*(-{{3,}}|\+{{3,}})[ \t]*{_BREAK}\s*[\w-]+[ \t]*[:=]")
_FIELD = re.compile(r"^(name|description)[ \t]*:", re.MULTILINE)
_LINKED = re.compile(r"\]\(([^)\s#]+)[^)]*\)|`([\w./-]+)`")
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_READABLE = (".md", ".txt")


@dataclass(frozen=True, slots=True)
class SkillFile:
    r"""A skill file as it is on disk.

    Attributes:
        path: The file.
        head: Everything before the body, byte for byte: a byte order mark and the frontmatter.
        body: The rest, with ``\n`` at the ends of lines.
        newline: The line ending on disk.
        references: Text files of the folder that the body links, by path in the folder.
    """

    path: Path
    head: str
    body: str
    newline: str = "\n"
    references: dict[str, str] = field(default_factory=dict)

    @property
    def is_agent_skill(self) -> bool:
        """Whether it is the SKILL.md of a folder, which keeps its frontmatter and other files."""
        return self.path.name == SKILL_FILE or bool(self.head.strip("\ufeff"))

    @property
    def names(self) -> tuple[str, ...]:
        """The files that may be trained, by path in the folder."""
        return (self.path.name, *self.references)

    def text(self, *, references: bool = False) -> str:
        """Return the text that an agent reads and that training changes.

        Args:
            references: Also the linked files, each under a marker that edits may not touch.
        """
        if not (references and self.references):
            return self.body
        parts = [f"{file_marker(name)}\n{text}" for name, text in self.references.items()]
        return "\n\n".join([self.body.rstrip("\n"), *parts])

    def with_text(self, text: str) -> dict[str, str]:
        """Return the contents of changed files, by path in the folder, for a trained text.

        Raises:
            DataError: The text holds other files than the folder had.
        """
        if text in (self.text(), self.text(references=True)):
            return {}
        body, files = split_files(text)
        if not set(files) <= set(self.references):
            odd = sorted(set(files) - set(self.references))[0]
            raise DataError(f"the trained text holds the file {odd!r}, which is not in the folder")
        end = self.body[len(self.body.rstrip("\n")) :] if self.body.strip() else "\n"
        new = body.rstrip("\n") + end if body.strip() else body
        is_open = bool(self.head.strip("\ufeff")) and not self.head.endswith(("\n", "\r"))
        head = self.head + self.newline * is_open
        changed = {} if new == self.body else {self.path.name: head + self._as_on_disk(new)}
        for name, content in files.items():
            if content.rstrip("\n") != self.references[name].rstrip("\n"):
                changed[name] = self._as_on_disk(content.rstrip("\n") + "\n")
        return changed

    def _as_on_disk(self, text: str) -> str:
        return text.replace("\n", self.newline)


def read_skill_file(where: str | Path) -> SkillFile:
    """Read a skill file, or the SKILL.md of a folder.

    Raises:
        DataError: It is missing or not UTF-8, the folder has no SKILL.md, its frontmatter has no
            end, or a linked file leaves the folder.
    """
    path = Path(where)
    if path.is_dir():
        path = _in_folder(path)
    raw = read_text(path, "skill")
    found = _FRONTMATTER.match(raw)
    if found is None and path.name == SKILL_FILE and (odd := _OTHER_HEAD.match(raw)):
        raise DataError(
            f"skill {str(path)!r} begins with fields under a line {odd[1]!r}, which are no "
            "frontmatter, so training could change them. Put a line '---' before and after them"
        )
    is_skill = found is not None and (path.name == SKILL_FILE or _FIELD.search(found[0]))
    head = found[0] if found is not None and is_skill else "\ufeff" * raw.startswith("\ufeff")
    body = raw[len(head) :]
    newline = next((one for one in ("\r\n", "\n", "\r") if one in raw), "\n")
    plain = with_line_feeds(body)
    references = dict(_references(path.parent, plain)) if is_skill else {}
    return SkillFile(path, head, plain, newline, references)


def is_inside(file: Path, folder: Path) -> bool:
    """Tell whether a file lies in a folder once links are followed."""
    try:
        return file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # circular links
        return False


def _in_folder(folder: Path) -> Path:
    """Return the SKILL.md of a folder.

    Raises:
        DataError: There is none.
    """
    if (folder / SKILL_FILE).is_file():
        return folder / SKILL_FILE
    other = next((one.name for one in folder.iterdir() if one.name.lower() == "skill.md"), "")
    inner = sorted(one.parent.name for one in folder.glob(f"*/{SKILL_FILE}"))
    hint = f"rename {other!r}, clients read no other name" if other else "name a file"
    hint = "this name is a folder, or a link to nothing" if other == SKILL_FILE else hint
    if inner:
        hint = f"name one of the skills in it, such as {str(folder / inner[0])!r}"
    raise DataError(f"skill {str(folder)!r} is a folder without a {SKILL_FILE}; {hint}")


def _references(folder: Path, body: str) -> Iterator[tuple[str, str]]:
    """Yield the readable files that a body links, in the order of their first links."""
    seen = set()
    for match in _LINKED.finditer(_FENCED.sub("", body)):
        name = (match[1] or match[2]).removeprefix("./")
        path = folder / name
        is_text = name.endswith(_READABLE) and path.name != SKILL_FILE  # another skill
        if name in seen or not is_text or ":" in name:
            continue
        seen.add(name)
        try:
            is_file = path.is_file()
        except OSError:  # a name that is too long
            continue
        if is_file and not is_inside(path, folder):
            raise DataError(f"{str(path)!r} lies outside the skill's folder; put a copy there")
        if is_file:
            yield name, with_line_feeds(read_text(path, "reference").removeprefix("\ufeff"))
