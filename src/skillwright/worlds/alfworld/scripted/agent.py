"""The scripted household agents: a weak but obedient one, and an expert."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from skillwright.core import Message
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.models.scripted.teacher import Randomness, ScriptedModel, skill_in
from skillwright.worlds.alfworld.scripted.belief import (
    APPLIANCES,
    LAMP_CLASSES,
    Belief,
    Errand,
    Kind,
    by_likelihood,
    class_of,
    read_conversation,
)
from skillwright.worlds.scripted.skilltext import (
    EXPERT_CONDUCT,
    Conduct,
    Habit,
    Rule,
    read_conduct,
    read_habits,
)

TREATING = {"clean": Rule.CLEAN_FIRST, "heat": Rule.HEAT_FIRST, "cool": Rule.COOL_FIRST}


@dataclass(frozen=True)
class Turn:
    """One decision: its conversation, skill and seed."""

    belief: Belief
    errand: Errand
    conduct: Conduct
    habits: Sequence[Habit]
    rng: Randomness

    def can(self, command: str) -> bool:
        """Tell whether a command is allowed; any is if the commands are not listed."""
        listed = self.belief.latest.commands
        return listed is None or command in listed

    def follows(self, rule: Rule) -> bool:
        """Tell whether the skill asks for a rule."""
        return self.conduct.follows(rule)

    def dares(self, rule: Rule, kind: str, chance: float) -> bool:
        """Tell whether to follow a rule: if given yes, if forbidden no, else with ``chance``."""
        if self.conduct.follows(rule):
            return True
        return not self.conduct.forbids(rule) and self.rng.chance(kind) < chance

    @cached_property
    def places_here(self) -> tuple[str, ...]:
        """Receptacles within reach; several may share a location."""
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
        """Whether the object in hand is of the wanted class."""
        return bool(self.belief.held) and class_of(self.belief.held) == self.errand.wanted

    def treatment_due(self, name: str) -> str:
        """Return the verb that an object still needs according to the skill, or ""."""
        verb = self.errand.verb
        if not verb or verb in self.belief.treated.get(name, ()):
            return ""
        return verb if self.follows(TREATING[verb]) else ""

    @cached_property
    def destination(self) -> str:
        """The receptacle for delivery, or "" if the room has none.

        Two objects must end up in one place, so it is the one that holds most of them.
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
        """Tell whether an object is already in its target place and state."""
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
        """The number of settled wanted objects, as far as the agent knows."""
        seen = self.belief.whereabouts(self.errand.wanted)
        return sum(self.is_settled(name, place) for name, place in seen.items())

    @property
    def sought(self) -> str:
        """The class to search for: the object first, then the lamp."""
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
        """Places where the skill says that the sought class is kept, the last mentioned first."""
        named: list[str] = []
        for habit in reversed(self.habits):
            if habit.object_class == self.sought and habit.room in {"", self.belief.room}:
                named += habit.places
        exact = [name for name in named if name in self.belief.places]
        kinds = {name for name in named if name not in exact}
        return exact + [place for place in self.belief.places if class_of(place) in kinds]


# Drives in order of urgency; each returns a command or ``None``. A drive that a rule asks for
# always works; without the rule it works at random.


# Probabilities of actions that no rule asks for.
_TAKES = 0.5
_OPENS = 0.16
_OPENS_TO_PLACE = 0.04
_USES_LAMP = 0.1
_TREATS = 0.1
_FETCHES = 0.1
_FIDDLES = 0.2
_GOES_BACK = 0.5
_DROPS = 0.4

# Probability that an interruption makes a weak agent forget its plan.
_LOSES_THE_THREAD = 0.4
_LOSES_IT_AT_THE_START = 0.75

LOOK: Final = "look"


