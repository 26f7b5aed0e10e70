"""Write skills as Agent Skills folders, which coding agents load, and read them back.

A bank or a document becomes one folder. The body holds up to the length that the standard advises;
the rest goes to ``references/``, by task type or by section. Skills that lint blocks are not
written: clients run shell lines, follow links and expand arguments in a SKILL.md.

Source: agentskills.io, and the behavior of its clients and validators.
"""

import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from skillwright.bank.bank import Bank, BankError
from skillwright.bank.formats.documents import files_left_out, split_document
from skillwright.bank.formats.markdown import from_markdown, sections
from skillwright.bank.lint.lint import LIVE, LIVE_RULE, Finding, lint
from skillwright.bank.triggers import TaskWords, describe, plain_prose
from skillwright.core import BankSkill, DataError
from skillwright.core.fence import hidden_at
from skillwright.core.jsonio import digest, read_text, write_text
from skillwright.core.skill import with_line_feeds
from skillwright.core.skill_file import SKILL_FILE, is_inside
from skillwright.version import __version__

NAME_LIMIT: Final = 64
BODY_LINES: Final = 480
BODY_CHARACTERS: Final = 16_000
"""A body stays under 500 lines and, at four characters each, 5,000 tokens."""

REFERENCES: Final = "references"
GENERATOR: Final = "skillwright"
HASH: Final = "content-hash"
EVIDENCE_FILE: Final = f"{REFERENCES}/evidence.json"

_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_DEEPEST, _MOST_FOLDERS = 5, 2_000
# Clients replace a dollar sign and a digit by an argument, so prices are written with a space.
_ARGUMENT, _PRICE = re.compile(r"\$(?=\d)"), re.compile(r"\$ (?=\d)")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_NOT_PROSE = re.compile(r"[^\w ,./-]")
_HASH_LINE = re.compile(rf'^  {HASH}: "[^"\n]*"$', re.MULTILINE)
_HEADING = re.compile(r"^#{1,2}\s+(?P<title>.+?)(?:\s+#+)?\s*$")
_CODE_FENCE = re.compile(r"^\s*(```|~~~)")
# Closing tags without an opening tag could end the block that a client wraps around the text.
_TAG = re.compile(r"<(?P<end>/?)\s*(?P<name>[A-Za-z][\w:-]*)[^<>]*>")


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of Agent Skills.

    Attributes:
        name: 1 to 64 characters of ``a-z0-9-``.
        description: 1 to 1,024 characters: what the skill does, and when to use it.
        body: Text of SKILL.md below the frontmatter.
        references: Other files, by path in the folder.
        metadata: Additional ``metadata`` of the frontmatter.
        left_out: Findings by id of active skills that lint blocks; they are not written.
    """

    name: str
    description: str
    body: str
    references: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """File contents by path in the folder; SKILL.md contains a hash of all of them."""
        facts = {"generator": GENERATOR, "version": __version__, **self.metadata}
        facts |= {"files": " ".join(sorted(self.references)), HASH: ""}
        head = write_frontmatter(self.name, plain_prose(self.description), facts)
        return sealed({SKILL_FILE: head + self.body, **self.references})


def content_hash(files: Mapping[str, str]) -> str:
    """Return the hash of a folder's files, without the hash line in SKILL.md."""
    blank = _HASH_LINE.sub(f'  {HASH}: ""', files[SKILL_FILE], count=1)
    return digest({**files, SKILL_FILE: blank})


def sealed(files: Mapping[str, str]) -> dict[str, str]:
    """Return a folder's files with their hash in SKILL.md, if that has a line for it."""
    line = f'  {HASH}: "{content_hash(files)}"'
    return {**files, SKILL_FILE: _HASH_LINE.sub(line, files[SKILL_FILE], count=1)}


def skill_name(*words: str) -> str:
    """Build a folder name from words; ``skills`` if no letter or digit is left."""
    text = " ".join(word for word in words if word)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")[:NAME_LIMIT].rstrip("-") or "skills"


