"""Split the document of an Agent Skill that others wrote into skills; nothing of it gets lost.

Bullets that state rules become skills. Code, tables, numbered steps and paragraphs become the
``details`` of the rule that they follow, or of a skill for their section.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from skillwright.bank.formats.markdown import lead_of
from skillwright.bank.lint.lint import LONGEST, MOST_NAME_WORDS
from skillwright.bank.triggers import plain_prose, unfit_for_description
from skillwright.core import BankSkill, DataError, Provenance, SkillKind, SkillOrigin, SkillStatus
from skillwright.core.skill_file import SKILL_FILE

_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_LINK: Final = re.compile(r"!?\[([^\[\]]{0,300})\]\(<?([^)\s>]{0,300})>?[^)\n]{0,300}\)")
_URL: Final = re.compile(r"<?\bhttps?://[^\s>]+>?")
_CHECKBOX: Final = re.compile(r"^\[[ xX]\]\s+")
_RULE_WORDS: Final = 3
_COUNTED: Final = {
    "paragraph": ("paragraph", "paragraphs"),
    "table": ("table line", "table lines"),
    "fence": ("code line", "code lines"),
    "code_block": ("code line", "code lines"),
}


@dataclass(slots=True)
class _Part:
    """A skill that is being put together.

    Attributes:
        details: Markdown blocks that belong to it.
    """

    name: str
    principle: str
    details: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a document.

    Attributes:
        kind: The kind of its token, without ``_open``.
        text: Its source.
        said: The text of a paragraph.
        items: The items of a bullet list: text, and the source of further blocks.
    """

    kind: str
    text: str
    said: str = ""
    items: tuple[tuple[str, str], ...] = ()

    @property
    def states_rules(self) -> bool:
        """Whether its items are sentences rather than names, or have further blocks."""
        return bool(self.items) and (
            median(_words(said) for said, _ in self.items) >= _RULE_WORDS
            or any(more for _, more in self.items)
        )


def split_document(body: str, title: str, description: str) -> tuple[list[BankSkill], list[str]]:
    """Split the body of a SKILL.md into pending skills without ids.

    Args:
        body: Markdown.
        title: The skill's name, for text above the first heading.
        description: When the skills apply.

    Returns:
        The skills, and notes on what was counted, shortened and left out.

    Raises:
        DataError: The body is empty.
    """
    counts, left_out = Counter[tuple[str, str]](), Counter[str]()
    parts: list[_Part] = []
    for heading, blocks in _sections(body, title):
        shown = [one for one in blocks if one.kind not in ("html_block", "hr")]
        left_out["HTML block"] += sum(one.kind == "html_block" for one in blocks)
        parts += _parts(heading, shown)
    if not parts:
        raise DataError("the body is empty, so there is no skill in it")
    for kind, lines in _inner(_MARKDOWN.parse(body)):
        counts[_COUNTED[kind]] += lines
    when, said = _condition(description)
    kept = [f"{n:,} {names[n != 1]}" for names, n in sorted(counts.items()) if n]
    notes = [f"kept {', '.join(kept)} in {_counted(len(parts), 'skill')}"] if kept else []
    notes += [*said, *(f"left out {_counted(n, kind)}" for kind, n in left_out.items() if n)]
    return [one for part in parts for one in _skills(part, when)], notes


def _condition(description: str) -> tuple[str, list[str]]:
    """Return a description as the condition of skills, and notes on how it was changed."""
    line = " ".join(_URL.sub("", description).split())
    when = plain_prose(line, LONGEST["applicability"])
    if why := unfit_for_description(when):
        return "", [f"left out the condition, the description, which lint blocks: {why}"]
    if len(line) <= LONGEST["applicability"]:
        return when, []
    return when, [
        f"the condition of every skill is the description, shortened from {len(line):,} to "
        f"{len(when)} characters"
    ]


def files_left_out(folder: Path, fields: Mapping[str, Any], read: Sequence[Path]) -> list[str]:
    """Return notes on the files of a skill's folder, and the keys, that no skill has.

    Args:
        folder: The skill's folder.
        fields: Its frontmatter.
        read: The files that were read.
    """
    counts = Counter[str]()
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and path not in read and not any(one[0] == "." for one in inner.parts):
            top = inner.parts[0] if len(inner.parts) > 1 else ""
            kind = {"references": "reference", "scripts": "script", "evals": "evals"}.get(top, "")
            counts[f"{kind} file".strip() if kind != "script" else kind] += 1
    found = [_counted(count, kind) for kind, count in counts.items()]
    keys = sorted(map(str, fields.keys() - {"name", "description"}))
    if keys:
        found.append(f"the {'key' if len(keys) == 1 else 'keys'} {', '.join(keys)}")
    return [f"left out {', '.join(found)} of {SKILL_FILE}'s folder"] if found else []


def _sections(body: str, title: str) -> Iterator[tuple[str, list[_Block]]]:
    """Yield each heading with its blocks."""
    lines = body.split("\n")
    blocks: list[_Block] = []
    heading, tokens = title, _MARKDOWN.parse(body)
    for at, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        kind = token.type.removesuffix("_open")
        if kind == "heading":
            yield heading, blocks
            heading, blocks = _plain(tokens[at + 1].content) or heading, []
            continue
        text = "\n".join(lines[slice(*token.map)]).rstrip()
        said = tokens[at + 1].content if kind == "paragraph" else ""
        items = tuple(_items(tokens, at, lines)) if kind == "bullet_list" else ()
        blocks.append(_Block(kind, text, said, items))
    yield heading, blocks