def obey_ritual(turn: Turn) -> str | None:
    """Do what the skill asks for after every move, useful or not."""
    belief = turn.belief
    if not belief.here:
        return None
    if belief.last_command.startswith("take ") and turn.follows(Rule.EXAMINE_ALL) and belief.held:
        return f"examine {belief.held}"
    rituals = (
        (Rule.EXAMINE_ALL, f"examine {belief.here}"),
        (Rule.LOOK_AROUND, LOOK),
        (Rule.CHECK_INVENTORY, "inventory"),
    )
    for rule, command in rituals:
        if turn.follows(rule) and command not in belief.since_move and turn.can(command):
            return command
    return None


def lose_the_thread(turn: Turn) -> str | None:
    """Forget the plan after an interruption, and act at random."""
    last = turn.belief.last_command
    start = next(iter(turn.belief.visits), "")
    interruptions = (
        (Rule.CHECK_INVENTORY, "inventory", _LOSES_THE_THREAD),
        (Rule.LOOK_AROUND, LOOK, _LOSES_THE_THREAD),
        (Rule.EXAMINE_ALL, "examine ", _LOSES_THE_THREAD),
        (Rule.RETURN_TO_START, f"go to {start}", _LOSES_IT_AT_THE_START),
    )
    for rule, command, chance in interruptions:
        if last.startswith(command) and turn.follows(rule):
            return wander(turn) if turn.rng.chance("thread") < chance else None
    return None


def treat(turn: Turn) -> str | None:
    """Give the object in hand the state of the task."""
    held = turn.belief.held
    if not turn.holds_wanted:
        return None
    verb = turn.treatment_due(held)
    if not verb:
        return _treat_at_random(turn)
    place = turn.appliance(verb)
    if not place:
        return None
    return f"{verb} {held} with {place}" if place in turn.places_here else go_to(turn, place)


def _treat_at_random(turn: Turn) -> str | None:
    verb, held = turn.errand.verb, turn.belief.held
    place = turn.appliance(verb) if verb else ""
    if place not in turn.places_here or verb in turn.belief.treated.get(held, ()):
        return None
    dares = turn.dares(TREATING[verb], "treat", _TREATS)
    return f"{verb} {held} with {place}" if dares else None


def light_up(turn: Turn) -> str | None:
    """Bring the object in hand to the lamp, and switch it on."""
    if turn.errand.kind is not Kind.LOOK or not turn.holds_wanted:
        return None
    for lamp, place in turn.lamps.items():
        if place in turn.places_here:
            used = lamp not in turn.belief.lit
            if used and turn.dares(Rule.USE_LAMP, "lamp", _USES_LAMP):
                return f"use {lamp}"
        elif turn.follows(Rule.USE_LAMP):
            return go_to(turn, place)
    return search(turn) if turn.follows(Rule.USE_LAMP) else wander(turn)


def deliver(turn: Turn) -> str | None:
    """Carry the wanted object to its destination and put it down there."""
    if not turn.holds_wanted or not turn.destination:
        return None
    place = turn.destination
    if place not in turn.places_here:
        return go_to(turn, place)
    if place in turn.belief.closed:
        if turn.dares(Rule.OPEN_TO_PLACE, "open to place", _OPENS_TO_PLACE):
            return f"open {place}"
        return wander(turn)
    return put_down(turn, place)


def drop_other(turn: Turn) -> str | None:
    """Put down an object that the task does not need."""
    if not turn.belief.held or turn.holds_wanted:
        return None
    free = [place for place in turn.places_here if place not in turn.belief.closed]
    commands = [command for place in free if (command := put_down(turn, place))]
    return commands[0] if commands and turn.dares(Rule.TAKE_ON_SIGHT, "drop", _DROPS) else None


def rest(turn: Turn) -> str | None:
    """Assume that all is done, if no rule says that a second object is needed."""
    if turn.errand.kind is not Kind.TWO or turn.belief.held or not turn.belief.placed:
        return None
    if turn.follows(Rule.FETCH_SECOND):
        return None
    if turn.conduct.forbids(Rule.FETCH_SECOND) or turn.rng.chance("fetch") >= _FETCHES:
        return wander(turn)
    return None


