"""All moves that are open to the agent at a turn, useful or not."""

from collections.abc import Iterator

from skillwright.scripted.household.drives import LOOK, put_down
from skillwright.scripted.household.errand import APPLIANCES
from skillwright.scripted.household.homes import LAMP_CLASSES
from skillwright.scripted.household.observation import class_of
from skillwright.scripted.household.turn import Turn


def open_moves(turn: Turn) -> list[str]:
    """Return the commands that can be given now.

    These are the admissible commands where the prompt lists them. Elsewhere they are what the
    agent believes to be possible; the game may still refuse to put an object into a receptacle of
    the wrong kind, or to treat an object that cannot be treated.
    """
    listed = turn.belief.latest.commands
    return list(listed) if listed else list(_believed_moves(turn))


def _believed_moves(turn: Turn) -> Iterator[str]:
    yield LOOK
    yield "inventory"
    if turn.belief.held:
        yield f"examine {turn.belief.held}"
    for place in turn.belief.places:
        if place in turn.places_here:
            yield from _moves_at(turn, place)
        else:
            yield f"go to {place}"


def _moves_at(turn: Turn, place: str) -> Iterator[str]:
    held = turn.belief.held
    yield f"examine {place}"
    if held:
        fitting = (verb for verb, cls in APPLIANCES.items() if cls == class_of(place))
        yield from (f"{verb} {held} with {place}" for verb in fitting)
    if place in turn.belief.closed:
        yield f"open {place}"
        return
    if place in turn.belief.doors:
        yield f"close {place}"
    for name in turn.belief.contents.get(place, ()):
        if class_of(name) in LAMP_CLASSES:
            yield f"use {name}"
        elif not held:
            yield f"take {name} from {place}"
    if held and (command := put_down(turn, place)):
        yield command
