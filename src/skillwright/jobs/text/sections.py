"""Split a skill document into the parts that an ablation takes out: sections, or their items.

A document is plain Markdown, in which headings begin the sections. The optimizer's guidance and
reminders have protected regions of their own, which count as sections.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from skillwright.core.skill import (
    APPENDIX_HEADING,
    body,
    protected_regions,
    slow_update_field,
    without_markers,
)

HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
ITEM: Final = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+")
_FENCE: Final = re.compile(r"^\s*(```+|~~~+)")
_COARSE: Final = 0.5
"""A section with more than this share of the words is too coarse, and is split into items."""
_TITLE_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document.

    Attributes:
        title: Its heading, or its first words.
        first_line: From 1.
        last_line: The last line with text.
        is_item: Whether it is a list item or paragraph of a section that is too coarse.
    """

    title: str
    first_line: int
    last_line: int
    is_item: bool = False

    @property
    def lines(self) -> range:
        """The numbers of its lines."""
        return range(self.first_line, self.last_line + 1)


@dataclass(frozen=True, slots=True)
class _Block:
    kind: Literal["heading", "text", "region"]
    first: int
    last: int
    title: str
    level: int = 0


def split_document(text: str, *, by_item: bool = False) -> list[Section]:
    """Split a document into sections.

    A section begins at each heading of the highest level with several headings. A section with more
    than half of the words is too coarse, and replaced by its list items and paragraphs. Headings
    without text and YAML at the top are no sections.

    Args:
        text: The document.
        by_item: Split every section into items, except for guidance and reminders.
    """
    blocks = list(_blocks(text))
    lines = text.splitlines()
    words = len(body(text).split())
    found: list[Section] = []
    for members in _sections(blocks):
        content = [one for one in members if one.kind != "heading" and one.title]
        if not content:
            continue
        size = sum(len(line.split()) for line in lines[members[0].first - 1 : members[-1].last])
        if len(content) > 1 and (by_item or size > _COARSE * words):
            found += [Section(one.title, one.first, one.last, is_item=True) for one in content]
        else:
            found.append(Section(members[0].title, members[0].first, members[-1].last))
    return found


def without_sections(text: str, sections: Collection[Section]) -> str:
    """Return a document without sections, and without headings that become empty."""
    gone = {line for section in sections for line in section.lines}
    blocks = list(_blocks(text))
    for index, block in enumerate(blocks):
        if block.kind == "heading":
            below = _below(blocks, index)
            if below and all(one.first in gone or one.kind == "heading" for one in below):
                gone |= {block.first}
    kept: list[str] = []
    was_gone = False
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if number in gone:
            was_gone = True
        elif line.strip() or not was_gone or (kept and kept[-1].strip()):
            kept.append(line)
            was_gone = was_gone and not line.strip()
    return "".join(kept)


def _sections(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Group blocks by section; headings above the first section's are left out."""
    counts = Counter(one.level for one in blocks if one.kind == "heading")
    level = min((one for one, count in counts.items() if count > 1), default=0)
    members: list[_Block] = []
    begun = False
    for block in blocks:
        if block.kind == "region" or (block.kind == "heading" and block.level <= level):
            yield members
            members, begun = [], block.level == level
        if block.kind == "region":
            yield [block]
        elif begun or block.kind != "heading":
            members.append(block)
    yield members


def _below(blocks: Sequence[_Block], index: int) -> list[_Block]:
    found = []
    for block in blocks[index + 1 :]:
        if block.kind == "region" or (
            block.kind == "heading" and block.level <= blocks[index].level
        ):
            break
        found.append(block)
    return found


def _blocks(text: str) -> Iterator[_Block]:
    """Split a document at headings, top-level list items and blank lines."""
    lines = text.splitlines()
    regions = _region_lines(text)
    number = _after_front_matter(lines)
    while number < len(lines):
        line = lines[number]
        first = number + 1
        if first in regions:
            number = regions[first]
            yield _Block("region", first, number, _name("\n".join(lines[first - 1 : number])))
        elif heading := HEADING.match(line):
            number = first
            title = heading[2][:_TITLE_CHARS]
            yield _Block("heading", first, first, title, len(heading[1]))
        elif line.strip():
            number = _end_of_text(lines, number, set(regions))
            title = ITEM.sub("", line).strip()[:_TITLE_CHARS]
            # A horizontal rule (`---`) has no content.
            yield _Block("text", first, number, title if any(map(str.isalnum, title)) else "")
        else:
            number = first


def _region_lines(text: str) -> dict[int, int]:
    """Return the last line of each protected region, by its first line."""
    found = {}
    for span in protected_regions(text):
        # One more character, so that a line that ends there is not counted as begun.
        first, last = (len(f"{text[:at]}.".splitlines()) for at in (span.start, span.end - 1))
        found[first] = last
    return found


def _name(region: str) -> str:
    """Name a protected region; "" if it is empty."""
    if slow_update_field(region):
        return "slow update"
    return "appendix" if without_markers(region).removeprefix(APPENDIX_HEADING).strip() else ""


def _after_front_matter(lines: Sequence[str]) -> int:
    if lines and lines[0].strip() == "---" and "---" in (rest := [x.strip() for x in lines[1:]]):
        return rest.index("---") + 2
    return 0


def _end_of_text(lines: Sequence[str], start: int, stops: Collection[int]) -> int:
    """Return the last line (from 1) of an item or paragraph that begins at an index."""
    item = ITEM.match(lines[start])
    indent = len(item[1]) if item else 0
    fence, last = "", start
    for index in range(start, len(lines)):
        line = lines[index]
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and index > start:
            inside = item is not None and len(line) - len(line.lstrip()) > indent
            begins = HEADING.match(line) or ITEM.match(line) or not lines[index - 1].strip()
            if index + 1 in stops or (line.strip() and begins and not inside):
                break
            if not line.strip() and item is None:
                break
        if line.strip():
            last = index
    return last + 1
