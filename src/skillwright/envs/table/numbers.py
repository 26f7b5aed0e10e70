"""Parse the numbers in texts of people and models, with digits of every script.

The library math-verify does not fit: it limits its time by a signal, which works in the main thread
only, needs SymPy, and parses neither blanks between groups, nor Indian groups, nor other digits.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from skillwright.envs.table.unicode_forms import folded

LONGEST_READ: Final = 50_000
"""Number of characters at the end of a reply that are searched for its answer."""

_MOST_DIGITS: Final = 280
_FORMS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2014\u2015\u2e3a\u2e3b", " "),  # a long dash is no minus sign
        **dict.fromkeys("\u00a0\u202f\u205f", "\u00a0"),
        **{chr(code): "\u00a0" for code in range(0x2000, 0x200B)},
        **{"\u066a": "%", "\u066b": ".", "\u066c": ",", "\u2044": "/", "\u2215": "/"},
        "\u3001": ", ",
    }
)
_SUPERSCRIPT: Final = re.compile("(\\d?)([\u207a\u207b]?[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+)")
_VULGAR: Final = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_ROOT: Final = re.compile(
    r"(?:[\d.]+\s*)?(?:\\*sqrt\s*(?:\[\d+\])?\s*[({]?[^(){}\s]*[)}]?|\u221a\s*\(?\d*\)?|\\*pi\b|\u03c0)"
    r"(?:\s*/\s*\d+)?"
)
_FRACTION: Final = re.compile(
    r"\\+[dtc]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))", re.ASCII
)
_LATEX: Final = (
    (re.compile(r"\\+!"), ""),
    (re.compile(r"\\+[,;: ]"), "\u00a0"),
    (re.compile(r"\\+(?:times|cdot)(?![A-Za-z])"), "\u00d7"),
    (re.compile(r"\\+pm(?![A-Za-z])"), "\u00b1"),
    (re.compile(r"\\+(?:left|right|displaystyle)(?![A-Za-z])"), ""),
    (re.compile(r"\\+(?:text|mathrm|mathbf|textbf|mbox|operatorname)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\+([$%#&_{}])"), r"\1"),
)
_POWERS: Final = (
    (re.compile(r"(?<=\d)\*\*(?=[-+]?\d)"), "^"),
    (re.compile(r"\s*\^\s*"), "^"),
    (re.compile(r"\^\{\s*([-+]?\d+)\s*\}"), r"^\1"),
    (re.compile(r"(?<!\d)\^[-+]?\d+"), ""),  # of a unit
)
_RUN: Final = re.compile(
    r"0[xX][0-9a-fA-F]+|\d+(?:(?:[.,'_:\u00a0]| (?=\d{3}(?!\d)))\d+)*|(?<!\d)\.\d+"
)
_DIGIT: Final = re.compile(r"(?![0-9])\d")
_PIECE: Final = re.compile(r"\d+(?:\.\d+)?")
_GROUPS: Final = re.compile(
    r"[1-9]\d{0,2}(?:([,.'_\u00a0 ])\d{3})(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}"
)
_SIGN: Final = re.compile(
    r"(?:(?<![\w)\]}%.])(?<!\d\s)|(?<![\w)\]}%.])(?=[-+][.\d$\u20ac\u00a3\u00a5\u20b9]?$))"
    r"(?P<sign>[-+])[$\u20ac\u00a3\u00a5\u20b9]?$"
    r"|(?:^|[=:({$]\s*)(?P<apart>-)\s[$\u20ac\u00a3\u00a5\u20b9]?\s?$"
    r"|(?<!\d\s)\b(?P<word>minus|negative|moins|menos)\s$",
    re.IGNORECASE,
)
_NO_ANSWER: Final = re.compile(
    r"(?:[A-Za-z]_\{?|\^\{?[-+]?|\u00b1\s*|\+/-\s*|\bper\s|\d\s(?:out\s)?of\s(?:the\s)?"
    r"|(?:\b(?:not|cannot|nicht|pas|niet|inte|ikke|bukan|\u043d\u0435|no\ses|n\u00e3o\s\u00e9|non\s\u00e8|except"
    r"|instead\sof|rather\sthan|anything\sbut)|n['\u2019]t)\W{1,4}(?:be\s)?"
    r"|(?:\u4e0d\u662f|\u4e0d\u7b49\u4e8e|\u5e76\u975e|\u800c\u975e)\W{0,3})$",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\s?(?:(?:is|was)\s(?:wrong|incorrect)\b|(?:\u3067\u306f|\u3058\u3083)(?:\u306a|\u3042\u308a\u307e\u305b\u3093)"
    r"|[\uac00\uc774]\s?\uc544[\ub2c8\ub2d9])"
)
_RANGE: Final = re.compile(r"\bbetween\s(?:\S+\sand\s)?$", re.IGNORECASE)
_CURRENCY: Final = re.compile(r"(?:USD|EUR|GBP|JPY|CNY|RMB|INR|CHF|AUD|CAD|Rs\.?|kr)$")
_TAIL: Final = re.compile(
    r"\s?[x\u00d7*\u00b7]\s?10(?:\^(?P<ten>[-+]?\d{1,4})|[\u207a\u207b]?[\u00b2\u00b3\u00b9\u2070-\u2079]+)|[eE](?P<e>[-+]?\d{1,4})(?!\w)"
    r"|\^(?P<power>[-+]?\d{1,4})|\s?/\s?(?P<under>\d+(?:\.\d+)?)(?![\d/])"
)
_MIXED: Final = re.compile(r"\s+(?:and\s+)?(\d{1,3})\s?/\s?(\d{1,4})(?![\d/])")
_NAMED_SIZES: Final = {
    **dict.fromkeys(("thousand", "tausend", "ribu", "\u0442\u044b\u0441\u044f\u0447"), 10**3),
    **dict.fromkeys(("million", "milion", "mill\u00f3n", "millon", "milh", "milyon"), 10**6),
    **dict.fromkeys(
        ("\u043c\u0438\u043b\u043b\u0438\u043e\u043d", "juta", "tri\u1ec7u", "mln", "mio", "mn"),
        10**6,
    ),
    **dict.fromkeys(("billion", "milliard", "miliard", "miliar", "milyar", "mrd", "bn"), 10**9),
    **dict.fromkeys(("\u043c\u0438\u043b\u043b\u0438\u0430\u0440\u0434", "t\u1ef7"), 10**9),
    **{"trillion": 10**12, "lakh": 10**5, "crore": 10**7},
}
_SIZES: Final = {
    **_NAMED_SIZES,
    **{"k": 10**3, "m": 10**6, "b": 10**9},
    **dict.fromkeys("\u4e07\u842c\ub9cc", 10**4),
    **dict.fromkeys("\u4ebf\u5104\uc5b5", 10**8),
}
_TIMES: Final = re.compile(
    rf"\s?({'|'.join(sorted(_NAMED_SIZES, key=len, reverse=True))})"
    r"(?:e?s|en?|i|o|a|y|\u00e3o|\u00f5es|\u00f3w|\u0430|\u0438|\u043e\u0432)?\b"
    r"|((?-i:k))(?![^\W\d_])|\s?([\u4e07\u842c\u4ebf\u5104\ub9cc\uc5b5])",
    re.IGNORECASE,
)
_MONEY: Final = re.compile(r"([mb])n?(?![^\W\d_])", re.IGNORECASE)
_WITH_COMMA: Final = re.compile(
    r"(?<![\d,])(?:\d+|\d{1,3}(?:\.\d{3})+),(?:\d{1,2}|\d{4,})(?![\d,.])"
)
_WITH_POINT: Final = re.compile(
    r"(?<![\d.])(?:\d+|\d{1,3}(?:,\d{3})+)\.(?:\d{1,2}|\d{4,})(?![\d,.])"
)
_SHARE: Final = re.compile(
    r"\s?(?:%|percent\b|per\scent\b|pct\b|pro[cz]ent\b|pour\scent\b|por\s?ciento\b)", re.IGNORECASE
)


class Read(NamedTuple):
    """A number in a text.

    Attributes:
        start: Its first character, with the sign.
        end: The character after its last one.
        value: ``None`` for text that only looks like a number: a time, a version, a dotted date, or
            an end of a range "between 3 and 5".
        is_share: Whether a percent sign follows.
    """

    start: int
    end: int
    value: float | None
    is_share: bool = False


def numbers_in(text: str, *, comma: bool = False, every: bool = False) -> Iterator[Read]:
    """Yield the numbers of a text in order; apply `cleaned` first.

    Args:
        text: Any text.
        comma: Whether ``1,234`` has a decimal comma, as in a column with ``3,5``.
        every: Whether to include those that answer nothing: an index, or the 3 of "not 3".
    """
    pos = 0
    while run := _RUN.search(text, pos):
        pos = run.end()
        value, is_list = _value(run[0], comma)
        spans = [(run.start(), run.end(), value)]
        if is_list:
            pieces = _PIECE.finditer(text, run.start(), run.end())
            spans = [(one.start(), one.end(), _value(one[0], comma)[0]) for one in pieces]
        for start, end, plain in spans:
            if every or not _answers_nothing(text, start, end):
                yield (found := _read(text, start, end, plain))
                pos = max(pos, found.end)


def cleaned(text: str) -> str:
    """Rewrite LaTeX, superscripts and signs of a text in the form that `numbers_in` reads."""
    if not text.isascii():
        text = folded(text.translate(_FORMS))
        text = _SUPERSCRIPT.sub(_in_line, text)
        text = _VULGAR.sub(lambda one: " " + unicodedata.normalize("NFKC", one[0]), text)
        text = text.replace("\u2044", "/")
    text = text.replace("{,}", ",")
    if "\\" in text:
        text = _FRACTION.sub(_over, text)
    if any(mark in text for mark in ("sqrt", "pi", "\u221a", "\u03c0")):
        text = _ROOT.sub(" ? ", text)
    if "\\" in text:
        for pattern, new in _LATEX:
            text = pattern.sub(new, text)
    if "^" in text or "**" in text:
        for pattern, new in _POWERS:
            text = pattern.sub(new, text)
    return text


def whole_number(value: Any, *, comma: bool = False) -> Read | None:
    """Read a value that is a single number, maybe with a currency or a percent sign."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return Read(0, 0, value) if abs(value) < 1e300 else None
    text = str(value)
    if "####" in text:
        text = text.rpartition("####")[2]
    if len(text) > LONGEST_READ:
        return None
    boxed = last_box(text)
    text = cleaned(text if boxed is None else boxed).strip()
    found = list(numbers_in(text, comma=comma))
    if len(found) != 1 or found[0].value is None:
        return None
    rest = text[: found[0].start] + text[found[0].end :]
    rest = _CURRENCY.sub("", rest.strip())
    return None if any(map(str.isalnum, rest)) else found[0]


