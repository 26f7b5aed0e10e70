"""What went wrong in games that a teacher reads, as something that can be taught."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillwright.scripted.analyst.diagnosis import diagnose
from skillwright.scripted.analyst.episode import read_episodes
from skillwright.scripted.analyst.prompt import Trajectory
from skillwright.scripted.household import APPLIANCES, Belief, class_of
from skillwright.scripted.skilltext import BAD_RULES
from skillwright.scripted.teacher.teaching import Teaching
from skillwright.scripted.teacher.wordings import CHECK_APPLIANCE, TEACHINGS


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake that trajectories share."""

    teaching: Teaching  # what prevents it
    shown: Mapping[str, Sequence[int]]  # trajectory -> turns that show it

    @property
    def is_bad_habit(self) -> bool:
        """It is something that was done because a skill asks for it, or a slip."""
        return self.teaching.key in BAD_RULES


def found_in(trajectories: Sequence[Trajectory]) -> list[Finding]:
    """Find the mistakes in games that were lost, the most frequent first."""
    diagnosed = diagnose(read_episodes(trajectories))
    found = [Finding(TEACHINGS[one.rule], one.shown) for one in diagnosed]
    return sorted([*_inside_appliance(trajectories), *found], key=lambda one: -len(one.shown))


def _inside_appliance(trajectories: Sequence[Trajectory]) -> Iterator[Finding]:
    for verb, teaching in CHECK_APPLIANCE.items():
        turns = {one.id: list(_used_on_what_lies_inside(one, verb)) for one in trajectories}
        shown = {name: found for name, found in turns.items() if found}
        if shown:
            yield Finding(teaching, shown)


def _used_on_what_lies_inside(trajectory: Trajectory, verb: str) -> Iterator[int]:
    """Yield the turns at which an appliance was used in vain on its contents, or on itself."""
    belief = Belief()
    belief.open_with(trajectory.opening)
    for step in trajectory.steps:
        words, _, place = step.action.partition(" with ")
        name = words.removeprefix(f"{verb} ")
        lies_there = name in (place, *belief.contents.get(place, ()))
        belief.act(step.action)
        belief.see(step.result)
        is_ours = name != words and class_of(place) == APPLIANCES[verb]
        if is_ours and belief.latest.rejected and lies_there:
            yield step.turn
