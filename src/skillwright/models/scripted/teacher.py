"""Scripted teachers, which parse the prompts of a skill bank's learner and write skills."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling, Usage
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import SEED_BITS, derive_seed
from skillwright.models.scripted.prompts import (
    Assignment,
    KnownSkill,
    episode_texts,
    last_turns,
    read_assignment,
)

_CHARS_PER_TOKEN: Final = 4
_SKILL_MARK: Final = "## Skill\n"


class ScriptedModel(ABC):
    """A program instead of a language model.

    Replies depend only on the messages' texts and ``sampling.seed``. The identity starts with
    ``scripted:``.
    """

    identity: str
    is_scripted = True

    @abstractmethod
    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the reply."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Return the scripted reply; token counts are estimated from characters."""
        text = self.reply(messages, sampling.seed or 0)
        read = sum(len(message["content"]) for message in messages)
        usage = Usage(
            calls=1,
            input_tokens=read // _CHARS_PER_TOKEN,
            output_tokens=len(text) // _CHARS_PER_TOKEN,
        )
        return Completion(text, model=self.identity, usage=usage)


def skill_in(messages: Sequence[Message]) -> str:
    """Return the text below the skill heading of the first system message, or ""."""
    return first_of(messages, "system").partition(_SKILL_MARK)[2]


def first_of(messages: Sequence[Message], role: str) -> str:
    """Return the first message of a role, or ""; later ones are complaints about the reply.

    Lone surrogates are replaced, because they cannot be encoded.
    """
    text = next((m["content"] for m in messages if m["role"] == role), "")
    return text.encode(errors="replace").decode()


def heading_of(prompt: str) -> str:
    """Return the first line of a prompt, which names the request."""
    return prompt.strip().partition("\n")[0].strip()


# Each kind of choice has its own random numbers, so that two agents with the same seed that differ
# in one rule make equal choices otherwise.


class Randomness:
    """The random choices of one turn, from its seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def chance(self, kind: str) -> float:
        """Return the random number in [0, 1) of a kind of choice."""
        return derive_seed("household", kind, self._seed) / (1 << SEED_BITS)

    def pick(self, kind: str, options: Iterable[str]) -> str:
        """Choose one of several options, at least one.

        The option with the lowest random number of its own wins, so removing others changes
        nothing.
        """
        prefix = f"{kind}|{self._seed}|"
        return min(options, key=lambda option: blake2b((prefix + option).encode()).digest())


Evidence = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Teaching:
    """An insight that can be written as a skill or a lesson."""

    key: str  # its subject: a rule, or the name of another insight
    category: str  # category, "" for all
    name: str  # two to five words
    principles: tuple[str, ...]  # Sentences, any of which teaches it; the first is used first
    applicability: str  # when it applies; reads well after "Apply"
    failure_point: str  # the mistake; reads well after "Avoid:"
    flawed_reasoning: str  # the belief behind the mistake
    corrective_action: str  # what to do; reads well after "Instead:"

    def principle(self, evidence: Evidence, wording: int = 0) -> dict[str, Any]:
        """Write it as a skill."""
        return {
            "name": self.name,
            "principle": self.principles[wording % len(self.principles)],
            "applicability": self.applicability,
            "evidence": evidence,
        }

    def lesson(self, evidence: Evidence, wording: int = 0) -> dict[str, Any]:
        """Write it as a lesson."""
        return {
            **self.principle(evidence, wording),
            "failure_point": self.failure_point,
            "flawed_reasoning": self.flawed_reasoning,
            "corrective_action": self.corrective_action,
        }


def cited(shown: Mapping[str, Sequence[int]]) -> Evidence:
    """Cite turns as evidence, in the format of the prompts."""
    return [{"id": name, "turns": list(turns)} for name, turns in shown.items()]


def whole(names: Iterable[str]) -> Evidence:
    """Cite whole trajectories as evidence."""
    return [{"id": name, "turns": []} for name in dict.fromkeys(names)]


class Slots:
    """Counts what an update adds, against its limits."""

    def __init__(self, asked: Assignment) -> None:
        self._limits = asked.limits
        self._weakest = asked.weakest
        self._added: Counter[str] = Counter()
        self._extra = 0

    def within(self, changes: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the changes without additions over the limits."""
        for change in changes:
            if change["op"] != "add" or self._take(change.get("category", "")):
                yield change

    def _take(self, category: str) -> bool:
        limits = self._limits
        full = self._added[category] >= limits.per_category
        if not full and self._added.total() < limits.total:
            self._added[category] += 1
            return True
        if category == self._weakest and self._extra < limits.extra:
            self._extra += 1
            return True
        return False


_PROSE = (
    "I am a scripted teacher. I read trajectories and write skills; I cannot tell what this "
    "message asks for, or there is nothing in it that I can read."
)

Written = dict[str, Any]
"""A skill, a lesson or a change, in the format that the prompt asks for."""


