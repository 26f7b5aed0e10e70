"""The classes of a household, and how people spell them ("credit cards" is class creditcard)."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

# A hyphen stands where people may write a space or nothing.
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
    """A class or a single entity that a text names."""

    cls: str  # its class
    name: str  # ``"cabinet 3"`` where it is numbered, else the class
    start: int  # where its words begin
    is_place: bool  # it is a receptacle, not an object


def _forms(spelling: str) -> str:
    words = re.split("[- ]", spelling)
    last = _PLURALS.get(words[-1], rf"{words[-1]}(?:e?s)?")
    return "[ -]?".join([*words[:-1], last])


def _spellings() -> Mapping[str, str]:
    own = {name: name.replace("-", "") for name in f"{_OBJECTS} {_RECEPTACLES}".split()}
    return {**own, **_ALSO_CALLED}


_CLASSES: Final = tuple(_spellings().values())
# Longer spellings first: a coffee table is no table, a toilet paper hanger no toilet.
_ORDER: Final = sorted(enumerate(_spellings()), key=lambda item: -len(item[1]))
_MENTION: Final = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(f"(?P<c{index}>{_forms(spelling)})" for index, spelling in _ORDER)
    + r")(?: (?P<number>\d{1,2}))?(?![\w-])"
)


def mentions(text: str) -> list[Mention]:
    """List the classes and entities that a lower-case text names, in order."""
    found = []
    for match in _MENTION.finditer(text):
        group = next(name for name, words in match.groupdict().items() if words and name[0] == "c")
        cls = _CLASSES[int(group[1:])]
        name = f"{cls} {match['number']}" if match["number"] else cls
        found.append(Mention(cls, name, match.start(), cls in RECEPTACLE_CLASSES))
    return found
