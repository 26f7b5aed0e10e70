"""The initial state and goal of a household game, official or generated.

Names are the surface names in observations ("cabinet 3"), classes are lower-case ("cabinet").
Source: ALFWorld (arXiv:2010.03768), its PDDL problems and naming rules.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.worlds.alfworld.tables import ALL_TASK_TYPES


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that holds objects.

    Attributes:
        name: Surface name, unique in a problem.
        sort_key: The lower-case encoded id; listings are sorted by it.
        rtype: Lower-case class, "" if the file gives none.
        location: Its location, which several receptacles may share; "" if it is nowhere, so that it
            is neither listed nor reached.
        openable: It has a door; other receptacles of its class may have none.
        opened: Its door is open at the start.
    """

    name: str
    sort_key: str
    rtype: str
    location: str
    openable: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """An object.

    Attributes:
        name: Surface name, unique in a problem.
        sort_key: The lower-case encoded id; listings are sorted by it.
        otype: Lower-case class, "" if the file gives none.
        receptacles: Names of its receptacles at the start (normally one).
        locations: Its locations at the start.
        inner: Names of the objects inside it, in listing order.
        traits: Of ``pickupable cleanable heatable coolable sliceable toggleable receptacle``
            (the last: it is a movable receptacle).
        states: Of ``clean hot cool sliced toggled`` at the start.
    """

    name: str
    sort_key: str
    otype: str
    receptacles: tuple[str, ...] = ()
    locations: frozenset[str] = frozenset()
    inner: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Problem:
    """One game.

    Attributes:
        receptacles: Sorted by their sort key.
        things: Sorted by their sort key.
        start: The agent's first location.
        held: Name of the object in the agent's hand at the start, or "".
        can_contain: Receptacle class -> object classes it takes.
        goal: Goal expression, see below.
        goal_text: The task sentence without its final period.
        dialect: ``"0.4"`` (``move X to Y``) or ``"2.1.1"`` (``put X in/on Y``).
        task_type: One of the six task types, or "" if unknown.
        walkthrough: Commands that solve it, or empty.
        params: The task's ``object``, ``target``, ``toggle`` (lower-case classes).
    """

    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    start: str
    can_contain: Mapping[str, frozenset[str]]
    goal: tuple[Any, ...]
    goal_text: str
    held: str = ""
    dialect: str = "0.4"
    task_type: str = ""
    walkthrough: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)


# A goal is a nested tuple: ``("and", goal, ...)``, ``("not", goal)``, ``("exists", ((variable,
# kind), ...), goal)``, ``("=", term, term)`` and ``("atom", predicate, term, ...)``, all
# lower-case. A term is a variable (``"?o"``), a surface name (``"apple 1"``) or a class without the
# suffix ``type`` (``"apple"``).


Goal = tuple[Any, ...]

AGENT: Final = "agent"

TASK_TYPES: Final = tuple(one.name for one in ALL_TASK_TYPES)

PREDICATES: Final[Mapping[str, tuple[str, ...]]] = {
    "inReceptacle": ("object", "receptacle"),
    "objectAtLocation": ("object", "location"),
    "atLocation": ("agent", "location"),
    "holds": ("agent", "object"),
    "objectType": ("object", "otype"),
    "receptacleType": ("receptacle", "rtype"),
    "receptacleAtLocation": ("receptacle", "location"),
    **dict.fromkeys(("pickupable", "cleanable", "heatable", "coolable"), ("object",)),
    **dict.fromkeys(("sliceable", "toggleable"), ("object",)),
    **dict.fromkeys(("openable", "opened"), ("receptacle",)),
    **dict.fromkeys(("isClean", "isHot", "isCool", "isSliced", "isToggled"), ("object",)),
}
"""Predicates of goals, as in the domain, and the kinds of their terms."""

ARITY: Final = {name.lower(): len(kinds) for name, kinds in PREDICATES.items()}