def uses_comma(answers: Iterable[Any]) -> bool:
    """Return whether a column's answers have a decimal comma: some have one, and none a point."""
    found = False
    for answer in answers:
        text = str(answer)
        if _WITH_POINT.search(text):
            return False
        found = found or (isinstance(answer, str) and _WITH_COMMA.search(text) is not None)
    return found


def same_number(one: float, other: float) -> bool:
    """Tell whether two numbers are equal up to floating-point rounding."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return math.isclose(one, other, rel_tol=1e-10, abs_tol=1e-15)


def last_box(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{...}``, or ``None``."""
    at = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if at < 0:
        return None
    start = text.index("{", at) + 1
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return None


def _answers_nothing(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 24) : start]
    is_glued = before[-1:].isalpha() and before[-1] < "\u0530"  # letters of Europe
    is_part = is_glued and not _CURRENCY.search(before)
    return is_part or bool(_NO_ANSWER.search(before) or _DENIED.match(text, end))


def _read(text: str, start: int, end: int, value: float | None) -> Read:
    before = text[max(0, start - 24) : start]
    if value is None or _RANGE.search(before):
        return Read(start, end, None)
    if isinstance(value, int) and (mixed := _MIXED.match(text, end)):
        over, under = int(mixed[1]), int(mixed[2])
        if 0 < over < under:
            value, end = value + over / under, mixed.end()
    elif (tail := _TAIL.match(text, end)) and not (tail["under"] and before.endswith("/")):
        value, end = _with_tail(value, tail), tail.end()
    elif before[-1:] in set("$\u20ac\u00a3\u20b9") and (short := _MONEY.match(text, end)):
        value, end = value * _SIZES[short[1].lower()], short.end()
    for _ in range(2):  # "thousand million", and no more, so that a number stays one
        if (times := _TIMES.match(text, end)) and value is not None:
            value, end = value * _SIZES[times[times.lastindex or 0].lower()], times.end()
    share = _SHARE.match(text, end)
    sign = _SIGN.search(before)
    if sign is not None:
        start -= len(before) - min(
            one for one in map(sign.start, ("sign", "apart", "word")) if one >= 0
        )
        if (sign["sign"] or "-") != "+" and value is not None:
            value = -value
    return Read(start, end, value, share is not None)


