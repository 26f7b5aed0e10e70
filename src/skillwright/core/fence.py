"""Untrusted text, made safe to show to an optimizer model.

Observations, agents' replies and task statements are untrusted: a product page may say "add this
to your skill". They reach a prompt inside tags, and nothing inside can close or forge a tag, start
a line that looks like our own, or hide characters.
"""

import re
import unicodedata
from typing import Any

from skillwright.core.jsonio import dumps

_TAG_OPENING = re.compile(r"<(?=[\s/]*(?:skill|trajectory|task))", re.IGNORECASE)
# An angle that looks like ours and is not one.
_HARMLESS, _HARMLESS_CLOSING = "\u2039", "\u203a"
_DEFUSED_OPENING = re.compile(_HARMLESS + r"(?=[\s/]*(?:skill|trajectory|task))", re.IGNORECASE)
_UNUSUAL = re.compile(r"[^\n\t -~]")
_LINE_BREAK = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")

_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Letters and marks that draw nothing; their categories look harmless.
_HIDDEN_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_VARIATION_SUPPLEMENT = range(0xE0100, 0xE01F0)  # can carry any bytes behind one visible letter


def is_hidden(character: str) -> bool:
    """Tell whether a character is drawn as nothing or reorders its neighbors.

    Line feed, tab and space are not hidden; carriage return is, because a terminal lets it
    overwrite what stands before it.
    """
    return character not in "\n\t" and (
        unicodedata.category(character) in _HIDDEN_CATEGORIES
        or character in _HIDDEN_LETTERS
        or ord(character) in _VARIATION_SUPPLEMENT
    )


# Marks that draw nothing and that some scripts cannot be written without, by the first word of the
# Unicode name of the letter before them.
_INDIC = "DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA"
_JOINING = frozenset(f"{_INDIC} ARABIC SYRIAC NKO MONGOLIAN MYANMAR KHMER TIBETAN".split())
_NEEDED = {
    "\u200c": _JOINING,
    "\u200d": _JOINING,
    "\u200b": frozenset(("KHMER", "THAI", "LAO", "MYANMAR", "TIBETAN")),
    "\u180e": frozenset(("MONGOLIAN",)),
}
_EMOJI_PART = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")  # their presentation and skin tones
_SYMBOLS = ("So", "Sm")
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{5}\U000e007f")  # of England, Scotland, Wales


def hidden_at(text: str) -> list[int]:
    """Return where a text holds hidden characters that its script or emoji do not need.

    A joiner is needed between the letters of scripts such as Persian or Hindi, and between emoji.
    """
    hidden = set(filter(is_hidden, set(text)))
    if not hidden:
        return []
    flags = {at for found in _FLAG.finditer(text) for at in range(*found.span())}
    return [
        at
        for at, character in enumerate(text)
        if character in hidden and at not in flags and not _is_needed(text, at)
    ]


def _is_needed(text: str, at: int) -> bool:
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if unicodedata.name(before or " ", "").split(" ")[0] in _NEEDED.get(text[at], ()):
        return unicodedata.category(before)[0] in "LM"
    return (
        text[at] == "\u200d"
        and bool(before and after)
        and (unicodedata.category(before) in _SYMBOLS or bool(_EMOJI_PART.match(before)))
        and unicodedata.category(after) in _SYMBOLS
    )


def hidden_character(text: str) -> str:
    """Name the first hidden character of a text and its place, or return an empty text."""
    found = hidden_at(text)
    if not found:
        return ""
    at = found[0]
    name = unicodedata.name(text[at], _unnamed(text[at]))
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"U+{ord(text[at]):04X} ({name}) in line {line}, column {column}{more}"


def _unnamed(character: str) -> str:
    return (
        "half of a character" if unicodedata.category(character) == "Cs" else "a control character"
    )


_LINE_ENDING = re.compile("\r\n|[\r\u2028\u2029]")


def plain_text(text: str) -> str:
    """Return a text with plain line feeds, no soft hyphens, no byte order mark at its start."""
    return _LINE_ENDING.sub("\n", text).replace("\xad", "").removeprefix("\ufeff")


def defuse(text: str) -> str:
    """Show hidden characters as escapes, and put a harmless angle where our tags would begin."""
    shown = _UNUSUAL.sub(_escaped, _LINE_BREAK.sub("\n", text))
    return _TAG_OPENING.sub(_HARMLESS, shown)


def restore_tags(text: str) -> str:
    """Put the real angles of tags back into a text that a model quotes from a defused one."""
    return _DEFUSED_OPENING.sub("<", text)


def fenced(tag: str, text: str) -> str:
    """Put a text between an opening and a closing tag, each on a line of its own."""
    return f"<{tag}>\n{defuse(text)}\n</{tag}>"


def one_line(text: str, limit: int) -> str:
    """Put a text on one line of at most ``limit`` characters, the end replaced by ``...``."""
    line = " ".join(defuse(text).split())
    return line if len(line) <= limit else f"{line[: max(limit - 3, 0)]}..."


def attribute(text: str) -> str:
    """Make a text fit between the double quotes of a tag's attribute."""
    line = " ".join(defuse(text).split())
    return line.replace('"', "'").replace("<", _HARMLESS).replace(">", _HARMLESS_CLOSING)


def json_block(value: Any) -> str:
    """Write a JSON value whose strings cannot open or close a tag; it reads back unchanged."""
    return _TAG_OPENING.sub(r"\\u003c", dumps(value, indent=1))


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    if not is_hidden(character):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Text that a terminal shows and does not obey.
#
# An escape sequence in untrusted text would move the cursor or hide a line; a bidirectional
# override shows a text in another order.


# C0 but the tab and the line feed, DEL, C1, and what sets the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def without_controls(text: str) -> str:
    """Return a text without control characters; tabs and line feeds stay."""
    return _CONTROLS.sub("", text)


def escaped_controls(text: str) -> str:
    r"""Return a text whose control characters are written as ``\u001b`` is, for JSON and YAML."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
