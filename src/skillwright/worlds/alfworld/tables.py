"""Data for our own games: contents of receptacles, properties of objects, frequencies.

Classes are lower-case ("cabinet"); `TYPE_NAMES` has their PDDL type names ("CabinetType").
Source: ALFRED (Shridhar et al., 2020) and ALFWorld (Shridhar et al., 2021): the class lists of the
simulator, the six task types, and statistics over the 120 floor plans.
"""

from collections.abc import Mapping
from typing import NamedTuple

KITCHEN, LIVING_ROOM, BEDROOM, BATHROOM = "kitchen", "living room", "bedroom", "bathroom"

SCENES_PER_ROOM = 30

LOOK, PICK_TWO = "look_at_obj_in_light", "pick_two_obj_and_place"


class TaskType(NamedTuple):
    """One of the six types of task."""

    name: str  # its official name
    category: str  # category in a skill bank; source: SkillRL (arXiv 2602.08234)
    templates: tuple[str, str]  # task sentences with `{obj}`, `{target}` and `{toggle}` slots
    rooms: tuple[str, ...]  # kinds of room of its games
    trait: str = ""  # property that the object needs, or ""
    verb: str = ""  # command that gives the object its state, or ""
    appliance: str = ""  # receptacle class that the verb needs, or ""


class Frequency(NamedTuple):
    """How often a receptacle class occurs in a kind of room."""

    scenes: int  # floor plans that have it, of `SCENES_PER_ROOM`
    fewest: int  # smallest number in a floor plan that has it
    most: int  # largest number in a floor plan that has it


class Room(NamedTuple):
    """Statistics of a kind of room: receptacle classes, and object class -> scenes with it."""

    receptacles: Mapping[str, Frequency]
    objects: Mapping[str, int]


ALL_TASK_TYPES = (
    TaskType(
        "pick_and_place_simple",
        "pick_and_place",
        ("put a {obj} in {target}", "put some {obj} on {target}"),
        (KITCHEN, LIVING_ROOM, BEDROOM, BATHROOM),
    ),
    TaskType(
        LOOK,
        "look_at_obj_in_light",
        ("look at {obj} under the {toggle}", "examine the {obj} with the {toggle}"),
        (LIVING_ROOM, BEDROOM),
    ),
    TaskType(
        "pick_clean_then_place_in_recep",
        "clean",
        ("put a clean {obj} in {target}", "clean some {obj} and put it in {target}"),
        (KITCHEN, BATHROOM),
        trait="cleanable",
        verb="clean",
        appliance="sinkbasin",
    ),
    TaskType(
        "pick_heat_then_place_in_recep",
        "heat",
        ("put a hot {obj} in {target}", "heat some {obj} and put it in {target}"),
        (KITCHEN,),
        trait="heatable",
        verb="heat",
        appliance="microwave",
    ),
    TaskType(
        "pick_cool_then_place_in_recep",
        "cool",
        ("put a cool {obj} in {target}", "cool some {obj} and put it in {target}"),
        (KITCHEN,),
        trait="coolable",
        verb="cool",
        appliance="fridge",
    ),
    TaskType(
        PICK_TWO,
        "pick_two",
        ("put two {obj} in {target}", "find two {obj} and put them in {target}"),
        (KITCHEN, LIVING_ROOM, BEDROOM, BATHROOM),
    ),
)

CATEGORIES = {one.name: one.category for one in ALL_TASK_TYPES}
"""Official task type -> category of a skill bank."""

_RECEPTACLES = """
ArmChair BathtubBasin Bed Cabinet Cart CoffeeMachine CoffeeTable CounterTop Desk DiningTable Drawer
Dresser Fridge GarbageCan HandTowelHolder LaundryHamper Microwave Ottoman PaintingHanger Safe Shelf
SideTable SinkBasin Sofa StoveBurner TVStand Toaster Toilet ToiletPaperHanger TowelHolder
"""

_PLACEABLE = """
AlarmClock Apple AppleSliced BaseballBat BasketBall Book Bowl Box Bread BreadSliced ButterKnife CD
Candle CellPhone Cloth CreditCard Cup DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain
Knife Ladle Laptop Lettuce LettuceSliced Mug Newspaper Pan PaperTowel Pen Pencil PepperShaker Pillow
Plate Plunger Pot Potato PotatoSliced RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon
SprayBottle Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll Tomato TomatoSliced Towel Vase
Watch WateringCan WineBottle
"""

_LAMPS = "DeskLamp FloorLamp"

TYPE_NAMES: Mapping[str, str] = {
    name.lower(): f"{name}Type" for name in f"{_RECEPTACLES} {_PLACEABLE} {_LAMPS}".split()
}


def _classes(names: str) -> frozenset[str]:
    return frozenset(names.lower().split())


RECEPTACLES = _classes(_RECEPTACLES)
PLACEABLE = _classes(_PLACEABLE)
LAMPS = _classes(_LAMPS)
LAMP_PLACES = _classes("Desk Dresser Shelf SideTable")

