"""What successes have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from skillwright.scripted.analyst.episode import Episode
from skillwright.scripted.analyst.lessons import LESSONS
from skillwright.scripted.household import Kind
from skillwright.scripted.skilltext import Rule


def success_patterns(episodes: Sequence[Episode]) -> list[str]:
    """Name what helped, one sentence each, with the trajectories that show it."""
    return [
        f"{LESSONS[rule].pattern} ({', '.join(shown)})"
        for rule, shown in rules_that_helped(episodes).items()
    ]


def rules_that_helped(episodes: Sequence[Episode]) -> dict[Rule, list[str]]:
    """Find the rules that successes kept, each with the trajectories that show it."""
    shown = {
        rule: [episode.id for episode in episodes if helped(episode)]
        for rule, helped in _HELPED.items()
    }
    return {rule: names for rule, names in shown.items() if names}


def _never_went_back(episode: Episode) -> bool:
    return not any(visit.is_repeated for visit in episode.searching)


def _found_inside(episode: Episode) -> bool:
    return any(visit.was_opened and episode.shows_wanted(visit) for visit in episode.searching)


def _took_at_once(episode: Episode) -> bool:
    first = next((visit for visit in episode.visits if episode.shows_wanted(visit)), None)
    return first is not None and any(map(episode.is_wanted, first.taken))


def _treated(verb: str) -> Callable[[Episode], bool]:
    def helped(episode: Episode) -> bool:
        return episode.errand.verb == verb and any(visit.treated for visit in episode.visits)

    return helped


def _lit(episode: Episode) -> bool:
    return any(visit.lit for visit in episode.visits)


def _brought_both(episode: Episode) -> bool:
    return episode.errand.kind is Kind.TWO and any(map(episode.delivers, episode.visits))


def _opened_destination(episode: Episode) -> bool:
    return any(
        visit.was_closed and visit.was_opened and episode.delivers(visit)
        for visit in episode.visits
    )


_HELPED: Final[Mapping[Rule, Callable[[Episode], bool]]] = {
    Rule.SEARCH_ONCE: _never_went_back,
    Rule.OPEN_CLOSED: _found_inside,
    Rule.TAKE_ON_SIGHT: _took_at_once,
    Rule.HEAT_FIRST: _treated("heat"),
    Rule.COOL_FIRST: _treated("cool"),
    Rule.CLEAN_FIRST: _treated("clean"),
    Rule.USE_LAMP: _lit,
    Rule.FETCH_SECOND: _brought_both,
    Rule.OPEN_TO_PLACE: _opened_destination,
}
