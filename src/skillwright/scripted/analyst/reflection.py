"""What an analyst answers after reading trajectories."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.scripted.analyst.diagnosis import Diagnosis, diagnose
from skillwright.scripted.analyst.episode import read_episodes
from skillwright.scripted.analyst.lessons import LESSONS
from skillwright.scripted.analyst.memory import Memory, read_memory
from skillwright.scripted.analyst.patterns import success_patterns
from skillwright.scripted.analyst.prompt import Reading, Reply, read_reading
from skillwright.scripted.analyst.superstitions import (
    FROM_FAILURES,
    FROM_SUCCESSES,
    Superstition,
    tempted_by,
)
from skillwright.scripted.analyst.writing import Writer
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.skilltext import BAD_RULES, GOOD_RULES, Conduct, Rule, read_conduct

# How often chance is taken for a lesson: seldom while there is enough to learn.
_BELIEVES_BESIDE_LESSONS: Final = 0.2
_BELIEVES_FOR_WANT_OF_LESSONS: Final = 0.4
_BELIEVES_OF_SUCCESSES: Final = 0.3
_ENOUGH_LESSONS: Final = 2

_MOST_WITNESSES: Final = 3
_TURNS_OF_A_WITNESS: Final = 2
"""A superstition cites few trajectories, and not much of each."""

Evidence = Mapping[str, Sequence[int]]


def analyse_failures(user: str, seed: int) -> Reply:
    """Answer a failure analyst's prompt."""
    return _Analysis(read_reading(user), "failure", seed).of_failures()


def analyse_successes(user: str, seed: int) -> Reply:
    """Answer a success analyst's prompt."""
    return _Analysis(read_reading(user), "success", seed).of_successes()


class _Analysis:
    """One analyst's work; trajectories with another outcome are passed over."""

    def __init__(self, reading: Reading, outcome: str, seed: int) -> None:
        told = [one for one in reading.trajectories if one.outcome == outcome]
        self._episodes = read_episodes(told)
        self._read = len(told)
        self._reading = reading
        self._memory: Memory = read_memory(reading.earlier)
        self._conduct: Conduct = read_conduct(reading.skill)
        self._found = diagnose(self._episodes) if outcome == "failure" else []
        # Luck comes from what was understood, so that stray words in a transcript change nothing.
        understood = [
            reading.skill,
            reading.earlier,
            reading.budget,
            [
                (episode.id, [visit.arrival for visit in episode.visits])
                for episode in self._episodes
            ],
            [(one.rule, dict(one.shown)) for one in self._found],
        ]
        luck = Luck(derive_seed("analyst", outcome, seed, digest(understood)))
        self._luck = luck
        self._writer = Writer(reading.skill, luck)

    def of_failures(self) -> dict[str, Any]:
        """Name the mistakes, and propose what would have prevented them."""
        found = [one for one in self._found if self._is_mistake(one)]
        lessons = [one for one in found if self._is_needed(one.rule)]
        few = len(lessons) < _ENOUGH_LESSONS
        chance = _BELIEVES_FOR_WANT_OF_LESSONS if few else _BELIEVES_BESIDE_LESSONS
        is_free = self._reading.budget > min(len(lessons), 1)  # the first lesson goes before
        belief = self._belief(FROM_FAILURES, chance) if is_free else []
        room = self._reading.budget - len(belief)
        edits = [self._lesson(one) for one in lessons[:room]] + belief
        return {
            "reasoning": self._reasoning([LESSONS[one.rule].failure for one in found], edits),
            "failure_summary": [_named(one) for one in found],
            "patch": {"edits": edits},
        }

    def of_successes(self) -> dict[str, Any]:
        """Confirm what worked; what nobody did wrong needs no rule, but chance may seem one."""
        patterns = success_patterns(self._episodes)
        missing = sum(not self._conduct.follows(rule) for rule in GOOD_RULES)
        few = missing < _ENOUGH_LESSONS
        chance = _BELIEVES_FOR_WANT_OF_LESSONS if few else _BELIEVES_OF_SUCCESSES
        edits = self._belief(FROM_SUCCESSES, chance) if self._reading.budget else []
        return {
            "reasoning": self._reasoning(patterns, edits),
            "success_patterns": patterns,
            "patch": {"edits": edits},
        }

    def _is_mistake(self, one: Diagnosis) -> bool:
        """What a bad rule asks for is a mistake of the skill, else a slip of the agent."""
        return one.rule not in BAD_RULES or self._conduct.follows(one.rule)

    def _is_needed(self, rule: Rule) -> bool:
        """The skill does not give a good rule yet, or still gives a bad one."""
        return self._conduct.follows(rule) == (rule in BAD_RULES)

    def _lesson(self, one: Diagnosis) -> Reply:
        lesson = LESSONS[one.rule]
        unused = [text for text in lesson.wordings if not self._memory.used_words(text)]
        sentence = self._luck.pick(f"word {one.rule}", unused or lesson.wordings)
        return {**self._writer.teach(lesson, sentence), "evidence": _cited(one.shown)}

    def _belief(self, among: Sequence[Superstition], chance: float) -> list[Reply]:
        """Return the superstition that the analyst falls for, or nothing."""
        if self._is_careful or self._luck.chance("believe") >= chance:
            return []
        options = {
            one.name: (one, witnesses)
            for one in among
            if (witnesses := tempted_by(one, self._episodes)) and self._is_new_belief(one)
        }
        if not options:
            return []
        one, witnesses = options[self._luck.pick("belief", options)]
        sentence = self._luck.pick("word belief", one.wordings)
        shown = {
            episode.id: [visit.arrival for visit in episode.visits[:_TURNS_OF_A_WITNESS]]
            for episode in witnesses[:_MOST_WITNESSES]
        }
        return [{**self._writer.believe(sentence, one.name), "evidence": _cited(shown)}]

    @property
    def _is_careful(self) -> bool:
        """The last step was refused with lessons that are still missing: they get a clean try."""
        return any(map(self._is_needed, self._memory.spoilt_lessons))

    def _is_new_belief(self, one: Superstition) -> bool:
        if one.rule is not None:
            stance = self._conduct.stances.get(one.rule)
            if stance and stance.wanted == one.wanted:
                return False
        known = (text for text in one.wordings if text in self._reading.skill)
        return not any(known) and not any(map(self._memory.has_tried, one.wordings))

    def _reasoning(self, seen: Sequence[str], edits: Sequence[Reply]) -> str:
        if not self._episodes:
            return f"None of {self._read} trajectories is one that I can read; I propose nothing."
        told = "; ".join(text.rstrip(".") for text in seen) or "nothing that a rule would change"
        close = "The edits address it." if edits else "The skill needs no edit for that."
        return f"I read {len(self._episodes)} trajectories. What they show: {told}. {close}"


def _named(one: Diagnosis) -> dict[str, Any]:
    lesson = LESSONS[one.rule]
    return {
        "failure_type": lesson.failure,
        "count": len(one.shown),
        "description": lesson.cause,
        "ids": list(one.shown),
    }


def _cited(shown: Evidence) -> list[dict[str, Any]]:
    return [{"id": name, "turns": list(turns)} for name, turns in shown.items()]