def take(turn: Turn) -> str | None:
    """Pick up the wanted object, or go where it was seen."""
    if turn.belief.held or turn.conduct.forbids(Rule.TAKE_ON_SIGHT):
        return None
    near = [name for name in turn.known_wanted if name in turn.within_reach]
    if near:
        name = near[0]
        if turn.dares(Rule.TAKE_ON_SIGHT, "take", _TAKES):
            return f"take {name} from {turn.within_reach[name]}"
        return None
    if not turn.follows(Rule.TAKE_ON_SIGHT):
        return None
    for place in turn.known_wanted.values():
        if place in turn.places_here and place in turn.belief.closed:
            return f"open {place}"
        if place not in turn.places_here:
            return go_to(turn, place)
    return None


def open_here(turn: Turn) -> str | None:
    """Open what is closed here, to look inside."""
    if turn.sought == turn.errand.target and turn.errand.kind is Kind.LOOK:
        return None  # lamps are never inside something
    for place in turn.places_here:
        if place in turn.belief.closed and turn.can(f"open {place}"):
            return f"open {place}" if turn.dares(Rule.OPEN_CLOSED, "open", _OPENS) else None
    return None


def search(turn: Turn) -> str | None:
    """Go to the next place: in order and each once, or at random."""
    order = search_order(turn)
    if turn.follows(Rule.SEARCH_ONCE):
        left = [place for place in order if not turn.belief.was_searched(place)]
        return _next_place(turn, left[0]) if left else None
    hinted = [place for place in turn.habitual_places() if place not in turn.belief.visits]
    if hinted:
        return _next_place(turn, hinted[0])
    if turn.rng.chance("fiddle") < _FIDDLES:
        return None
    options = [place for place in order if place not in turn.places_here]
    if turn.conduct.forbids(Rule.SEARCH_ONCE) and turn.rng.chance("back") < _GOES_BACK:
        options = [place for place in options if place in turn.belief.visits] or options
    return _next_place(turn, turn.rng.pick("where", options)) if options else None


def search_order(turn: Turn) -> list[str]:
    """Return the places in search order."""
    order = list(turn.belief.places)
    if turn.follows(Rule.LIKELY_FIRST):
        order = list(by_likelihood(order, turn.sought))
    order = list(dict.fromkeys([*turn.habitual_places(), *order]))
    if turn.follows(Rule.FEW_PLACES):
        order = order[: turn.conduct.stances[Rule.FEW_PLACES].number]
    return order


def _next_place(turn: Turn, place: str) -> str | None:
    if place in turn.places_here and turn.can(f"examine {place}"):
        return f"examine {place}"
    return go_to(turn, place)


def wander(turn: Turn) -> str | None:
    """Act at random."""
    options: list[str] = []
    mood = turn.rng.chance("mood")
    if mood < 0.1 and not turn.belief.held:
        options = [f"take {name} from {place}" for name, place in turn.within_reach.items()]
    elif mood < 0.2 and turn.belief.held:
        options = [f"move {turn.belief.held} to {place}" for place in turn.places_here]
    elif mood < 0.35:
        options = [LOOK, "inventory", *(f"examine {place}" for place in turn.places_here)]
    options = [command for command in options if turn.can(command)]
    if options:
        return turn.rng.pick("wander", options)
    elsewhere = [place for place in turn.belief.places if place not in turn.places_here]
    return go_to(turn, turn.rng.pick("where", elsewhere)) if elsewhere else None


def go_to(turn: Turn, place: str) -> str | None:
    """Go to a place if possible from here; by way of the start, if a skill says so."""
    start = next(iter(turn.belief.visits), "")
    strays = start and start not in {turn.belief.here, place}
    command = f"go to {start if strays and turn.follows(Rule.RETURN_TO_START) else place}"
    return command if turn.can(command) else None


