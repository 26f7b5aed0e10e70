"""The scripted agent and optimizer for rows of any table.

The agent answers by rules in its skill of the form "word -> answer". The optimizer finds such rules
in failed episodes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from skillwright.core import Message
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.models.scripted.prompts import Reading
from skillwright.models.scripted.teacher import Randomness, ScriptedModel, first_of, skill_in
from skillwright.worlds.scripted import Lesson, LessonAnalyst

# The sentences of a skill that agent and optimizer recognize.


_SAYS: Final = re.compile(r'When it says ((?:"[^"\n]+"(?:, )?)+), answer "([^"\n]+)"')
_IGNORE: Final = re.compile(r'Pay no attention to ((?:"[^"\n]+"(?:, )?)+)')
_AFTER: Final = re.compile(r'Answer with what stands after "([^"\n]+)"')
_WHOLE: Final = re.compile(r"\b(full|whole|complete) sentence", re.IGNORECASE)
_QUOTED: Final = re.compile(r'"([^"\n]+)"')
_WORD: Final = re.compile(r"[^\W\d_][\w'-]+")
_OPTIONS: Final = re.compile(r"one of:? *(.+)", re.IGNORECASE)
_FIELD: Final = re.compile(r"^ *([^:\n]{1,40}): *(\S.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"^ *[^:\n]{1,40}: ", re.MULTILINE)
_UNKNOWN: Final = "unknown"


class Rules(NamedTuple):
    """The rules in a skill."""

    answers: Mapping[str, Mapping[str, int]]  # word -> answer -> number of rules
    ignored: frozenset[str]
    fields: tuple[str, ...]  # names of fields whose value is the answer, the latest first
    whole_sentences: bool


def read_rules(skill: str) -> Rules:
    """Read the rules of a skill."""
    answers: dict[str, Counter[str]] = {}
    for words, answer in _SAYS.findall(skill):
        for word in _QUOTED.findall(words):
            answers.setdefault(word.casefold(), Counter())[answer] += 1
    ignored = {
        word.casefold() for words in _IGNORE.findall(skill) for word in _QUOTED.findall(words)
    }
    fields = tuple(reversed(_AFTER.findall(skill)))
    return Rules(answers, frozenset(ignored), fields, _WHOLE.search(skill) is not None)


class ScriptedClerk(ScriptedModel):
    """Answers by the rules in its skill; without a rule, with the first of the options.

    Args:
        noise: Share of random answers, in [0, 1). Above 0, answers depend on the seed and the whole
            prompt, like those of a language model.
    """

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise
        self.identity = f"scripted:clerk noise={noise}" if noise else "scripted:clerk"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the answer in ``<answer>`` tags."""
        asked, rules = first_of(messages, "user"), read_rules(skill_in(messages))
        tried = [one["content"] for one in messages if one["role"] == "assistant"]
        guesses = _guesses(asked, rules)
        rng = Randomness(derive_seed("clerk", seed, digest([*map(_said, messages)])))
        if self._noise and rng.chance("noise") < self._noise:
            answer = rng.pick("noise", sorted(set(guesses)))
        else:
            left = [one for one in guesses if not any(f">{one}<" in said for said in tried)]
            answer = (left or guesses)[0]
        if rules.whole_sentences:
            answer = f"I would say that the answer is {answer}"
        return f"<answer>{answer}</answer>"


def _said(message: Message) -> list[str]:
    return [message["role"], message["content"].encode(errors="replace").decode()]


def _guesses(asked: str, rules: Rules) -> list[str]:
    """Return at least one answer, the likeliest first."""
    fields = {name.strip(): value.strip() for name, value in _FIELD.findall(asked)}
    copied = [fields[name] for name in rules.fields if name in fields]
    votes: Counter[str] = Counter()
    for word in words_of(asked) - rules.ignored:
        votes.update(rules.answers.get(word, {}))
    # Sorted, because Counter keeps ties in order of insertion, and a set has no fixed order.
    likely = sorted(votes, key=lambda answer: (-votes[answer], answer))
    known = dict.fromkeys([*copied, *likely, *_options(asked)])
    return list(known) or [_UNKNOWN]


def _options(asked: str) -> list[str]:
    found = _OPTIONS.findall(asked)
    listed = found[-1].rstrip(". ") if found else ""
    return [one.strip("\"'` ") for one in re.split(r",\s*|\s+or\s+", listed) if one.strip()]


def words_of(asked: str) -> frozenset[str]:
    """Return the informative words of a prompt, without options and names of columns."""
    text = _NAME.sub("", _OPTIONS.sub("", asked))
    return frozenset(word.casefold() for word in _WORD.findall(text)) - _EMPTY


# Words too common to predict an answer.
_EMPTY: Final = frozenset(
    re.findall(
        r"\w+",
        "the and for you your are was were has have had not but with this that from they them "
        "our out can could would should will what when where which who how why its it is in on at "
        "of to an as be by do if me my no or so we us am all any been did does get got just more "
        "now please some than then there these about after again also answer one",
    )
)


# The optimizer finds words in failed episodes that predict an answer.


