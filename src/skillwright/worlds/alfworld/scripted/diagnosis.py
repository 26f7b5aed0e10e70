"""Household games read from trajectories, and the mistakes in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillwright.models.scripted.prompts import Trajectory
from skillwright.worlds.alfworld.scripted import Belief, Errand, Kind, Observation, class_of
from skillwright.worlds.scripted.skilltext import Rule

_RITUALS: Final = ("inventory", "look", "examine")


@dataclass(slots=True)
class Visit:
    """What was seen and done from one arrival to the next."""

    place: str
    turns: list[int]  # turns spent there, the arrival first
    held: str = ""  # the object in hand on arrival, or ""
    is_repeated: bool = False  # the place was visited before
    is_treated: bool = True  # the object in hand on arrival had the state of the task
    was_closed: bool = False  # it was closed on arrival
    was_opened: bool = False  # its door was opened
    contents: set[str] = field(default_factory=set)  # objects seen there
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

    id: str  # id of the trajectory
    errand: Errand
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
        """The different places visited before a wanted object was seen."""
        seen: dict[str, None] = {}
        for visit in self.visits:
            if self.shows_wanted(visit):
                break
            seen[visit.place] = None
        return tuple(seen)


def read_episode(trajectory: Trajectory) -> Episode | None:
    """Replay a trajectory; ``None`` if it has no household task."""
    belief = Belief()
    belief.open_with(_task_part(trajectory.opening))
    errand = belief.errand
    if errand is None:
        return None
    visits = tuple(_visits(trajectory, belief, errand))
    return Episode(trajectory.id, errand, belief.places, visits)


def read_episodes(trajectories: Iterable[Trajectory]) -> list[Episode]:
    """Replay the trajectories with a household task."""
    return [episode for one in trajectories if (episode := read_episode(one))]


def _visits(trajectory: Trajectory, belief: Belief, errand: Errand) -> Iterator[Visit]:
    visit: Visit | None = None
    for step in trajectory.steps:
        known, held = set(belief.visits), belief.held
        belief.act(_first_line(step.action))
        belief.read(_first_line(step.result))
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
    """Record what one turn at a place showed."""
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


def _task_part(opening: str) -> str:
    """Return an opening up to the task's line, where the household's text ends."""
    head, mark, goal = opening.partition("Your task is to:")
    return head + mark + _first_line(goal)


def _first_line(text: str) -> str:
    """Return a text's first line, which has all of the household's text."""
    return text.strip().partition("\n")[0]


# A finder of a good rule returns the turns where it would have helped, one of a bad rule those that
# following it cost. The skill is not considered here.


_MOST_TURNS_CITED: Final = 5
_FEWEST_RITUALS: Final = 4
_FEWEST_REVISITS: Final = 3
_LONG_SEARCH: Final = 10

Turns = list[int]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A mistake that trajectories share."""

    rule: Rule  # a rule that was not followed, or a bad rule that was
    shown: Mapping[str, tuple[int, ...]]  # trajectory -> turns that show it


def diagnose(episodes: Sequence[Episode]) -> list[Diagnosis]:
    """Find the mistakes in failed games, the most frequent first."""
    found = []
    for rule, finder in _FINDERS.items():
        shown = {episode.id: tuple(finder(episode)[:_MOST_TURNS_CITED]) for episode in episodes}
        shown = {name: turns for name, turns in shown.items() if turns}
        if shown:
            found.append(Diagnosis(rule, shown))
    return sorted(found, key=lambda diagnosis: -len(diagnosis.shown))


def _went_back(episode: Episode) -> Turns:
    """Return turns that revisit places while others had not been visited."""
    if len({visit.place for visit in episode.searching}) == len(episode.places):
        return []
    turns = [visit.arrival for visit in episode.searching if visit.is_repeated]
    return turns if len(turns) >= _FEWEST_REVISITS else []


def _left_shut(episode: Episode) -> Turns:
    return [
        visit.turns[-1] for visit in episode.searching if visit.was_closed and not visit.was_opened
    ]


