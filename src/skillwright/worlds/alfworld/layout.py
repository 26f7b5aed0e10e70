"""The fixed part of a game, indexed for speed and shared by all copies of its world."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Final, cast

from skillwright.core import DataError
from skillwright.worlds.alfworld.problem import AGENT, ARITY, Goal, Problem, Receptacle

# The test of a goal runs after every step of every episode, so it must be fast.


class Situation:
    """The state that a goal can ask about; `World` changes it."""

    location: str  # where the agent is
    held: str  # the object in its hand, or `""`
    opened: frozenset[str]  # receptacles with an open door
    contents: dict[str, tuple[str, ...]]  # receptacle -> the objects in it, in listing order
    # Object -> the receptacles that it is in (normally at most one)
    places: dict[str, frozenset[str]]
    # Object -> its locations, for slicing
    whereabouts: dict[str, frozenset[str]]
    states: dict[str, frozenset[str]]  # object -> its states, of `clean hot cool sliced toggled`


# Variables and constants are in numbered slots of one list during a test.
Test = Callable[[Situation, list[str]], bool]
Source = Callable[[Situation, list[str]], Iterable[str]]


def compile_goal(goal: Goal, problem: Problem) -> Callable[[Situation], bool]:
    """Compile a goal into a test for the situations of one problem.

    A quantifier becomes nested loops over the values that the problem's fixed facts (classes,
    traits, places of receptacles) allow, the smallest loop first, and each condition is tested as
    soon as its variables have values. A test takes microseconds; trying every combination, a
    millisecond.
    """
    compiler = _Compiler(problem)
    test, slots = compiler.test(goal, {}), compiler.slots
    return lambda situation: test(situation, slots.copy())


@dataclass(frozen=True, slots=True)
class _Part:
    """One condition of a conjunction."""

    test: Test
    needs: AbstractSet[int]  # slots of the variables that must have values first
    fixed: bool = False  # the answer depends on the problem alone
    atom: tuple[str, tuple[int, ...]] = ("", ())  # predicate and slots of an atom


class _Compiler:
    """Compiles one goal."""

    def __init__(self, problem: Problem) -> None:
        self.slots: list[str] = []
        self._relations = _fixed_relations(problem)
        self._domains = _domains(problem)

    def test(self, goal: Goal, scope: Mapping[str, int]) -> Test:
        match goal:
            case ("and", *parts):
                return _every([self.test(part, scope) for part in parts])
            case ("exists", _, _):
                return self._search(goal, scope)
            case ("not", part):
                refuted = self.test(part, scope)
                return lambda world, slots: not refuted(world, slots)
            case ("=", one, other):
                a, b = self._slot(one, scope), self._slot(other, scope)
                return lambda _, slots: slots[a] == slots[b]
            case ("atom", str() as predicate, *terms) if ARITY.get(predicate) == len(terms):
                return self._atom(predicate, tuple(self._slot(term, scope) for term in terms))
            case _:
                raise DataError(f"{goal!r} is no goal expression; build it with task_type_goal()")

    def _atom(self, predicate: str, at: tuple[int, ...]) -> Test:
        if predicate in self._relations:
            relation = self._relations[predicate]
            return lambda _, slots: tuple([slots[i] for i in at]) in relation
        truth = _CHANGING[predicate]
        return lambda world, slots: truth(world, *[slots[i] for i in at])

    def _slot(self, term: str, scope: Mapping[str, int]) -> int:
        if term in scope:
            return scope[term]
        if term.startswith("?"):
            raise DataError(f"the goal uses {term!r} outside the 'exists' that introduces it")
        return self._new_slot(term)

    def _new_slot(self, value: str = "") -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def _search(self, goal: Goal, scope: Mapping[str, int]) -> Test:
        kinds: dict[int, str] = {}
        parts = list(self._conjuncts(goal, scope, kinds))
        return _nested_loops(
            parts, {slot: self._choices(slot, kind, parts) for slot, kind in kinds.items()}
        )

    def _conjuncts(
        self, goal: Goal, scope: Mapping[str, int], kinds: dict[int, str]
    ) -> Iterator[_Part]:
        """Flatten nested ``exists`` and ``and``; record their variables in ``kinds``."""
        match goal:
            case ("and", *parts):
                for part in parts:
                    yield from self._conjuncts(part, scope, kinds)
            case ("exists", variables, body):
                fresh = {variable: self._new_slot() for variable, _ in variables}
                kinds |= {fresh[variable]: kind for variable, kind in variables}
                yield from self._conjuncts(body, {**scope, **fresh}, kinds)
            case ("atom", predicate, *terms) if ARITY.get(predicate) == len(terms):
                at = tuple(self._slot(term, scope) for term in terms)
                needs = set(at) & set(scope.values())
                fixed = predicate in self._relations
                yield _Part(self._atom(predicate, at), needs, fixed, (predicate, at))
            case _:
                yield _Part(self.test(goal, scope), frozenset(scope.values()))

    def _choices(self, slot: int, kind: str, parts: list[_Part]) -> AbstractSet[str]:
        filters = [part.test for part in parts if part.fixed and part.needs == {slot}]
        fits = _every(filters)
        slots = self.slots.copy()
        nowhere = cast("Situation", None)  # tests of fixed parts never read the situation
        choices = set()
        for value in self._domains[kind]:
            slots[slot] = value
            if fits(nowhere, slots):
                choices.add(value)
        return choices


def _fixed_relations(problem: Problem) -> dict[str, AbstractSet[tuple[str, ...]]]:
    things, receptacles = problem.things, problem.receptacles
    traits = ("pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable")
    return {
        "objecttype": {(thing.name, thing.otype) for thing in things},
        "receptacletype": {(place.name, place.rtype) for place in receptacles},
        "receptacleatlocation": {(place.name, place.location) for place in receptacles},
        "openable": {(place.name,) for place in receptacles if place.openable},
        **{trait: {(thing.name,) for thing in things if trait in thing.traits} for trait in traits},
    }


def _domains(problem: Problem) -> dict[str, Collection[str]]:
    locations = {problem.start, *(place.location for place in problem.receptacles)}
    return {
        "agent": (AGENT,),
        "location": locations.union(*(thing.locations for thing in problem.things)),
        "receptacle": [place.name for place in problem.receptacles],
        "object": [thing.name for thing in problem.things],
    }


def _state(state: str) -> Callable[[Situation, str], bool]:
    return lambda world, name: state in world.states.get(name, ())


_CHANGING: Final[Mapping[str, Callable[..., bool]]] = {
    "inreceptacle": lambda world, thing, place: thing in world.contents.get(place, ()),
    "objectatlocation": lambda world, thing, spot: spot in world.whereabouts.get(thing, ()),
    "opened": lambda world, place: place in world.opened,
    "atlocation": lambda world, _, spot: spot == world.location,
    "holds": lambda world, _, thing: thing == world.held,
    **{f"is{state}": _state(state) for state in ("clean", "hot", "cool", "sliced", "toggled")},
}


# (predicate, number of the unknown term) -> its possible values, given the other term.
_SOUGHT: Final[Mapping[tuple[str, int], Callable[[Situation, str], Iterable[str]]]] = {
    ("inreceptacle", 0): lambda world, place: world.contents.get(place, ()),
    ("inreceptacle", 1): lambda world, thing: world.places.get(thing, ()),
    ("atlocation", 1): lambda world, _: (world.location,),
    ("holds", 1): lambda world, _: (world.held,),
}


def _nested_loops(parts: list[_Part], unbound: Mapping[int, AbstractSet[str]]) -> Test:
    """Find values for the unbound slots, one loop each, that make all parts true."""
    ready = [part.test for part in parts if part.needs.isdisjoint(unbound)]
    if not unbound:
        return _every(ready)
    waiting = [part for part in parts if not part.needs.isdisjoint(unbound)]
    slot, source = _smallest_loop(waiting, unbound)
    inner = _nested_loops(waiting, {s: unbound[s] for s in unbound if s != slot})
    return _every([*ready, _loop(slot, unbound[slot], source, inner)])


def _smallest_loop(
    parts: list[_Part], unbound: Mapping[int, AbstractSet[str]]
) -> tuple[int, Source]:
    smallest = min(unbound, key=lambda slot: len(unbound[slot]))
    if len(unbound[smallest]) > 1:
        for part in parts:
            predicate, at = part.atom
            for term, slot in enumerate(at):
                values = _SOUGHT.get((predicate, term))
                if values and slot in unbound and at[1 - term] not in unbound:
                    return slot, _given(values, at[1 - term])
    choices = tuple(unbound[smallest])
    return smallest, lambda world, slots: choices


def _given(values: Callable[[Situation, str], Iterable[str]], other: int) -> Source:
    return lambda world, slots: values(world, slots[other])


def _loop(slot: int, allowed: AbstractSet[str], source: Source, inner: Test) -> Test:
    def search(world: Situation, slots: list[str]) -> bool:
        for value in source(world, slots):
            if value in allowed:
                slots[slot] = value
                if inner(world, slots):
                    return True
        return False

    return search


def _every(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def all_hold(world: Situation, slots: list[str]) -> bool:
        for test in tests:  # noqa: SIM110 - all() would build a generator in the hottest loop
            if not test(world, slots):
                return False
        return True

    return all_hold


DIALECTS = ("0.4", "2.1.1")


class Layout:
    """The fixed part of a game, in listing order."""

    def __init__(self, problem: Problem) -> None:
        _check(problem)
        self.problem = problem
        self.receptacles = {place.name: place for place in problem.receptacles}
        self.things = {thing.name: thing for thing in problem.things}
        self.rank = {name: rank for rank, name in enumerate(self.things)}  # in every listing
        spots = [place for place in problem.receptacles if place.location]
        self.room = tuple(place.name for place in spots)  # all that can be gone to
        self.destinations = {f"go to {spot.name}": spot for spot in spots}
        self.is_solved = compile_goal(problem.goal, problem)
        self._sorted_destinations = sorted(self.destinations.items())
        # The sorted ``go to`` commands at a location.
        self.departures = cache(self._departures)
        self._here: dict[str, tuple[Receptacle, ...]] = {}
        for place in spots:
            self._here[place.location] = (*self._here.get(place.location, ()), place)

    def here(self, location: str) -> tuple[Receptacle, ...]:
        """The receptacles at a location, in listing order."""
        return self._here.get(location, ())

    def _departures(self, location: str) -> list[str]:
        goals = self._sorted_destinations
        return [command for command, place in goals if place.location != location]


def _check(problem: Problem) -> None:
    places = [place.name for place in problem.receptacles]
    things = [thing.name for thing in problem.things]
    shared = [name for name, count in Counter(places + things).items() if count > 1]
    if shared:
        raise DataError(f"a problem has two entities called {shared[0]!r}; names must be unique")
    _check_known(places, (place for thing in problem.things for place in thing.receptacles))
    _check_known(things, (inner for thing in problem.things for inner in thing.inner))
    _check_known(things, [problem.held] if problem.held else [])
    if problem.dialect not in DIALECTS:
        raise DataError(f"no dialect {problem.dialect!r}; known: {', '.join(DIALECTS)}")


def _check_known(known: list[str], used: Iterable[str]) -> None:
    unknown = sorted(set(used) - set(known))
    if unknown:
        raise DataError(f"a problem mentions {unknown[0]!r}, which it does not define")