def check_name(name: str) -> str:
    """Check a folder name, and return it unchanged.

    Raises:
        DataError: The name breaks the rules of the standard; the message proposes another.
    """
    if not _NAME.fullmatch(name) or len(name) > NAME_LIMIT:
        raise DataError(
            f"{name!r} is not a valid skill name: use 1 to {NAME_LIMIT} lowercase letters, digits "
            f"and single hyphens between them, such as {skill_name(name)!r}"
        )
    return name


LONGEST_FRONTMATTER: Final = 50_000  # reading YAML takes a second per 100 KB
_BLOCK = re.compile(r"^---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^(?P<key>[\w-]+):[ \t]+(?P<value>[^\s'\"|>\[{].*)$", re.MULTILINE)


def write_frontmatter(name: str, description: str, metadata: Mapping[str, str]) -> str:
    """Write the lines from ``---`` to ``---``; each value is a JSON string, which is valid YAML."""
    lines = [f"name: {_quoted(name)}", f"description: {_quoted(description)}", "metadata:"]
    lines += [f"  {key}: {_quoted(value)}" for key, value in metadata.items()]
    return "\n".join(["---", *lines, "---", ""])


def read_frontmatter(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Split a SKILL.md into its fields and its body.

    Raises:
        DataError: The frontmatter is missing, too long, has aliases, or is no YAML map even with
            quoted values.
    """
    written, body = split_frontmatter(text, where)
    fields = _parsed(written, where)
    if fields is None:  # a colon in a value is the usual reason
        fields = _parsed(_PLAIN_VALUE.sub(_requoted, written), where)
    if fields is None:
        raise DataError(f"{where}: its frontmatter is no map in YAML; quote its values")
    return fields, body


def split_frontmatter(text: str, where: str) -> tuple[str, str]:
    """Split a SKILL.md into the YAML of its frontmatter and its body.

    Raises:
        DataError: The frontmatter is missing or too long.
    """
    plain = text.lstrip("\ufeff").replace("\r\n", "\n")
    block = _BLOCK.match(plain)
    if block is None:
        raise DataError(f"{where}: it does not begin with frontmatter between two lines of ---")
    if len(block["yaml"]) > LONGEST_FRONTMATTER:
        raise DataError(
            f"{where}: its frontmatter is longer than {LONGEST_FRONTMATTER:,} characters"
        )
    return block["yaml"], plain[block.end() :]


def _parsed(text: str, where: str) -> dict[str, Any] | None:
    try:
        if any(isinstance(one, yaml.AliasEvent) for one in yaml.parse(text, yaml.SafeLoader)):
            yaml.compose(text, yaml.SafeLoader)  # it refuses `*word` in prose, which has no anchor
            raise DataError(  # a few aliases may stand for billions of values
                f"{where}: its frontmatter has YAML aliases (& and *); write their values out"
            )
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _requoted(line: re.Match[str]) -> str:
    return f"{line['key']}: {_quoted(line['value'].strip())}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def to_agent_skills(bank: Bank, name: str, description: str = "") -> SkillFolder:
    """Write the active skills of a bank as a folder of Agent Skills.

    Args:
        bank: The bank to export.
        name: Subject of the skills, such as ``alfworld``; the folder name is derived from it.
        description: What the skills do and when to use them; the default is built from the skills'
            applicability.

    Raises:
        BankError: The bank has no active skill that passes lint.
    """
    blocked = {skill.id: found for skill in bank.active if (found := _blocking(skill))}
    kept = [skill for skill in bank.active if skill.id not in blocked]
    if not kept:
        why = "; lint blocks all of them" if blocked else ""
        raise BankError(f"there is nothing to take away: the bank has no active skill{why}")
    about = description or describe(words_of_skills(kept, name))
    body, references = _written(_prose(name), kept)
    return SkillFolder(
        skill_name(name), about, body, references, {"bank-version": str(bank.version)}, blocked
    )


def words_of_skills(skills: Sequence[BankSkill], name: str) -> TaskWords:
    """Return the input of a description when no task is known: when the skills apply."""
    when = [one.applicability or one.principle for one in skills]
    return TaskWords(f"{_prose(name)} tasks", names_of(skills), when, are_quoted=False)


def names_of(skills: Sequence[BankSkill]) -> list[str]:
    """Return the distinct names of skills: general ones first, then categories in turn."""
    first: dict[tuple[str, str], list[str]] = {}
    for one in skills:
        first.setdefault((one.scope, one.category), []).append(one.name)
    longest = max(map(len, first.values()), default=0)
    rows = [names[at] for at in range(longest) for names in first.values() if at < len(names)]
    return list(dict.fromkeys(rows))


def document_folder(text: str, name: str, description: str) -> SkillFolder:
    """Write a skill document as a folder of Agent Skills.

    A text that a client would expand or run goes unchanged to a reference file that SKILL.md names;
    so do the sections of a text that is too long.

    Args:
        text: The learned text.
        name: The folder name.
        description: What the skill does, and when to use it.

    Raises:
        DataError: The text is blank.
    """
    plain = with_line_feeds(text.removeprefix("\ufeff")).strip()
    if not plain:
        raise DataError("there is nothing to export: the skill document is empty")
    title = f"# {_prose(name).replace('-', ' ').capitalize()}\n"
    lead = "Follow these instructions wherever they apply to the task."
    if why_live(plain):
        path = f"{REFERENCES}/skill.md"
        body = f"{title}\nRead [{path}]({path}) first: it holds the instructions, word by word.\n"
        return SkillFolder(name, description, f"\n{body}", {path: f"{plain}\n"})
    hidden = set(hidden_at(plain))
    shown = "".join(one for at, one in enumerate(plain) if at not in hidden)
    if _fits([shown]):
        return SkillFolder(name, description, f"\n{title}\n{lead}\n\n{shown}\n")
    body, references = _in_parts(list(_document_sections(shown)), [title, lead, ""])
    return SkillFolder(name, description, body, references)


def why_live(text: str) -> str:
    """Return the part of a text that a client would expand, run or read as an end tag, or ""."""
    if found := LIVE.search(text):
        return found[0].strip()
    open_tags: list[str] = []
    for tag in _TAG.finditer(text):
        if not tag["end"]:
            open_tags.append(tag["name"])
        elif tag["name"] in open_tags:
            open_tags.remove(tag["name"])
        else:
            return tag[0]
    return ""


def _blocking(skill: BankSkill) -> tuple[Finding, ...]:
    return tuple(one for one in lint(skill) if one.blocks or one.rule == LIVE_RULE)


def _prose(text: str) -> str:
    """Return a label as words, without markup."""
    return " ".join(_NOT_PROSE.sub(" ", text.replace("_", " ")).split())


def _written(name: str, skills: Sequence[BankSkill]) -> tuple[str, dict[str, str]]:
    """Write the body of SKILL.md, and reference files for the skills that do not fit."""
    groups: dict[tuple[str, str], list[BankSkill]] = {}
    for skill in skills:
        groups.setdefault((skill.scope, skill.category), []).append(skill)
    parts = [
        (_place(scope, category), _ARGUMENT.sub("$ ", text))
        for (scope, category), members in sorted(groups.items())
        for text in _cut(sections(members, with_ids=False))
    ]
    lead = "Rules that were learned from doing these tasks. Follow those that apply to the task."
    return _in_parts(parts, [f"# {name}: what to do", "", lead, ""])


def _place(scope: str, category: str) -> str:
    about = f"{_prose(category)} tasks" if category else "every task"
    return f"{about} in {_prose(scope)}" if scope else about


def _cut(lines: Sequence[str]) -> Iterator[str]:
    """Split the lines of a group into texts that each fit one file, only between skills."""
    heading, part = "", list[str]()
    for block in _blocks(lines):
        heading = block[0] if block[0].startswith("## ") else heading
        if part and not _fits([*part, *block]):
            yield "\n".join(part)
            part = [] if block[0].startswith("## ") else [heading, ""]
        part += block
    yield "\n".join(part)


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Split lines before each heading of level 2 or 3."""
    block: list[str] = []
    for line in lines:
        if block and line.startswith(("## ", "### ")):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _document_sections(text: str) -> Iterator[tuple[str, str]]:
    """Split a document before each heading of level 1 or 2 into titles and texts."""
    title, lines, in_code = "Introduction", list[str](), False
    for line in text.split("\n"):
        in_code ^= _CODE_FENCE.match(line) is not None
        heading = None if in_code else _HEADING.match(line)
        if heading and any(map(str.strip, lines)):
            yield title, "\n".join(lines)
            lines = []
        title = heading["title"] if heading else title
        lines.append(line)
    yield title, "\n".join(lines)


def _in_parts(parts: Sequence[tuple[str, str]], head: list[str]) -> tuple[str, dict[str, str]]:
    """Put as many leading parts as fit into the body, and each remaining part into a reference."""
    links = [_reference(number, title) for number, (title, _) in enumerate(parts, start=1)]
    kept = len(parts)
    body = _body(head, parts, links, kept)
    while kept and not _fits([body]):
        kept -= 1
        body = _body(head, parts, links, kept)
    return body, {links[at]: f"{parts[at][1].strip()}\n" for at in range(kept, len(parts))}


def _body(
    head: Sequence[str], parts: Sequence[tuple[str, str]], links: Sequence[str], kept: int
) -> str:
    lines = ["", *head, *(f"{text.strip()}\n" for _, text in parts[:kept])]
    if kept < len(parts):
        lines += ["## More", "", "Read what is about the task:", ""]
        lines += [
            f"- [{_prose(title)}]({link})"
            for (title, _), link in zip(parts[kept:], links[kept:], strict=True)
        ]
        lines.append("")
    return "\n".join(lines)


def _reference(number: int, title: str) -> str:
    return f"{REFERENCES}/{number:02d}-{skill_name(title)[:40].rstrip('-')}.md"


def _fits(texts: Sequence[str]) -> bool:
    lines = sum(text.count("\n") + 1 for text in texts)
    return lines <= BODY_LINES and sum(len(text) + 1 for text in texts) <= BODY_CHARACTERS


def write_agent_skills(folder: SkillFolder, place: Path) -> Path:
    """Write a folder into a folder of skills; the old version stays until the new one is complete.

    Files that others added to an earlier export are kept.

    Args:
        folder: The folder to write.
        place: Where agents look for skills, such as ``.claude/skills``.

    Returns:
        The folder's path.

    Raises:
        DataError: The target exists and is not an export, or was changed since its export.
        OSError: A file cannot be written; the old version is unchanged.
    """
    return put_files(folder.files, place, check_name(folder.name))


def put_files(files: Mapping[str, str], place: Path, name: str) -> Path:
    """Write the files of an export to a folder, as `write_agent_skills` does."""
    target = place / name
    fresh, old = place / f".{name}.new-{os.getpid()}", place / f".{name}.old"
    if old.is_dir() and not target.exists():
        old.rename(target)  # a process was killed between the two renames
    elif old.is_dir():
        shutil.rmtree(old)  # a process was killed after them
    extra = _foreign_files(target)
    try:
        for path, text in files.items():
            write_text(fresh / path, text)
        for path in extra:
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(target / path, fresh / path, follow_symlinks=False)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        for left in (fresh, old):
            with suppress(OSError):
                shutil.rmtree(left)
    return target


def old_files(target: Path) -> dict[str, str] | None:
    """Return the files of an earlier export by path, checked; ``None`` without a folder."""
    if not target.exists() and not target.is_symlink():
        return None
    extra = set(_foreign_files(target))
    return {
        path: read_text(target / path, "file") for path in _all_files(target) if path not in extra
    }


def _foreign_files(target: Path) -> list[str]:
    """Return the files in the folder of an earlier export that others added.

    Raises:
        DataError: The folder is not an export, or was changed by hand.
    """
    move = "Give the export another --name or --output, or move that away"
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise DataError(f"{str(target)!r} is no folder of ours. {move}")
    if not target.is_dir() or not any(target.iterdir()):
        return []
    fields: Mapping[str, Any] = {}
    with suppress(DataError):
        fields, _ = read_frontmatter(read_text(target / SKILL_FILE, "skill file"), str(target))
    if not is_ours(fields):
        raise DataError(f"{str(target)!r} is there and was not written by skillwright. {move}")
    metadata = fields["metadata"]
    own, there = exported_files(target, metadata)
    with suppress(DataError):
        found = {path: read_text(target / path, "file") for path in own}
        if content_hash(found) == metadata.get(HASH):
            return [path for path in there if path not in own]
    raise DataError(
        f"{str(target)!r} was changed by hand since it was exported, and the change would be "
        f"lost. {move}"
    )


def exported_files(folder: Path, metadata: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the files that an export lists, and those that exist."""
    return [SKILL_FILE, *str(metadata.get("files", "")).split()], _all_files(folder)


def _all_files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def is_ours(fields: Mapping[str, object]) -> bool:
    """Return whether the frontmatter marks a folder as an export of Skillwright."""
    metadata = fields.get("metadata")
    return isinstance(metadata, dict) and metadata.get("generator") == GENERATOR


def read_agent_skills(folder: Path) -> tuple[BankSkill, ...]:
    """Read skills from a folder with a SKILL.md, or from a folder of such folders.

    The skills have no ids and are pending. Exports of Skillwright read back as they were written.
    Others are split at their rules, with the code, tables and paragraphs that belong to them;
    scripts and assets are not read.

    Raises:
        DataError: There is no SKILL.md, or one cannot be read.
    """
    return read_with_notes(folder)[0]


def read_with_notes(folder: Path) -> tuple[tuple[BankSkill, ...], tuple[str, ...]]:
    """Read skills as `read_agent_skills`, with notes on what was kept, shortened and left out.

    Raises:
        DataError: As `read_agent_skills`.
    """
    found = list(skill_files(folder))
    if not found:
        raise DataError(
            f"{str(folder)!r} holds no {SKILL_FILE}, nor does a folder in it; name a folder of "
            "Agent Skills"
        )
    skills, notes = list[BankSkill](), list[str]()
    for path in found:
        read, said = _read(path)
        skills += read
        notes += [f"{path.parent.resolve().name}: {one}" for one in said]
    return tuple(skills), tuple(notes)


def skill_files(folder: Path) -> Iterator[Path]:
    """Yield the SKILL.md of a folder, or of the folders below it."""
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


def _read(path: Path) -> tuple[list[BankSkill], list[str]]:
    """Read a SKILL.md and its references; also return notes on a folder of others.

    Raises:
        DataError: A link leads out of the folder.
    """
    refuse_leaving(path)
    fields, body = read_frontmatter(read_text(path, "skill file"), str(path))
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        raise DataError(f"{path}: its frontmatter has no description")
    ours = is_ours(fields)
    bodies = [(body, path)]
    for more in sorted(
        (path.parent / REFERENCES).glob("*.md" if ours else "more-*.md"), key=_number
    ):
        refuse_leaving(more, path.parent)
        bodies.append((read_text(more, "reference"), more))
    if ours:
        bodies = [(_PRICE.sub("$", text), where) for text, where in bodies if "### " in text]
        bodies = bodies or [(body, path)]
    if ours:
        return [one for text, where in bodies for one in from_markdown(text, str(where))], []
    whole = "\n\n".join(text for text, _ in bodies)
    try:
        skills, notes = split_document(
            whole, str(fields.get("name") or path.parent.name), description
        )
    except DataError as problem:
        raise DataError(f"{path}: {problem}") from problem
    read = [where for _, where in bodies]
    return skills, [*notes, *files_left_out(path.parent, fields, read)]


def refuse_leaving(file: Path, folder: Path | None = None) -> None:
    """Refuse a file that a link places outside a skill's folder.

    Raises:
        DataError: The file is outside.
    """
    if not is_inside(file, folder or file.parent):
        raise DataError(f"{str(file)!r} is a link that leaves the skill's folder; put a copy there")


def _number(path: Path) -> tuple[int, str]:
    digits = re.search(r"\d+", path.stem)
    return (int(digits[0]) if digits else 0), path.stem
