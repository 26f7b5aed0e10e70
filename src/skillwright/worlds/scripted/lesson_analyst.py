"""A scripted optimizer of a few lessons: it finds marks of mistakes and has sentences for them."""

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
from skillwright.worlds.alfworld.scripted.optimizer import ScriptedAnalyst

_BELIEVES: Final = 0.2
_FAILURES: Final = "# Analyst: failures"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a mistake looks like in a failed episode, and what to say against it.

    Attributes:
        failure: Names the mistake: "The agent <failure>".
        shows: A regular expression that finds it in an episode as analysts are shown it, over
            several lines (``.`` is any character); or a function that tells of an episode whether
            it is there.
        wordings: Sentences that teach the lesson, the first before the others. ``{name}`` stands
            for a named group of the expression, so that one lesson can teach many facts.
    """

    failure: str
    shows: str | Callable[[str], bool]
    wordings: tuple[str, ...]

    def seen_in(self, episode: str) -> tuple[str, ...]:
        """Return the wordings for an episode, or nothing where it does not show the mistake."""
        if not isinstance(self.shows, str):
            return self.wordings if self.shows(episode) else ()
        found = re.search(self.shows, episode, re.DOTALL)
        if found is None:
            return ()
        named = {name: text or "" for name, text in found.groupdict().items()}
        return tuple(text.format_map(named) for text in self.wordings)


class LessonAnalyst(ScriptedAnalyst):
    """Reads failed episodes and proposes the sentences of the lessons that they show.

    It merges, ranks and remembers as the `ScriptedAnalyst` does. A sentence that the skill has is
    not proposed again; of several wordings, the first that no earlier step tried.

    Args:
        identity: What the run's records call it; it begins with ``scripted:``.
        lessons: The commonest mistake first.
        superstitions: Advice without a reason, of which it believes one now and then.
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
        """Answer with the JSON that the prompt asks for, or with prose where it asks for none."""
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
            # It stands before the last lesson, so that it is not what a budget always cuts off.
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
        del lesson
        return any(text in skill for text in wordings)

    def _beliefs(self, skill: str) -> list[str]:
        """Return the superstitions of which one may be proposed."""
        return [text for text in self._superstitions if text not in skill]

    def _corrections(self, skill: str) -> list[str]:
        """Return what is said against harm that a skill does."""
        del skill
        return []

    def _found(
        self, reading: Reading, episodes: Mapping[str, str]
    ) -> list[tuple[Lesson, str, tuple[str, ...]]]:
        """Return lessons with their sentence and their episodes, the commonest first."""
        found: dict[tuple[str, ...], tuple[Lesson, list[str]]] = {}
        for lesson in self._lessons:
            for name, body in episodes.items():
                wordings = lesson.seen_in(body)
                if wordings and not self._knows(reading.skill, lesson, wordings):
                    found.setdefault(wordings, (lesson, []))[1].append(name)
        # Sorting keeps the order of equals.
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
