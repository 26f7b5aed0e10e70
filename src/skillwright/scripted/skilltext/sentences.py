"""Skill text taken apart: lines, bullets, headings, sentences; spelled out and in lower case."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEADING = re.compile(r"^\s*#{1,6}\s+")
_BULLET = re.compile("^\\s*(?:[-*+\u2022\u2013]|" r"\(?\d{1,2}[.)]|\[[ x]\])\s+")
# A line of a skill bank: "[l003] Name: Avoid: a doing. Instead: another. A rule. (Apply when ...)".
_BANK_LABEL = re.compile(r"^\[[A-Za-z]{1,8}[_-]?\d{1,6}\] [^:\n]{1,60}: ")
_BANK_AVOID = re.compile(r"^Avoid: ")
_BANK_INSTEAD = re.compile(r"(?<=[.!?] )Instead: ")
_BANK_CONDITION = re.compile(r"\s*\(Apply [^()\n]*\)\s*$")
_MARKUP = re.compile('[*_`"\u201c\u201d]+|<!--.*?-->')
_END = re.compile(r"(?<=[.!?;])\s+|;$")
_NAMES = (
    "(?:an? |the )?(?:clean|heat|hot|cool|cold|wash|warm|chill|rinse|cleaned|heated|cooled|warmed"
    "|washed|chilled|rinsed|shelves|box(?:es)?|(?:drawer|cabinet|fridge|safe|microwave|shelf"
    "|countertop|desk|dresser|sinkbasin|cupboard|container)s?)"
)
_DOINGS = "(?:clean|heat|cool|wash|warm|chill|rins)ing"
# "heat, clean or cool it" is one list, not three statements; "if it is to be hot, heat it" is two.
_LIST_COMMA = re.compile(
    rf"\b({_NAMES}),(?= (?:{_NAMES}, )*(?:{_NAMES},? )?(?:and|or|nor) {_NAMES}\b)"
    rf"|\b({_DOINGS}),(?= (?:(?:and|or|nor) )?{_DOINGS}\b)"
)

_SPELLED_OUT: Final = (
    (re.compile("[\u2018\u2019\u00b4]"), "'"),
    (re.compile("\\s*[\u2013\u2014\u2192]\\s*"), " - "),
    (re.compile(r"\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bdont\b"), "do not"),
    (re.compile(r"\b(?:i\.e|e\.g)\.,?"), "such as"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(it|that|what|there|here|where|everything|anything|something)'s\b"), r"\1 is"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r",? (?:ever|under any circumstances?),"), ""),
    (re.compile(r"(?<=\w)/(?=\w)"), " or "),
    (re.compile(r"\s+"), " "),
)

_PROHIBITION = re.compile(
    r"^(?:never|avoid|do not|things? (?:to avoid|not to do)|what not to do|(?:common )?mistakes"
    r"|forbidden|bad habits|pitfalls|not allowed|wrong|do nots)(?: (?:do|these|this|mistakes|things"
    r"|the following|any of (?:these|this)|habits|to avoid))*:?$"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement of a text."""

    text: str  # lower case, single spaces, contractions spelled out, mark-up removed
    # the text of the sentence before it in the same paragraph or bullet, or ""; what "it" and
    # "them" may refer to
    before: str
    source: str  # the line or lines that it stands in, verbatim
    discouraged: bool = False  # it stands in a list under a heading such as "Avoid:"
    telegraphic: bool = False  # it stands alone in a bullet, where verbs may be left out


def spelled_out(text: str) -> str:
    """Return text in lower case, without mark-up and contractions, with single spaces."""
    text = _MARKUP.sub("", text).lower()
    for pattern, replacement in _SPELLED_OUT:
        text = pattern.sub(replacement, text)
    return _LIST_COMMA.sub(r"\1\2 or", text).replace(" or or ", " or ").strip()


def blocks(text: str) -> list[str]:
    """Split a text at blank lines, but leave a list in one piece with what introduces it."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        last = found[-1].splitlines()[-1] if found else ""
        introduces = bool(_HEADING.match(last)) or last.rstrip().endswith(":")
        if found and (introduces or (_BULLET.match(last) and _BULLET.match(block))):
            found[-1] += f"\n\n{block}"
        else:
            found.append(block)
    return found


def sentences(text: str) -> list[Sentence]:
    """Take a block apart, in order. Headings and bullets are statements of their own."""
    found: list[Sentence] = []
    discouraged = False
    for source, is_bullet in _statements(text):
        body = spelled_out(_without_label(_BULLET.sub("", _HEADING.sub("", source))))
        if not is_bullet:
            discouraged = bool(_PROHIBITION.match(body.rstrip(". ")))
        before = ""
        parts = [part.rstrip(" .;!") for part in _END.split(body)]
        for part in parts:
            if part:
                found.append(
                    Sentence(
                        text=part,
                        before=before,
                        source=source,
                        discouraged=discouraged and is_bullet,
                        telegraphic=is_bullet and len(parts) == 1,
                    )
                )
            before = part
    return found


def _without_label(line: str) -> str:
    """Reduce a line of a skill bank to what it tells: its name and its condition ask for nothing.

    What is to be avoided reads as a prohibition.
    """
    label = _BANK_LABEL.match(line)
    if label is None:
        return line
    told = _BANK_CONDITION.sub("", line[label.end() :])
    return _BANK_INSTEAD.sub("", _BANK_AVOID.sub("Avoid ", told))


def _statements(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (lines that belong together, whether they are a bullet)."""
    gathered: list[str] = []
    for line in text.splitlines():
        starts_anew = bool(_HEADING.match(line) or _BULLET.match(line)) or not line.strip()
        continues = gathered and not starts_anew and _is_wrapped(gathered[-1], line)
        if not continues and gathered:
            yield "\n".join(gathered), bool(_BULLET.match(gathered[0]))
            gathered = []
        if line.strip():
            gathered.append(line)
    if gathered:
        yield "\n".join(gathered), bool(_BULLET.match(gathered[0]))


def _is_wrapped(line: str, following: str) -> bool:
    """Tell whether a line goes on in the next one."""
    return not _HEADING.match(line) and following.lstrip()[:1].islower()
