"""Find tasks whose questions and answers a skill holds word for word.

Such a skill solves these tasks by looking them up, so its score on them says nothing about others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from skillwright.core import Task
from skillwright.datasets.clusters import CLUSTER, words_of

_QUESTION_CHARS: Final = 10  # minimum of a question, without blanks
_AFTER: Final = 30  # words after a question among which its answer is looked for
_LEAST_SPAN: Final = 5  # words of an answer that is no label
_LONGEST_SPAN: Final = 12  # of a longer answer, as many consecutive words are a copy
_MOST_NAMED: Final = 3


def memorized(skill: str, initial: str, tasks: Iterable[Task]) -> list[str]:
    """Return the ids of the tasks whose contents a skill holds.

    A task counts if the skill holds one of its texts (a question, of 10 characters or more) and
    shortly after it another of its values (an answer), or 12 consecutive words of a text that its
    description does not show (a long answer), or all of its 5 words or more. Labels alone, texts
    that several tasks share, and what the initial skill holds do not count.

    Args:
        skill: The skill.
        initial: The skill that training began with.
        tasks: Tasks with their contents in the extras.
    """
    held, before = _Held(skill), _Held(initial)
    contents = {task.id: list(_values(task.extras)) for task in tasks}
    counts = Counter(one for values in contents.values() for one in set(values))
    shown = {task.id: _padded(words_of(task.description)) for task in tasks}
    found = []
    for task_id, values in contents.items():
        own = [one for one in values if counts[one] == 1 and not before.holds(one)]
        hidden = [one for one in own if _padded(one) not in shown[task_id]]
        is_answered = any(held.answers(one, values) for one in own)
        if is_answered or any(held.quotes(one) and not before.quotes(one) for one in hidden):
            found.append(task_id)
    return found


def memorized_line(found: Mapping[str, Sequence[str]]) -> str:
    """Return a sentence on memorized tasks by split; "" if there are none."""
    said = [
        f"{len(ids)} {split} task{'s' * (len(ids) > 1)} with the answers (such as "
        f"{', '.join(ids[:_MOST_NAMED])})"
        for split, ids in found.items()
        if ids
    ]
    if not said:
        return ""
    return (
        f"The skill holds {' and '.join(said)} word for word: what it gains on them says nothing "
        "about other tasks"
    )


class _Held:
    """The words of a skill, for looking texts up."""

    def __init__(self, text: str) -> None:
        self._words = words_of(text)
        self._text = _padded(self._words)
        self._spans = set(_spans(self._words))

    def holds(self, words: tuple[str, ...]) -> bool:
        return bool(words) and _padded(words) in self._text

    def answers(self, question: tuple[str, ...], values: Sequence[tuple[str, ...]]) -> bool:
        """Tell whether a question is there, and another value shortly after it."""
        padded = _padded(question)
        if len(padded) - len(question) - 1 < _QUESTION_CHARS:
            return False
        for at in re.finditer(re.escape(padded), self._text):
            after = _padded(self._text[at.end() - 1 :].split(" ", _AFTER + 1)[1 : _AFTER + 1])
            if any(one and one != question and _padded(one[:_AFTER]) in after for one in values):
                return True
        return False

    def quotes(self, words: tuple[str, ...]) -> bool:
        """Tell whether a long text is there, or a long part of it."""
        if len(words) < _LEAST_SPAN:
            return False
        if len(words) <= _LONGEST_SPAN:
            return self.holds(words)
        return not self._spans.isdisjoint(_spans(words))


def _spans(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for at in range(len(words) - _LONGEST_SPAN + 1):
        yield words[at : at + _LONGEST_SPAN]


def _padded(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _values(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the words of every text and number inside a value."""
    match value:
        case Mapping():
            for name, one in value.items():
                if name not in ("id", CLUSTER):
                    yield from _values(one)
        case list() | tuple():
            for one in value:
                yield from _values(one)
        case bool() | None:
            return
        case _:
            yield words_of(str(value))
