"""Why a reply is not right, in a few words that many rows share, and what to try next."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from skillwright.envs.table.numbers import same_number, whole_number
from skillwright.envs.table.unicode_forms import alike
from skillwright.envs.table.words import holds_words, unwrapped

_LONGEST_COMPARED: Final = 4000


class Reason(StrEnum):
    """A reason that the data themselves may remedy, the nearest miss first."""

    LISTED = "it is one of the answers that the cell lists"
    PUNCTUATION = "it differs from the answer only in case or punctuation"
    SAME_NUMBER = "it is the answer's number, written differently"
    LONGER = "the answer is in the reply, with more text around it"
    NO_NUMBER = "no number found"
    NO_OBJECT = "no JSON object found"
    CUT_OBJECT = "the reply breaks off inside its final JSON object"
    OTHER_NUMBER = "another number"
    EMPTY = "the reply is empty"
    OTHER = "another answer"


_MOVES: Final[Mapping[Reason, str]] = {
    Reason.LISTED: "scorer one_of accepts each of them",
    Reason.PUNCTUATION: "mend the answers in the table, or let the prompt show how to write them",
    Reason.SAME_NUMBER: "scorer number accepts them",
    Reason.LONGER: "scorer contains accepts them, or let the prompt ask for the answer alone",
    Reason.NO_NUMBER: "let the prompt ask for a number in digits",
    Reason.NO_OBJECT: "let the prompt show the JSON object that it asks for",
    Reason.CUT_OBJECT: "raise models.target.max_tokens",
    Reason.EMPTY: "look at one of them with runs view",
}


def text_reason(answer: str, right: str, listed: Sequence[str] = ()) -> Reason:
    """Say why an answer that a text scorer refused is not the right one."""
    if not answer.strip():
        return Reason.EMPTY
    if any(_is_near(answer, one) for one in listed):
        return Reason.LISTED
    if _is_near(answer, right):
        return Reason.PUNCTUATION
    numbers = whole_number(answer), whole_number(right)
    values = [one.value for one in numbers if one is not None and one.value is not None]
    if len(values) == 2 and same_number(values[0], values[1]):
        return Reason.SAME_NUMBER
    given, wanted = alike(answer, right)
    return Reason.LONGER if holds_words(given, unwrapped(wanted)) else Reason.OTHER


def hints(reasons: Sequence[str]) -> Iterator[str]:
    """Say what replies have in common that are all wrong, and what to change.

    Args:
        reasons: Of every reply; ``""`` where none is known.
    """
    for reason, count in Counter(reasons).most_common():
        if reason in _MOVES:
            yield f"{count} of {len(reasons)} replies: {reason}; {_MOVES[Reason(reason)]}"


def _is_near(answer: str, right: str) -> bool:
    if len(answer) > _LONGEST_COMPARED or len(right) > _LONGEST_COMPARED:
        return False
    given, wanted = (_letters(text) for text in alike(answer, right))
    return given == wanted and bool(given)


def _letters(text: str) -> str:
    """Drop punctuation and blanks, but none of a number: ``1.5`` is not ``15``."""
    kept = (
        letter
        for at, letter in enumerate(text)
        if unicodedata.category(letter)[0] not in "PZ"
        or (text[at + 1 : at + 2].isdigit() and (letter == "-" or text[at - 1 : at].isdigit()))
    )
    return "".join(kept)