def _searched_long(episode: Episode) -> Turns:
    """Return a long search without success, and without repeated visits."""
    if len(episode.places_before_sight) < _LONG_SEARCH or _went_back(episode):
        return []
    in_vain = [v for v in episode.visits if v.place in episode.places_before_sight]
    return [visit.arrival for visit in in_vain[-_MOST_TURNS_CITED:]]


def _passed_over(episode: Episode) -> Turns:
    """Return turns with a wanted object in sight, free hands, and no pickup."""
    lies_well = not episode.errand.verb and episode.errand.kind is not Kind.LOOK
    return [
        visit.turns[-1]
        for visit in episode.searching
        if episode.shows_wanted(visit)
        and not visit.held
        and not any(map(episode.is_wanted, visit.taken))
        and not (lies_well and episode.is_target(visit.place))
    ]


def _delivered_untreated(verb: str) -> Callable[[Episode], Turns]:
    def finder(episode: Episode) -> Turns:
        if episode.errand.verb != verb:
            return []
        return [
            visit.turns[-1] if visit.placed else visit.arrival
            for visit in episode.visits
            if episode.is_wanted(visit.held)
            and episode.is_target(visit.place)
            and not visit.is_treated
            and not visit.treated
        ]

    return finder


def _left_in_the_dark(episode: Episode) -> Turns:
    """Return turns that carry the object without switching a lamp on."""
    if episode.errand.kind is not Kind.LOOK:
        return []
    carried = [visit for visit in episode.visits if episode.is_wanted(visit.held)]
    if any(visit.lit for visit in carried):
        return []
    before_lamp = [v for v in carried if any(map(episode.is_target, v.contents))]
    return [visit.arrival for visit in before_lamp or carried]


def _stopped_after_first(episode: Episode) -> Turns:
    if episode.errand.kind is not Kind.TWO:
        return []
    brought = [v for v in episode.visits if episode.delivers(v)]
    places = [v.place for v in brought]
    if not brought or any(places.count(place) > 1 for place in places):
        return []
    after = [v.arrival for v in episode.visits if v.arrival > brought[0].turns[-1]]
    return [brought[0].turns[-1], *after[: _MOST_TURNS_CITED - 1]]


def _stood_before_closed(episode: Episode) -> Turns:
    """Return when the agent brought a wanted object to a closed target and did not open it."""
    return [
        visit.arrival
        for visit in episode.visits
        if episode.is_wanted(visit.held)
        and episode.is_target(visit.place)
        and visit.was_closed
        and not visit.was_opened
    ]


def _ritual(word: str) -> Callable[[Episode], Turns]:
    def finder(episode: Episode) -> Turns:
        turns = [turn for visit in episode.visits for turn in visit.rituals.get(word, ())]
        return turns if len(turns) >= _FEWEST_RITUALS else []

    return finder


def _returned_to_start(episode: Episode) -> Turns:
    start = episode.visits[0].place if episode.visits else ""
    turns = [visit.arrival for visit in episode.visits[1:] if visit.place == start]
    return turns if len(turns) >= _FEWEST_REVISITS else []


_FINDERS: Final[Mapping[Rule, Callable[[Episode], Turns]]] = {
    Rule.SEARCH_ONCE: _went_back,
    Rule.OPEN_CLOSED: _left_shut,
    Rule.TAKE_ON_SIGHT: _passed_over,
    Rule.HEAT_FIRST: _delivered_untreated("heat"),
    Rule.COOL_FIRST: _delivered_untreated("cool"),
    Rule.CLEAN_FIRST: _delivered_untreated("clean"),
    Rule.USE_LAMP: _left_in_the_dark,
    Rule.FETCH_SECOND: _stopped_after_first,
    Rule.OPEN_TO_PLACE: _stood_before_closed,
    Rule.CHECK_INVENTORY: _ritual("inventory"),
    Rule.EXAMINE_ALL: _ritual("examine"),
    Rule.LOOK_AROUND: _ritual("look"),
    Rule.RETURN_TO_START: _returned_to_start,
    Rule.FEW_PLACES: _went_back,
    Rule.LIKELY_FIRST: _searched_long,
}