def put_down(turn: Turn, place: str) -> str | None:
    """Put the object in hand down, in the words of the game's dialect."""
    held = turn.belief.held
    wordings = (f"move {held} to {place}", f"put {held} in/on {place}")
    return next((command for command in wordings if turn.can(command)), None)


DRIVES: Final[tuple[Callable[[Turn], str | None], ...]] = (
    obey_ritual,
    lose_the_thread,
    treat,
    light_up,
    deliver,
    drop_other,
    rest,
    take,
    open_here,
    search,
    wander,
)


def open_moves(turn: Turn) -> list[str]:
    """Return the possible commands: the admissible ones, if the prompt lists them.

    Otherwise they are those that the agent believes possible; the game may still refuse to put an
    object into a receptacle of the wrong kind, or to treat an object that cannot be treated.
    """
    listed = turn.belief.latest.commands
    return list(listed) if listed else list(_believed_moves(turn))


def _believed_moves(turn: Turn) -> Iterator[str]:
    yield LOOK
    yield "inventory"
    if turn.belief.held:
        yield f"examine {turn.belief.held}"
    for place in turn.belief.places:
        if place in turn.places_here:
            yield from _moves_at(turn, place)
        else:
            yield f"go to {place}"


def _moves_at(turn: Turn, place: str) -> Iterator[str]:
    held = turn.belief.held
    yield f"examine {place}"
    if held:
        fitting = (verb for verb, cls in APPLIANCES.items() if cls == class_of(place))
        yield from (f"{verb} {held} with {place}" for verb in fitting)
    if place in turn.belief.closed:
        yield f"open {place}"
        return
    if place in turn.belief.doors:
        yield f"close {place}"
    for name in turn.belief.contents.get(place, ()):
        if class_of(name) in LAMP_CLASSES:
            yield f"use {name}"
        elif not held:
            yield f"take {name} from {place}"
    if held and (command := put_down(turn, place)):
        yield command


class ScriptedHousehold(ScriptedModel):
    """Plays household games by the rules in its skill, and at random without.

    Good and bad advice is followed alike; of contradicting sentences the later counts.

    Without noise its random choices depend on the seed alone, so two skills tested at equal seeds
    share them. With noise they depend on the seed and the whole prompt, as those of a language
    model do: a run repeats exactly, and another skill gets other random numbers.

    Args:
        noise: Share of turns with a random admissible action, in [0, 1).
    """

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise
        self.identity = f"scripted:household noise={noise}" if noise else "scripted:household"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command, as ``<action>...</action>``."""
        skill = skill_in(messages)
        if self._noise:
            seed = derive_seed("prompt", seed, digest(list(messages)))
        belief = read_conversation(messages)
        command = decide(belief, read_conduct(skill), read_habits(skill), seed, self._noise)
        return f"<action>{command}</action>"


def decide(
    belief: Belief, conduct: Conduct, habits: Sequence[Habit], seed: int, noise: float = 0.0
) -> str:
    """Return the next command, random with probability ``noise``; "look" without a task."""
    if belief.errand is None:
        return LOOK
    turn = Turn(belief, belief.errand, conduct, habits, Randomness(seed))
    if turn.rng.chance("noise") < noise:
        return turn.rng.pick("noise", open_moves(turn))
    refused = belief.last_command if belief.latest.rejected else ""
    proposed = (drive(turn) for drive in DRIVES)
    return next((command for command in proposed if command and command != refused), LOOK)


class ScriptedSearcher(ScriptedModel):
    """Plays household games by every good rule, and searches where its skill says.

    It ignores the seed. It answers with the bare command, so that it can teach a policy that
    chooses from a list.
    """

    identity = "scripted:searcher"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command."""
        habits = read_habits(skill_in(messages))
        return decide(read_conversation(messages), EXPERT_CONDUCT, habits, seed=0)
