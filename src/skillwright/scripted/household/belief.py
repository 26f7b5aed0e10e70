"""What an agent can know from its conversation alone."""

from collections.abc import Iterable, Sequence

from skillwright.core import Message
from skillwright.core.action import action_in
from skillwright.scripted.household.errand import Errand, read_errand, tells_errand
from skillwright.scripted.household.observation import (
    Observation,
    class_of,
    read_observation,
)

_UNDOES = {"heat": "cool", "cool": "heat"}
_ROOM_MARKS = (
    ("kitchen", {"microwave", "fridge", "stoveburner", "toaster"}),
    ("bathroom", {"toilet", "bathtubbasin", "toiletpaperhanger", "towelholder"}),
    ("bedroom", {"bed"}),
)


class Belief:
    """The state of an episode as its texts tell it.

    Built by telling it each command and each observation in order; nothing else changes it.
    """

    def __init__(self) -> None:
        self.errand: Errand | None = None  # the task, or ``None`` where no text tells it
        self.places: tuple[str, ...] = ()  # Receptacles, in listing order
        self.here = ""  # the place that the agent went to last, or ""
        self.beside: set[str] = set()  # other places that turned out to be within reach from there
        self.contents: dict[str, tuple[str, ...]] = {}  # place -> what was last seen there
        self.closed: set[str] = set()  # places that are closed as far as is known
        self.doors: set[str] = set()  # places that were seen to have a door
        # place -> how often it was reached, in order of the first visit
        self.visits: dict[str, int] = {}
        self.held = ""  # the object in hand, or ""
        # object -> verbs that were applied to it; heat and cold undo each other
        self.treated: dict[str, set[str]] = {}
        self.placed: dict[str, str] = {}  # object -> where the agent put it
        self.lit: set[str] = set()  # lamps that are on
        self.commands: list[str] = []  # all commands, in order
        # commands since the agent last reached a place, newest last
        self.since_move: list[str] = []
        self.latest: Observation = read_observation("")  # the last observation

    def open_with(self, opening: str) -> None:
        """Take in the first text of a game."""
        seen = read_observation(opening)
        self.errand = read_errand(seen.text)
        goals = tuple(c[6:] for c in seen.commands or () if c.startswith("go to "))
        self.places = tuple(dict.fromkeys(seen.places + seen.facing + goals))
        self.beside.update(seen.facing)
        self.latest = seen

    def act(self, command: str) -> None:
        """Take in a command that the agent gave."""
        self.commands.append(command)
        self.since_move.append(command)

    def see(self, content: str) -> None:
        """Take in the observation that followed a command."""
        seen = read_observation(content)
        self.latest = seen
        if seen.arrived:
            self._arrive(seen)
        elif seen.rejected and self.last_command.startswith("go to "):
            # One cannot go where one stands already.
            self.beside.update({self.last_command[6:]} & set(self.places))
        self.contents.update(seen.contents)
        if seen.closed or seen.opened:
            self.closed.update(seen.closed)
            self.closed.difference_update(seen.opened)
            self.doors.update(seen.closed, seen.opened)
        if seen.taken:
            self._take(*seen.taken)
        elif seen.moved:
            self._put(*seen.moved)
        elif seen.treated:
            self._treat(*seen.treated)
        elif seen.lit:
            self.lit.add(seen.lit)
        elif seen.carrying is not None:
            self.held = seen.carrying

    @property
    def last_command(self) -> str:
        """The command given last, or ""."""
        return self.commands[-1] if self.commands else ""

    def whereabouts(self, cls: str) -> dict[str, str]:
        """Return every object of a class that was seen and not moved since, with its place."""
        return {
            name: place
            for place, names in self.contents.items()
            for name in names
            if class_of(name) == cls
        }

    def was_searched(self, place: str) -> bool:
        """The place was reached, or its contents were seen from beside it."""
        return place in self.visits or place in self.contents or place in self.doors

    @property
    def room(self) -> str:
        """The kind of room, guessed by its furniture."""
        return room_of(self.places)

    def _arrive(self, seen: Observation) -> None:
        # Older dialects announce "loc 12" instead of the receptacle that was asked for.
        asked = self.last_command.removeprefix("go to ")
        self.here = seen.arrived if seen.arrived in self.places else asked
        if self.here and self.here not in self.places:
            self.places += (self.here,)
        self.visits[self.here] = self.visits.get(self.here, 0) + 1
        self.since_move = []
        self.beside.clear()

    def _take(self, name: str, place: str) -> None:
        self.held = name
        self.placed.pop(name, None)
        left = self.contents.get(place, ())
        self.contents[place] = tuple(other for other in left if other != name)

    def _put(self, name: str, place: str) -> None:
        self.held = ""
        self.placed[name] = place
        self.contents[place] = (*self.contents.get(place, ()), name)

    def _treat(self, verb: str, name: str) -> None:
        verbs = self.treated.setdefault(name, set())
        verbs.add(verb)
        verbs.discard(_UNDOES.get(verb, ""))


def room_of(places: Iterable[str]) -> str:
    """Guess the kind of room by its furniture."""
    classes = {class_of(place) for place in places}
    return next((room for room, marks in _ROOM_MARKS if marks & classes), "living room")


def read_conversation(messages: Sequence[Message]) -> Belief:
    """Read a conversation; a task sentence opens an episode (worked examples may stand before)."""
    belief = Belief()
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant":
            belief.act(action_in(content))
        elif role == "user":
            belief = hear(belief, content)
    return belief


def hear(belief: Belief, content: str) -> Belief:
    """Take in a message of the household; a task sentence opens a new episode."""
    if not tells_errand(content):
        belief.see(content)
        return belief
    fresh = Belief()
    fresh.open_with(content)
    return fresh
