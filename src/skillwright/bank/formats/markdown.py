"""Skills as text for people and coding agents: Markdown, and Agent Skills folders."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from skillwright.bank.bank import Bank
from skillwright.bank.lint.lint import Finding, lint
from skillwright.core import (
    BankSkill,
    Counterfactual,
    DataError,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
    did_you_mean,
)
from skillwright.core.jsonio import read_text, write_text

# Skills as plain Markdown, for people to read and write.
#
# A skill is a heading of the third level with its name, and bullets under it:
#
#     ### Hold it first
#     - Do: Have the object in hand before you use the microwave.
#     - When: When a goal asks for something hot.
#     - Category: heat
#
# A lesson also has ``Avoid``, ``Because`` and ``Instead``; ``Scope`` and ``Id`` may follow. A
# skill
# without a category is a general one, unless it has ``Kind: task_specific``. Headings of other
# levels
# are for readers only. In a text that has no such skills every bullet is one: ``- **Name:** what
# to
# do``. Evidence, statistics and versions are not part of this form.


_FIELDS = ("Do", "When", "Category", "Kind", "Avoid", "Because", "Instead", "Scope", "Id")
_HEADING = re.compile(r"^###\s+(?P<name>.+?)(?:\s+#+)?\s*$")
_OTHER_HEADING = re.compile(r"^#{1,6}\s")
_FIELD = re.compile(r"^[-*]\s+(?P<key>[A-Z][a-z]+):\s*(?P<text>.*)$")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?P<text>.+)$")
_LEAD = re.compile(r"^\*\*(?P<name>.+?)[:.]?\*\*[:.]?\s*(?P<text>.*)$")
_NAME_WORDS = 5


def to_markdown(bank: Bank) -> str:
    """Write the active skills of a bank as one Markdown document."""
    return "\n".join(["# Skills", "", *sections(bank.active)])


def from_markdown(text: str, where: str = "the document") -> tuple[BankSkill, ...]:
    """Read skills from Markdown, as drafts: without ids, pending.

    Args:
        text: The document; a skill's ``Id`` is only for its reader.
        where: Names it in messages.

    Raises:
        DataError: A skill lacks a part or has an unknown one, or the document has no skill.
    """
    lines = text.replace("\r\n", "\n").lstrip("\ufeff").split("\n")
    found = [_skill(name, body, where) for name, body in _blocks(lines) if any(map(_is_do, body))]
    if not found:
        found = [_from_bullet(match["text"]) for line in lines if (match := _BULLET.match(line))]
    if not found:
        raise DataError(
            f"{where} has no skills: no heading of the third level with a bullet `- Do: ...`, and "
            "no bullets at all"
        )
    return tuple(found)


def sections(skills: Sequence[BankSkill]) -> list[str]:
    """Write skills as lines, under a heading per kind and category."""
    groups: dict[str, list[BankSkill]] = {}
    for skill in sorted(skills, key=_order):
        groups.setdefault(_heading(skill), []).append(skill)
    lines: list[str] = []
    for heading, members in groups.items():
        lines += [f"## {heading}", ""]
        for skill in members:
            lines += [*section(skill), ""]
    return lines


def section(skill: BankSkill) -> list[str]:
    """Write a skill as lines."""
    lesson = skill.counterfactual
    fields = {
        "Do": skill.principle,
        "When": skill.applicability,
        "Category": skill.category,
        # Nothing else tells it from a general skill.
        "Kind": skill.kind if skill.kind == SkillKind.TASK_SPECIFIC and not skill.category else "",
        "Avoid": lesson.failure_point if lesson else "",
        "Because": lesson.flawed_reasoning if lesson else "",
        "Instead": lesson.corrective_action if lesson else "",
        "Scope": skill.scope,
        "Id": skill.id,
    }
    bullets = [f"- {key}: {_line(text)}" for key, text in fields.items() if text]
    return [f"### {_line(skill.name)}", "", *bullets]


def _order(skill: BankSkill) -> tuple[int, str, str]:
    return list(SkillKind).index(skill.kind), skill.category, skill.scope


def _heading(skill: BankSkill) -> str:
    about = f" for {_line(skill.category)} tasks" if skill.category else ""
    place = f" in {_line(skill.scope)}" if skill.scope else ""
    match skill.kind:
        case SkillKind.GENERAL:
            return f"General skills{place}"
        case SkillKind.LESSON:
            return f"Lessons{about}{place}"
        case SkillKind.TASK_SPECIFIC:
            return f"Skills{about}{place}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _blocks(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Split a document at headings of the third level."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if heading := _HEADING.match(line):
            blocks.append((heading["name"], []))
        elif _OTHER_HEADING.match(line):
            blocks.append(("", []))
        elif blocks:
            blocks[-1][1].append(line)
    return blocks


def _is_do(line: str) -> bool:
    field = _FIELD.match(line)
    return field is not None and field["key"] == "Do"


def _skill(name: str, body: Iterable[str], where: str) -> BankSkill:
    place = f"{where}: skill {name!r}"
    fields: dict[str, str] = {}
    for line in body:
        if not (found := _FIELD.match(line)):
            continue
        key = found["key"]
        if key not in _FIELDS:
            raise DataError(f"{place}: unknown part {key!r}. {did_you_mean(key, _FIELDS)}")
        if key in fields:
            raise DataError(f"{place}: it has two parts {key!r}")
        fields[key] = found["text"].strip()
    parts = [fields.get(key, "") for key in ("Avoid", "Because", "Instead")]
    if any(parts) and not all(parts):
        raise DataError(f"{place}: a lesson has all of Avoid, Because and Instead")
    return _draft(name, fields, Counterfactual(*parts) if all(parts) else None)


def _draft(name: str, fields: dict[str, str], lesson: Counterfactual | None) -> BankSkill:
    category = fields.get("Category", "")
    is_general = not category and fields.get("Kind") != SkillKind.TASK_SPECIFIC
    kind = SkillKind.GENERAL if is_general else SkillKind.TASK_SPECIFIC
    return BankSkill(
        "",
        name,
        fields["Do"],
        fields.get("When", ""),
        SkillKind.LESSON if lesson else kind,
        category,
        fields.get("Scope", ""),
        lesson,
        status=SkillStatus.PENDING,
        provenance=Provenance(SkillOrigin.IMPORTED),
    )


def _from_bullet(text: str) -> BankSkill:
    if lead := _LEAD.match(text):
        name, said = lead["name"].strip(), lead["text"].strip() or lead["name"].strip()
    else:
        name, said = " ".join(text.split()[:_NAME_WORDS]).rstrip(".,;:"), text.strip()
    return _draft(name, {"Do": said}, None)


# The YAML at the top of a SKILL.md: written strictly, read leniently.
#
# Source: the Agent Skills standard (agentskills.io). Clients differ in what they forgive, so every
# value is quoted, and nothing but the standard's keys is written.


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


# A bank as folders of the Agent Skills standard, which coding agents load, and back.
#
# One folder per category, one for the general skills, and one per scope: a client always shows the
# descriptions of all folders and loads a body when its description fits, which is how a bank is
# meant to be read. A body holds as much as the standard advises; the rest is in ``references/``.
#
# What lint blocks is not written: clients run shell lines, follow links and expand arguments in a
# SKILL.md.
#
# Source: agentskills.io, and what its clients and validators were found to do.


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
        files: What is in each file, by its path in the folder of folders.
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

    They come without ids, pending. Our own folders read back as they were written. In other
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
    counts = (
        f"Principles: {len(skills) - lessons}. Lessons from practice: {lessons}."  # stored name
    )
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
