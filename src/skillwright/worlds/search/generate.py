"""Generated questions about invented towns; no town is in two splits.

The answers are easy to find in the passages. The difficulty is the format that the metric expects
and no text states: the shortest answer, in the requested unit and for the requested year, from the
right passage, which is the second one in half of the tasks.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.jsonio import text_digest
from skillwright.core.seeds import derive_seed

SPLITS: Final[Mapping[str, range]] = {"train": range(4), "val": range(4, 7), "test": range(7, 10)}
"""Split -> the last decimal digits of the digests of its towns."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_STARTS: Final = _words("Os Vel Kar Mar Tol Bren Hal Lun Sor Wen Dal Fir Gol Ner Pol Rav")
_MIDDLES: Final = ("a", "e", "i", "o", "u", "an", "er", "il", "or", "un")
_ENDS: Final = _words("tra mouth sk by dal ford nel wick holm ra bury ven")
_FIRST_NAMES: Final = _words("Mira Ivo Ada Jon Lena Tomas Rhea Olaf Nina Karel Edda Bruno")
_LAST_NAMES: Final = _words("Holt Lind Renn Castel Moor Vane Brandt Keel Sorrel Pike Ash")
_OFFICES: Final = ("mayor", "judge", "harbour master", "postmaster")
_TRADES: Final = ("painter", "composer", "botanist", "clockmaker")
_BUILDINGS: Final = ("mill", "town hall", "library", "bridge")


class _Measure(NamedTuple):
    thing: str
    adjective: str
    unit: str
    other_unit: str
    factor: float


_MEASURES: Final = (
    _Measure("canal", "long", "kilometres", "miles", 0.6214),
    _Measure("tower", "high", "metres", "feet", 3.281),
    _Measure("lake", "deep", "metres", "feet", 3.281),
    _Measure("market square", "wide", "metres", "yards", 1.0936),
)


class _Fact(NamedTuple):
    """A fact about a town, and a question that it answers."""

    sentences: str
    question: str
    answers: tuple[str, ...]


def generated_questions(split: str, count: int, *, seed: int = 0) -> list[Task]:
    """List ``count`` questions as tasks; the four kinds alternate.

    Args:
        split: ``train``, ``val`` or ``test``; a town is in the same split for all seeds.
        count: Number of questions.
        seed: Seed of the questions.

    Raises:
        DataError: There is no such split.
    """
    if split not in SPLITS:
        raise DataError(f"no split {split!r} of generated questions. {did_you_mean(split, SPLITS)}")
    return [_task(split, index, seed) for index in range(count)]


def _task(split: str, index: int, seed: int) -> Task:
    kinds = tuple(_KINDS)
    kind = kinds[index % len(kinds)]
    rng = random.Random(derive_seed("qa-towns", split, index, seed))
    town, other = _towns(split, rng)
    fact = _KINDS[kind](town, rng)
    passages = [_passage(town, kind, fact, rng), _passage(other, kind, None, rng)]
    rng.shuffle(passages)
    stream = f"-s{seed}" if seed else ""
    return Task(
        id=f"town{stream}-{split}-{index:04}",
        env="qa",
        extras={"question": fact.question, "passages": passages, "answers": list(fact.answers)},
        task_type=kind,
        description=fact.question,
        split=split,
    )


def _towns(split: str, rng: random.Random) -> tuple[str, str]:
    """Draw two towns of a split; the digest of a town's name decides its split."""
    found: list[str] = []
    while len(found) < 2:
        name = rng.choice(_STARTS) + rng.choice(_MIDDLES) + rng.choice(_ENDS)
        if int(text_digest(name)[:12], 16) % 10 in SPLITS[split] and name not in found:
            found.append(name)
    return found[0], found[1]


def _passage(town: str, kind: str, fact: _Fact | None, rng: random.Random) -> dict[str, Any]:
    """Return a passage with one fact of each kind about a town, shuffled.

    Args:
        town: The town, and the passage's title.
        kind: The kind of ``fact``.
        fact: The fact to include; facts of other kinds are drawn. ``None`` draws all.
        rng: Source of randomness.
    """
    facts = [fact if fact and name == kind else make(town, rng) for name, make in _KINDS.items()]
    rng.shuffle(facts)
    return {"title": town, "text": " ".join(one.sentences for one in facts)}


def _office(town: str, rng: random.Random) -> _Fact:
    office = rng.choice(_OFFICES)
    names = [
        f"{first} {last}"
        for first, last in zip(rng.sample(_FIRST_NAMES, 3), rng.sample(_LAST_NAMES, 3), strict=True)
    ]
    years = [rng.randint(1790, 1850)]
    for _ in names:
        years.append(years[-1] + rng.randint(6, 18))
    terms = [(years[at] + 1, years[at + 1]) for at in range(len(names))]
    sentences = " ".join(
        f"{name} was {office} of {town} from {first} to {last}."
        for name, (first, last) in zip(names, terms, strict=True)
    )
    asked = rng.choice((0, 1, 1, 2, 2))
    year = rng.randint(*terms[asked])
    return _Fact(sentences, f"Who was {office} of {town} in {year}?", (names[asked],))


def _measure(town: str, rng: random.Random) -> _Fact:
    one = rng.choice(_MEASURES)
    size = rng.randint(12, 95)
    other_size = round(size * one.factor)
    number, unit = rng.choice(
        ((size, one.unit), (other_size, one.other_unit), (other_size, one.other_unit))
    )
    said = f"{size} {one.unit} ({other_size} {one.other_unit})"
    return _Fact(
        f"The {one.thing} of {town} is {said} {one.adjective}.",
        f"How many {unit} {one.adjective} is the {one.thing} of {town}?",
        (f"{number} {unit}", str(number)),
    )


def _year(town: str, rng: random.Random) -> _Fact:
    building, year = rng.choice(_BUILDINGS), rng.randint(1650, 1930)
    return _Fact(
        f"The {building} of {town} was built in {year}.",
        f"When was the {building} of {town} built?",
        (str(year), f"in {year}"),
    )


def _place(town: str, rng: random.Random) -> _Fact:
    trade = rng.choice(_TRADES)
    home = rng.choice(_STARTS) + rng.choice(_MIDDLES) + "stad"
    return _Fact(
        f"The {trade} of {town} was born in {home}.",
        f"Where was the {trade} of {town} born?",
        (home, f"in {home}"),
    )


_KINDS: Final[Mapping[str, Callable[[str, random.Random], _Fact]]] = {
    "office": _office,
    "measure": _measure,
    "year": _year,
    "place": _place,
}
