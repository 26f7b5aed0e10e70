"""All that one decision can look at, and the questions that deciding asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from skillwright.scripted.household.belief import Belief
from skillwright.scripted.household.errand import APPLIANCES, Errand, Kind
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.household.observation import class_of
from skillwright.scripted.skilltext import Conduct, Habit, Rule

TREATING = {"clean": Rule.CLEAN_FIRST, "heat": Rule.HEAT_FIRST, "cool": Rule.COOL_FIRST}


@dataclass(frozen=True)
class Turn:
    """One decision: what the conversation, the skill and the seed of the turn give."""

    belief: Belief
    errand: Errand
    conduct: Conduct
    habits: Sequence[Habit]
    luck: Luck

    def can(self, command: str) -> bool:
        """Tell whether a command may be given; any may where the commands are not listed."""
        listed = self.belief.latest.commands
        return listed is None or command in listed

    def follows(self, rule: Rule) -> bool:
        """The skill asks for it."""
        return self.conduct.follows(rule)

    def dares(self, rule: Rule, kind: str, chance: float) -> bool:
        """Do what a rule asks for: always where it is given, else with a chance in [0, 1].

        What the skill forbids is never done.
        """
        if self.conduct.follows(rule):
            return True
        return not self.conduct.forbids(rule) and self.luck.chance(kind) < chance

    @cached_property
    def places_here(self) -> tuple[str, ...]:
        """Receptacles within reach; several may stand in one spot."""
        listed = self.belief.latest.commands
        if listed is None:
            here = {self.belief.here, *self.belief.beside}
            return tuple(place for place in self.belief.places if place in here)
        known = set(self.belief.places)
        named = (command[8:] for command in listed if command.startswith("examine "))
        return tuple(name for name in named if name in known)

    @cached_property
    def within_reach(self) -> dict[str, str]:
        """Objects that can be picked up here, each with its place."""
        listed = self.belief.latest.commands
        if listed is None:
            return {
                name: place
                for place in self.places_here
                if place not in self.belief.closed
                for name in self.belief.contents.get(place, ())
            }
        takes = (command[5:].split(" from ") for command in listed if command.startswith("take "))
        return {parts[0]: parts[1] for parts in takes if len(parts) == 2}

    @property
    def holds_wanted(self) -> bool:
        """The object in hand is of the wanted class."""
        return bool(self.belief.held) and class_of(self.belief.held) == self.errand.wanted

    def treatment_due(self, name: str) -> str:
        """Return the verb that an object still needs, as far as the skill says so, or ""."""
        verb = self.errand.verb
        if not verb or verb in self.belief.treated.get(name, ()):
            return ""
        return verb if self.follows(TREATING[verb]) else ""

    @cached_property
    def destination(self) -> str:
        """Where things are to be put, or "" where the room has no such place.

        Two objects must end up in one and the same place, so the one that holds most of them is it.
        """
        fitting = [place for place in self.belief.places if class_of(place) == self.errand.target]
        if not fitting:
            return ""
        if self.errand.kind is Kind.TWO and self.follows(Rule.FETCH_SECOND):
            return max(fitting, key=self._wanted_in)
        put = [place for place in self.belief.placed.values() if place in fitting]
        return put[-1] if put else fitting[-1]

    def _wanted_in(self, place: str) -> int:
        names = self.belief.contents.get(place, ())
        return sum(class_of(name) == self.errand.wanted for name in names)

    def is_settled(self, name: str, place: str) -> bool:
        """Tell whether an object already lies where it should, in the state that it should have."""
        if self.errand.kind is Kind.LOOK or self.treatment_due(name):
            return False
        if self.errand.kind is Kind.TWO:
            return place == self.destination
        return class_of(place) == self.errand.target

    @cached_property
    def known_wanted(self) -> dict[str, str]:
        """Wanted objects that were seen and are not settled, each with its place."""
        seen = self.belief.whereabouts(self.errand.wanted)
        near = {o: p for o, p in self.within_reach.items() if class_of(o) == self.errand.wanted}
        return {
            name: place
            for name, place in {**seen, **near}.items()
            if not self.is_settled(name, place) and name != self.belief.held
        }

    @property
    def settled(self) -> int:
        """How many wanted objects lie where they should, as far as the agent knows."""
        seen = self.belief.whereabouts(self.errand.wanted)
        return sum(self.is_settled(name, place) for name, place in seen.items())

    @property
    def sought(self) -> str:
        """The class that is being looked for: the object first, then the lamp."""
        if self.errand.kind is Kind.LOOK and self.holds_wanted:
            return self.errand.target
        return self.errand.wanted

    @cached_property
    def lamps(self) -> dict[str, str]:
        """Lamps of the right class that were seen, each with its place."""
        return self.belief.whereabouts(self.errand.target)

    def appliance(self, verb: str) -> str:
        """Return a receptacle that the verb needs, the nearest first, or ""."""
        fitting = [p for p in self.belief.places if class_of(p) == APPLIANCES[verb]]
        here = [place for place in fitting if place in self.places_here]
        return (here or fitting or [""])[0]

    def habitual_places(self) -> list[str]:
        """Places where the skill says that what is sought is kept, the last word first."""
        named: list[str] = []
        for habit in reversed(self.habits):
            if habit.object_class == self.sought and habit.room in {"", self.belief.room}:
                named += habit.places
        exact = [name for name in named if name in self.belief.places]
        kinds = {name for name in named if name not in exact}
        return exact + [place for place in self.belief.places if class_of(place) in kinds]
