"""Find the words of a text in each script, and remove marks that surround an answer."""

import re
import unicodedata
from typing import Final

from skillwright.envs.table.numbers import numbers_in

_STOPS: Final = ".\u3002\u0964\u06d4\u1362\u104b\u17d4"
_QUOTES: Final = "\"'`\u201c\u201d"
_MOST_TRIED: Final = 2000
_NEAR: Final = 30
_WRAPPED: Final = (
    re.compile(r"(\*{1,3}|\${1,2})(?=[^*$\s])([^*$]*)\1"),
    re.compile(r"()\\[(\[](.*)\\[)\]]"),
    re.compile(r"(\$*)(?:\\\(|\\\[)?\s*\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}\s*(?:\\\)|\\\])?\1"),
    re.compile(r"()\\text(?:bf|rm)?\{([^{}]*)\}"),
)
_LANGUAGE: Final = re.compile(
    r"(?<=^`{3})(?:text|txt|plaintext|markdown|md|json|ya?ml|python|sql|html|xml|bash|sh)\s(?=.+`{3}\s*$)",
    re.DOTALL,
)
"""The language of a code block that is a whole answer."""
_NO_BLANKS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u3096\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED: Final = re.compile(f"[{_NO_BLANKS}]")
_POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")
_MINUS: Final = re.compile(r"(?<!\w)-(?=\.?\d)")
_SIGNED: Final = re.compile(r"[-+]\.?\d")
_KOREAN: Final = re.compile(  # particles and the copula, which are written onto a noun
    "(?=[\uac00-\ud7a3])(?:\uc5d0\uc11c|\uc5d0\uac8c|\uae4c\uc9c0|\ubd80\ud130|\uc73c?\ub85c|\ubcf4\ub2e4)?"
    "(?:[\uc740\ub294\uc774\uac00\uc744\ub97c\uc758\uc5d0\uc640\uacfc\ub3c4\ub9cc]|\uc785\ub2c8\ub2e4|\uc774?\ub2e4|\uc774\uc5d0\uc694|\uc608\uc694"
    "|\uc774?\uace0|\uc774?\uba70)?(?![\uac00-\ud7a3])"
)
_KATAKANA: Final = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]")
_HAN_DIGIT: Final = frozenset(
    "\u3007\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u4e07\u842c\u4ebf\u5104\u96f6"
)


def unwrapped(text: str) -> str:
    r"""Return a text without quotes, emphasis or ``\boxed{}`` around it, and a final period.

    If nothing would be left, the text stays unchanged.
    """
    bare = _LANGUAGE.sub("", text)
    for _ in range(3):
        before = bare
        bare = bare.strip(_QUOTES + " ").rstrip(_STOPS + _QUOTES + " ")
        for pattern in _WRAPPED:
            if any(mark in bare for mark in "{*$\\"):
                bare = found[2].strip() if (found := pattern.fullmatch(bare)) else bare
        if bare == before:
            break
    return bare or text


def holds_words(text: str, wanted: str) -> bool:
    """Tell whether a text holds another as whole words and whole numbers.

    Scripts without blanks between words (Chinese, Japanese, Thai) have no word boundaries, except
    katakana words and Chinese numerals. ``can't`` does not hold ``can``, nor ``non-toxic``
    ``toxic``, nor ``C++`` ``C``.
    """
    at = -1
    for _ in range(_MOST_TRIED):
        at = text.find(wanted, at + 1) if wanted else -1
        if at < 0:
            return False
        end = at + len(wanted)
        is_part = (
            _is_joined(text[at - 1 : at], wanted[0])
            or (_is_joined(wanted[-1], text[end : end + 1]) and not _KOREAN.match(text, end))
            or (_SIGNED.match(wanted) and text[at - 1 : at].isalnum())
            or text.startswith(("'t", "++", "#", "-free"), end)
            or text.endswith(("non-", "anti-"), 0, at)
        )
        if not is_part and not _cuts_number(text, at, end):
            return True
    return False


def _cuts_number(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text begins or ends inside a number."""
    if not (text[start].isdigit() or text[end - 1].isdigit()):
        return False
    first = max(0, start - _NEAR)
    near = text[first : end + _NEAR]
    return any(
        one.start < start - first < one.end or one.start < end - first < one.end
        for one in numbers_in(near, every=True)
    )


def for_f1(text: str) -> str:
    """Prepare a text for SQuAD's F1, which is made for English.

    Punctuation of other scripts is dropped too, characters of scripts without blanks are words, and
    numbers keep their point and sign, so that ``1.5`` is not ``15``.
    """
    if not text.isascii():
        kept = (
            " " if unicodedata.category(letter)[0] == "P" and not letter.isascii() else letter
            for letter in text
        )
        text = _UNSPACED.sub(r" \g<0> ", "".join(kept))
    return _MINUS.sub("\u2212", _POINT.sub("\u00b7", text))


def _is_joined(left: str, right: str) -> bool:
    """Tell whether two neighboring characters belong to one word; "" is the end of a text."""
    if not (left and right):
        return False
    if unicodedata.category(right)[0] == "M":  # an accent or a vowel sign of what is before it
        return True
    if _KATAKANA.match(left) and _KATAKANA.match(right):
        return True
    if left in _HAN_DIGIT and right in _HAN_DIGIT:
        return True
    return _is_spaced(left) and _is_spaced(right)


def _is_spaced(letter: str) -> bool:
    is_word = letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M"
    return is_word and not _UNSPACED.match(letter) and not _KATAKANA.match(letter)
