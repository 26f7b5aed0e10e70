"""What a household game is made of before anything happens, official or generated.

Names are the surface names that observations use ("cabinet 3"), classes are lower-case
("cabinet"). Source: ALFWorld (arXiv:2010.03768), its PDDL problems and naming rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that holds objects.

    Attributes:
        name: Surface name, unique in a problem.
        sort_key: The lower-cased encoded id; every listing is in ascending order of it.
        rtype: Lower-case class, "" where the file gives none.
        location: The location that it stands at; several receptacles may share one. "" means
            that it stands nowhere, so it is neither listed nor reached.
        openable: It has a door; a fact of this receptacle, not of its class.
        opened: Its door starts open.
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
        sort_key: The lower-cased encoded id; every listing is in ascending order of it.
        otype: Lower-case class, "" where the file gives none.
        receptacles: Names of the receptacles that it starts in (normally one).
        locations: Locations that it starts at.
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
        receptacles: In ascending order of their sort key.
        things: In ascending order of their sort key.
        start: The agent's first location.
        held: Name of the object in the agent's hand at the start, or "".
        can_contain: Receptacle class -> object classes it takes.
        goal: A goal expression: nested tuples as `goal.py` defines them.
        goal_text: The task sentence without its final period.
        dialect: ``"0.4"`` (``move X to Y``) or ``"2.1.1"`` (``put X in/on Y``).
        task_type: One of the six families, or "" where nothing says.
        walkthrough: A known winning command list, or empty.
        params: What the task is about: ``object``, ``target``, ``toggle`` (lower-case classes).
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
