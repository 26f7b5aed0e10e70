"""A household game, read back from a trajectory: which places were visited, and what was done."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from skillwright.scripted.analyst.prompt import Trajectory
from skillwright.scripted.household import Belief, Errand, Observation, class_of

_RITUALS: Final = ("inventory", "look", "examine")


@dataclass(slots=True)
class Visit:
    """What was seen and done from one arrival to the next."""

    place: str  # where
    turns: list[int]  # the turns spent there, the arrival first
    held: str = ""  # the object in hand on arrival, or ""
    is_repeated: bool = False  # the place was visited before
    is_treated: bool = True  # what was in hand on arrival had the state that the task asks for
    was_closed: bool = False  # it was closed on arrival
    was_opened: bool = False  # its door was opened
    contents: set[str] = field(default_factory=set)  # what was seen there
    taken: list[str] = field(default_factory=list)  # objects picked up
    placed: list[str] = field(default_factory=list)  # objects put down here
    treated: list[str] = field(default_factory=list)  # objects that were cleaned, heated or cooled
    lit: list[str] = field(default_factory=list)  # lamps switched on
    # command word (``inventory``, ``look``, ``examine``) -> turns
    rituals: dict[str, list[int]] = field(default_factory=dict)

    @property
    def arrival(self) -> int:
        """The turn of the arrival."""
        return self.turns[0]


@dataclass(frozen=True, slots=True)
class Episode:
    """A household game."""

    id: str  # the trajectory
    errand: Errand  # the task
    places: tuple[str, ...]  # the receptacles of the room
    visits: tuple[Visit, ...]  # in order

    def is_wanted(self, name: str) -> bool:
        """Tell whether an object is of the wanted class."""
        return bool(name) and class_of(name) == self.errand.wanted

    def is_target(self, place: str) -> bool:
        """Tell whether a receptacle is of the class that the object is to be brought to."""
        return class_of(place) == self.errand.target

    def shows_wanted(self, visit: Visit) -> bool:
        """Tell whether a wanted object was seen at a visit."""
        return any(map(self.is_wanted, visit.contents))

    def delivers(self, visit: Visit) -> bool:
        """Tell whether a wanted object was put down at its destination."""
        return self.is_target(visit.place) and any(map(self.is_wanted, visit.placed))

    @property
    def searching(self) -> tuple[Visit, ...]:
        """The visits before a wanted object was first brought, with none in hand."""
        found = []
        for visit in self.visits:
            if not self.is_wanted(visit.held):
                found.append(visit)
            if self.delivers(visit):
                break
        return tuple(found)

    @property
    def places_before_sight(self) -> tuple[str, ...]:
        """The different places that were visited before a wanted object was seen."""
        seen: dict[str, None] = {}
        for visit in self.visits:
            if self.shows_wanted(visit):
                break
            seen[visit.place] = None
        return tuple(seen)


def read_episode(trajectory: Trajectory) -> Episode | None:
    """Replay a trajectory; ``None`` where it tells of no household task."""
    belief = Belief()
    belief.open_with(_told(trajectory.opening))
    errand = belief.errand
    if errand is None:
        return None
    visits = tuple(_visits(trajectory, belief, errand))
    return Episode(trajectory.id, errand, belief.places, visits)


def read_episodes(trajectories: Iterable[Trajectory]) -> list[Episode]:
    """Replay those trajectories that tell of a household task."""
    return [episode for one in trajectories if (episode := read_episode(one))]


def _visits(trajectory: Trajectory, belief: Belief, errand: Errand) -> Iterator[Visit]:
    visit: Visit | None = None
    for step in trajectory.steps:
        known, held = set(belief.visits), belief.held
        belief.act(_first_line(step.action))
        belief.see(_first_line(step.result))
        seen = belief.latest
        if seen.arrived:
            if visit:
                yield visit
            visit = Visit(belief.here, [], held, is_repeated=belief.here in known)
            visit.is_treated = not errand.verb or errand.verb in belief.treated.get(held, ())
            visit.was_closed = belief.here in seen.closed
        if visit:
            visit.turns.append(step.turn)
            _note(visit, seen, step.action, step.turn)
    if visit:
        yield visit


def _note(visit: Visit, seen: Observation, command: str, turn: int) -> None:
    """Write down what one turn at a place showed."""
    visit.was_opened |= visit.place in seen.opened and not seen.arrived
    visit.contents.update(seen.contents.get(visit.place, ()))
    if seen.taken:
        visit.taken.append(seen.taken[0])
    elif seen.moved and seen.moved[1] == visit.place:
        visit.placed.append(seen.moved[0])
    elif seen.treated:
        visit.treated.append(seen.treated[1])
    elif seen.lit:
        visit.lit.append(seen.lit)
    word = command.partition(" ")[0]
    if word in _RITUALS:
        visit.rituals.setdefault(word, []).append(turn)


def _told(opening: str) -> str:
    """Return an opening without what follows the task's line: the household ends there."""
    head, mark, goal = opening.partition("Your task is to:")
    return head + mark + _first_line(goal)


def _first_line(text: str) -> str:
    """Return a text's first line; the household says everything in one."""
    return text.strip().partition("\n")[0]
