"""Find the number that a reply answers with: boxed, after ``####``, announced, or the last."""

import re
from collections.abc import Sequence
from typing import Final

from skillwright.envs.table.numbers import LONGEST_READ, Read, cleaned, last_box, numbers_in

_MARKED: Final = re.compile(
    r"^[^\S\n]*####[^\w\n]*(?<!\w)([-+]?[^\w\n]?\d[^A-Za-z\n]*)$", re.MULTILINE
)
_ANNOUNCED: Final = re.compile(
    r"(?:\b(?:answers?|results?|solution|antwort|ergebnis|r[e\u00e9]ponse|respuesta|resposta"
    r"|risposta|jawaban|cevap|odpowied\u017a|\u043e\u0442\u0432\u0435\u0442)\b"
    r"|\u7b54\u6848|\u7b54\u3048|\ub2f5|\u0909\u0924\u094d\u0924\u0930"
    r"|\u062c\u0648\u0627\u0628|\u0625\u062c\u0627\u0628\u0629|\u0111\u00e1p \u00e1n)"
    r"[^.?!\n\u3002]{0,60}?"
    r"(?<!\bno\s)(?<!\bnon\s)(?<!\bn\u00e3o\s)(?<!\u4e0d)(?:\b(?:is|ist|est|es|equals|adalah)\b|\u00e9\b|\u00e8\b|[:=\uff1a]"
    r"|\u662f|\u4e3a|\u70ba|\u306f|\uc740|\ub294|\u0939\u0948|\u0647\u0648|\u0647\u064a|l\u00e0)",
    re.IGNORECASE,
)
_CORRECTED: Final = re.compile(
    r"\b(?:wait|actually|correction|sorry|mistake|hmm|oops|no[,:;.])", re.IGNORECASE
)
_SENTENCE_END: Final = re.compile(r"[.!?\u3002](?=\W*(?:\s|$))|\n|\u3002")
_BRACKETS: Final = re.compile(r"(?<=[\w\s])\([^()]*\)")
_FEW_WORDS: Final = re.compile(r"\W*(?:[^\W\d]+\W+){0,2}(?:[^\w\s]|\s)*")
_CONCLUSION: Final = r"\b(?:so|thus|therefore|hence|final|now|wait|actually)\b"
_REMARK: Final = re.compile(
    r"\n\W{0,6}(?:(?:note|confidence|source|hinweis|remarque|nota|\u6ce8)s?\W{0,3}:"
    r"|(?:let me know|i hope|feel free|would you like)\b)[^=]*\Z"
    r"|\n\W{0,6}(?:check|verification|proof)\W{0,3}:"
    rf"(?:(?!{_CONCLUSION})[^\n])*\s{{0,9}}\Z"
    r"|(?<=\d)[^\d\n]{0,12}\n\W{0,6}(?:explanation|reasoning|because|since|this is because)\b"
    rf"(?:(?!{_CONCLUSION}).)*\Z",
    re.IGNORECASE | re.DOTALL,
)
_ASIDE: Final = re.compile(
    r"[,(]\s?(?:(?:(?:since|because|as of|weil|car|porque)\b|\u56e0\u4e3a|\u56e0\u70ba)"
    rf"(?:(?!{_CONCLUSION})[^,;\n])*"
    r"|(?:after|before|within|in|out of|from|for|nach|apr\u00e8s)\s(?:only\s|just\s|about\s)?"
    r"[^\s\w]?\d\S*(?:\s[^\W\d]+){0,2})\W{0,9}\Z",
    re.IGNORECASE,
)
# `42[1]`, and `She has 42 left.[1]`
_CITED: Final = re.compile(r"(?:(?<=\d)\s?|(?<=[.!?]))(?:\[\d{1,3}\])+")
_EMPHASIZED: Final = re.compile(
    r"\*\*(?![A-Z]\w*\s\d)"  # but not a heading: `**Step 2**`
    r"((?:[^\W\d]+(?:\s[^\W\d]+){0,2}\s?)?(?::\s|=\s)?[^\w*\s]{0,2}\d[^*\n:]*)\*\*"
    r"(?:\s[^\W\d]+){0,2}?\s*(?:\(|\b(?:for|per|after|in|from|out of|with)\b)[^*=\n]*\Z"
)
# Two candidates: `40 or 42`, `40-42`
_EITHER: Final = re.compile(
    r"-|,?((?:\s[^\W\d]+){0,2})\s+(?:or|oder|ou|o|\u0438\u043b\u0438)\s+(?:[^\W\d]+\s){0,2}[^\w\s]?"
    r"|\s?(?:\u6216\u8005?|\u307e\u305f\u306f|\ub610\ub294)\s?",
    re.IGNORECASE,
)
_UNIT: Final = re.compile(r"\s([^\W\d]+)")


