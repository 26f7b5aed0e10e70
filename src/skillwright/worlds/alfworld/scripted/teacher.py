"""The teacher of a skill bank for ALFWorld games."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.models.scripted.prompts import Assignment, KnownSkill, Trajectory
from skillwright.models.scripted.teacher import (
    Randomness,
    ScriptedTeacher,
    Slots,
    Teaching,
    Written,
    cited,
    whole,
)
from skillwright.worlds.alfworld.scripted import APPLIANCES, Belief, Kind, class_of, room_of
from skillwright.worlds.alfworld.scripted.diagnosis import (
    Episode,
    diagnose,
    read_episode,
    read_episodes,
)
from skillwright.worlds.alfworld.scripted.lessons import (
    FROM_FAILURES,
    FROM_SUCCESSES,
    Superstition,
    rules_that_helped,
    tempted_by,
)
from skillwright.worlds.alfworld.scripted.wordings import CHECK_APPLIANCE, READ_THE_GOAL, TEACHINGS
from skillwright.worlds.scripted.skilltext import (
    BAD_RULES,
    Habit,
    Rule,
    read_conduct,
    read_habits,
    read_stances,
)
from skillwright.worlds.scripted.skilltext.sentences import blocks, sentences


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake that trajectories share."""

    teaching: Teaching  # what prevents it
    shown: Mapping[str, Sequence[int]]  # trajectory -> turns that show it

    @property
    def is_bad_habit(self) -> bool:
        """Whether it was done because a skill asks for it, or by a lapse."""
        return self.teaching.key in BAD_RULES


def found_in(trajectories: Sequence[Trajectory]) -> list[Finding]:
    """Find the mistakes in failed games, the most frequent first."""
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
        belief.read(step.result)
        is_ours = name != words and class_of(place) == APPLIANCES[verb]
        if is_ours and belief.latest.rejected and lies_there:
            yield step.turn


# Places of things in a household, learned from observations.


_FEWEST_SIGHTINGS: Final = 2
_LONGEST: Final = 280
_WITH_DOORS: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "box"})


@dataclass(frozen=True, slots=True)
class Storage:
    """The contents of one receptacle."""

    room: str  # the kind of room that it is in
    place: str
    classes: tuple[str, ...]  # classes that are kept there
    shown: tuple[str, ...]  # trajectories that show it

    @property
    def name(self) -> str:
        """The name of its skill."""
        return f"{self.room.capitalize()} {self.place}"

    @property
    def principle(self) -> str:
        """The text of its skill."""
        where = "in" if class_of(self.place) in _WITH_DOORS else "on"
        return (
            f"In this home's {self.room}, every {_enumerated(self.classes, 'and')} is kept "
            f"{where} {self.place}."
        )

    @property
    def fits(self) -> bool:
        """Whether its text fits into one skill."""
        return len(self.principle) <= _LONGEST

    def parts(self) -> Iterator["Storage"]:
        """Split it into parts that fit into one skill each."""
        left = self.classes
        while left:
            part = replace(self, classes=left)
            while not part.fits and len(part.classes) > 1:
                part = replace(part, classes=part.classes[:-1])
            yield part
            left = left[len(part.classes) :]

    def skill(self, evidence: list[dict[str, Any]]) -> dict[str, Any]:
        """Return its skill."""
        sought = _enumerated(self.classes, "or")
        return {
            "name": self.name,
            "principle": self.principle,
            "applicability": f"when the {self.room} is searched for {sought}",
            "evidence": evidence,
        }


def learn_storage(episodes: Sequence[Episode], known_habits: Iterable[Habit] = ()) -> list[Storage]:
    """Find object classes that were seen repeatedly, and mostly in one place of a room.

    A known habit adds one sighting to its place, if its class was seen there.
    """
    known = {(one.room, one.object_class, place) for one in known_habits for place in one.places}

    def is_known(room: str, cls: str, place: str) -> bool:
        return not known.isdisjoint({(room, cls, place), ("", cls, place)})

    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for episode in episodes:
        room = room_of(episode.places)
        for cls, place in _first_sightings(episode):
            seen[room, cls][place] += 1
            shown[room, cls, place][episode.id] = None
    kept: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (room, cls), places in seen.items():
        for place in list(places):
            places[place] += is_known(room, cls, place)
        place, count = max(places.items(), key=lambda item: (item[1], item[0]))
        witnesses = len(shown[room, cls, place]) + is_known(room, cls, place)
        if witnesses >= _FEWEST_SIGHTINGS and 2 * count > places.total():
            kept[room, place].append(cls)
    return [
        Storage(
            room,
            place,
            tuple(sorted(classes)),
            tuple(dict.fromkeys(n for cls in classes for n in shown[room, cls, place])),
        )
        for (room, place), classes in sorted(kept.items())
    ]


