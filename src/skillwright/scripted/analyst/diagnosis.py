"""What went wrong in household games, and which turns show it.

A finder of a good rule shows where it would have helped, one of a bad rule where following it cost
turns. What is found says nothing about the skill: whether it gives the rule is asked elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillwright.scripted.analyst.episode import Episode
from skillwright.scripted.household import Kind
from skillwright.scripted.skilltext import Rule

_MOST_TURNS_CITED: Final = 5
_FEWEST_RITUALS: Final = 4
_FEWEST_REVISITS: Final = 3
_LONG_SEARCH: Final = 10

Turns = list[int]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A mistake that trajectories share."""

    rule: Rule  # what was not done, or for a bad rule what was done
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


# Searching ----------------------------------------------------------------------------------


def _went_back(episode: Episode) -> Turns:
    """Known places were walked to again while others had not been visited at all."""
    if len({visit.place for visit in episode.searching}) == len(episode.places):
        return []
    turns = [visit.arrival for visit in episode.searching if visit.is_repeated]
    return turns if len(turns) >= _FEWEST_REVISITS else []


def _left_shut(episode: Episode) -> Turns:
    return [
        visit.turns[-1] for visit in episode.searching if visit.was_closed and not visit.was_opened
    ]


def _searched_long(episode: Episode) -> Turns:
    """Place after place was searched for nothing, and not because of places searched twice."""
    if len(episode.places_before_sight) < _LONG_SEARCH or _went_back(episode):
        return []
    unlucky = [v for v in episode.visits if v.place in episode.places_before_sight]
    return [visit.arrival for visit in unlucky[-_MOST_TURNS_CITED:]]


# Handling -----------------------------------------------------------------------------------


def _passed_over(episode: Episode) -> Turns:
    """A wanted object lay in sight, hands were free, and it stayed where it did not belong."""
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
    """The object was carried about, and no lamp was switched on for it."""
    if episode.errand.kind is not Kind.LOOK:
        return []
    carried = [visit for visit in episode.visits if episode.is_wanted(visit.held)]
    if any(visit.lit for visit in carried):
        return []
    before_lamp = [v for v in carried if any(map(episode.is_target, v.contents))]
    return [visit.arrival for visit in before_lamp or carried]


# Delivering ---------------------------------------------------------------------------------


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
    return [
        visit.arrival
        for visit in episode.visits
        if episode.is_wanted(visit.held)
        and episode.is_target(visit.place)
        and visit.was_closed
        and not visit.was_opened
    ]


# Rituals ------------------------------------------------------------------------------------


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
