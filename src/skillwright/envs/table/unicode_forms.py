"""Compare texts as readers do: variants of a character that look alike are folded into one.

Unicode's NFKC goes too far for answers: it turns ``m²`` into ``m2``.
"""

import re
import unicodedata
from typing import Final

_HIDDEN: Final = (
    *range(0x200B, 0x2010),  # zero-width space, joiners and marks of direction
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2065),
    *range(0x2066, 0x206A),
    *range(0xFE00, 0xFE10),  # variation selectors
    *(0xAD, 0x34F, 0x61C, 0x180E, 0xFEFF),
)
_FORMS: Final = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u2039\u203a\u02b9\u02bb\u02bc\u02c8\u00b4\u05f3\ua78c",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u05f4\u300a\u300b\u3008\u3009"
    "\u300c\u300d\u300e\u300f\u301d\u301e\u301f",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\u05be",
    "~": "\u301c\u223c",
    "\u00b7": "\u2022\u2027\u2219\u22c5\u30fb",
    "...": "\u2026",
}


def _table() -> dict[int, str]:
    wide = {
        code: unicodedata.decomposition(chr(code)).split()
        for code in (0x3000, *range(0xFF00, 0xFFF0))
    }
    table = {code: chr(int(parts[1], 16)) for code, parts in wide.items() if len(parts) == 2}
    table |= {ord(form): to for to, forms in _FORMS.items() for form in forms}
    table |= {code: table[ord(to)] for code, to in table.items() if ord(to[0]) in table}
    return table | dict.fromkeys(_HIDDEN, "")


_TABLE: Final = _table()
_SHARP_S: Final = re.compile("[\u00df\u1e9e]")
_TURKISH: Final = re.compile("[\u0130\u0131]")
_TURKISH_LOWER: Final = str.maketrans({"I": "\u0131", "\u0130": "i"})


def folded(text: str) -> str:
    """Return NFC text with one form of width, quotes, dashes and dots, and no hidden character."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.translate(_TABLE))


def alike(one: str, other: str, *, fold: bool = True) -> tuple[str, str]:
    """Normalize two texts so that they become equal if only case and blanks differ.

    Two letters depend on the other text: ``I`` is the capital of a dotless i only in Turkish, and
    ``ß`` equals ``ss`` only if that is in capitals.

    Args:
        one: A text.
        other: The text that it is compared with.
        fold: Whether `folded` applies to both as well.
    """
    texts = (folded(one), folded(other)) if fold else (one, other)
    if any(map(_TURKISH.search, texts)):
        texts = (texts[0].translate(_TURKISH_LOWER), texts[1].translate(_TURKISH_LOWER))
    keep = "" if any("SS" in text for text in texts) else "\u00df"
    return _lower(texts[0], keep), _lower(texts[1], keep)


def _lower(text: str, sharp_s: str) -> str:
    if sharp_s and not text.isascii():
        text = sharp_s.join(part.casefold() for part in _SHARP_S.split(text))
    else:
        text = text.casefold()
    return " ".join(text.split())
