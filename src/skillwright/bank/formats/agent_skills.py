"""A bank as folders of the Agent Skills standard, which coding agents load, and back.

One folder per category, one for the general skills, and one per scope: a client always shows the
descriptions of all folders and loads a body when its description fits, which is how a bank is
meant to be read. A body holds as much as the standard advises; the rest is in ``references/``.

What lint blocks is not written: clients run shell lines, follow links and expand arguments in a
SKILL.md.

Source: agentskills.io, and what its clients and validators were found to do.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skillwright.bank.bank import Bank
from skillwright.bank.formats.frontmatter import (
    DESCRIPTION_LIMIT,
    NAME_LIMIT,
    read_frontmatter,
    write_frontmatter,
)
from skillwright.bank.formats.markdown import from_markdown, sections
from skillwright.bank.lint.lint import Finding, lint
from skillwright.core import BankSkill, DataError, SkillKind
from skillwright.core.jsonio import read_text, write_text

BODY_LINES: Final = 480
BODY_CHARACTERS: Final = 16_000
"""A body stays under 500 lines and, at four characters each, 5,000 tokens."""

SKILL_FILE: Final = "SKILL.md"

_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_DEEPEST, _MOST_FOLDERS = 5, 2_000
# Clients put an argument in the place of a dollar sign with a digit: a price gets a space.
_ARGUMENT, _PRICE = re.compile(r"\$(?=\d)"), re.compile(r"\$ (?=\d)")
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_NOT_PROSE = re.compile(r"[^\w ,./-]")


@dataclass(frozen=True, slots=True)
class SkillFolders:
    """A bank as Agent Skills folders.

    Attributes:
        files: What stands in each file, by its path in the folder of folders.
        left_out: Findings by id, of active skills that lint blocks and that were not written.
    """

    files: Mapping[str, str]
    left_out: Mapping[str, tuple[Finding, ...]]


def to_agent_skills(bank: Bank, name: str) -> SkillFolders:
    """Write the active skills of a bank as Agent Skills folders.

    Args:
        bank: The bank.
        name: What the skills are about, such as ``alfworld``; the folders' names begin with it.
    """
    blocked = {skill.id: found for skill in bank.active if (found := _blocking(skill))}
    groups: dict[tuple[str, str], list[BankSkill]] = {}
    for skill in bank.active:
        if skill.id not in blocked:
            groups.setdefault((skill.scope, skill.category), []).append(skill)
    files: dict[str, str] = {}
    for (scope, category), skills in sorted(groups.items()):
        folder = _unused(_slug(name, scope, category or "general"), files)
        description = _description(name, scope, category, skills)
        facts = {"generator": "skillwright", "bank-version": str(bank.version)}
        facts |= {"category": category} if category else {}
        facts |= {"scope": scope} if scope else {}
        head = write_frontmatter(folder, description, facts)
        for path, body in _bodies(_title(name, scope, category), skills):
            body = _ARGUMENT.sub("$ ", body)
            files[f"{folder}/{path}"] = head + body if path == SKILL_FILE else body
    return SkillFolders(files, blocked)


def write_agent_skills(bank: Bank, folder: Path, name: str) -> SkillFolders:
    """Write the active skills of a bank as folders in a folder.

    Folders of the same names are brought up to date; others are left alone.

    Raises:
        OSError: A file cannot be written.
    """
    made = to_agent_skills(bank, name)
    for path, text in made.files.items():
        write_text(folder / path, text)
    for stale in _references(folder, made.files):
        stale.unlink()
    return made


def read_agent_skills(folder: Path) -> tuple[BankSkill, ...]:
    """Read skills from a folder with a SKILL.md, or a folder of such folders, as drafts.

    They come without ids, quarantined. Our own folders read back as they were written. In other
    people's every bullet of the body is a skill that applies when the folder's description says;
    their scripts and assets are not read.

    Raises:
        DataError: There is no SKILL.md, or one cannot be read.
    """
    found = list(_skill_files(folder))
    if not found:
        raise DataError(
            f"{str(folder)!r} holds no {SKILL_FILE}, nor does a folder in it; name a folder of "
            "Agent Skills"
        )
    return tuple(skill for path in found for skill in _read(path))


def _blocking(skill: BankSkill) -> tuple[Finding, ...]:
    return tuple(finding for finding in lint(skill) if finding.blocks)


# Out


def _slug(*words: str) -> str:
    text = " ".join(word for word in words if word)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")[:NAME_LIMIT].rstrip("-") or "skills"


def _unused(slug: str, files: Mapping[str, str]) -> str:
    taken = {path.split("/")[0] for path in files}
    number, name = 2, slug
    while name in taken:
        ending = f"-{number}"
        name = slug[: NAME_LIMIT - len(ending)].rstrip("-") + ending
        number += 1
    return name


def _prose(text: str) -> str:
    """Return a label as words: no angle brackets, no markup."""
    return " ".join(_NOT_PROSE.sub(" ", text.replace("_", " ")).split())


def _title(name: str, scope: str, category: str) -> str:
    about = f"{_prose(category)} tasks" if category else "every task"
    place = f" in {_prose(scope)}" if scope else ""
    return f"{_prose(name)}: what to do in {about}{place}"


def _description(name: str, scope: str, category: str, skills: Sequence[BankSkill]) -> str:
    lessons = sum(skill.kind == SkillKind.LESSON for skill in skills)
    about = f"{_prose(category)} tasks" if category else "any task"
    place = f" in {_prose(scope)}" if scope else ""
    counts = f"Principles: {len(skills) - lessons}. Lessons from practice: {lessons}."
    text = f"Use for {about} of {_prose(name)}{place}. {counts}"
    return text[:DESCRIPTION_LIMIT]


def _bodies(title: str, skills: Sequence[BankSkill]) -> Iterator[tuple[str, str]]:
    """Write the body of SKILL.md, and what does not fit into it."""
    parts = list(_parts(skills))
    more = [f"references/more-{number}.md" for number in range(1, len(parts))]
    pointer = ["## More", "", *(f"- See {path} for further skills." for path in more), ""]
    first = [f"# {title}", "", *sections(parts[0]), *(pointer if more else [])]
    yield SKILL_FILE, "\n" + "\n".join(first)
    for path, part in zip(more, parts[1:], strict=True):
        yield path, "\n".join([f"# {title}", "", *sections(part)])


def _parts(skills: Sequence[BankSkill]) -> Iterator[list[BankSkill]]:
    """Cut skills into parts that fit into one file each."""
    part: list[BankSkill] = []
    lines = characters = 0
    for skill in skills:
        body = sections([skill])
        size = sum(len(line) + 1 for line in body)
        if part and (lines + len(body) > BODY_LINES or characters + size > BODY_CHARACTERS):
            yield part
            part, lines, characters = [], 0, 0
        part.append(skill)
        lines, characters = lines + len(body), characters + size
    yield part


def _references(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Find files of an earlier export that this one has no use for."""
    folders = {path.split("/")[0] for path in files}
    there = [path for name in folders for path in (folder / name / "references").glob("more-*.md")]
    return [path for path in there if path.relative_to(folder).as_posix() not in files]


