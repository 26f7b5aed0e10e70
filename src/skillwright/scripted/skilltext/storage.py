"""Storage habits: "mugs are kept in cabinet 3", in whatever words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from skillwright.scripted.skilltext.patterns import concept
from skillwright.scripted.skilltext.sentences import blocks, sentences
from skillwright.scripted.skilltext.statements import tells_story
from skillwright.scripted.skilltext.things import Mention, mentions

_KEPT = concept("""
    kept / stored / found / located / find / finds / lives? / sits? / lies? / belongs? / usually
    normally / typically / mostly / often / look~ for / search~ for / look~ first / start~ with
    holds? / contains? / houses? / keeps? / stores? / try / check~ / home of / always / begin~ with
    waits? / hides? / hidden / tend to be / stands? / rests? / (?:are|is) (?:in|on|inside)
""")
_OTHER_ERRAND = concept("""
    put~ / putting / place / placing / deliver~ / carry~ / bring~ / heat~ / cool~ / clean~ / wash~
    open~ / examine~ / warm~ / chill~ / go back / return~ / use~ / switch~ / close~
""")
_GENERAL = concept("""
    usually / normally / typically / mostly / often / always / look~ / search~ / start~ / try
    check~ / kept / stored / begin~ / tend to / belongs? / likely
""")
_DENIED = re.compile(r"\b(?:not|never|no|rarely|seldom|hardly|avoid|unlikely)\b")
_ROOM = re.compile(r"\b(kitchen|living ?room|bedroom|bathroom)\b")


@dataclass(frozen=True, slots=True)
class Habit:
    """Where objects of a class are kept."""

    room: str  # ``kitchen``, ``living room``, ``bedroom``, ``bathroom``, or "" for any
    object_class: str  # what is kept there
    # receptacles by name ("cabinet 3") or by class ("cabinet"), the likeliest first
    places: tuple[str, ...]
    source: str = ""  # the line that says so, verbatim


@lru_cache(maxsize=512)
def read_habits(text: str) -> tuple[Habit, ...]:
    """Return the storage habits that a text tells, in order."""
    found: list[Habit] = []
    for block in blocks(text):
        for sentence in sentences(block):
            if _is_about_storage(sentence.text):
                room = _ROOM.search(sentence.text)
                where = re.sub("living ?room", "living room", room[0]) if room else ""
                for objects, places in _pairs(sentence.text):
                    names = tuple(dict.fromkeys(place.name for place in places))
                    found += [Habit(where, one.cls, names, sentence.source) for one in objects]
    return tuple(found)


def _is_about_storage(text: str) -> bool:
    if not _KEPT.search(text) or _OTHER_ERRAND.search(text) or _DENIED.search(text):
        return False
    # "A vase stands on a shelf" describes; "vases usually stand on shelves" tells a habit.
    return not tells_story(text) and bool(re.search(r"[a-z] \d", text) or _GENERAL.search(text))


def _pairs(text: str) -> Iterator[tuple[list[Mention], list[Mention]]]:
    """Pair objects with the places named after them; where a place is named first, before them."""
    named = mentions(text)
    if len(named) < 2:
        return
    leading = named[0].is_place
    first: list[Mention] = []
    second: list[Mention] = []
    for mention in named:
        if mention.is_place == leading:
            if second:
                yield (second, first) if leading else (first, second)
                first, second = [], []
            first.append(mention)
        else:
            second.append(mention)
    if second:
        yield (second, first) if leading else (first, second)
