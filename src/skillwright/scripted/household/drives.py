"""What an agent wants at a turn, in order of urgency. Each drive names a command or passes.

A drive that a rule asks for works always; without the rule it works by luck, now and then.
"""

from collections.abc import Callable
from typing import Final

from skillwright.scripted.household.errand import Kind
from skillwright.scripted.household.homes import by_likelihood
from skillwright.scripted.household.turn import TREATING, Turn
from skillwright.scripted.skilltext import Rule

# How often something is done that no rule asks for.
_TAKES = 0.5
_OPENS = 0.16
_OPENS_TO_PLACE = 0.04
_USES_LAMP = 0.1
_TREATS = 0.1
_FETCHES = 0.1
_FIDDLES = 0.2
_GOES_BACK = 0.5
_DROPS = 0.4

# How often an interruption makes a weak mind forget what it was about.
_LOSES_THE_THREAD = 0.4
_LOSES_IT_AT_THE_START = 0.75

LOOK: Final = "look"


def obey_ritual(turn: Turn) -> str | None:
    """Do what the skill asks for after every move, useful or not."""
    belief = turn.belief
    if not belief.here:
        return None
    if belief.last_command.startswith("take ") and turn.follows(Rule.EXAMINE_ALL) and belief.held:
        return f"examine {belief.held}"
    rituals = (
        (Rule.EXAMINE_ALL, f"examine {belief.here}"),
        (Rule.LOOK_AROUND, LOOK),
        (Rule.CHECK_INVENTORY, "inventory"),
    )
    for rule, command in rituals:
        if turn.follows(rule) and command not in belief.since_move and turn.can(command):
            return command
    return None


def lose_the_thread(turn: Turn) -> str | None:
    """Forget, after an interruption, what was to be done, and do something or other."""
    last = turn.belief.last_command
    start = next(iter(turn.belief.visits), "")
    interruptions = (
        (Rule.CHECK_INVENTORY, "inventory", _LOSES_THE_THREAD),
        (Rule.LOOK_AROUND, LOOK, _LOSES_THE_THREAD),
        (Rule.EXAMINE_ALL, "examine ", _LOSES_THE_THREAD),
        (Rule.RETURN_TO_START, f"go to {start}", _LOSES_IT_AT_THE_START),
    )
    for rule, command, chance in interruptions:
        if last.startswith(command) and turn.follows(rule):
            return wander(turn) if turn.luck.chance("thread") < chance else None
    return None


def treat(turn: Turn) -> str | None:
    """Give the object in hand the state that the task wants."""
    held = turn.belief.held
    if not turn.holds_wanted:
        return None
    verb = turn.treatment_due(held)
    if not verb:
        return _treat_by_luck(turn)
    place = turn.appliance(verb)
    if not place:
        return None
    return f"{verb} {held} with {place}" if place in turn.places_here else go_to(turn, place)


def _treat_by_luck(turn: Turn) -> str | None:
    verb, held = turn.errand.verb, turn.belief.held
    place = turn.appliance(verb) if verb else ""
    if place not in turn.places_here or verb in turn.belief.treated.get(held, ()):
        return None
    is_lucky = turn.dares(TREATING[verb], "treat", _TREATS)
    return f"{verb} {held} with {place}" if is_lucky else None


def light_up(turn: Turn) -> str | None:
    """Bring the object in hand under the lamp, and switch it on."""
    if turn.errand.kind is not Kind.LOOK or not turn.holds_wanted:
        return None
    for lamp, place in turn.lamps.items():
        if place in turn.places_here:
            used = lamp not in turn.belief.lit
            if used and turn.dares(Rule.USE_LAMP, "lamp", _USES_LAMP):
                return f"use {lamp}"
        elif turn.follows(Rule.USE_LAMP):
            return go_to(turn, place)
    return search(turn) if turn.follows(Rule.USE_LAMP) else wander(turn)


def deliver(turn: Turn) -> str | None:
    """Carry the wanted object to its destination and put it down there."""
    if not turn.holds_wanted or not turn.destination:
        return None
    place = turn.destination
    if place not in turn.places_here:
        return go_to(turn, place)
    if place in turn.belief.closed:
        if turn.dares(Rule.OPEN_TO_PLACE, "open to place", _OPENS_TO_PLACE):
            return f"open {place}"
        return wander(turn)
    return put_down(turn, place)


def drop_other(turn: Turn) -> str | None:
    """Get rid of an object that nobody asked for."""
    if not turn.belief.held or turn.holds_wanted:
        return None
    free = [place for place in turn.places_here if place not in turn.belief.closed]
    commands = [command for place in free if (command := put_down(turn, place))]
    return commands[0] if commands and turn.dares(Rule.TAKE_ON_SIGHT, "drop", _DROPS) else None