OPENABLE = _classes("Box Cabinet Drawer Fridge Microwave Safe")

_SLICED = "AppleSliced LettuceSliced PotatoSliced TomatoSliced"

TRAITS: Mapping[str, frozenset[str]] = {
    "cleanable": _classes(
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan "
        f"Plate Pot Potato SoapBar Spatula Spoon Tomato {_SLICED}"
    ),
    "heatable": _classes(
        "Apple AppleSliced Bread BreadSliced Cup Egg Mug Plate Potato PotatoSliced Tomato "
        "TomatoSliced"
    ),
    "coolable": _classes(
        f"Apple Bowl Bread BreadSliced Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato {_SLICED} "
        "WineBottle"
    ),
    "sliceable": _classes("Apple Bread Egg Lettuce Potato Tomato"),
    "toggleable": LAMPS,
    "receptacle": _classes("Bowl Box Cup Mug Pan Plate Pot"),
}
"""Trait -> the object classes that have it. ``pickupable`` is left out: all but lamps have it."""

_TABLETOP = PLACEABLE - _classes("Pillow Plunger Towel")
_SEAT = _classes(
    "BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl"
)
_DRESSER = _classes(
    "AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle "
    "KeyChain Laptop Mug Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket "
    "TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle"
)

CAN_CONTAIN: Mapping[str, frozenset[str]] = {
    "armchair": _SEAT,
    "bathtubbasin": _classes("Cloth DishSponge HandTowel SoapBar"),
    "bed": _classes("BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket"),
    "cabinet": _classes(
        "Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug "
        "Newspaper Pan PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle "
        "TissueBox ToiletPaper ToiletPaperRoll Vase WateringCan WineBottle"
    ),
    "cart": _classes(
        "Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle "
        "Statue TissueBox ToiletPaper ToiletPaperRoll Vase"
    ),
    "coffeemachine": _classes("Mug"),
    "coffeetable": _TABLETOP,
    "countertop": _TABLETOP,
    "desk": _DRESSER | _classes("SoapBottle"),
    "diningtable": _TABLETOP,
    "drawer": _classes(
        "Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain "
        "Knife Ladle Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle "
        "Spatula Spoon SprayBottle TissueBox ToiletPaper ToiletPaperRoll Watch WateringCan"
    ),
    "dresser": _DRESSER,
    "fridge": _classes(
        "Apple AppleSliced Bowl Bread BreadSliced Cup Egg Glassbottle Lettuce LettuceSliced Mug "
        "Pan Plate Pot Potato PotatoSliced Tomato TomatoSliced WineBottle"
    ),
    "garbagecan": _classes(
        "Apple AppleSliced Bread BreadSliced CD Cloth DishSponge Egg HandTowel Lettuce "
        "LettuceSliced Newspaper PaperTowel Pen Pencil Potato PotatoSliced SoapBar SoapBottle "
        "SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato TomatoSliced WineBottle"
    ),
    "handtowelholder": _classes("HandTowel"),
    "laundryhamper": _classes("Cloth"),
    "microwave": _classes(
        "Apple AppleSliced Bowl Bread BreadSliced Cup Egg Glassbottle Mug Plate Potato "
        "PotatoSliced Tomato TomatoSliced"
    ),
    "ottoman": _SEAT,
    "safe": _classes("CD CellPhone CreditCard KeyChain Statue Vase Watch"),
    "shelf": _classes(
        "AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle "
        "HandTowel Kettle KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot "
        "RemoteControl SaltShaker SoapBar SoapBottle SprayBottle Statue TissueBox ToiletPaper "
        "ToiletPaperRoll Vase Watch WateringCan WineBottle"
    ),
    "sidetable": _TABLETOP,
    "sinkbasin": _classes(
        "Apple AppleSliced Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel "
        "Kettle Knife Ladle Lettuce LettuceSliced Mug Pan Plate Pot Potato PotatoSliced SoapBar "
        "Spatula Spoon Tomato TomatoSliced"
    ),
    "sofa": _SEAT,
    "stoveburner": _classes("Kettle Pan Pot"),
    "tvstand": _classes("TissueBox"),
    "toaster": _classes("BreadSliced"),
    "toilet": _classes(
        "Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle "
        "TissueBox ToiletPaper ToiletPaperRoll"
    ),
    "toiletpaperhanger": _classes("ToiletPaper ToiletPaperRoll"),
    "towelholder": _classes("Towel"),
}
"""Receptacle class -> object classes that it takes. Movable receptacles are left out: no command
puts anything into them."""

HOLDERS: Mapping[str, frozenset[str]] = {
    **{cls: frozenset(r for r in CAN_CONTAIN if cls in CAN_CONTAIN[r]) for cls in PLACEABLE},
    **dict.fromkeys(LAMPS, LAMP_PLACES),
}
"""Object class -> receptacle classes that it may lie in, and where lamps stand."""