# In


def _skill_files(folder: Path) -> Iterator[Path]:
    seen = 0
    open_folders = [(folder, 0)]
    while open_folders and seen < _MOST_FOLDERS:
        place, depth = open_folders.pop()
        seen += 1
        if (place / SKILL_FILE).is_file():
            yield place / SKILL_FILE
        elif depth < _DEEPEST and place.is_dir():
            inner = [one for one in place.iterdir() if one.is_dir() and not one.is_symlink()]
            inner.sort(reverse=True)
            open_folders += [(one, depth + 1) for one in inner if one.name not in _SKIPPED]


def _read(path: Path) -> list[BankSkill]:
    """Read a SKILL.md and what we wrote beside it, all of it in its own folder.

    Raises:
        DataError: A link leads out of the folder: what is there would come in as a skill.
    """
    _refuse_leaving(path)
    fields, body = read_frontmatter(read_text(path, "skill file"), str(path))
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        raise DataError(f"{path}: its frontmatter has no description")
    bodies = [(body, path)]
    for more in sorted((path.parent / "references").glob("more-*.md"), key=_number):
        _refuse_leaving(more, path.parent)
        bodies.append((read_text(more, "reference"), more))
    if _is_ours(fields):
        bodies = [(_PRICE.sub("$", text), where) for text, where in bodies]
    skills = [one for text, where in bodies for one in from_markdown(text, str(where))]
    when = " ".join(description.split())
    return [one if _is_ours(fields) else replace(one, applicability=when) for one in skills]


def _refuse_leaving(file: Path, folder: Path | None = None) -> None:
    try:
        inside = file.resolve().is_relative_to((folder or file.parent).resolve())
    except (OSError, RuntimeError):  # a link in a circle
        inside = False
    if not inside:
        raise DataError(f"{str(file)!r} is a link that leaves the skill's folder; put a copy there")


def _is_ours(fields: Mapping[str, object]) -> bool:
    metadata = fields.get("metadata")
    return isinstance(metadata, dict) and metadata.get("generator") == "skillwright"


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
