"""Rules of conduct, names of household classes, and storage habits."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from skillwright.worlds.scripted.skilltext.sentences import blocks, sentences, tells_story
from skillwright.worlds.scripted.skilltext.words import concept

# The rules that a household skill can teach.


class Rule(StrEnum):
    """A rule that a skill may ask for or forbid."""

    SEARCH_ONCE = "search_once"
    """Search the places systematically, each once."""
    OPEN_CLOSED = "open_closed"
    """Open closed receptacles to look inside."""
    TAKE_ON_SIGHT = "take_on_sight"
    """Take the wanted object when it is seen."""
    CLEAN_FIRST = "clean_first"
    """Clean the object at a sink basin before placing it, if the task requires it."""
    HEAT_FIRST = "heat_first"
    """Heat the object in the microwave before placing it, if the task requires it."""
    COOL_FIRST = "cool_first"
    """Cool the object in the fridge before placing it, if the task requires it."""
    USE_LAMP = "use_lamp"
    """Carry the object to the lamp and switch it on, if the task requires it."""
    FETCH_SECOND = "fetch_second"
    """Bring one object, then the second, to the same receptacle, if the task requires two."""
    OPEN_TO_PLACE = "open_to_place"
    """Open the destination if it is closed, before placing."""
    LIKELY_FIRST = "likely_first"
    """Look first where such an object is usually kept."""
    CHECK_INVENTORY = "check_inventory"
    """Harmful: check the inventory after every move."""
    EXAMINE_ALL = "examine_all"
    """Harmful: examine every receptacle and object before doing anything else."""
    LOOK_AROUND = "look_around"
    """Harmful: look around after every move."""
    RETURN_TO_START = "return_to_start"
    """Harmful: go back to where the search began, again and again."""
    FEW_PLACES = "few_places"
    """Harmful: search the first few places only."""


GOOD_RULES: Final = (
    Rule.SEARCH_ONCE,
    Rule.OPEN_CLOSED,
    Rule.TAKE_ON_SIGHT,
    Rule.CLEAN_FIRST,
    Rule.HEAT_FIRST,
    Rule.COOL_FIRST,
    Rule.USE_LAMP,
    Rule.FETCH_SECOND,
    Rule.OPEN_TO_PLACE,
    Rule.LIKELY_FIRST,
)
"""Good rules: following them helps, forbidding them harms."""

BAD_RULES: Final = tuple(rule for rule in Rule if rule not in GOOD_RULES)
"""Bad rules: following them wastes steps or ends the search too early."""


@dataclass(frozen=True, slots=True)
class Stance:
    """A statement of a text about a rule."""

    rule: Rule
    wanted: bool  # whether the text asks for the rule or forbids it
    source: str  # the line with the statement, verbatim
    number: int = 0  # number of places, for `Rule.FEW_PLACES`

    @property
    def is_harmful(self) -> bool:
        """Whether it forbids a good rule or asks for a bad one."""
        return self.wanted == (self.rule in BAD_RULES)


@dataclass(frozen=True, slots=True)
class Conduct:
    """The rules of a whole text; a later sentence about a rule overrides an earlier one."""

    # rule -> the last statement about it
    stances: Mapping[Rule, Stance] = field(default_factory=dict)

    def follows(self, rule: Rule) -> bool:
        """Tell whether the text asks for a rule."""
        stance = self.stances.get(rule)
        return stance is not None and stance.wanted

    def forbids(self, rule: Rule) -> bool:
        """Tell whether the text forbids a rule."""
        stance = self.stances.get(rule)
        return stance is not None and not stance.wanted


EXPERT_CONDUCT: Final = Conduct({rule: Stance(rule, True, "") for rule in GOOD_RULES})
"""All good rules, and no bad one."""


# The classes of a household, with their spellings ("credit cards" is class creditcard).


# A hyphen matches a space, a hyphen, or nothing.
_OBJECTS: Final = """
alarm-clock apple baseball-bat basket-ball book bowl box bread butter-knife cd candle cell-phone
cloth credit-card cup desk-lamp dish-sponge egg floor-lamp fork glass-bottle hand-towel kettle
key-chain knife ladle laptop lettuce mug newspaper pan paper-towel pen pencil pepper-shaker pillow
plate plunger pot potato remote-control salt-shaker soap-bar soap-bottle spatula spoon spray-bottle
statue tennis-racket tissue-box toilet-paper-roll toilet-paper tomato towel vase watch watering-can
wine-bottle
"""
_RECEPTACLES: Final = """
arm-chair bathtub-basin bed cabinet cart coffee-machine coffee-table counter-top desk dining-table
drawer dresser fridge garbage-can hand-towel-holder laundry-hamper microwave ottoman safe shelf
side-table sink-basin sofa stove-burner tv-stand toaster toilet-paper-hanger toilet towel-holder
"""
_ALSO_CALLED: Final = {
    "phone": "cellphone",
    "remote": "remotecontrol",
    "sponge": "dishsponge",
    "racket": "tennisracket",
    "bottle of wine": "winebottle",
    "refrigerator": "fridge",
    "cupboard": "cabinet",
    "counter": "countertop",
    "worktop": "countertop",
    "sink": "sinkbasin",
    "bathtub": "bathtubbasin",
    "couch": "sofa",
    "trash can": "garbagecan",
    "bin": "garbagecan",
    "stove": "stoveburner",
    "nightstand": "sidetable",
    "bedside table": "sidetable",
    "hamper": "laundryhamper",
}
_PLURALS: Final = {"knife": "kni(?:fe|ves)", "shelf": "shel(?:f|ves)"}

OBJECT_CLASSES: Final = frozenset(_OBJECTS.replace("-", "").split())
RECEPTACLE_CLASSES: Final = frozenset(_RECEPTACLES.replace("-", "").split())


class Mention(NamedTuple):
    """A class or a single entity that a text mentions."""

    cls: str  # its class
    name: str  # ``"cabinet 3"`` if it is numbered, else the class
    start: int  # position of its first word
    is_place: bool  # whether it is a receptacle or an object


def _forms(spelling: str) -> str:
    words = re.split("[- ]", spelling)
    last = _PLURALS.get(words[-1], rf"{words[-1]}(?:e?s)?")
    return "[ -]?".join([*words[:-1], last])


def _spellings() -> Mapping[str, str]:
    own = {name: name.replace("-", "") for name in f"{_OBJECTS} {_RECEPTACLES}".split()}
    return {**own, **_ALSO_CALLED}


_CLASSES: Final = tuple(_spellings().values())
# Longer spellings first, so that "coffee table" does not match "table".
_ORDER: Final = sorted(enumerate(_spellings()), key=lambda item: -len(item[1]))
_MENTION: Final = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(f"(?P<c{index}>{_forms(spelling)})" for index, spelling in _ORDER)
    + r")(?: (?P<number>\d{1,2}))?(?![\w-])"
)


def mentions(text: str) -> list[Mention]:
    """List the object and receptacle names in a lower-case text, in text order."""
    found = []
    for match in _MENTION.finditer(text):
        group = next(name for name, words in match.groupdict().items() if words and name[0] == "c")
        cls = _CLASSES[int(group[1:])]
        name = f"{cls} {match['number']}" if match["number"] else cls
        found.append(Mention(cls, name, match.start(), cls in RECEPTACLE_CLASSES))
    return found


# Storage habits: "mugs are kept in cabinet 3", in any wording.


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
    """The places of objects of a class."""

    room: str  # ``kitchen``, ``living room``, ``bedroom``, ``bathroom``, or "" for any
    object_class: str
    # receptacles by name ("cabinet 3") or by class ("cabinet"), the likeliest first
    places: tuple[str, ...]
    source: str = ""  # the line with the habit, verbatim


@lru_cache(maxsize=512)
def read_habits(text: str) -> tuple[Habit, ...]:
    """Return the storage habits in a text, in order."""
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
    # "A vase stands on a shelf" is a description; "vases usually stand on shelves" is a habit.
    return not tells_story(text) and bool(re.search(r"[a-z] \d", text) or _GENERAL.search(text))


def _pairs(text: str) -> Iterator[tuple[list[Mention], list[Mention]]]:
    """Pair objects with the places after them, or before them if a place is mentioned first."""
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
