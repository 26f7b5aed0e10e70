"""A scripted optimizer with a list of lessons, each with the signs of a mistake and a text."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.models.scripted.prompts import (
    Reading,
    Reply,
    Unreadable,
    episode_texts,
    last_turns,
    read_reading,
)
from skillwright.models.scripted.teacher import Randomness, first_of, heading_of
from skillwright.worlds.scripted.optimizer import ScriptedOptimizer

_BELIEVES: Final = 0.2
_FAILURES: Final = "# Analyst: failures"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A mistake, its signs in a failed episode, and sentences that correct it.

    Attributes:
        failure: The mistake, as in "The agent <failure>".
        shows: A regular expression that matches the mistake in an analyst's prompt, with ``.`` for
            any character; or a predicate on the episode's text.
        wordings: Sentences that teach the lesson, in order of preference. ``{name}`` is replaced by
            a named group of the expression, so that a lesson can teach many facts.
    """

    failure: str
    shows: str | Callable[[str], bool]
    wordings: tuple[str, ...]

    def seen_in(self, episode: str) -> tuple[str, ...]:
        """Return the wordings for an episode; empty if it does not show the mistake."""
        if not isinstance(self.shows, str):
            return self.wordings if self.shows(episode) else ()
        found = re.search(self.shows, episode, re.DOTALL)
        if found is None:
            return ()
        named = {name: text or "" for name, text in found.groupdict().items()}
        return tuple(text.format_map(named) for text in self.wordings)


class LessonAnalyst(ScriptedOptimizer):
    """Proposes the sentences of lessons that failed episodes show.

    It does not propose a sentence that the skill has; of several wordings it takes the first that
    no earlier step tried. All other prompts are answered as by `ScriptedOptimizer`.

    Args:
        identity: Name in records; begins with ``scripted:``.
        lessons: Lessons, the most common mistake first.
        superstitions: Useless or harmful advice, proposed at random.
    """

    _headings: tuple[str, ...] = (_FAILURES,)
    _turns_cited = 1
    _reasoning = "I read {} episodes; {} lessons are in them."

    def __init__(
        self, identity: str, lessons: Sequence[Lesson], superstitions: Sequence[str] = ()
    ) -> None:
        self.identity = identity
        self._seed_name = identity
        self._lessons = tuple(lessons)
        self._superstitions = tuple(superstitions)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Return the JSON that the prompt asks for, or prose."""
        other = await super().complete(messages, tools=tools, sampling=sampling, purpose=purpose)
        heading, user = heading_of(first_of(messages, "system")), first_of(messages, "user")
        try:
            reading = read_reading(user)
        except Unreadable:
            return other
        if heading not in self._headings:
            return other
        episodes = episode_texts(user, "failure") if heading == _FAILURES else {}
        text = dumps(self._analysis(reading, episodes, sampling.seed or 0), indent=1)
        return replace(other, text=text)

    def _analysis(self, reading: Reading, episodes: Mapping[str, str], seed: int) -> Reply:
        found = self._found(reading, episodes)
        edits = [self._edit(text, names, episodes) for _, text, names in found]
        rng = Randomness(
            derive_seed(self._seed_name, seed, digest([reading.skill, list(episodes)]))
        )
        corrections, beliefs = self._corrections(reading.skill), self._beliefs(reading.skill)
        if corrections:
            edits = [*(self._edit(text, (), episodes) for text in corrections), *edits]
        elif beliefs and episodes and rng.chance("believe") < _BELIEVES:
            # Before the last lesson, so that a budget does not always drop it.
            belief = self._edit(rng.pick("belief", beliefs), (), episodes)
            edits.insert(max(len(edits) - 1, 0), belief)
        return {
            "reasoning": self._reasoning.format(len(episodes), len(found)),
            "failure_summary": [
                {
                    "failure_type": lesson.failure,
                    "count": len(names),
                    "description": f"The agent {lesson.failure}.",
                    "ids": list(names),
                }
                for lesson, _, names in found
            ],
            "success_patterns": [],
            "patch": {"edits": edits[: reading.budget]},
        }

    def _knows(self, skill: str, lesson: Lesson, wordings: Sequence[str]) -> bool:
        """Tell whether a skill teaches a lesson."""
        return any(text in skill for text in wordings)

    def _beliefs(self, skill: str) -> list[str]:
        """Return the superstitions that may be proposed."""
        return [text for text in self._superstitions if text not in skill]

    def _corrections(self, skill: str) -> list[str]:
        """Return corrections of harmful sentences in a skill."""
        return []

    def _found(
        self, reading: Reading, episodes: Mapping[str, str]
    ) -> list[tuple[Lesson, str, tuple[str, ...]]]:
        """Return lessons with their sentence and their episodes, the most common first."""
        found: dict[tuple[str, ...], tuple[Lesson, list[str]]] = {}
        for lesson in self._lessons:
            for name, body in episodes.items():
                wordings = lesson.seen_in(body)
                if wordings and not self._knows(reading.skill, lesson, wordings):
                    found.setdefault(wordings, (lesson, []))[1].append(name)
        # Sorting is stable.
        ordered = sorted(found.items(), key=lambda one: -len(one[1][1]))
        return [
            (
                lesson,
                next((text for text in wordings if text not in reading.earlier), wordings[0]),
                tuple(names),
            )
            for wordings, (lesson, names) in ordered
        ]

    def _edit(self, sentence: str, names: Sequence[str], episodes: Mapping[str, str]) -> Reply:
        evidence = [
            {"id": name, "turns": last_turns(episodes[name], self._turns_cited)} for name in names
        ]
        return {"op": "append", "target": "", "content": f"- {sentence}", "evidence": evidence}
