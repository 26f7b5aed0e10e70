"""What the household says: every observation, byte for byte.

Source: the text grammar of ALFWorld 0.4 (alfworld/alfworld), and for the dialect ``"2.1.1"`` that
of 0.3, which older papers and prompts use.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

WELCOME: Final = "-= Welcome to TextWorld, ALFRED! =-"
TASK_MARK: Final = "Your task is to: "
REJECTED: Final = "Nothing happens."

# The line about `move` is narrower than the others in the original, too.
HELP: Final = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

# (states that must all hold, the words they give); the first match counts.
_CONDITIONS: Final = (
    ({"clean", "hot", "sliced"}, "hot and clean sliced"),
    ({"clean", "cool", "sliced"}, "cool and clean sliced"),
    ({"clean", "sliced"}, "clean sliced"),
    ({"hot", "sliced"}, "hot sliced"),
    ({"cool", "sliced"}, "cool sliced"),
    ({"clean", "hot"}, "hot and clean"),
    ({"clean", "cool"}, "cool and clean"),
    ({"hot"}, "hot"),
    ({"clean"}, "clean"),
    ({"cool"}, "cold"),
)


def joined(phrases: Sequence[str]) -> str:
    """Join phrases as the original does: ``", and "`` before the last, also for two of them."""
    if len(phrases) < 2:
        return phrases[0] if phrases else "nothing"
    return f"{', '.join(phrases[:-1])}, and {phrases[-1]}"


def a_list(names: Iterable[str]) -> str:
    """Join names, each with the article ``a``; no name gives ``nothing``."""
    return joined([f"a {name}" for name in names])


def opening(scene: str, goal_text: str) -> str:
    """The first text of a game: welcome, scene and task."""
    return f"{WELCOME}\n\n{scene}\n\n{TASK_MARK}{goal_text}."


def room(receptacles: Iterable[str]) -> str:
    """The view from a place without receptacles."""
    return (
        "You are in the middle of a room. Looking quickly around you, "
        f"you see {a_list(receptacles)}."
    )


def facing(receptacles: Sequence[str], beside: Iterable[str]) -> str:
    """The view from a place with receptacles; ``beside`` are objects that were taken out of one."""
    return f"You are facing the {joined(receptacles)}. Next to it, you see {a_list(beside)}."


def surface(name: str, contents: Iterable[str]) -> str:
    """A receptacle without a door."""
    return f"On the {name}, you see {a_list(contents)}."


def inside(name: str, contents: Iterable[str]) -> str:
    """A receptacle whose door is open."""
    return f"The {name} is open. In it, you see {a_list(contents)}."


def shut(name: str) -> str:
    """A receptacle whose door is closed."""
    return f"The {name} is closed."


def condition(name: str, traits: AbstractSet[str], states: AbstractSet[str]) -> str:
    """An object without an inside, examined in the hand."""
    for needed, words in _CONDITIONS:
        if needed <= states:
            return f"This is a {words} {name}."
    if "toggleable" in traits:
        return f"This {name} is {'on' if 'toggled' in states else 'off'}."
    if "sliceable" in traits and "sliced" in states:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."


def container(name: str, inner: Iterable[str]) -> str:
    """A movable receptacle, examined in the hand; it never reports its own condition."""
    return f"This is a normal {name}. In it, you see {a_list(inner)}."


def arrived(name: str, view: str) -> str:
    """The agent went somewhere and sees the receptacle that it went to."""
    return f"You arrive at {name}. {view}"


def opened(name: str, view: str) -> str:
    """A door was opened; the receptacle is seen."""
    return f"You open the {name}. {view}"


def closed(name: str) -> str:
    """A door was closed."""
    return f"You close the {name}."


def taken(thing: str, place: str) -> str:
    """An object was taken."""
    return f"You pick up the {thing} from the {place}."


def move_command(thing: str, place: str, dialect: str) -> str:
    """The command that puts an object down."""
    return f"move {thing} to {place}" if dialect == "0.4" else f"put {thing} in/on {place}"


def moved(thing: str, place: str, dialect: str) -> str:
    """An object was put down."""
    how = f"move the {thing} to" if dialect == "0.4" else f"put the {thing} in/on"
    return f"You {how} the {place}."


def treated(verb: str, thing: str, place: str) -> str:
    """An object was cleaned, heated or cooled."""
    return f"You {verb} the {thing} using the {place}."


def turned_on(thing: str) -> str:
    """A lamp was switched on."""
    return f"You turn on the {thing}."


def sliced(thing: str, knife: str) -> str:
    """An object was sliced."""
    return f"You sliced the {thing} with the {knife}."


def carrying(held: str) -> str:
    """What the agent holds; ``""`` for nothing."""
    return f"You are carrying: a {held}." if held else "You are not carrying anything."
