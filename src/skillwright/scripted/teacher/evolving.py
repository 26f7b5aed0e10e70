"""Changes of a bank for households: what it lacks, what it says too weakly, what does harm."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.scripted.analyst.episode import Episode, read_episode
from skillwright.scripted.analyst.prompt import Trajectory
from skillwright.scripted.household import Kind
from skillwright.scripted.skilltext import Rule, read_conduct, read_habits, read_stances
from skillwright.scripted.teacher.findings import Finding, found_in
from skillwright.scripted.teacher.prompt import Assignment, KnownSkill
from skillwright.scripted.teacher.slots import Slots
from skillwright.scripted.teacher.storage import Storage, keeps, learn_storage, says_no_more
from skillwright.scripted.teacher.teaching import cited, whole

Change = dict[str, Any]

_RETIRED: Final = "It asks for what costs turns or misses the goal."


@dataclass(frozen=True, slots=True)
class Needed:
    """A change that failures ask for."""

    family: str  # whose failures; "" where several may be meant
    failures: int  # how many of them it may prevent
    change: Change  # the change, as the prompt asks for it


class HouseholdUpdate:
    """One update of a bank."""

    def __init__(self, asked: Assignment) -> None:
        self._asked = asked
        self._slots = Slots(asked)

    def changes(self, beliefs: list[Change]) -> list[Change]:
        """Write the changes; ``beliefs`` only where nothing else explains the failures.

        What the weakest category needs comes first, and what most failures share.
        """
        retired = list(self._retired())
        needed = sorted([*self._lacking(), *self._places()], key=self._urgency)
        return [*retired, *self._slots.within([one.change for one in needed] or beliefs)]

    def _urgency(self, one: Needed) -> tuple[bool, int]:
        return one.family != self._asked.weakest, -one.failures

    def _retired(self) -> Iterator[Change]:
        for skill in self._asked.skills:
            stances = read_stances(skill.line)
            if stances and all(stance.is_harmful for stance in stances):
                yield {"op": "retire", "id": skill.id, "reason": _RETIRED}

    def _lacking(self) -> Iterator[Needed]:
        """Go through the mistakes of each category, the weakest category first."""
        written: set[tuple[str, str]] = set()
        for family in self._families:
            for finding in found_in(self._of(family)):
                teaching = finding.teaching
                key = (teaching.key, teaching.category)
                if key in written or teaching.category not in {"", family}:
                    continue
                if not finding.is_bad_habit and self._may_be_why(teaching.category):
                    written.add(key)
                    for change in self._taught(finding, family):
                        yield Needed(family, len(finding.shown), change)

    def _may_be_why(self, category: str) -> bool:
        """Tell whether what is told in a category may be why games are lost.

        What is told in every category is told in those that do well, too; other words for it would
        cost them more than they could bring. Of those that do well no failures are shown.
        """
        known = {skill.category for skill in self._asked.skills} - {""}
        return bool(category) or known <= set(self._families)

    @property
    def _families(self) -> list[str]:
        told = [self._asked.weakest, *(one.family for one in self._asked.trajectories)]
        return list(dict.fromkeys(told))

    def _of(self, family: str) -> list[Trajectory]:
        return [one for one in self._asked.trajectories if one.family == family]

    def _taught(self, finding: Finding, family: str) -> Iterator[Change]:
        """Add what agents of a category are not told; say better what they are told in vain."""
        teaching = finding.teaching
        named = [one for one in self._told_in(family) if one.text.startswith(teaching.name)]
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
        if not named and self._is_told(teaching.key, family):
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

    def _told_in(self, family: str) -> list[KnownSkill]:
        return [one for one in self._asked.skills if one.category in {"", family} and not one.place]

    def _is_told(self, key: str, family: str) -> bool:
        """Tell whether agents of a category are given a rule; what is no rule never is."""
        conduct = read_conduct("\n".join(skill.line for skill in self._told_in(family)))
        return key in set(Rule) and conduct.follows(Rule(key))

    def _places(self) -> Iterator[Needed]:
        """Say where homes keep what was sought in vain.

        A bank that tells each category what it may want of a home has to tell it this as well.
        Elsewhere it is told in every category.
        """
        apart = any(skill.place and skill.category for skill in self._asked.skills)
        for place in dict.fromkeys(one.place for one in self._asked.trajectories if one.place):
            there = [one for one in self._asked.trajectories if one.place == place]
            episodes = {one.id: episode for one in there if (episode := read_episode(one))}
            told = "\n".join(skill.line for skill in self._asked.skills if skill.place == place)
            stored = learn_storage(list(episodes.values()), read_habits(told))
            for family in self._families if apart else [""]:
                lost = [
                    one.id for one in there if family in {"", one.family} and one.id in episodes
                ]
                sought = Counter(cls for name in lost for cls in _sought(episodes[name]))
                for storage in stored:
                    yield from self._kept(storage, family, place, sought)

    def _kept(
        self, storage: Storage, family: str, place: str, sought: Counter[str]
    ) -> Iterator[Needed]:
        """Tell a category what it sought of one receptacle and is not told."""
        named = [
            (skill, kept)
            for skill in self._asked.skills
            if skill.place == place
            and skill.category in {"", family}
            and (kept := keeps(storage.room, storage.place, skill.line))
        ]
        known = {cls for _, kept in named for cls in kept}
        new = tuple(cls for cls in storage.classes if sought[cls] and cls not in known)
        if not new:
            return
        unknown = replace(storage, classes=new)
        refined = next(_refined(unknown, named), None)
        if refined is not None:
            yield Needed(family, sum(sought[cls] for cls in new), refined)
            return
        where = {"kind": "task_specific", "category": family, "place": place}
        for part in unknown.parts():
            change = {"op": "add", **where, **part.skill(whole(storage.shown))}
            if named:  # under an equal name, nearly the same words would be taken for the same
                change["name"] = f"More of {storage.room} {storage.place}"
            yield Needed(family, sum(sought[cls] for cls in part.classes), change)


def _refined(new: Storage, named: Sequence[tuple[KnownSkill, tuple[str, ...]]]) -> Iterator[Change]:
    """Say it with what a skill says already, where that skill says nothing else and has room."""
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
    """Return the classes of what a game is about: the object, and where it needs one the lamp."""
    errand = episode.errand
    return {errand.wanted, errand.target} if errand.kind is Kind.LOOK else {errand.wanted}