def task_type_goal(task_type: str, obj: str, target: str, toggle: str = "") -> Goal:
    """Build the goal of one of the six task types of ALFWorld (arXiv:2010.03768).

    Args:
        task_type: One of `TASK_TYPES`.
        obj: Lower-case class of the object.
        target: Lower-case class of the receptacle that it must end up in.
        toggle: Lower-case class of the lamp, for ``look_at_obj_in_light``, which has no target.

    Raises:
        DataError: The task type is not one of the six.
    """
    wanted = (_atom("objecttype", "?o", obj), _atom("receptacletype", "?r", target))
    put = _atom("inreceptacle", "?o", "?r")
    match task_type:
        case "pick_and_place_simple":
            parts: tuple[Goal, ...] = (put, *wanted)
        case "look_at_obj_in_light":
            return _object_under_lamp(obj, toggle)
        case "pick_clean_then_place_in_recep":
            parts = (_atom("cleanable", "?o"), _atom("isclean", "?o"), put, *wanted)
        case "pick_heat_then_place_in_recep":
            parts = (_atom("heatable", "?o"), _atom("ishot", "?o"), put, *wanted)
        case "pick_cool_then_place_in_recep":
            parts = (_atom("coolable", "?o"), _atom("iscool", "?o"), put, *wanted)
        case "pick_two_obj_and_place":
            return _two_objects_in_receptacle(obj, target)
        case _:
            raise DataError(f"no task type {task_type!r}. {did_you_mean(task_type, TASK_TYPES)}")
    return ("exists", (("?r", "receptacle"), ("?o", "object")), ("and", *parts))


def _atom(predicate: str, *terms: str) -> Goal:
    return ("atom", predicate, *terms)


def _object_under_lamp(obj: str, lamp: str) -> Goal:
    lit = (
        "and",
        _atom("objecttype", "?t", lamp),
        _atom("toggleable", "?t"),
        _atom("istoggled", "?t"),
        _atom("receptacleatlocation", "?r", "?l"),
        _atom("atlocation", "?a", "?l"),
        _atom("inreceptacle", "?t", "?r"),
    )
    kinds = (("?t", "object"), ("?r", "receptacle"), ("?a", "agent"), ("?l", "location"))
    held = ("and", _atom("objecttype", "?o", obj), _atom("holds", "?a", "?o"))
    return ("and", ("exists", kinds, lit), ("exists", (("?o", "object"), ("?a", "agent")), held))


def _two_objects_in_receptacle(obj: str, target: str) -> Goal:
    kinds = (("?r", "receptacle"), ("?a", "object"), ("?b", "object"))
    parts = (
        ("not", ("=", "?a", "?b")),
        _atom("inreceptacle", "?a", "?r"),
        _atom("inreceptacle", "?b", "?r"),
        _atom("objecttype", "?a", obj),
        _atom("objecttype", "?b", obj),
        _atom("receptacletype", "?r", target),
    )
    return ("exists", kinds, ("and", *parts))


def describe_goal(goal: Goal) -> tuple[str, dict[str, str]]:
    """Return the task type of a goal, and its ``object``, ``target`` and ``toggle`` classes.

    The inverse of `task_type_goal`; ``""`` and ``{}`` for other goals.
    """
    atoms = list(_atoms(goal))
    task_type = _TASK_TYPES.get(_signature(goal), "")
    if not task_type:
        return "", {}
    lamps = {terms[0] for predicate, *terms in atoms if predicate == "istoggled"}
    params: dict[str, str] = {}
    for predicate, *terms in atoms:
        if predicate == "objecttype":
            params["toggle" if terms[0] in lamps else "object"] = terms[1]
        elif predicate == "receptacletype":
            params["target"] = terms[1]
    return task_type, params


def _atoms(goal: Goal) -> Iterator[tuple[str, ...]]:
    """Yield every atom of a goal, as (predicate, term, ...); equations have the predicate ``=``."""
    match goal:
        case ("atom", *parts):
            yield tuple(parts)
        case ("=", _, _):
            yield goal
        case ("exists", _, body) | ("not", body):
            yield from _atoms(body)
        case (_, *parts):
            for part in parts:
                yield from _atoms(part)


def _signature(goal: Goal) -> tuple[str, ...]:
    """Return the predicates of a goal, which differ between any two task types."""
    # A set: official pick-two goals name the receptacle's class twice.
    return tuple(sorted(predicate for predicate, *_ in set(_atoms(goal))))


_TASK_TYPES: Final = {_signature(task_type_goal(kind, "", "", "")): kind for kind in TASK_TYPES}
