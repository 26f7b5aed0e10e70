"""Find tasks that say nearly the same, by their texts.

An agent that solves one of several near copies mostly solves all of them, so they are no
independent tasks. Two texts are near copies if they have the same right answer and the same numbers
and symbols, in order, and

- are equal but for case, blanks, punctuation or width (`near_key`), or
- have most of their information in common: the cosine of their words, weighted by inverse document
  frequency, is at least 0.75. Words in most texts count nothing, and the answer counts as a word.
  So "Kindly name the capital of Peru" is a copy of "Please name the capital of Peru", and "Please
  name the capital of Chile" is not, or
- differ in one word, and share a right answer and a number or a code that few other texts have.

Near copies of near copies are in one cluster.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Final

from skillwright.core import Task
from skillwright.datasets.split import near_key

CLUSTER: Final = "cluster"
"""Key of a task's extras with the name of its cluster, if it has one."""

_NEAR: Final = 0.75  # cosine of near copies
_UNCOMMON: Final = 1.0  # inverse document frequency of a code in 37% of all texts
_COMMON: Final = 0.5  # share of all texts above which a word counts nothing
_READ: Final = 10_000  # characters at the start and at the end of a text that are compared
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_TOKEN: Final = re.compile(
    rf"[{_UNSPACED}]|\d+(?:[.,:/]\d+)*\w*|[^\W{_UNSPACED}]+|[+=<>^%*/]|-(?=\d)"
)


def clusters_of(tasks: Iterable[Task]) -> dict[str, str]:
    """Return the cluster of each task whose extras name one, by task id."""
    named = ((task.id, task.extras.get(CLUSTER)) for task in tasks)
    return {task_id: str(name) for task_id, name in named if name not in (None, "")}


def words_of(text: str) -> tuple[str, ...]:
    """Return the words, numbers and symbols of a text, without case and punctuation."""
    return tuple(_TOKEN.findall(text.casefold()))


def in_cluster(task: Task, clusters: Mapping[str, str]) -> Task:
    """Add the task's cluster to its extras, unless it is in none or its extras name one already."""
    if task.id not in clusters or CLUSTER in task.extras:
        return task
    return replace(task, extras={**task.extras, CLUSTER: clusters[task.id]})


def near_clusters(texts: Mapping[str, str], answers: Mapping[str, str]) -> dict[str, str]:
    """Find near copies among texts.

    Args:
        texts: What tasks ask, by name.
        answers: Their right answers, by the same names; "" where there is none.

    Returns:
        By name, for texts that have a near copy only, the name of the first text of its cluster.
    """
    read = {name: _Text.of(text, near_key(answers[name])) for name, text in texts.items()}
    weights = _weights(read.values())
    roots = {name: name for name in texts}
    for first, *others in _equal_but_one_word(read, texts, weights):
        for other in others:
            _join(roots, first, other)
    for one, other in _sharing_most_words(read, weights):
        _join(roots, one, other)
    found = {name: _root(roots, name) for name in texts}
    sizes = Counter(found.values())
    return {name: first for name, first in found.items() if sizes[first] > 1}


@dataclass(frozen=True, slots=True)
class _Text:
    """The words of a text, and what near copies have in common: answer, numbers and symbols."""

    words: tuple[str, ...]  # each once
    same: tuple[str, ...]
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, text: str, answer: str) -> "_Text":
        if len(text) > 2 * _READ:
            text = f"{text[:_READ]} {text[-_READ:]}"
        tokens = words_of(text)
        codes = (one for one in tokens if not one.isalpha())
        words = tuple(dict.fromkeys((*tokens, f"answer: {answer}")))
        return cls(words, (answer, *codes), tokens)


def _weights(texts: Iterable[_Text]) -> dict[str, float]:
    """Return the inverse document frequency of every word; 0 for common ones."""
    read = list(texts)
    counts = Counter(word for text in read for word in text.words)
    most = _COMMON * len(read)
    return {
        word: log(len(read) / count) if count <= most else 0.0 for word, count in counts.items()
    }


def _equal_but_one_word(
    read: Mapping[str, _Text], texts: Mapping[str, str], weights: Mapping[str, float]
) -> Iterator[list[str]]:
    """Yield groups of texts that are equal by `near_key`, or but for one word, sharing a code."""
    groups: defaultdict[Hashable, list[str]] = defaultdict(list)
    for name, text in read.items():
        if key := near_key(texts[name]):
            groups[text.same[0], key].append(name)
        if text.same[0] and any(weights[code] >= _UNCOMMON for code in text.same[1:]):
            # The sum of the other words' hashes finds texts without a given word in one look-up.
            total = sum(map(hash, text.tokens))
            for left in {total, *(total - hash(word) for word in text.tokens if word.isalpha())}:
                groups[text.same, left].append(name)
    yield from (names for names in groups.values() if len(names) > 1)


def _sharing_most_words(
    read: Mapping[str, _Text], weights: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs whose cosine is at least `_NEAR`, with an index from words to texts."""
    import numpy as np  # imported here, because most commands compare no texts

    names, texts = list(read), list(read.values())
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, text in enumerate(texts):
        for word in text.words:
            if weights[word]:
                places[word].append(at)
    index = {word: np.array(found) for word, found in places.items() if len(found) > 1}
    squares_N = np.array([sum(weights[word] ** 2 for word in text.words) for text in texts])
    for at, text in enumerate(texts):
        shared_N = np.zeros(len(texts))
        for word in text.words:
            if word in index:
                shared_N[index[word]] += weights[word] ** 2
        least_N = _NEAR * np.sqrt(squares_N * squares_N[at])
        for other in np.flatnonzero((shared_N >= least_N) & (shared_N > 0)).tolist():
            if other > at and text.same == texts[other].same:
                yield names[at], names[other]


def _root(roots: dict[str, str], name: str) -> str:
    while roots[name] != name:
        roots[name] = name = roots[roots[name]]
    return name


def _join(roots: dict[str, str], one: str, other: str) -> None:
    first, second = _root(roots, one), _root(roots, other)
    roots[second] = first


def independent_tasks(tasks: int, clusters: Mapping[str, str]) -> int:
    """Return the number of clusters of ``tasks`` tasks, those without a cluster included."""
    return tasks - len(clusters) + len(set(clusters.values()))


def clusters_line(tasks: int, clusters: Mapping[str, str]) -> str:
    """Return a line on how val tasks count, with the largest cluster; "" if all are different."""
    count = independent_tasks(tasks, clusters)
    if count == tasks:
        return ""
    [(largest, size)] = Counter(clusters.values()).most_common(1)
    members = [task_id for task_id, name in clusters.items() if name == largest]
    more = f" and {size - 3} more" if size > 3 else ""
    return (
        f"the {tasks} val tasks count as {count}: near copies count once, such as "
        f"{', '.join(members[:3])}{more} (in a table, env.data.cluster_column decides)"
    )