USES = tuple(
    _classes(names)
    for names in (
        "Bowl Cup Mug Plate",
        "Kettle Pan Pot",
        "ButterKnife Fork Knife Ladle Spatula Spoon",
        "Apple Bread Egg Lettuce Potato Tomato",
        "PepperShaker SaltShaker",
        "Glassbottle SoapBottle SprayBottle WateringCan WineBottle",
        "Cloth DishSponge HandTowel Towel",
        "PaperTowel SoapBar TissueBox ToiletPaper ToiletPaperRoll",
        "Book Laptop Newspaper",
        "Pen Pencil",
        "CD CellPhone CreditCard KeyChain RemoteControl Watch",
        "AlarmClock Box Candle Statue Vase",
        "BaseballBat BasketBall TennisRacket",
    )
)
"""Our own grouping of objects of similar use: what one may be mistaken for another."""


def _room(receptacles: str, objects: str) -> Room:
    """Read ``Class scenes fewest-most`` entries (``fewest-most`` defaults to 1-1) and objects."""
    places = {}
    for entry in receptacles.split(","):
        name, scenes, *span = entry.split()
        fewest, most = (span[0] if span else "1-1").split("-")
        places[name.lower()] = Frequency(int(scenes), int(fewest), int(most))
    words = [entry.split() for entry in objects.split(",")]
    return Room(places, {name.lower(): int(scenes) for name, scenes in words})


ROOMS: Mapping[str, Room] = {
    KITCHEN: _room(
        "Cabinet 30 2-28, CoffeeMachine 30, CounterTop 30 1-4, DiningTable 16 1-3, Drawer 28 1-27, "
        "Fridge 30, GarbageCan 30, Microwave 30, Safe 1, Shelf 5 2-3, SideTable 3, SinkBasin 30, "
        "StoveBurner 30, Toaster 30",
        "Apple 30, Book 2, Bowl 30, Bread 30, ButterKnife 29, CellPhone 4, CreditCard 3, Cup 30, "
        "DishSponge 30, Egg 30, Fork 30, Glassbottle 7, Kettle 15, Knife 30, Ladle 10, Lettuce 30, "
        "Mug 30, Pan 30, Pen 2, Pencil 2, PepperShaker 30, Plate 30, Pot 30, Potato 30, "
        "SaltShaker 30, SoapBottle 30, Spatula 30, Spoon 30, SprayBottle 2, Statue 4, Tomato 30, "
        "Vase 4, WineBottle 10",
    ),
    LIVING_ROOM: _room(
        "ArmChair 27 1-3, Cabinet 4 4-8, CoffeeTable 25 1-2, Desk 1, DiningTable 14 1-2, "
        "Drawer 23 1-19, Dresser 10 1-2, GarbageCan 30, Ottoman 4, Safe 2, Shelf 12 1-14, "
        "SideTable 24 1-5, Sofa 30 1-2, TVStand 12 1-2",
        "Book 7, Bowl 4, Box 30, Candle 3, CellPhone 7, CreditCard 30, DeskLamp 7, FloorLamp 30, "
        "KeyChain 30, Laptop 30, Newspaper 18, Pen 5, Pencil 4, Pillow 30, Plate 10, "
        "RemoteControl 30, Statue 29, TissueBox 9, Vase 18, Watch 16, WateringCan 13",
    ),
    BEDROOM: _room(
        "ArmChair 6 1-3, Bed 30 1-2, Cabinet 5 1-4, CoffeeTable 1, CounterTop 1, Desk 19 1-2, "
        "DiningTable 5, Drawer 29 1-14, Dresser 15 1-2, GarbageCan 30, LaundryHamper 8, Safe 5, "
        "Shelf 20 1-14, SideTable 19 1-2",
        "AlarmClock 30, BaseballBat 13, BasketBall 11, Book 30, Bowl 13, Box 12, CD 30, "
        "CellPhone 30, Cloth 5, CreditCard 30, DeskLamp 20, KeyChain 30, Laptop 30, Mug 16, "
        "Pen 30, Pencil 30, Pillow 30, RemoteControl 3, Statue 4, TennisRacket 10, TissueBox 4, "
        "Vase 3, Watch 2",
    ),
    BATHROOM: _room(
        "BathtubBasin 20, Cabinet 15 2-9, Cart 2, CounterTop 25 1-2, Drawer 15 1-8, Dresser 2, "
        "GarbageCan 30, HandTowelHolder 30 2-2, Shelf 8 1-4, SideTable 2, SinkBasin 30 1-2, "
        "Toilet 30, ToiletPaperHanger 30, TowelHolder 30 2-2",
        "Candle 30, Cloth 30, DishSponge 6, FloorLamp 2, HandTowel 30, Plunger 30, SoapBar 30, "
        "SoapBottle 30, SprayBottle 30, TissueBox 9, ToiletPaper 30, Towel 30",
    ),
}
