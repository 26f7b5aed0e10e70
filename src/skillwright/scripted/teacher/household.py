"""What the household teacher makes of ALFWorld games."""

from collections.abc import Sequence
from typing import Final

from skillwright.scripted.analyst.diagnosis import diagnose
from skillwright.scripted.analyst.episode import Episode, read_episodes
from skillwright.scripted.analyst.patterns import rules_that_helped
from skillwright.scripted.analyst.superstitions import (
    FROM_FAILURES,
    FROM_SUCCESSES,
    Superstition,
    tempted_by,
)
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.skilltext import BAD_RULES
from skillwright.scripted.teacher.evolving import HouseholdUpdate
from skillwright.scripted.teacher.findings import found_in
from skillwright.scripted.teacher.model import ScriptedTeacher, Written
from skillwright.scripted.teacher.prompt import Assignment
from skillwright.scripted.teacher.storage import learn_storage
from skillwright.scripted.teacher.teaching import cited, whole
from skillwright.scripted.teacher.wordings import READ_THE_GOAL, TEACHINGS

_BELIEVES: Final = 0.12
"""How often chance is taken for a principle, per request about successes."""


class HouseholdTeacher(ScriptedTeacher):
    """Writes skills from ALFWorld games."""

    identity = "scripted:household_teacher"

    def successes(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Name the rules that the games that succeeded kept, those of the category first."""
        episodes = read_episodes(asked.of("success"))
        if not episodes:
            return None
        helped = rules_that_helped(episodes)
        own = [rule for rule in helped if TEACHINGS[rule].category in asked.categories]
        others = [rule for rule in helped if rule not in own and not TEACHINGS[rule].category]
        written = [
            TEACHINGS[rule].principle(whole(helped[rule])) for rule in (own or others[:1])
        ] or [READ_THE_GOAL.principle(whole(e.id for e in episodes))]
        return (written + superstition(FROM_SUCCESSES, episodes, luck, _BELIEVES))[: asked.count]

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
        """Name what several categories show: what helped, and what was missing."""
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
        """Say where the home keeps its things."""
        episodes = read_episodes(asked.trajectories)
        if not episodes:
            return None
        stored = [part for one in learn_storage(episodes) for part in one.parts()]
        return [one.skill(whole(one.shown)) for one in stored][: asked.count]

    def evolve(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Propose what the bank lacks, other words for what did not help, and no harm any more."""
        if not read_episodes(asked.trajectories):
            return None
        update = HouseholdUpdate(asked)
        belief = superstition(
            [one for one in FROM_FAILURES if not _was_tried(one, asked)],
            read_episodes(asked.trajectories),
            luck,
            3 * _BELIEVES,
        )
        return update.changes([{"op": "add", "kind": "general", **one} for one in belief])


def superstition(
    among: Sequence[Superstition], episodes: Sequence[Episode], luck: Luck, chance: float
) -> list[Written]:
    """Return the superstition that the teacher falls for, or nothing."""
    if luck.chance("believe") >= chance:
        return []
    options = {one.name: one for one in among if tempted_by(one, episodes)}
    if not options:
        return []
    one = options[luck.pick("belief", options)]
    return [
        {
            "name": " ".join(one.name.capitalize().split()[:5]),
            "principle": luck.pick("word belief", one.wordings),
            "applicability": "in every task",
            "evidence": whole(episode.id for episode in tempted_by(one, episodes)[:2]),
        }
    ]


def _was_tried(one: Superstition, asked: Assignment) -> bool:
    told = asked.earlier + "\n".join(skill.text for skill in asked.skills)
    return any(text in told for text in one.wordings)