_TASK: Final = re.compile(r"<task>(.*?)</task>", re.DOTALL)
_EXPECTED: Final = re.compile(r'Expected "([^"\n]+)", and you answered "([^"\n]*)"')
_LACKS: Final = re.compile(
    r"<answer>([^<\n]*)</answer>.*? hold\. Not: (?:has|contains) '([^'\n]+)'", re.DOTALL
)
_LEAST: Final = 2
"""Minimum number of failed episodes that must support a rule."""
_MOST_WORDS: Final = 5
_BELIEVES: Final = 0.3

_WRONG_ANSWER: Final = Lesson("gave an answer that the words do not point to", "", ())
_MISLED: Final = Lesson("was misled by words that say nothing", "", ())
_NOT_COPIED: Final = Lesson("did not take the answer out of the text", "", ())
_POLITE: Final = Lesson("was short with its customer", "", ())

SUPERSTITIONS: Final = (
    "Answer in a full sentence, as is polite.",
    "Put each answer into a whole sentence that explains it.",
)
"""Plausible advice that makes right answers wrong."""


Finding = tuple[Lesson, str, tuple[str, ...]]
"""A mistake, the sentence that corrects it, and the episodes that show it."""


class _Failed(NamedTuple):
    """A failed episode."""

    name: str
    asked: str
    right: str
    given: str


class ClerkAnalyst(LessonAnalyst):
    """Teaches the clerk which words predict which answer, from failed episodes."""

    def __init__(self) -> None:
        super().__init__("scripted:clerk_analyst", ())

    def _found(self, reading: Reading, episodes: Mapping[str, str]) -> list[Finding]:
        failed = list(_read(episodes))
        rules = read_rules(reading.skill)
        found = [*_copied(failed, rules), *_taught(failed, rules), *_cleared(failed, rules)]
        found.sort(key=lambda one: -len(one[2]))
        new = [text for text in SUPERSTITIONS if text not in reading.skill + reading.earlier]
        rng = Randomness(derive_seed(self.identity, digest([reading.skill, list(episodes)])))
        if failed and new and rng.chance("believe") < _BELIEVES:
            # Before the last one, so that a budget does not always drop it.
            found.insert(max(len(found) - 1, 0), (_POLITE, new[0], (failed[0].name,)))
        return found


def _read(episodes: Mapping[str, str]) -> Iterable[_Failed]:
    for name, body in episodes.items():
        task, results = _TASK.search(body), _EXPECTED.findall(body)
        if task and not results:  # the evals of a skill
            results = [(right, given) for given, right in _LACKS.findall(body)]
        if task and results:
            yield _Failed(name, task[1], *results[-1])


def _taught(failed: Sequence[_Failed], rules: Rules) -> list[Finding]:
    """Return rules for words that occur only in episodes with one answer."""
    shown = {one.name: words_of(one.asked) for one in failed}
    found: list[Finding] = []
    for right in dict.fromkeys(one.right for one in failed):
        own = [one for one in failed if one.right == right]
        others = {word for one in failed if one.right != right for word in shown[one.name]}
        counts = Counter(word for one in own for word in shown[one.name] - others)
        words = [
            word
            for word in sorted(counts, key=lambda word: (-counts[word], -len(word), word))
            if right not in rules.answers.get(word, {})
        ]
        often = [word for word in words if counts[word] >= _LEAST]
        words = (often or words[:_LEAST])[:_MOST_WORDS]
        names = tuple(one.name for one in own if shown[one.name] & set(words))
        if words:
            found.append(
                (_WRONG_ANSWER, f'When it says {_quoted(words)}, answer "{right}".', names)
            )
    return found


def _cleared(failed: Sequence[_Failed], rules: Rules) -> list[Finding]:
    """Return corrections for words whose rule was wrong several times."""
    misled: dict[str, list[str]] = {}
    for one in failed:
        for word in sorted(words_of(one.asked) - rules.ignored):
            answers = rules.answers.get(word, {})
            if one.given in answers and one.right not in answers:
                misled.setdefault(word, []).append(one.name)
    words = {word: names for word, names in misled.items() if len(names) >= _LEAST}
    if not words:
        return []
    names = tuple(dict.fromkeys(name for shown in words.values() for name in shown))
    return [(_MISLED, f"Pay no attention to {_quoted(list(words)[:_MOST_WORDS])}.", names)]


def _copied(failed: Sequence[_Failed], rules: Rules) -> list[Finding]:
    """Return the field name that precedes the answer in several episodes."""
    shown: dict[str, list[str]] = {}
    for one in failed:
        for name, value in _FIELD.findall(one.asked):
            if value.strip() == one.right and name.strip() not in rules.fields:
                shown.setdefault(name.strip(), []).append(one.name)
    return [
        (_NOT_COPIED, f'Answer with what stands after "{name}".', tuple(names))
        for name, names in shown.items()
        if len(names) >= _LEAST and '"' not in name
    ]


def _quoted(words: Iterable[Any]) -> str:
    return ", ".join(f'"{word}"' for word in words)
