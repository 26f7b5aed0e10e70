"""Our games as official game files, for the public engine.

The domain and the grammar are upstream texts; callers take them from an installed ``alfworld``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.alfworld.households import encoded_id
from skillwright.worlds.alfworld.problem import (
    AGENT,
    PREDICATES,
    Goal,
    Problem,
    Receptacle,
    Thing,
)
from skillwright.worlds.alfworld.tables import TYPE_NAMES

# A game file is JSON with a PDDL problem and a text grammar. Its PDDL domain is not read (`World`
# has the rules), and of the grammar only the task sentence and the dialect.

_SENTENCE: Final = re.compile(r'Your task is to: [^"]*')

# The domain mentions these types, so the planner of the public engine needs their declaration.
_RTYPES_OF_THE_DOMAIN: Final = frozenset({"sinkbasin", "microwave", "fridge"})
_OTYPES_OF_THE_DOMAIN: Final = frozenset({"knife", "butterknife"})

_AGENT_ID: Final = "agent1"

_PREDICATES: Final = {name.lower(): name for name in PREDICATES}


def to_game_json(problem: Problem, domain: str, grammar: str) -> dict[str, Any]:
    """Convert a game to the official JSON object with five keys.

    Args:
        problem: The game.
        domain: The upstream PDDL domain.
        grammar: The upstream text grammar of the problem's dialect; its task sentence is replaced.

    Returns:
        ``pddl_domain``, ``grammar``, ``pddl_problem``, ``solvable`` (true with a known walkthrough,
        else null: not tried) and ``walkthrough``.

    Raises:
        DataError: The grammar has no task sentence.
    """
    sentence = f"Your task is to: {problem.goal_text}."
    grammar, replaced = _SENTENCE.subn(lambda _: sentence, grammar)
    if not replaced:
        raise DataError(
            "the grammar has no 'Your task is to: ...' to replace; "
            "hand in the text grammar of an installed alfworld package"
        )
    return {
        "pddl_domain": domain,
        "grammar": grammar,
        "pddl_problem": problem_to_pddl(problem),
        "solvable": True if problem.walkthrough else None,
        "walkthrough": list(problem.walkthrough) or None,
    }


def problem_to_pddl(problem: Problem) -> str:
    """Write a game as a PDDL problem of the household domain (alfworld/alfworld).

    Reading a generated game back gives an equal problem.
    """
    ids = {
        AGENT: _AGENT_ID,
        **_location_ids(problem),
        **{place.name: place.sort_key for place in problem.receptacles},
        **{thing.name: thing.sort_key for thing in problem.things},
    }
    lines = [
        "(define (problem p)",
        "(:domain alfred)",
        "(:objects",
        *(f"{name} - {kind}" for name, kind in _declarations(problem, ids)),
        ")",
        "(:init",
        "(= (total-cost) 0)",
        *(f"({' '.join(fact)})" for fact in _facts(problem, ids)),
        ")",
        f"(:goal {_goal(problem.goal, ids)})",
        "(:metric minimize (total-cost))",
        ")",
    ]
    return "\n".join(lines)


def _location_ids(problem: Problem) -> dict[str, str]:
    """Return, for each location, an id that is read back as its name."""
    names = {problem.start, *(place.location for place in problem.receptacles)}
    names.update(location for thing in problem.things for location in thing.locations)
    numbers = {name: int(name.rpartition(" ")[2]) for name in names if " " in name}
    ids = {}
    for name in sorted(names - {""}):
        cls = name.rpartition(" ")[0]
        highest = max((n for other, n in numbers.items() if other.startswith(f"{cls} ")), default=0)
        # An id without a number is its own name.
        ids[name] = encoded_id(cls, highest + 1 - numbers[name]) if cls else name
    return ids


def _declarations(problem: Problem, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield ids[AGENT], "agent"
    for location in _location_ids(problem):
        yield ids[location], "location"
    for place in problem.receptacles:
        yield place.sort_key, "receptacle"
    for thing in problem.things:
        yield thing.sort_key, "object"
    rtypes = {place.rtype for place in problem.receptacles} | problem.can_contain.keys()
    for rtype in sorted((rtypes | _RTYPES_OF_THE_DOMAIN) - {""}):
        yield _type(rtype), "rtype"
    otypes = {thing.otype for thing in problem.things}.union(*problem.can_contain.values())
    for otype in sorted((otypes | _OTYPES_OF_THE_DOMAIN) - {""}):
        yield _type(otype), "otype"


def _facts(problem: Problem, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    yield "atLocation", ids[AGENT], ids[problem.start]
    if problem.held:
        yield "holds", ids[AGENT], ids[problem.held]
        yield "holdsAny", ids[AGENT]
    for place in problem.receptacles:
        yield from _facts_of_receptacle(place, ids)
    for rtype in sorted(problem.can_contain):
        for otype in sorted(problem.can_contain[rtype]):
            yield "canContain", _type(rtype), _type(otype)
    for thing in problem.things:
        yield from _facts_of_thing(thing, ids)


def _facts_of_receptacle(place: Receptacle, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    name = place.sort_key
    if place.location:
        yield "receptacleAtLocation", name, ids[place.location]
    if place.rtype:
        yield "receptacleType", name, _type(place.rtype)
    if place.openable:
        yield "openable", name
    if place.opened:
        yield "opened", name


def _facts_of_thing(thing: Thing, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    name = thing.sort_key
    if thing.otype:
        yield "objectType", name, _type(thing.otype)
    for place in thing.receptacles:
        yield "inReceptacle", name, ids[place]
    for location in sorted(thing.locations):
        yield "objectAtLocation", name, ids[location]
    for trait in sorted(thing.traits):
        yield "isReceptacleObject" if trait == "receptacle" else trait, name
    for inner in thing.inner:
        yield "inReceptacleObject", ids[inner], name
    for state in sorted(thing.states):
        yield f"is{state.capitalize()}", name


def _goal(goal: Goal, ids: Mapping[str, str]) -> str:
    match goal:
        case ("atom", "objecttype" | "receptacletype" as predicate, term, cls):
            return f"({_PREDICATES[predicate]} {ids.get(term, term)} {_type(cls)})"
        case ("atom", predicate, *terms):
            return f"({' '.join([_PREDICATES[predicate], *(ids.get(t, t) for t in terms)])})"
        case ("=", one, other):
            return f"(= {ids.get(one, one)} {ids.get(other, other)})"
        case ("exists", variables, body):
            declared = " ".join(f"{variable} - {kind}" for variable, kind in variables)
            return f"(exists ({declared}) {_goal(body, ids)})"
        case (connective, *parts):
            return f"({' '.join([connective, *(_goal(part, ids) for part in parts)])})"
    raise DataError(f"no goal expression: {goal!r}")


def _type(cls: str) -> str:
    return TYPE_NAMES.get(cls, f"{cls}Type")