def _items(tokens: Sequence[Token], start: int, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the text and the further source of each item of a list."""
    for at in range(start + 1, len(tokens)):
        token = tokens[at]
        if token.level == 0:
            return
        if token.level != 1 or token.type != "list_item_open" or token.map is None:
            continue
        first, last = token.map
        inner = tokens[at + 1]
        if inner.type != "paragraph_open" or inner.map is None:
            yield "", _dedented(lines[first:last], cuts_marker=True)
            continue
        yield tokens[at + 2].content, _dedented(lines[inner.map[1] : last])


def _dedented(lines: Sequence[str], *, cuts_marker: bool = False) -> str:
    """Take the indentation of an item's further lines away."""
    kept = list(lines)
    if cuts_marker and kept:
        kept[0] = re.sub(r"^(\s*)([-*+])", r"\1 ", kept[0])
    widths = [len(line) - len(line.lstrip()) for line in kept if line.strip()]
    least = min(widths, default=0)
    return "\n".join(line[least:] for line in kept).strip("\n").rstrip()


def _words(text: str) -> int:
    """Count words; in scripts without blanks between them, about two characters are one."""
    return max(len(text.split()), sum(not one.isascii() for one in text) // 2)


def _parts(heading: str, blocks: Sequence[_Block]) -> list[_Part]:
    """Return the skills of a section."""
    parts: list[_Part] = []
    lead: list[_Block] = []
    for block in blocks:
        if block.states_rules:
            is_intro = len(lead) == 1 and lead[0].said.rstrip().endswith(":")
            if lead and not is_intro:
                parts.append(_of_section(heading, lead))
            rules = [_of_item(said, more) for said, more in block.items]
            if is_intro:
                rules[0].details.insert(0, lead[0].text)
            parts, lead = [*parts, *rules], []
        elif parts:
            parts[-1].details.append(block.text)
        else:
            lead.append(block)
    if lead:
        parts.append(_of_section(heading, lead))
    return parts


def _of_section(heading: str, blocks: Sequence[_Block]) -> _Part:
    first, *rest = blocks
    if not first.said:
        return _Part(heading, f"Use this for: {heading}", [one.text for one in blocks])
    principle, is_whole = _principle(_URL.sub("the link below", _plain(first.said)))
    kept = rest if is_whole and "://" not in first.said else blocks
    return _Part(heading, principle, [one.text for one in kept])


def _of_item(said: str, more: str) -> _Part:
    shown = _URL.sub("the link below", _plain(_CHECKBOX.sub("", said)))
    name, text = lead_of(shown or "Example")
    principle, is_whole = _principle(text)
    is_whole = is_whole and "://" not in said
    return _Part(name, principle, [*([] if is_whole else [said]), *([more] if more else [])])


def _principle(text: str) -> tuple[str, bool]:
    """Return a text on one line of the allowed length, and whether it is the whole text."""
    line = _plain(text)
    most = LONGEST["principle"]
    if len(line) <= most:
        return line, True
    return f"{line[: most - 3].rsplit(' ', 1)[0].rstrip(' ,;:.')}...", False


def _plain(text: str) -> str:
    """Return Markdown on one line, with the targets of links to files after their texts."""

    def shown(link: re.Match[str]) -> str:
        said, target = link[1].strip(), link[2]
        is_file = target and ":" not in target and not target.startswith("#") and target != said
        return f"{said} ({target})" if is_file else said

    return " ".join(_LINK.sub(shown, text).split())


def _skills(part: _Part, when: str) -> Iterator[BankSkill]:
    """Yield the skill of a part, and further ones for details that are too long."""
    words = part.name.replace("`", "").split()[:MOST_NAME_WORDS]
    name = " ".join(words)
    while len(name) > LONGEST["name"] - 5 and " " in name:
        name = name.rsplit(" ", 1)[0]
    name = name[: LONGEST["name"] - 5].rstrip(" .,;:") or "Rule"
    for number, details in enumerate(_pieces(part.details) or [""], start=1):
        yield BankSkill(
            "",
            name if number == 1 else f"{name} ({number})",
            part.principle if number == 1 else f"More on {name}.",
            when,
            SkillKind.GENERAL,
            status=SkillStatus.PENDING,
            provenance=Provenance(SkillOrigin.IMPORTED),
            details=details,
        )


def _pieces(blocks: Sequence[str]) -> list[str]:
    """Join blocks to texts of the allowed length."""
    pieces: list[str] = []
    for block in (piece for one in blocks for piece in _cut(one)):
        if pieces and len(pieces[-1]) + len(block) + 2 <= LONGEST["details"]:
            pieces[-1] += f"\n\n{block}"
        else:
            pieces.append(block)
    return pieces


def _cut(block: str) -> Iterator[str]:
    """Cut a block that is too long between lines; code stays between fences."""
    most = LONGEST["details"]
    lines = block.split("\n")
    fence = re.match(r"\s*(`{3,}|~{3,})", lines[0])
    is_code = fence is not None and 2 * len(lines[0]) < most
    head, end = (lines[0], f"\n{fence[1]}") if fence and is_code else ("", "")
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) + 1 + len(end) > most:
            yield piece + end
            piece = head
        piece = f"{piece}\n{line}" if piece else line
        while len(piece) > most:  # a line that no break divides
            yield piece[: most - len(end)] + end
            piece = head + "\n" * bool(head) + piece[most - len(end) :]
    yield piece


def _inner(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Yield the kind and size of each paragraph, table and code block, also within others."""
    for token in tokens:
        kind = token.type.removesuffix("_open")
        if token.nesting < 0 or token.map is None or token.hidden:
            continue
        lines = token.map[1] - token.map[0]
        if kind == "paragraph":
            yield kind, 1
        elif kind == "fence":
            yield kind, max(lines - 2, 0)
        elif kind in ("table", "code_block"):
            yield kind, lines


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1 and what != 'evals')}"