class ScriptedTeacher(ScriptedModel):
    """Writes skills from trajectories like a language model, including some false ones.

    Its methods return ``None`` if they find nothing.
    """

    @abstractmethod
    def successes(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Write principles from a category's successes."""

    @abstractmethod
    def failures(self, asked: Assignment) -> list[Written] | None:
        """Write lessons from a category's failures."""

    @abstractmethod
    def general(self, asked: Assignment) -> list[Written] | None:
        """Write skills for all categories."""

    @abstractmethod
    def place(self, asked: Assignment) -> list[Written] | None:
        """Write skills for one place."""

    @abstractmethod
    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Write the changes of a bank after failures."""

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return JSON in the requested form, or prose if the request is unknown."""
        title = heading_of(first_of(messages, "system"))
        title = title.replace("# Distill: ", "# Distil: ")  # seed
        asked = read_assignment(first_of(messages, "user"))
        rng = Randomness(
            derive_seed("teacher", title, seed, digest([t.id for t in asked.trajectories]))
        )
        name, preface, written = "skills", {}, None
        match title.removeprefix("# Distil: "):  # seed
            case "successes":
                written = self.successes(asked, rng)
            case "failures":
                name, written = "lessons", self.failures(asked)
            case "general":
                written = self.general(asked)
            case "place":
                written = self.place(asked)
            case "# Evolve":
                preface = {"reasoning": f"{len(asked.trajectories)} failures were read."}
                name, written = "changes", self.evolve(asked, rng)
        return _PROSE if written is None else dumps({**preface, name: written}, indent=1)


_BELIEVES: Final = 0.2
_MOST_TURNS_CITED: Final = 3

Tells = Callable[[str], bool]
"""A predicate on the text of an episode."""


@dataclass(frozen=True, slots=True)
class Insight:
    """A teaching and the episodes that show it."""

    teaching: Teaching
    was_missing: Tells  # whether a failed episode lacked it
    was_kept: Tells  # whether a successful episode followed it


class InsightTeacher(ScriptedTeacher):
    """A teacher with a list of insights.

    Args:
        identity: Name in records.
        reads: Recognizes episodes of its world.
        insights: In descending order of frequency.
        fallback: Taught if no insight applies.
        beliefs: Plausible but harmful advice, proposed at random.
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
        """Return the insights for episodes of one category."""
        return self._insights

    def successes(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Teach the insights that successful episodes followed."""
        shown = self._episodes(asked, "success")
        if not shown:
            return None
        kept = [
            (one, [name for name, text in shown.items() if one.was_kept(text)])
            for one in self.insights_about(asked)
        ]
        written = [one.teaching.principle(whole(names)) for one, names in kept if names]
        written += [one.principle(whole(shown)) for one in self._believed(asked, rng)]
        return (written or [self._fallback.principle(whole(shown))])[: asked.count]

    def failures(self, asked: Assignment) -> list[Written] | None:
        """Teach the insights that failed episodes ignored."""
        shown = self._episodes(asked, "failure")
        if not shown:
            return None
        found = _missing(self.insights_about(asked), shown)
        lessons = [one.lesson(evidence) for one, evidence in found]
        return (lessons or [self._fallback.lesson(whole(shown))])[: asked.count]

    def general(self, asked: Assignment) -> list[Written] | None:
        """Teach the insights of any episode."""
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
        """Return ``None``: its insights hold in every place."""
        return [] if self._episodes(asked, "success") or self._episodes(asked, "failure") else None

    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Add missing insights, rephrase those that did not help, and remove harmful advice."""
        shown = self._episodes(asked, "failure")
        if not shown:
            return None
        beliefs = [
            {"op": "add", "kind": "general", **one.principle(whole(list(shown)[:2]))}
            for one in self._believed(asked, rng)
        ]
        found = _missing(self._insights, shown)
        taught = [change for one in found for change in _taught(asked, *one)]
        return [*self._retired(asked), *Slots(asked).within([*taught, *beliefs])]

    def _episodes(self, asked: Assignment, outcome: str) -> dict[str, str]:
        found = episode_texts(asked.text, outcome)
        return {name: text for name, text in found.items() if self._reads(text)}

    def _believed(self, asked: Assignment, rng: Randomness) -> Iterable[Teaching]:
        known = asked.earlier + "\n".join(skill.text for skill in asked.skills)
        new = [one for one in self._beliefs if one.principles[0] not in known]
        return new[:1] if rng.chance("believe") < _BELIEVES else []

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
    known_text = "\n".join([asked.earlier, *(skill.text for skill in asked.skills)])
    unused = [text for text in one.principles if text not in known_text]
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
    """Find the missing insights, in descending order of frequency; the sort is stable."""
    found = []
    for one in insights:
        names = [name for name, text in shown.items() if one.was_missing(text)]
        turns = {name: last_turns(shown[name], _MOST_TURNS_CITED) for name in names}
        if turns:
            found.append((one.teaching, cited(turns)))
    return sorted(found, key=lambda one: -len(one[1]))
