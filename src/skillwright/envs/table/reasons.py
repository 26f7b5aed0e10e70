"""Reasons why replies are wrong, in words that many rows share, and hints what to change."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from skillwright.envs.table.numbers import same_number, whole_number
from skillwright.envs.table.unicode_forms import alike
from skillwright.envs.table.words import holds_words, unwrapped

_LONGEST_COMPARED: Final = 4000
_LONGEST_NUMBER: Final = 60
_MOST_MARKS: Final = 20


class Reason(StrEnum):
    """A reason that a change of data or settings may fix, the nearest miss first."""

    LISTED = "it is one of the answers that the cell lists"
    PUNCTUATION = "it differs from the answer only in case or punctuation"
    SAME_NUMBER = "it is the answer's number, written differently"
    LONGER = "the answer is in the reply, with more text around it"
    PART = "the answer is only a part of a word or a number of the reply"
    NO_NUMBER = "no number found"
    NO_OBJECT = "no JSON object found"
    CUT_OBJECT = "the reply breaks off inside its final JSON object"
    OTHER_NUMBER = "another number"
    EMPTY = "the reply is empty"
    OTHER = "another answer"


_MOVES: Final[Mapping[str, tuple[str, str]]] = {
    Reason.LISTED: (
        "are one of the answers that the cell lists",
        "scorer one_of accepts each of them",
    ),
    Reason.PUNCTUATION: (
        "differ from the answer only in case or punctuation",
        "scorer f1 ignores punctuation; or show the form of an answer in the prompt",
    ),
    Reason.SAME_NUMBER: (
        "are the answer's number, written differently",
        "scorer number accepts them",
    ),
    Reason.LONGER: (
        "hold the answer with more text around it",
        "scorer contains accepts them; or ask for the answer alone in the prompt",
    ),
    Reason.PART: ("hold the answer only as a part of a word or a number", "read one of them"),
    Reason.NO_NUMBER: ("hold no number", "ask for a number in digits in the prompt"),
    Reason.NO_OBJECT: ("hold no JSON object", "show the JSON object in the prompt"),
    Reason.CUT_OBJECT: (
        "break off inside their final JSON object",
        "raise models.target.max_tokens, or ask for the object alone in the prompt",
    ),
    Reason.EMPTY: ("are empty", "read one of them with skillwright runs view"),
}
_SAY_LITTLE: Final = ("", Reason.OTHER, Reason.OTHER_NUMBER)
_MOST_HINTS: Final = 3


def text_reason(answer: str, right: str, listed: Sequence[str] = ()) -> Reason:
    """Return why an answer that a text scorer refused is wrong."""
    if not answer.strip():
        return Reason.EMPTY
    if any(_is_near(answer, one) for one in listed):
        return Reason.LISTED
    if _is_near(answer, right):
        return Reason.PUNCTUATION
    is_short = max(len(answer), len(right)) <= _LONGEST_NUMBER
    numbers = (whole_number(answer), whole_number(right)) if is_short else ()
    values = [one.value for one in numbers if one is not None and one.value is not None]
    if len(values) == 2 and same_number(values[0], values[1]):
        return Reason.SAME_NUMBER
    given, wanted = alike(answer, right)
    wanted = unwrapped(wanted)
    if wanted not in given:
        return Reason.OTHER
    return Reason.LONGER if holds_words(given, wanted) else Reason.PART


def hints(reasons: Sequence[str]) -> list[str]:
    """Return what replies that are all wrong have in common, and what to change.

    Args:
        reasons: The reason of each reply; ``""`` if unknown.
    """
    counts = Counter(reason for reason in reasons if reason not in _SAY_LITTLE)
    found = []
    for reason, count in counts.most_common(_MOST_HINTS):
        what, move = _MOVES.get(reason, (f"are wrong: {reason}", ""))
        found.append(f"{count} of {len(reasons)} replies {what}" + (f" ({move})" if move else ""))
    return found


def _is_near(answer: str, right: str) -> bool:
    if len(answer) > 2 * len(right) + _MOST_MARKS or len(right) > _LONGEST_COMPARED:
        return False
    given, wanted = (_letters(text) for text in alike(answer, right))
    return given == wanted and bool(given)


def _letters(text: str) -> str:
    """Drop punctuation and blanks, except within numbers: ``1.5`` is not ``15``."""
    kept = (
        letter
        for at, letter in enumerate(text)
        if unicodedata.category(letter)[0] not in "PZ"
        or (text[at + 1 : at + 2].isdigit() and (letter == "-" or text[at - 1 : at].isdigit()))
    )
    return "".join(kept)
