"""What never changes during a game, indexed for speed and shared by all copies of its world."""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from skillwright.core import DataError
from skillwright.envs.alfworld.problem import Problem, Receptacle
from skillwright.envs.alfworld.winning import compile_goal

DIALECTS = ("0.4", "2.1.1")


class Layout:
    """The fixed part of a game, in listing order."""

    def __init__(self, problem: Problem) -> None:
        _check(problem)
        self.problem = problem
        self.receptacles = {place.name: place for place in problem.receptacles}
        self.things = {thing.name: thing for thing in problem.things}
        self.rank = {name: rank for rank, name in enumerate(self.things)}  # in every listing
        standing = [place for place in problem.receptacles if place.location]
        self.room = tuple(place.name for place in standing)  # all that can be gone to
        self.destinations = {f"go to {place.name}": place for place in standing}
        self.is_won = compile_goal(problem.goal, problem)
        self._sorted_destinations = sorted(self.destinations.items())
        # The ``go to`` commands that can be given at a location, sorted.
        self.departures = cache(self._departures)
        self._here: dict[str, tuple[Receptacle, ...]] = {}
        for place in standing:
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
