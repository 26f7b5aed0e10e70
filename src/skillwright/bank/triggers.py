"""Write the description that makes an agent open a skill, and test how well it works.

An agent sees the names and descriptions of all its skills, and opens those that fit the task. So a
description says in the words of the tasks what the skill does and when to use it.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.embedders import Encoder, LexicalEmbedder, is_common, words_of
from skillwright.bank.lint.lint import lint
from skillwright.bank.retrieve import BankIndex, RetrievalSettings, retrieve
from skillwright.core import BankSkill, SkillKind
from skillwright.core.fence import hidden_at
from skillwright.core.jsonio import JsonRecord, encode_fields

DESCRIPTION_LIMIT: Final = 1024
"""Most characters of a description in the Agent Skills standard."""

_EXAMPLES, _EXAMPLE_LENGTH = 3, 110
_WORDS, _WORDS_LENGTH = 24, 320
_ABOUT_LENGTH = 240
_READ = 4_000  # characters of a prompt
_ANY_WORD = re.compile(r"[^\W\d_]{3,}")


def plain_prose(text: str, limit: int = DESCRIPTION_LIMIT) -> str:
    """Return a text on one line, cut at a word, without angle brackets and hidden characters."""
    hidden = set(hidden_at(text))
    shown = "".join(" " if at in hidden or one in "<>`" else one for at, one in enumerate(text))
    line = " ".join(shown.split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 3].rsplit(' ', 1)[0].rstrip(' ,;:.')}..."


def unfit_for_description(text: str) -> str:
    """Return why lint blocks a description, or ""."""
    drafted = BankSkill("", "A description", text, "", SkillKind.GENERAL)
    kept = (one for one in lint(drafted) if one.blocks and one.rule != "too_long")
    return next((f"{one.span!r}: {one.why}" for one in kept), "")


@dataclass(frozen=True, slots=True)
class TaskWords:
    """The input of a description.

    Attributes:
        subject: The tasks in a few words: ``clean tasks of alfworld``.
        about: Contents of the skill, such as the names of its rules.
        prompts: Prompts of tasks of the skill; untrusted, so texts that lint blocks are left out.
        examples: Texts to quote, such as goals; by default the prompts.
        others: Prompts of tasks of other skills.
        are_quoted: Whether examples are the tasks' own words, not statements about tasks.
    """

    subject: str
    about: Sequence[str] = ()
    prompts: Sequence[str] = ()
    examples: Sequence[str] = ()
    others: Sequence[str] = ()
    are_quoted: bool = True


def describe(words: TaskWords) -> str:
    """Write a description from what tasks have in common and other tasks have not.

    Returns:
        1 to 1,024 characters: what the skill does, when to use it with a few of the prompts, and
        the words that distinguish these tasks (tf-idf over task prompts).
    """
    fit, examples, about = map(_fit, (words.prompts, words.examples or words.prompts, words.about))
    weight = _weights(fit, words.others)
    parts = [f"What was learned from doing {words.subject}."]
    if about:
        parts.append(f"Covers: {plain_prose('; '.join(about), _ABOUT_LENGTH).rstrip('.')}.")
    shown = _examples(examples, weight)
    if shown and words.are_quoted:
        quoted = (one.replace('"', "'") for one in shown)
        parts.append("Use when the task is like: " + "; ".join(f'"{one}"' for one in quoted) + ".")
    elif shown:
        parts.append(f"Use for: {'; '.join(one.rstrip('.') for one in shown)}.")
    else:
        parts.append(f"Use for {words.subject}.")
    if typical := _typical(fit, weight):
        parts.append(f"Typical words: {typical}.")
    return plain_prose(" ".join(parts))


def _fit(texts: Sequence[str]) -> list[str]:
    """Return distinct texts on one line each, without those that lint blocks."""
    lines = dict.fromkeys(plain_prose(one, _READ) for one in texts)
    return [one for one in lines if one and not unfit_for_description(one)]


def _weights(prompts: Sequence[str], others: Sequence[str]) -> dict[str, float]:
    """Weigh stems by their frequency in the prompts against that in other prompts."""
    inside = Counter(stem for one in prompts for stem in set(words_of(one)))
    outside = Counter(stem for one in others for stem in set(words_of(one)))
    size = max(1, len(others))
    return {
        stem: count / len(prompts) * (1 + math.log((1 + size) / (1 + outside[stem])))
        for stem, count in inside.items()
        if not is_common(stem) and stem.isalpha() and len(stem) > 1
    }


def _examples(prompts: Sequence[str], weight: Mapping[str, float]) -> list[str]:
    """Choose prompts that together cover the most weight."""
    left, chosen, covered = list(prompts), list[str](), set[str]()

    def gain(prompt: str) -> float:
        new = set(words_of(prompt)) - covered
        return sum(weight.get(stem, 0.0) for stem in new)

    while left and len(chosen) < _EXAMPLES:
        best = max(left, key=gain)
        left.remove(best)
        covered |= set(words_of(best))
        chosen.append(plain_prose(best, _EXAMPLE_LENGTH))
    return chosen


def _typical(prompts: Sequence[str], weight: Mapping[str, float]) -> str:
    """Return the words with the most weight, each in its most frequent form."""
    forms: dict[str, Counter[str]] = {}
    for prompt in prompts:
        for word in _ANY_WORD.findall(prompt.lower()):
            for stem in words_of(word):
                forms.setdefault(stem, Counter())[word] += 1
    ranked = sorted(weight, key=lambda stem: (-weight[stem], stem))
    named = [forms[stem].most_common(1)[0][0] for stem in ranked[:_WORDS] if stem in forms]
    return plain_prose(", ".join(dict.fromkeys(named)), _WORDS_LENGTH).rstrip(".")


@dataclass(frozen=True, slots=True)
class Described:
    """A skill as an agent sees it before opening it, and tasks that it is for."""

    name: str
    description: str
    tasks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TriggerScore(JsonRecord):
    """How well a description is chosen.

    Attributes:
        right: Choices for an own task.
        wrong: Choices for another task.
        missed: Own tasks without a choice.
        own: Own tasks.
        others: Other tasks.
        neighbors: Competing skills of other jobs.
    """

    right: int
    wrong: int
    missed: int
    own: int
    others: int
    neighbors: int

    @property
    def precision(self) -> float:
        """The share of right choices; 0 without choices."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The chosen share of its own tasks."""
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the three measures as a JSON object."""
        measures = {name: getattr(self, name) for name in ("precision", "recall", "f1")}
        return {**encode_fields(self), **measures}


@lru_cache(maxsize=1)
def neighbors() -> tuple[Described, ...]:
    """Return 99 skills of other jobs, with two tasks each: household, shop, support, and others.

    They were written by hand before any description was measured against them.
    """
    file = resources.files("skillwright.bank") / "seeds" / "neighbors.txt"
    rows = [line.split(" | ") for line in file.read_text(encoding="utf-8").splitlines() if line]
    return tuple(Described(row[0], row[1], tuple(row[2:])) for row in rows)


def lexical_choice(skills: Sequence[Described]) -> Callable[[str], int | None]:
    """Return a function that chooses a skill for a task's text, as in `trigger_test`.

    It returns the position of the skill in ``skills``; ``None`` for none.
    """
    ranks = _ranker(skills)

    def choose(task: str) -> int | None:
        return next((at for at, _ in ranks(task)), None)

    return choose


def typical_words(prompts: Sequence[str], others: Sequence[str]) -> str:
    """Return the words that distinguish prompts from others, the most typical ones first."""
    fit = _fit(prompts)
    return _typical(fit, _weights(fit, others)) if fit else ""


def trigger_test(
    skills: Sequence[Described], others: Sequence[Described] | None = None
) -> list[TriggerScore]:
    """Choose descriptions for tasks with the lexical retriever, as it chooses a bank's skills.

    Every task is compared with all descriptions. One is chosen if its similarity is above the
    embedder's delta and no other is more similar; descriptions that own the task do not compete.

    Args:
        skills: Skills to test, with tasks that their descriptions were not written from.
        others: Competing skills of other jobs; by default `neighbors`.

    Returns:
        A score per skill, in order.
    """
    others = list(neighbors() if others is None else others)
    ranks = _ranker([*skills, *others])
    owners: dict[str, set[int]] = {}
    for at, one in enumerate([*skills, *others]):
        for task in one.tasks:
            owners.setdefault(task, set()).add(at)
    chosen = {task: _chosen(ranks(task), own) for task, own in owners.items()}
    return [_score(at, chosen, owners, len(others)) for at in range(len(skills))]


def _ranker(described: Sequence[Described]) -> Callable[[str], list[tuple[int, float]]]:
    """Return a ranking of descriptions above delta by similarity to a task."""
    drafts = [
        BankSkill(f"t{at:04d}", one.name, one.description, "", SkillKind.TASK_SPECIFIC)
        for at, one in enumerate(described)
    ]
    index = BankIndex(Bank(1, tuple(drafts)), Encoder(LexicalEmbedder()))
    settings = RetrievalSettings(k_task=len(drafts), k_lessons=0)

    def ranked(task: str) -> list[tuple[int, float]]:
        query = index.encoder.queries([task])[task]
        found = retrieve(index, query, settings=settings).task_specific
        return [(int(one.skill.id[1:]), one.score) for one in found]

    return ranked


def _chosen(ranked: Sequence[tuple[int, float]], own: set[int]) -> set[int]:
    """Return the descriptions that no rival beats: the best of all, and own ones above rivals."""
    rival = max((score for at, score in ranked if at not in own), default=-1.0)
    best = {at for at, score in ranked if at in own and score > rival}
    return best | ({ranked[0][0]} if ranked else set())


def _score(
    at: int, chosen: Mapping[str, set[int]], owners: Mapping[str, set[int]], rivals: int
) -> TriggerScore:
    own = [task for task, skills in owners.items() if at in skills]
    right = sum(at in chosen[task] for task in own)
    wrong = sum(at in found for task, found in chosen.items() if at not in owners[task])
    return TriggerScore(right, wrong, len(own) - right, len(own), len(owners) - len(own), rivals)
