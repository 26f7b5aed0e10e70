"""A scripted optimiser of a few lessons: it finds marks of mistakes and has sentences for them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.scripted.analyst.model import ScriptedAnalyst
from skillwright.scripted.analyst.prompt import Reading, read_reading
from skillwright.scripted.household.luck import Luck

_BELIEVES: Final = 0.2
_ASKED: Final = "# Analyst: failures"
_TRAJECTORY: Final = re.compile(
    r'^<trajectory id="([^"\n]*)"([^>\n]*)>\n(.*?)^</trajectory>$', re.DOTALL | re.MULTILINE
)
_TURN: Final = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)


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


class LessonAnalyst:
    """Reads failed episodes and proposes the sentences of the lessons that they show.

    It merges, ranks and remembers as the `ScriptedAnalyst` does. Like that one it looks at the text
    of its messages and at ``sampling.seed`` alone. A sentence that the skill has is not proposed
    again; of several wordings, the first that no earlier step tried.

    Args:
        identity: What the run's records call it; it begins with ``scripted:``.
        lessons: The commonest mistake first.
        superstitions: Advice without a reason, of which it believes one now and then.
    """

    is_scripted = True

    def __init__(
        self, identity: str, lessons: Sequence[Lesson], superstitions: Sequence[str] = ()
    ) -> None:
        self.identity = identity
        self._lessons = tuple(lessons)
        self._superstitions = tuple(superstitions)
        self._other = ScriptedAnalyst()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with the JSON that the prompt asks for, or with prose where it asks for none."""
        other = await self._other.complete(
            messages, tools=tools, sampling=sampling, purpose=purpose
        )
        said = {message["role"]: message["content"] for message in reversed(messages)}
        user = said.get("user", "").encode(errors="replace").decode()
        reading = read_reading(user)
        if reading is None or said.get("system", "").strip().partition("\n")[0] != _ASKED:
            return replace(other, model=self.identity)
        episodes = {
            name: body for name, facts, body in _TRAJECTORY.findall(user) if '="failure"' in facts
        }
        text = dumps(self._analysis(reading, episodes, sampling.seed or 0), indent=1)
        return replace(other, text=text, model=self.identity)

    def _analysis(self, reading: Reading, episodes: Mapping[str, str], seed: int) -> dict[str, Any]:
        found = self._found(reading, episodes)
        edits = [_edit(text, names, episodes) for _, text, names in found]
        luck = Luck(derive_seed(self.identity, seed, digest([reading.skill, list(episodes)])))
        new = [text for text in self._superstitions if text not in reading.skill]
        if new and episodes and luck.chance("believe") < _BELIEVES:
            # It stands before the last lesson, so that it is not what a budget always cuts off.
            edits.insert(max(len(edits) - 1, 0), _edit(luck.pick("belief", new), (), episodes))
        return {
            "reasoning": f"I read {len(episodes)} episodes; {len(found)} lessons are in them.",
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

    def _found(
        self, reading: Reading, episodes: Mapping[str, str]
    ) -> list[tuple[Lesson, str, tuple[str, ...]]]:
        """Return lessons with their sentence and their episodes, the commonest first."""
        found: dict[tuple[str, ...], tuple[Lesson, list[str]]] = {}
        for lesson in self._lessons:
            for name, body in episodes.items():
                wordings = lesson.seen_in(body)
                if wordings and not any(text in reading.skill for text in wordings):
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


def _edit(sentence: str, names: Sequence[str], episodes: Mapping[str, str]) -> dict[str, Any]:
    evidence = [
        {"id": name, "turns": sorted({int(turn) for turn in _TURN.findall(episodes[name])})[-1:]}
        for name in names
    ]
    return {"op": "append", "target": "", "content": f"- {sentence}", "evidence": evidence}
