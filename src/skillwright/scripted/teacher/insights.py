"""A teacher that knows what to look for in the text of an episode, and how to teach it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillwright.scripted.analyst.prompt import episode_texts, last_turns
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.teacher.model import ScriptedTeacher, Written
from skillwright.scripted.teacher.prompt import Assignment, KnownSkill
from skillwright.scripted.teacher.slots import Slots
from skillwright.scripted.teacher.teaching import Evidence, Teaching, cited, whole

_BELIEVES: Final = 0.2
_MOST_TURNS_CITED: Final = 3

Tells = Callable[[str], bool]
"""Tells from the text of an episode whether something is so."""


@dataclass(frozen=True, slots=True)
class Insight:
    """Something to look for."""

    teaching: Teaching  # how to teach it
    was_missing: Tells  # a failed episode went wrong for want of it
    was_kept: Tells  # a successful episode did it


class InsightTeacher(ScriptedTeacher):
    """A teacher made of insights.

    Args:
        identity: Names it in records.
        reads: An episode is of its world.
        insights: What to look for, the commonest first.
        fallback: What is always true, where nothing else shows.
        beliefs: Good-sounding advice that harms; now and then one is proposed.
    """

    def __init__(
        self,
        identity: str,
        reads: Tells,
        insights: Sequence[Insight],
        fallback: Teaching,
        beliefs: Sequence[Teaching],
    ) -> None:
        self.identity = identity
        self._reads = reads
        self._insights = insights
        self._fallback = fallback
        self._beliefs = beliefs

    def insights_about(self, asked: Assignment) -> Sequence[Insight]:
        """Return what to look for in episodes of one category."""
        del asked
        return self._insights

    def successes(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Name what the episodes that succeeded did."""
        shown = self._episodes(asked, "success")
        if not shown:
            return None
        kept = [
            (one, [name for name, text in shown.items() if one.was_kept(text)])
            for one in self.insights_about(asked)
        ]
        written = [one.teaching.principle(whole(names)) for one, names in kept if names]
        written += [one.principle(whole(shown)) for one in self._believed(asked, luck)]
        return (written or [self._fallback.principle(whole(shown))])[: asked.count]

    def failures(self, asked: Assignment) -> list[Written] | None:
        """Name what the episodes that failed did not do."""
        shown = self._episodes(asked, "failure")
        if not shown:
            return None
        found = _missing(self.insights_about(asked), shown)
        lessons = [one.lesson(evidence) for one, evidence in found]
        return (lessons or [self._fallback.lesson(whole(shown))])[: asked.count]

    def general(self, asked: Assignment) -> list[Written] | None:
        """Name what any episode shows."""
        kept, failed = self._episodes(asked, "success"), self._episodes(asked, "failure")
        if not kept and not failed:
            return None
        written = []
        for one in self._insights:
            names = [name for name, text in kept.items() if one.was_kept(text)]
            names += [name for name, text in failed.items() if one.was_missing(text)]
            if names:
                written.append(one.teaching.principle(whole(names)))
        return (written or [self._fallback.principle(whole([*kept, *failed]))])[: asked.count]

    def place(self, asked: Assignment) -> list[Written] | None:
        """Say nothing: what holds here holds everywhere."""
        return [] if self._episodes(asked, "success") or self._episodes(asked, "failure") else None

    def evolve(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Propose what the bank lacks, other words for what did not help, and no harm any more."""
        shown = self._episodes(asked, "failure")
        if not shown:
            return None
        beliefs = [
            {"op": "add", "kind": "general", **one.principle(whole(list(shown)[:2]))}
            for one in self._believed(asked, luck)
        ]
        found = _missing(self._insights, shown)
        taught = [change for one in found for change in _taught(asked, *one)]
        return [*self._retired(asked), *Slots(asked).within([*taught, *beliefs])]

    def _episodes(self, asked: Assignment, outcome: str) -> dict[str, str]:
        found = episode_texts(asked.text, outcome)
        return {name: text for name, text in found.items() if self._reads(text)}

    def _believed(self, asked: Assignment, luck: Luck) -> Iterable[Teaching]:
        known = asked.earlier + "\n".join(skill.text for skill in asked.skills)
        new = [one for one in self._beliefs if one.principles[0] not in known]
        return new[:1] if luck.chance("believe") < _BELIEVES else []

    def _retired(self, asked: Assignment) -> Iterator[Written]:
        harmful = [text for one in self._beliefs for text in one.principles]
        for skill in asked.skills:
            if any(text in skill.text for text in harmful):
                yield {"op": "retire", "id": skill.id, "reason": "Agents that obeyed it lost."}


def _taught(asked: Assignment, one: Teaching, evidence: Evidence) -> Iterator[Written]:
    known: list[KnownSkill] = [
        skill
        for skill in asked.skills
        if skill.text.startswith(one.name) and skill.kind != "lesson"
    ]
    told = "\n".join([asked.earlier, *(skill.text for skill in asked.skills)])
    unused = [text for text in one.principles if text not in told]
    if not known:
        yield {"op": "add", "kind": "general", **one.principle(evidence)}
    elif unused:
        reason = "Agents that were told it made the mistake all the same."
        yield {
            "op": "refine",
            "id": known[0].id,
            "principle": unused[0],
            "reason": reason,
            "evidence": evidence,
        }


def _missing(
    insights: Sequence[Insight], shown: Mapping[str, str]
) -> list[tuple[Teaching, Evidence]]:
    """Find what was missing, the commonest first; sorting keeps the order of equals."""
    found = []
    for one in insights:
        names = [name for name, text in shown.items() if one.was_missing(text)]
        turns = {name: last_turns(shown[name], _MOST_TURNS_CITED) for name in names}
        if turns:
            found.append((one.teaching, cited(turns)))
    return sorted(found, key=lambda one: -len(one[1]))