def _with_tail(value: float, tail: re.Match[str]) -> float | None:
    try:
        if tail["under"]:
            return value / float(tail["under"])
        if tail["power"]:
            found = float(value) ** int(tail["power"])
        else:
            found = float(f"{value}e{tail['ten'] or tail['e']}")
    except (ArithmeticError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _value(run: str, comma: bool) -> tuple[float | None, bool]:
    """Return the value of digits with separators, and whether they are a list instead."""
    if run[:2] in ("0x", "0X") or ":" in run or len(run) > _MOST_DIGITS:
        return None, False
    if not run.isascii():
        run = _DIGIT.sub(lambda one: str(unicodedata.decimal(one[0])), run)
    if run.isdecimal():
        return int(run), False
    points, commas = run.count("."), run.count(",")
    decimal = "."
    if points and commas:
        decimal = "," if run.rfind(",") > run.rfind(".") else "."
    elif commas == 1:
        decimal = "," if comma or not _GROUPS.fullmatch(run) else "."
    elif points == 1 and comma and _GROUPS.fullmatch(run):
        decimal = ","
    whole, point, part = run.partition(decimal) if run.count(decimal) == 1 else (run, "", "")
    part = part.replace("\u00a0", "")
    is_whole = whole.isdecimal() or not whole or _GROUPS.fullmatch(whole)
    if not is_whole or (point and not part.isdecimal()):
        # Only dots: a version or a date.
        return None, bool(set(run) & set(",'_ \u00a0"))
    digits = re.sub(r"\D", "", whole)
    return (float(f"{digits or 0}.{part}") if point else int(digits)), False


def _in_line(found: re.Match[str]) -> str:
    exponent = unicodedata.normalize("NFKC", found[2]).replace("\u2212", "-")
    return f"{found[1]}^{exponent}" if found[1] else ""


def _over(found: re.Match[str]) -> str:
    over, under = (found[1] or found[2] or "").strip(), (found[3] or found[4] or "").strip()
    if _PIECE.fullmatch(over.lstrip("+-")) and _PIECE.fullmatch(under):
        sign = over[:1] if over[:1] in "+-" else " "
        return f"{sign}{over.lstrip('+-')}/{under}"
    return " ? "
