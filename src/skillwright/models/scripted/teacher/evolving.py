"""Changes of a bank for households: what it lacks, what it says too weakly, what does harm."""

from collections.abc import Iterator
from typing import Any, Final

from skillwright.models.scripted.analyst.episode import read_episode
from skillwright.models.scripted.skilltext import Rule, read_conduct, read_stances
from skillwright.models.scripted.teacher.findings import Finding, found_in
from skillwright.models.scripted.teacher.prompt import Assignment, KnownSkill
from skillwright.models.scripted.teacher.slots import Slots
from skillwright.models.scripted.teacher.storage import learn_storage, with_known
from skillwright.models.scripted.teacher.teaching import cited, whole

Change = dict[str, Any]

_RETIRED: Final = "It asks for what costs turns or misses the goal."


class HouseholdUpdate:
    """One update of a bank.

    Args:
        asked: The failures, the bank and its limits.
    """

    def __init__(self, asked: Assignment) -> None:
        self._asked = asked
        self._slots = Slots(asked)

    def changes(self, beliefs: list[Change]) -> list[Change]:
        """Write the changes, with ``beliefs`` where there is room."""
        retired = list(self._retired())
        lacking = [*self._lacking(), *self._places()]
        return [*retired, *self._slots.within([*lacking, *beliefs])]

    def _retired(self) -> Iterator[Change]:
        for skill in self._asked.skills:
            stances = read_stances(skill.line)
            if stances and all(stance.is_harmful for stance in stances):
                yield {"op": "retire", "id": skill.id, "reason": _RETIRED}

    def _lacking(self) -> Iterator[Change]:
        """Go through the mistakes of each category, the weakest category first."""
        families = dict.fromkeys(
            [self._asked.weakest, *(one.family for one in self._asked.trajectories)]
        )
        written: set[tuple[str, str]] = set()
        for family in families:
            told = [one for one in self._asked.trajectories if one.family == family]
            for finding in found_in(told):
                teaching = finding.teaching
                key = (teaching.key, teaching.category)
                if key in written or teaching.category not in {"", family}:
                    continue
                if not finding.is_bad_habit:
                    written.add(key)
                    yield from self._taught(finding, family)

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

    def _places(self) -> Iterator[Change]:
        """Say where homes keep their things, under the id of what is said already of a place."""
        for place in dict.fromkeys(one.place for one in self._asked.trajectories if one.place):
            there = [one for one in self._asked.trajectories if one.place == place]
            for storage in learn_storage([e for one in there if (e := read_episode(one))]):
                known = [
                    skill
                    for skill in self._asked.skills
                    if skill.place == place and skill.text.startswith(f"{storage.name}:")
                ]
                if not known:
                    skill = storage.skill(whole(storage.shown))
                    yield {"op": "add", "kind": "task_specific", "place": place, **skill}
                    continue
                more = with_known(storage, known[0].line)
                yield from _extended(more.skill(whole(storage.shown)), known[0])


def _extended(skill: dict[str, Any], known: KnownSkill) -> Iterator[Change]:
    if skill["principle"] not in known.text:
        reason = "More of what is kept there was seen."
        yield {"op": "refine", "id": known.id, **skill, "reason": reason}
