"""Scripted search agents for the generated archives: one follows its skill, one is an expert."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from skillwright.core import Message
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.models.scripted.teacher import Randomness, ScriptedModel, first_of, skill_in

# The rules that the seeker recognizes in a skill, by words in single sentences.


class SeekerRule(StrEnum):
    """A rule that the seeker recognizes in a skill."""

    NAME_ALONE = "name_alone"
    """Search for a single name instead of the question."""
    NEXT_NAME = "next_name"
    """Search for a name that was found, if the question is about it."""
    ALL_COMPARED = "all_compared"
    """Look up everything that is compared before answering."""
    AT_ONCE = "at_once"
    """Harmful: answer without searching."""
    TWICE = "twice"
    """Harmful: repeat every search."""


BAD_RULES: Final = frozenset({SeekerRule.AT_ONCE, SeekerRule.TWICE})
GOOD_RULES: Final = frozenset(SeekerRule) - BAD_RULES

_TELLS: Final[Mapping[SeekerRule, str]] = {
    SeekerRule.NAME_ALONE: (
        r"\b(?:names?|title|entity|thing)\b[^.;]{0,40}\b(?:alone|only|by itself|nothing else)\b"
        r"|\b(?:only|just|bare) (?:for )?(?:the |a |one |its )?(?:names?|title|entity)\b"
    ),
    SeekerRule.NEXT_NAME: (
        r"\b(?:next|then|second|another|further|follow\w*)\b[^.;]{0,60}"
        r"\b(?:person|town|link\w*|found|hop|leads? to|answer to the first)\b"
        r"|\b(?:person|town|found|link\w*)\b[^.;]{0,60}\b(?:next|second|another|further)\b"
    ),
    SeekerRule.ALL_COMPARED: (
        r"\b(?:each|every|all|both)\b[^.;]{0,50}\bcompar\w+"
        r"|\bcompar\w+[^.;]{0,50}\b(?:each|every|all|both)\b"
    ),
    SeekerRule.AT_ONCE: r"\b(?:at once|from memory|without (?:a |any )?search\w*|what you know)\b",
    SeekerRule.TWICE: r"\b(?:twice|repeat\w*|once more|a second time)\b",
}
_PATTERNS: Final = {rule: re.compile(text) for rule, text in _TELLS.items()}
_WHOLE: Final = re.compile(r"\b(?:whole|full|entire|complete) question\b")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_NEGATED: Final = re.compile(r"\b(?:do not|don't|never|avoid|no|not|instead of|rather than)\b")


@lru_cache(maxsize=512)
def read_rules(text: str) -> frozenset[SeekerRule]:
    """Return the rules in a text; the later of two sentences about a rule wins."""
    given: dict[SeekerRule, bool] = {}
    for sentence in _SENTENCE.split(text.lower()):
        for rule, pattern in _PATTERNS.items():
            if found := pattern.search(sentence):
                given[rule] = not _NEGATED.search(sentence[: found.start()])
        if found := _WHOLE.search(sentence):
            given[SeekerRule.NAME_ALONE] = bool(_NEGATED.search(sentence[: found.start()]))
    return frozenset(rule for rule, wanted in given.items() if wanted)


DEFAULT_TURNS: Final = 4
_TURNS: Final = re.compile(r"You have (\d{1,6}) turns?")
_NAME: Final = r"[A-Z]\w+ [A-Z]\w+"
_QUESTION: Final = re.compile(r"Question: (In the records of (?P<archive>\w+), (?P<asked>.*))")
_KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "year": re.compile(rf"in which year was the ({_NAME}) finished"),
    "maker": re.compile(rf"who was the maker of the ({_NAME})"),
    "born": re.compile(rf"where was the maker of the ({_NAME}) born"),
    "founded": re.compile(rf"town founded where the maker of the ({_NAME}) was born"),
    "first": re.compile(rf"finished first: the ({_NAME}), the ({_NAME}) or the ({_NAME})"),
}
_DOC: Final = re.compile(r"^Doc \d+\(Title: (.*?)\) (.*)$", re.MULTILINE)
_ENTRY: Final = re.compile(rf"[:;] ([a-z ]+), ({_NAME})")
_READY: Final = re.compile(r"ready in (\d{4})")
_BORN: Final = re.compile(r"born in (\w+)")
_FOUNDED: Final = re.compile(r"founded in (\d{4})")
_SEARCH: Final = re.compile(r"<search>(.*?)</search>", re.DOTALL)


@dataclass(slots=True)
class Quest:
    """The state of an episode, as far as the conversation shows it."""

    question: str
    archive: str
    kind: str
    names: tuple[str, ...]  # names in the question
    left: int = DEFAULT_TURNS  # remaining turns, including this one
    searches: tuple[str, ...] = ()  # earlier queries, in order
    seen: dict[str, str] = field(default_factory=dict)  # passages by title


def read_quest(messages: Sequence[Message]) -> Quest | None:
    """Read a conversation; ``None`` if its question is not one of the generated kinds."""
    said = "\n".join(one["content"] for one in messages if one["role"] != "assistant")
    found = _QUESTION.search(said)
    asked = _asked(found["asked"]) if found else None
    if found is None or asked is None:
        return None
    turns = _TURNS.search(first_of(messages, "system"))
    acts = [one["content"] for one in messages if one["role"] == "assistant"]
    return Quest(
        question=found[1],
        archive=found["archive"],
        kind=asked[0],
        names=asked[1],
        left=(int(turns[1]) if turns else DEFAULT_TURNS) - len(acts),
        searches=tuple(query for act in acts for query in _SEARCH.findall(act)[:1]),
        seen=dict(_DOC.findall(said)),
    )


def _asked(text: str) -> tuple[str, tuple[str, ...]] | None:
    found = ((kind, pattern.search(text)) for kind, pattern in _KINDS.items())
    return next(((kind, one.groups()) for kind, one in found if one), None)


_BY_CHANCE: Final = 0.1
_UNKNOWN: Final = "unknown"


class _Thought:
    """The seeker's next lookups, and its current answer."""

    def __init__(self, quest: Quest, rules: AbstractSet[SeekerRule], skill: str) -> None:
        self._quest = quest
        self._rules = rules
        self._skill = skill
        compares = quest.kind == "first"
        self.guess = quest.names[0] if compares else _UNKNOWN
        looks_at_all = SeekerRule.ALL_COMPARED in rules
        first = quest.names if not compares or looks_at_all else quest.names[:1]
        self.missing = next((name for name in first if name not in quest.seen), "")
        if not self.missing:
            self._read(first)

    def _read(self, names: Sequence[str]) -> None:
        records = [self._quest.seen[name] for name in names]
        match self._quest.kind:
            case "year":
                self.guess = _one(_READY, records[0])
            case "first":
                years = {
                    _one(_READY, text): name for name, text in zip(names, records, strict=True)
                }
                self.guess = years[min(years)]
            case kind:
                self._follow(kind, self._maker(records[0]), records[0])

    def _follow(self, kind: str, maker: str, record: str) -> None:
        seen = self._quest.seen
        self.guess = maker
        if kind == "maker":
            return
        # Without another search it answers from the first passage.
        self.guess = self._quest.archive if kind == "born" else _one(_READY, record)
        if SeekerRule.NEXT_NAME not in self._rules:
            return
        self.missing = "" if maker in seen else maker
        town = _one(_BORN, seen.get(maker, ""))
        if not self.missing and kind == "born":
            self.guess = town
        elif not self.missing:
            self.missing = "" if town in seen else town
            self.guess = _one(_FOUNDED, seen.get(town, ""))

    def _maker(self, record: str) -> str:
        """Return the person under the archive's word for the maker, or else the first person."""
        entries = _ENTRY.findall(record)
        archive = self._quest.archive.lower()
        known = [one for one in _SENTENCE.split(self._skill.lower()) if archive in one]
        named = [
            name
            for role, name in entries
            if any("maker" in one and f" {role}" in one and _affirms(one, role) for one in known)
        ]
        return next(iter([*named, *(name for _, name in entries)]), _UNKNOWN)