def rest(turn: Turn) -> str | None:
    """Believe that all is done: nobody said that a second object is to be fetched."""
    if turn.errand.kind is not Kind.TWO or turn.belief.held or not turn.belief.placed:
        return None
    if turn.follows(Rule.FETCH_SECOND):
        return None
    if turn.conduct.forbids(Rule.FETCH_SECOND) or turn.luck.chance("fetch") >= _FETCHES:
        return wander(turn)
    return None


def take(turn: Turn) -> str | None:
    """Pick up the wanted object, or go where it was seen."""
    if turn.belief.held or turn.conduct.forbids(Rule.TAKE_ON_SIGHT):
        return None
    near = [name for name in turn.known_wanted if name in turn.within_reach]
    if near:
        name = near[0]
        if turn.dares(Rule.TAKE_ON_SIGHT, "take", _TAKES):
            return f"take {name} from {turn.within_reach[name]}"
        return None
    if not turn.follows(Rule.TAKE_ON_SIGHT):
        return None
    for place in turn.known_wanted.values():
        if place in turn.places_here and place in turn.belief.closed:
            return f"open {place}"
        if place not in turn.places_here:
            return go_to(turn, place)
    return None


def open_here(turn: Turn) -> str | None:
    """Open what is closed here, to look inside."""
    if turn.sought == turn.errand.target and turn.errand.kind is Kind.LOOK:
        return None  # lamps stand in the open
    for place in turn.places_here:
        if place in turn.belief.closed and turn.can(f"open {place}"):
            return f"open {place}" if turn.dares(Rule.OPEN_CLOSED, "open", _OPENS) else None
    return None


def search(turn: Turn) -> str | None:
    """Go on to the next place: in order and each once, or anywhere."""
    order = search_order(turn)
    if turn.follows(Rule.SEARCH_ONCE):
        left = [place for place in order if not turn.belief.was_searched(place)]
        return _next_place(turn, left[0]) if left else None
    hinted = [place for place in turn.habitual_places() if place not in turn.belief.visits]
    if hinted:
        return _next_place(turn, hinted[0])
    if turn.luck.chance("fiddle") < _FIDDLES:
        return None
    options = [place for place in order if place not in turn.places_here]
    if turn.conduct.forbids(Rule.SEARCH_ONCE) and turn.luck.chance("back") < _GOES_BACK:
        options = [place for place in options if place in turn.belief.visits] or options
    return _next_place(turn, turn.luck.pick("where", options)) if options else None


def search_order(turn: Turn) -> list[str]:
    """Return the places in the order in which they are worth a visit."""
    order = list(turn.belief.places)
    if turn.follows(Rule.LIKELY_FIRST):
        order = list(by_likelihood(order, turn.sought))
    order = list(dict.fromkeys([*turn.habitual_places(), *order]))
    if turn.follows(Rule.FEW_PLACES):
        order = order[: turn.conduct.stances[Rule.FEW_PLACES].number]
    return order


def _next_place(turn: Turn, place: str) -> str | None:
    if place in turn.places_here and turn.can(f"examine {place}"):
        return f"examine {place}"
    return go_to(turn, place)


def wander(turn: Turn) -> str | None:
    """Do something or other."""
    options: list[str] = []
    mood = turn.luck.chance("mood")
    if mood < 0.1 and not turn.belief.held:
        options = [f"take {name} from {place}" for name, place in turn.within_reach.items()]
    elif mood < 0.2 and turn.belief.held:
        options = [f"move {turn.belief.held} to {place}" for place in turn.places_here]
    elif mood < 0.35:
        options = [LOOK, "inventory", *(f"examine {place}" for place in turn.places_here)]
    options = [command for command in options if turn.can(command)]
    if options:
        return turn.luck.pick("wander", options)
    elsewhere = [place for place in turn.belief.places if place not in turn.places_here]
    return go_to(turn, turn.luck.pick("where", elsewhere)) if elsewhere else None


def go_to(turn: Turn, place: str) -> str | None:
    """Go to a place, if that is possible from here; by way of the start, where a skill says so."""
    start = next(iter(turn.belief.visits), "")
    strays = start and start not in {turn.belief.here, place}
    command = f"go to {start if strays and turn.follows(Rule.RETURN_TO_START) else place}"
    return command if turn.can(command) else None


def put_down(turn: Turn, place: str) -> str | None:
    """Put the object in hand down, in the words of the game's dialect."""
    held = turn.belief.held
    wordings = (f"move {held} to {place}", f"put {held} in/on {place}")
    return next((command for command in wordings if turn.can(command)), None)


DRIVES: Final[tuple[Callable[[Turn], str | None], ...]] = (
    obey_ritual,
    lose_the_thread,
    treat,
    light_up,
    deliver,
    drop_other,
    rest,
    take,
    open_here,
    search,
    wander,
)
