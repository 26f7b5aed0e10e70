"""Everyday knowledge: where things of a class may be. A skill must ask for it to be used.

Source: the content lists of ALFRED's receptacles (Shridhar et al., 2020).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from skillwright.scripted.household.observation import class_of

_SEAT: Final = """
basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol
"""
_DESK: Final = """
alarmclock basketball book bowl box cd candle cellphone cloth creditcard cup glassbottle keychain
laptop mug newspaper pen pencil plate remotecontrol spraybottle statue tennisracket tissuebox
toiletpaper toiletpaperroll vase watch wateringcan winebottle desklamp
"""
_FOOD: Final = (
    "apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle"
)
_HELD: Final = {
    "armchair": _SEAT,
    "ottoman": _SEAT,
    "sofa": _SEAT,
    "bathtubbasin": "cloth dishsponge handtowel soapbar",
    "bed": "baseballbat basketball book cellphone laptop newspaper pillow tennisracket",
    "cabinet": """
        book bowl box cd candle cloth cup dishsponge glassbottle handtowel kettle ladle mug
        newspaper pan peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle
        tissuebox toiletpaper toiletpaperroll vase wateringcan winebottle
    """,
    "cart": """
        candle cloth dishsponge handtowel mug papertowel plunger soapbar soapbottle spraybottle
        statue tissuebox toiletpaper toiletpaperroll vase
    """,
    "coffeemachine": "mug",
    "desk": _DESK,
    "dresser": _DESK,
    "drawer": """
        book butterknife cd candle cellphone cloth creditcard dishsponge fork handtowel keychain
        knife ladle newspaper pen pencil peppershaker remotecontrol saltshaker soapbar soapbottle
        spatula spoon spraybottle tissuebox toiletpaper toiletpaperroll watch wateringcan
    """,
    "fridge": _FOOD,
    "garbagecan": """
        apple bread cd cloth dishsponge egg handtowel lettuce newspaper papertowel pen pencil potato
        soapbar soapbottle spraybottle tissuebox toiletpaper toiletpaperroll tomato winebottle
    """,
    "handtowelholder": "handtowel",
    "laundryhamper": "cloth",
    "microwave": "apple bowl bread cup egg glassbottle mug plate potato tomato",
    "safe": "cd cellphone creditcard keychain statue vase watch",
    "shelf": f"""
        {_DESK} cloth dishsponge handtowel kettle papertowel peppershaker saltshaker soapbar
    """,
    "sinkbasin": f"{_FOOD} butterknife cloth dishsponge fork handtowel kettle knife ladle soapbar",
    "stoveburner": "kettle pan pot",
    "toaster": "",
    "toilet": """
        candle cloth dishsponge handtowel newspaper papertowel soapbar soapbottle spraybottle
        tissuebox toiletpaper toiletpaperroll
    """,
    "toiletpaperhanger": "toiletpaper toiletpaperroll",
    "towelholder": "towel",
    "tvstand": "tissuebox",
}
_CONTENTS: Final = {place: frozenset(words.split()) for place, words in _HELD.items()}
_NEVER_ON_TABLES: Final = frozenset({"pillow", "plunger", "towel"})
_WITH_DOORS: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "box"})
LAMP_CLASSES: Final = frozenset({"desklamp", "floorlamp"})
_LAMP_STANDS: Final = frozenset({"desk", "dresser", "shelf", "sidetable"})


def may_hold(place: str, thing: str) -> bool:
    """Tell whether things of a class are found in receptacles of a class; tables hold most."""
    if thing in LAMP_CLASSES:
        return place in _LAMP_STANDS
    held = _CONTENTS.get(place)
    return thing not in _NEVER_ON_TABLES if held is None else thing in held


def by_likelihood(places: Iterable[str], thing: str) -> Sequence[str]:
    """Sort places ("cabinet 3"): where the thing may be first, and open ones before closed ones."""

    def unlikeliness(place: str) -> tuple[bool, bool]:
        cls = class_of(place)
        return not may_hold(cls, thing), cls in _WITH_DOORS

    return sorted(places, key=unlikeliness)