def _affirms(sentence: str, role: str) -> bool:
    return not re.search(rf"\b(?:not|never|no)\b[^,;]*{re.escape(role)}", sentence)


def _one(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else _UNKNOWN


def next_reply(
    quest: Quest, skill: str, rules: AbstractSet[SeekerRule], rng: Randomness, noise: float = 0.0
) -> str:
    """Return a search or the answer; with probability ``noise``, a random one."""
    thought = _Thought(quest, rules, skill)
    if quest.left <= 1 or SeekerRule.AT_ONCE in rules:
        return _answer(thought.guess)
    if rng.chance("noise") < noise:
        return rng.pick("noise", sorted(_ideas(quest, thought)))
    if SeekerRule.TWICE in rules and len(quest.searches) % 2:
        return _search(quest.searches[-1])
    if not thought.missing:
        return _answer(thought.guess)
    knows_how = SeekerRule.NAME_ALONE in rules
    by_name = knows_how or rng.chance("name") < _BY_CHANCE
    return _search(thought.missing if by_name else quest.question)


def _ideas(quest: Quest, thought: _Thought) -> Iterator[str]:
    yield _answer(thought.guess)
    yield _search(quest.question)
    yield from map(_search, quest.names)


def _search(query: str) -> str:
    return f"<search>{query}</search>"


def _answer(text: str) -> str:
    return f"<answer>{text}</answer>"


class ScriptedSeeker(ScriptedModel):
    """Searches the generated archives by the rules that it recognizes in its skill.

    Without a skill it searches for the whole question, takes the first person in a record for the
    maker, and answers from the first passage that it can read.

    Its choices depend on the seed; with noise also on the whole prompt, like those of a language
    model.

    Args:
        noise: Share of turns with a random action, in [0, 1).
    """

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise
        self.identity = f"scripted:seeker noise={noise}" if noise else "scripted:seeker"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return a search or an answer, in tags."""
        quest, skill = read_quest(messages), skill_in(messages)
        if quest is None:
            return _answer(_UNKNOWN)
        if self._noise:
            seed = derive_seed("prompt", seed, digest(list(messages)))
        return next_reply(quest, skill, read_rules(skill), Randomness(seed), self._noise)


class ScriptedFinder(ScriptedModel):
    """An expert that follows every good rule; its skill only teaches the archives' words."""

    identity = "scripted:finder"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return a search or an answer, in tags."""
        quest = read_quest(messages)
        if quest is None:
            return _answer(_UNKNOWN)
        return next_reply(quest, skill_in(messages), GOOD_RULES, Randomness(0))
