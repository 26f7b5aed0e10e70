"""A teacher that knows what to look for in the text of an episode, and how to teach it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.scripted.household.luck import Luck
from skillwright.scripted.teacher.model import Written
from skillwright.scripted.teacher.prompt import Assignment, KnownSkill
from skillwright.scripted.teacher.slots import Slots
from skillwright.scripted.teacher.teaching import Teaching, cited, whole

_BELIEVES: Final = 0.2
_MOST_TURNS_CITED: Final = 3
_EPISODE: Final = re.compile(
    r'^<trajectory id="([^"\n]*)"([^>\n]*)>\n(.*?)^</trajectory>$', re.DOTALL | re.MULTILINE
)
_TURN: Final = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)

Tells = Callable[[str], bool]
"""Tells from the text of an episode whether something is so."""


@dataclass(frozen=True, slots=True)
class Insight:
    """Something to look for.

    Attributes:
        teaching: How to teach it.
        was_missing: An episode that was lost went wrong for want of it.
        was_kept: An episode that was won did it.
    """

    teaching: Teaching
    was_missing: Tells
    was_kept: Tells


class InsightMind:
    """A teacher's mind made of insights; see `Mind`.

    Args:
        reads: An episode is of its world.
        insights: What to look for, the commonest first.
        fallback: What is always true, where nothing else shows.
        beliefs: Good-sounding advice that harms; now and then one is proposed.
    """

    def __init__(
        self,
        reads: Tells,
        insights: Sequence[Insight],
        fallback: Teaching,
        beliefs: Sequence[Teaching],
    ) -> None:
        self._reads = reads
        self._insights = insights
        self._fallback = fallback
        self._beliefs = beliefs

    def successes(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Name what the episodes that were won did."""
        told = self._episodes(asked, "success")
        if not told:
            return None
        kept = [
            (one, [n for n, text in told.items() if one.was_kept(text)]) for one in self._insights
        ]
        written = [one.teaching.principle(whole(names)) for one, names in kept if names]
        written += [one.principle(whole(told)) for one in self._believed(asked, luck)]
        return (written or [self._fallback.principle(whole(told))])[: asked.count]

    def failures(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Name what the episodes that were lost did not do."""
        del luck
        told = self._episodes(asked, "failure")
        if not told:
            return None
        found = self._missing(told)
        lessons = [one.lesson(evidence) for one, evidence in found]
        return (lessons or [self._fallback.lesson(whole(told))])[: asked.count]

    def general(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Name what any episode shows."""
        del luck
        won, lost = self._episodes(asked, "success"), self._episodes(asked, "failure")
        if not won and not lost:
            return None
        written = []
        for one in self._insights:
            shown = [n for n, text in won.items() if one.was_kept(text)]
            shown += [n for n, text in lost.items() if one.was_missing(text)]
            if shown:
                written.append(one.teaching.principle(whole(shown)))
        return (written or [self._fallback.principle(whole([*won, *lost]))])[: asked.count]

    def place(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Say nothing: what holds here holds everywhere."""
        del luck
        return [] if self._episodes(asked, "success") or self._episodes(asked, "failure") else None

    def evolve(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Propose what the bank lacks, other words for what did not help, and no harm any more."""
        told = self._episodes(asked, "failure")
        if not told:
            return None
        beliefs = [
            {"op": "add", "kind": "general", **one.principle(whole(list(told)[:2]))}
            for one in self._believed(asked, luck)
        ]
        taught = [change for one in self._missing(told) for change in _taught(asked, *one)]
        return [*self._retired(asked), *Slots(asked).within([*taught, *beliefs])]

    def _episodes(self, asked: Assignment, outcome: str) -> dict[str, str]:
        found = _EPISODE.findall(f"\n{asked.text}")
        return {
            name: body
            for name, facts, body in found
            if f' outcome="{outcome}"' in facts and self._reads(body)
        }

    def _missing(self, told: dict[str, str]) -> list[tuple[Teaching, list[dict[str, Any]]]]:
        """Find what was missing, the commonest first; sorting keeps the order of equals."""
        found = []
        for one in self._insights:
            shown = {n: _last_turns(text) for n, text in told.items() if one.was_missing(text)}
            if shown:
                found.append((one.teaching, cited(shown)))
        return sorted(found, key=lambda one: -len(one[1]))

    def _believed(self, asked: Assignment, luck: Luck) -> Iterable[Teaching]:
        known = asked.earlier + "\n".join(skill.text for skill in asked.skills)
        new = [one for one in self._beliefs if one.principles[0] not in known]
        return new[:1] if luck.chance("believe") < _BELIEVES else []

    def _retired(self, asked: Assignment) -> Iterator[Written]:
        harmful = [text for one in self._beliefs for text in one.principles]
        for skill in asked.skills:
            if any(text in skill.text for text in harmful):
                yield {"op": "retire", "id": skill.id, "reason": "Agents that obeyed it lost."}


def _taught(asked: Assignment, one: Teaching, evidence: list[dict[str, Any]]) -> Iterator[Written]:
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


def _last_turns(body: str) -> list[int]:
    turns = sorted({int(turn) for turn in _TURN.findall(body)})
    return turns[-_MOST_TURNS_CITED:]