def keeps(room: str, place: str, text: str) -> tuple[str, ...]:
    """Return the classes that a skill assigns to a receptacle."""
    classes = [
        habit.object_class
        for habit in read_habits(text)
        if place in habit.places and habit.room in {"", room}
    ]
    return tuple(dict.fromkeys(classes))


def says_no_more(room: str, place: str, text: str) -> bool:
    """Tell whether every sentence of a skill is about the contents of one receptacle.

    A room in a sentence must be this one.
    """
    read = [read_habits(one.text) for block in blocks(text) for one in sentences(block)]
    return bool(read) and all(
        habits and all(one.places == (place,) and one.room in {"", room} for one in habits)
        for habits in read
    )


def _first_sightings(episode: Episode) -> list[tuple[str, str]]:
    """Return class and place of every object when first seen; carried objects do not count."""
    met: set[str] = set()
    found = []
    for visit in episode.visits:
        met.update(visit.placed)
        for name in sorted(visit.contents - met):
            found.append((class_of(name), visit.place))
        met |= visit.contents
    return found


def _enumerated(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


Change = dict[str, Any]

_COMPARED: Final = 120  # characters of a principle that an earlier proposal shows whole
_RETIRED: Final = "It asks for what costs turns or misses the goal."


@dataclass(frozen=True, slots=True)
class Needed:
    """A change that failures call for."""

    task_type: str  # whose failures; "" for several
    failures: int  # number of failures that it may prevent
    change: Change  # in the form of the prompt


class HouseholdUpdate:
    """One update of a bank."""

    def __init__(self, asked: Assignment) -> None:
        self._asked = asked
        self._slots = Slots(asked)

    def changes(self, beliefs: list[Change]) -> list[Change]:
        """Return the changes, the weakest category's and most frequent first.

        ``beliefs`` are added only if nothing else explains the failures.
        """
        retired = list(self._retired())
        needed = sorted([*self._lacking(), *self._places()], key=self._urgency)
        return [*retired, *self._slots.within([one.change for one in needed] or beliefs)]

    def _urgency(self, one: Needed) -> tuple[int, bool, int]:
        # The prompt asks to propose nothing again that a test rejected.
        before = self._asked.earlier.count(str(one.change["principle"])[:_COMPARED])
        return before, one.task_type != self._asked.weakest, -one.failures

    def _retired(self) -> Iterator[Change]:
        for skill in self._asked.skills:
            stances = read_stances(skill.line)
            if stances and all(stance.is_harmful for stance in stances):
                yield {"op": "retire", "id": skill.id, "reason": _RETIRED}

    def _lacking(self) -> Iterator[Needed]:
        """Yield changes for the mistakes of each category, the weakest category first."""
        written: set[tuple[str, str]] = set()
        for task_type in self._task_types:
            for finding in found_in(self._of(task_type)):
                teaching = finding.teaching
                key = (teaching.key, teaching.category)
                if key in written or teaching.category not in {"", task_type}:
                    continue
                if not finding.is_bad_habit and self._may_be_why(teaching.category):
                    written.add(key)
                    for change in self._taught(finding, task_type):
                        yield Needed(task_type, len(finding.shown), change)

    def _may_be_why(self, category: str) -> bool:
        """Tell whether skills of a category may cause its failures.

        Skills of every category also reach categories that do well, where rewording costs more than
        it helps.
        """
        known = {skill.category for skill in self._asked.skills} - {""}
        return bool(category) or known <= set(self._task_types)

    @property
    def _task_types(self) -> list[str]:
        found = [self._asked.weakest, *(one.task_type for one in self._asked.trajectories)]
        return list(dict.fromkeys(found))

    def _of(self, task_type: str) -> list[Trajectory]:
        return [one for one in self._asked.trajectories if one.task_type == task_type]

    def _taught(self, finding: Finding, task_type: str) -> Iterator[Change]:
        """Add what agents of a category lack; reword what did not help."""
        teaching = finding.teaching
        named = [one for one in self._injected_in(task_type) if one.text.startswith(teaching.name)]
        known = [skill for skill in named if skill.kind != "lesson"]
        evidence = cited(finding.shown)
        if known:
            unused = [text for text in teaching.principles if text not in self._known_text]
            if unused:
                yield {
                    "op": "refine",
                    "id": known[0].id,
                    "principle": unused[0],
                    "reason": "Agents that were told it made the mistake all the same.",
                    "evidence": evidence,
                }
            return
        if not named and self._is_injected(teaching.key, task_type):
            return
        wording = next(
            (n for n, text in enumerate(teaching.principles) if text not in self._asked.earlier), 0
        )
        kind = "task_specific" if teaching.category else "general"
        yield {
            "op": "add",
            "kind": kind,
            "category": teaching.category,
            **teaching.principle(evidence, wording),
        }

    @property
    def _known_text(self) -> str:
        return "\n".join([self._asked.earlier, *(skill.text for skill in self._asked.skills)])

    def _injected_in(self, task_type: str) -> list[KnownSkill]:
        return [
            one for one in self._asked.skills if one.category in {"", task_type} and not one.place
        ]

    def _is_injected(self, key: str, task_type: str) -> bool:
        """Tell whether a rule is injected for a category."""
        conduct = read_conduct("\n".join(skill.line for skill in self._injected_in(task_type)))
        return key in set(Rule) and conduct.follows(Rule(key))

    def _places(self) -> Iterator[Needed]:
        """Yield the places of things that were sought in vain.

        If the bank has skills of a home by category, each category gets its own skill; else one
        serves all.
        """
        apart = any(skill.place and skill.category for skill in self._asked.skills)
        for place in dict.fromkeys(one.place for one in self._asked.trajectories if one.place):
            there = [one for one in self._asked.trajectories if one.place == place]
            episodes = {one.id: episode for one in there if (episode := read_episode(one))}
            habits = "\n".join(skill.line for skill in self._asked.skills if skill.place == place)
            stored = learn_storage(list(episodes.values()), read_habits(habits))
            for task_type in self._task_types if apart else [""]:
                lost = [
                    one.id
                    for one in there
                    if task_type in {"", one.task_type} and one.id in episodes
                ]
                sought = Counter(cls for name in lost for cls in _sought(episodes[name]))
                for storage in stored:
                    yield from self._kept(storage, task_type, place, sought)

    def _kept(
        self, storage: Storage, task_type: str, place: str, sought: Counter[str]
    ) -> Iterator[Needed]:
        """Yield the sought classes that a receptacle holds and no skill of the category has."""
        named = [
            (skill, kept)
            for skill in self._asked.skills
            if skill.place == place
            and skill.category in {"", task_type}
            and (kept := keeps(storage.room, storage.place, skill.line))
        ]
        known = {cls for _, kept in named for cls in kept}
        new = tuple(cls for cls in storage.classes if sought[cls] and cls not in known)
        if not new:
            return
        unknown = replace(storage, classes=new)
        refined = next(_refined(unknown, named), None)
        if refined is not None:
            yield Needed(task_type, sum(sought[cls] for cls in new), refined)
            return
        where = {"kind": "task_specific", "category": task_type}
        where["place"] = place
        for part in unknown.parts():
            change = {"op": "add", **where, **part.skill(whole(storage.shown))}
            if named:  # under an equal name, similar words would count as the same
                room = storage.room.replace(" ", "-")  # a name has five words at most
                change["name"] = f"More of {room} {storage.place}"
            yield Needed(task_type, sum(sought[cls] for cls in part.classes), change)


def _refined(new: Storage, named: Sequence[tuple[KnownSkill, tuple[str, ...]]]) -> Iterator[Change]:
    """Add it to a skill that says nothing else and has space."""
    for skill, kept in named:
        both = replace(new, classes=tuple(sorted({*kept, *new.classes})))
        if both.fits and says_no_more(new.room, new.place, skill.line):
            yield {
                "op": "refine",
                "id": skill.id,
                **both.skill(whole(new.shown)),
                "reason": "More of what is kept there was seen.",
            }


def _sought(episode: Episode) -> set[str]:
    """Return the classes that a game needs: the object, and perhaps the lamp."""
    errand = episode.errand
    return {errand.wanted, errand.target} if errand.kind is Kind.LOOK else {errand.wanted}


_BELIEVES: Final = 0.12
"""Probability of a false principle, per request about successes."""


class HouseholdTeacher(ScriptedTeacher):
    """Writes skills from ALFWorld games."""

    identity = "scripted:household_teacher"

    def successes(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Name the rules that successful games followed, those of the category first."""
        episodes = read_episodes(asked.of("success"))
        if not episodes:
            return None
        helped = rules_that_helped(episodes)
        own = [rule for rule in helped if TEACHINGS[rule].category in asked.categories]
        others = [rule for rule in helped if rule not in own and not TEACHINGS[rule].category]
        written = [
            TEACHINGS[rule].principle(whole(helped[rule])) for rule in (own or others[:1])
        ] or [READ_THE_GOAL.principle(whole(e.id for e in episodes))]
        return (written + superstition(FROM_SUCCESSES, episodes, rng, _BELIEVES))[: asked.count]

    def failures(self, asked: Assignment) -> list[Written] | None:
        """Name the mistakes of failed games, those of the category first."""
        shown = asked.of("failure")
        if not read_episodes(shown):
            return None
        found = [one for one in found_in(shown) if not one.is_bad_habit]
        own = [one for one in found if one.teaching.category in asked.categories]
        others = [one for one in found if not one.teaching.category]
        lessons = [one.teaching.lesson(cited(one.shown)) for one in own + others]
        return (lessons or [READ_THE_GOAL.lesson(whole(t.id for t in shown))])[: asked.count]

    def general(self, asked: Assignment) -> list[Written] | None:
        """Name what helped or was missing in several categories."""
        kept, failed = asked.of("success"), asked.of("failure")
        if not read_episodes([*kept, *failed]):
            return None
        evidence = {
            rule: whole(ids) for rule, ids in rules_that_helped(read_episodes(kept)).items()
        }
        for one in diagnose(read_episodes(failed)):
            if one.rule not in BAD_RULES:
                evidence.setdefault(one.rule, []).extend(cited(one.shown))
        general = [rule for rule in TEACHINGS if rule in evidence and not TEACHINGS[rule].category]
        written = [TEACHINGS[rule].principle(evidence[rule]) for rule in general]
        everything = whole(one.id for one in asked.trajectories)
        return (written or [READ_THE_GOAL.principle(everything)])[: asked.count]

    def place(self, asked: Assignment) -> list[Written] | None:
        """Describe where the home keeps its things."""
        episodes = read_episodes(asked.trajectories)
        if not episodes:
            return None
        stored = [part for one in learn_storage(episodes) for part in one.parts()]
        return [one.skill(whole(one.shown)) for one in stored][: asked.count]

    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Propose what the bank lacks, rewordings of what did not help, and removals of harm."""
        if not read_episodes(asked.trajectories):
            return None
        update = HouseholdUpdate(asked)
        belief = superstition(
            [one for one in FROM_FAILURES if not _was_tried(one, asked)],
            read_episodes(asked.trajectories),
            rng,
            3 * _BELIEVES,
        )
        return update.changes([{"op": "add", "kind": "general", **one} for one in belief])


def superstition(
    among: Sequence[Superstition], episodes: Sequence[Episode], rng: Randomness, chance: float
) -> list[Written]:
    """Return the false lesson that the teacher believes, or nothing."""
    if rng.chance("believe") >= chance:
        return []
    options = {one.name: one for one in among if tempted_by(one, episodes)}
    if not options:
        return []
    one = options[rng.pick("belief", options)]
    return [
        {
            "name": " ".join(one.name.capitalize().split()[:5]),
            "principle": rng.pick("word belief", one.wordings),
            "applicability": "in every task",
            "evidence": whole(episode.id for episode in tempted_by(one, episodes)[:2]),
        }
    ]


def _was_tried(one: Superstition, asked: Assignment) -> bool:
    known = asked.earlier + "\n".join(skill.text for skill in asked.skills)
    return any(text in known for text in one.wordings)