def final_number(reply: str, *, comma: bool = False) -> Read | None:
    r"""Return the number that a reply answers with, or ``None``.

    The last ``\boxed{...}`` counts over all other numbers, then a line ``#### 18``, then what
    follows the last "the answer is" (in several languages) unless a correction follows it, then
    the last number. Of two candidates (``40 or 42``, ``40-42``) none is the answer.
    """
    text = reply[-LONGEST_READ:]
    boxed = last_box(text)
    if boxed is not None:
        return _last(cleaned(boxed), comma)
    if marked := _MARKED.findall(text):
        return _last(cleaned(marked[-1]), comma)
    text = _CITED.sub("", text)
    if emphasized := _EMPHASIZED.search(text.rstrip()):
        text = emphasized[1]
    text = cleaned(text)
    starts = [one.end() for one in _ANNOUNCED.finditer(text)]
    if starts and not _CORRECTED.search(text, starts[-1]):
        found = _announced(text[starts[-1] :], comma)
        if found is not None:
            return found
    return _last(_without_asides(text), comma)


def _without_asides(text: str) -> str:
    """Cut remarks at the end of a text, such as ``, after 3 years.``, that follow a number."""
    for pattern in (_REMARK, _ASIDE):
        found = pattern.search(text)
        if found and re.search(r"\d", text[: found.start() + 1]):
            text = text[: found.start() + 1]
    return text


def _announced(text: str, comma: bool) -> Read | None:
    """Return the number at the start of a sentence, or after an equals sign, or the last one."""
    text = text.lstrip(" \t\n*:_")
    end = _SENTENCE_END.search(text)
    sentence = _without_asides(text if end is None else text[: end.start()])
    if sentence.count("=") and (result := _last(_BRACKETS.sub("", sentence), comma)):
        return result
    found = list(numbers_in(sentence, comma=comma))
    if not found:
        return None
    if _FEW_WORDS.fullmatch(sentence, 0, found[0].start):
        return None if _is_open(sentence, found[:2]) else _known(found[0])
    return None if _is_open(sentence, found[-2:]) else _known(found[-1])


def _last(text: str, comma: bool) -> Read | None:
    found = list(numbers_in(text, comma=comma))
    return None if not found or _is_open(text, found[-2:]) else _known(found[-1])


def _is_open(text: str, found: Sequence[Read]) -> bool:
    """Return whether two numbers are two candidates for one answer."""
    between = _EITHER.fullmatch(text, found[0].end, found[1].start) if len(found) > 1 else None
    if between is None:
        return False
    one, other = found
    unit, other_unit = (between[1] or "").strip(), _UNIT.match(text, other.end)
    if unit and other_unit and unit != other_unit[1] and _is_multiple(one.value, other.value):
        return False  # `5 hours or 300 minutes`
    return one.is_share == other.is_share and one.value != other.value


def _is_multiple(one: float | None, other: float | None) -> bool:
    """Return whether one of two numbers is a multiple of the other, at least three times it."""
    low, high = sorted((abs(one or 0), abs(other or 0)))
    return low > 0 and high / low > 2.5 and abs(high / low - round(high / low)) < 1e-9


def _known(found: Read) -> Read | None:
    return found if found.value is not None else None
