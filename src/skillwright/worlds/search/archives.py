"""A generated collection of passages for search tasks: the archives of invented towns.

Each archive describes objects, such as bells, that people of the town made, and has its own word
for the maker: ``first hand`` is the maker in one archive and another role in the next. The words
are equal in all splits, and each object is in one split. Letters repeat the questions without
answers, so that a search for a whole question finds only letters. An agent has to learn to search
for a single name, then for the name that it found, to look up everything that is compared, and the
word of each archive.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import Final

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.jsonio import text_digest
from skillwright.core.seeds import derive_seed
from skillwright.worlds.search.index import PassageIndex, index_in_memory
from skillwright.worlds.search.items import CATEGORIES, Passage
from skillwright.worlds.search.passages import Filed

GENERATOR_VERSION: Final = "1"
SPLITS: Final[Mapping[str, range]] = {"train": range(4), "val": range(4, 7), "test": range(7, 10)}
"""Split -> the last decimal digits of the digests of its objects."""

ARCHIVES: Final = ("Harrow", "Velmouth", "Tolford", "Brenwick", "Sornholm", "Lunbury")
ROLES: Final = (
    *("first hand", "bench warden", "seal holder", "yard reeve"),
    *("pattern keeper", "lead fitter", "plan master", "chief framer"),
)
_THINGS_EACH: Final = 80
_LETTERS: Final = 3
_COMPARED: Final = 3

_KINDS: Final = ("bell", "organ", "clock", "barge", "loom", "globe")
_ADJECTIVES: Final = (
    *("Amber", "Silver", "Crooked", "Northern", "Hollow", "Painted", "Quiet", "Scarlet", "Lesser"),
    *("Winter", "Gilded", "Broken", "Tall", "Violet", "Sunken", "Patient", "Iron", "Weeping"),
    *("Eastern", "Marble", "Restless", "Copper"),
)
_NOUNS: Final = (
    *("Heron", "Lantern", "Gate", "Sparrow", "Crown", "Anchor", "Willow", "Falcon", "Harp"),
    *("Needle", "Orchard", "Shepherd", "Comet", "Badger", "Thistle", "Pilgrim", "Drum", "Raven"),
    *("Saddle", "Mirror", "Beacon", "Otter"),
)
_FIRST_NAMES: Final = (
    *("Mira", "Ivo", "Ada", "Jon", "Lena", "Tomas", "Rhea", "Olaf", "Nina", "Karel", "Edda"),
    *("Bruno", "Sela", "Piet", "Dora", "Emil", "Greta", "Hugo", "Irma", "Kuno", "Lotte", "Milo"),
    *("Nora", "Otto", "Petra", "Rolf", "Stina", "Timo", "Ursa", "Veit", "Wanda", "Yorick"),
)
_LAST_NAMES: Final = (
    *("Holt", "Lind", "Renn", "Castel", "Moor", "Vane", "Brandt", "Keel", "Sorrel", "Pike"),
    *("Ash", "Dorn", "Elgar", "Fenn", "Grau", "Hale", "Isler", "Jung", "Kranz", "Lorne", "Marr"),
    *("Noss", "Orley", "Prell", "Quint", "Rusk", "Stahl", "Thorne", "Ubel", "Voss", "Wray"),
    *("Yates", "Zorn", "Abel", "Birk", "Corvin", "Dahl", "Eck", "Falk", "Gorse", "Hesse", "Ilk"),
    *("Joss", "Kerr", "Leith", "Munk", "Nagel", "Oster"),
)
_STARTS: Final = ("Os", "Kar", "Mar", "Hal", "Wen", "Dal", "Fir", "Gol", "Ner", "Pol", "Rav", "Tor")
_ENDS: Final = ("stad", "dal", "skar", "havn", "berg", "lund")
_TRADES: Final = ("joiner", "founder", "smith", "carver", "gilder", "turner")


@dataclass(frozen=True, slots=True)
class _Thing:
    name: str
    kind: str
    archive: str
    year: int
    people: tuple[tuple[str, str], ...]  # (role, name), in the order of the record
    maker: str


@dataclass(frozen=True)
class _World:
    things: tuple[_Thing, ...]
    births: Mapping[str, tuple[str, int]]  # person -> town and year
    towns: Mapping[str, int]  # town -> the year of its founding

    def of(self, split: str, archive: str) -> list[_Thing]:
        return [
            one
            for one in self.things
            if one.archive == archive and int(text_digest(one.name)[:12], 16) % 10 in SPLITS[split]
        ]


def makers_word(archive: str, world_seed: int = 0) -> str:
    """Return an archive's word for the maker of an object."""
    return _roles_of(archive, world_seed)[0]


def archive_questions(split: str, count: int, *, seed: int = 0) -> list[Task]:
    """List ``count`` questions as tasks; categories and archives alternate.

    Args:
        split: ``train``, ``val`` or ``test``; an object is in the same split for all seeds.
        count: Number of questions; each split has at least 500.
        seed: Seed of the world.

    Raises:
        DataError: There is no such split, or it has fewer questions.
    """
    if split not in SPLITS:
        raise DataError(f"no split {split!r} of generated questions. {did_you_mean(split, SPLITS)}")
    made = list(islice(_tasks(split, seed), count))
    if len(made) < count:
        raise DataError(
            f"the generated archives have {len(made)} questions for {split}, and env.data.{split} "
            f"asks for {count}; lower it"
        )
    return made


def archive_index(world_seed: int = 0) -> PassageIndex:
    """Return the index of a world's passages, which all episodes of a process share."""
    return _index(world_seed)


@lru_cache(maxsize=8)
def _index(world_seed: int) -> PassageIndex:
    filed = (
        Filed(str(number), passage)
        for number, passage in enumerate(archive_passages(world_seed), start=1)
    )
    return index_in_memory(filed, f"archives-{GENERATOR_VERSION}-{world_seed}")


def archive_passages(world_seed: int = 0) -> Iterator[Passage]:
    """Yield the passages of a world, shuffled."""
    world = _world(world_seed)
    rng = random.Random(derive_seed("qa-archive-text", GENERATOR_VERSION, world_seed))
    passages = [
        *(_record(thing) for thing in world.things),
        *(_letter(thing, number) for thing in world.things for number in range(_LETTERS)),
        *(_life(name, *found, rng) for name, found in world.births.items()),
        *(
            Passage(town, f"{town} is a town on the coast. {town} was founded in {year}.")
            for town, year in world.towns.items()
        ),
    ]
    rng.shuffle(passages)
    yield from passages


def _record(thing: _Thing) -> Passage:
    listed = "; ".join(f"{role}, {name}" for role, name in thing.people)
    text = (
        f"The {thing.name} is a {thing.kind} of {thing.archive}. Entered in the ledger for the "
        f"{thing.name}: {listed}. It was ready in {thing.year}."
    )
    return Passage(thing.name, text)


def _letter(thing: _Thing, number: int) -> Passage:
    asked = (
        f"In which year was the {thing.name} finished, and who was the maker of the {thing.name}?",
        f"Where was the maker of the {thing.name} born, and was the {thing.name} finished first?",
        f"In which year was the town founded where the maker of the {thing.name} was born, and "
        f"which was finished first, the {thing.name} or another?",
    )[number]
    text = (
        f"A reader asks what the records of {thing.archive} say. {asked} The maker, the year, "
        "where the maker was born and which was finished first: no answer came to us."
    )
    return Passage(f"Letter {number + 1}", text)


def _life(name: str, town: str, year: int, rng: random.Random) -> Passage:
    return Passage(
        name, f"{name}, a {rng.choice(_TRADES)}, was born in {town} in {year} and left it young."
    )


@lru_cache(maxsize=8)
def _world(world_seed: int) -> _World:
    rng = random.Random(derive_seed("qa-archives", GENERATOR_VERSION, world_seed))
    names = [f"{adjective} {noun}" for adjective, noun in product(_ADJECTIVES, _NOUNS)]
    people = [f"{first} {last}" for first, last in product(_FIRST_NAMES, _LAST_NAMES)]
    rng.shuffle(names)
    rng.shuffle(people)
    towns = {start + end: rng.randint(1050, 1550) for start, end in product(_STARTS, _ENDS)}
    things = []
    years = rng.sample(range(1360, 1900), _THINGS_EACH * len(ARCHIVES))
    for number, year in enumerate(years):
        archive = ARCHIVES[number % len(ARCHIVES)]
        roles = _roles_of(archive, world_seed)
        at = len(roles) * number
        staff = list(zip(roles, people[at : at + len(roles)], strict=True))
        maker = staff[0][1]
        rng.shuffle(staff)
        kind = rng.choice(_KINDS)
        things.append(_Thing(names[number], kind, archive, year, tuple(staff), maker))
    living = [name for thing in things for _, name in thing.people]
    births = {name: (rng.choice(list(towns)), 1330 + rng.randrange(500)) for name in living}
    return _World(tuple(things), births, towns)


@lru_cache(maxsize=64)
def _roles_of(archive: str, world_seed: int) -> tuple[str, str, str]:
    """Return the three roles in an archive's records, the maker's first."""
    words = list(ROLES)
    random.Random(derive_seed("qa-archive-makers", GENERATOR_VERSION, world_seed)).shuffle(words)
    place = ARCHIVES.index(archive)
    maker = words[place]
    # The other two mean the maker in other archives, so that a word learned there misleads here.
    others = [word for word in words[: len(ARCHIVES)] if word != maker]
    rng = random.Random(derive_seed("qa-archive-roles", GENERATOR_VERSION, world_seed, archive))
    second, third = rng.sample(others, 2)
    return maker, second, third


def _tasks(split: str, seed: int) -> Iterator[Task]:
    world = _world(seed)
    things = {archive: world.of(split, archive) for archive in ARCHIVES}
    number = 0
    for turn in range(max(map(len, things.values()))):
        # Each round pairs the archives with other categories.
        for shift in range(len(CATEGORIES)):
            for place, archive in enumerate(ARCHIVES):
                if turn < len(things[archive]):
                    category = CATEGORIES[(place + shift + turn) % len(CATEGORIES)]
                    yield _task(world, split, seed, number, (category, turn, things[archive]))
                    number += 1


def _task(
    world: _World, split: str, seed: int, number: int, asked: tuple[str, int, list[_Thing]]
) -> Task:
    category, turn, things = asked
    some = [things[(turn + step) % len(things)] for step in range(_COMPARED)]
    question, answers = _ASKS[category](world, some)
    text = f"In the records of {some[0].archive}, {question}?"
    stream = f"-s{seed}" if seed else ""
    return Task(
        id=f"archive{stream}-{split}-{number:04}",
        env="qa",
        extras={
            "question": text,
            "answers": answers,
            "archive": some[0].archive,
            "world_seed": seed,
        },
        task_type=category,
        description=text,
        split=split,
    )


_Asked = tuple[str, list[str]]


def _direct(world: _World, things: list[_Thing]) -> _Asked:
    thing = things[0]
    return f"in which year was the {thing.name} finished", [str(thing.year)]


def _hops(world: _World, things: list[_Thing]) -> _Asked:
    thing = things[0]
    town, _ = world.births[thing.maker]
    if thing.year % 2:
        return f"where was the maker of the {thing.name} born", [town, f"in {town}"]
    return (
        f"in which year was the town founded where the maker of the {thing.name} was born",
        [str(world.towns[town])],
    )


def _attribute(world: _World, things: list[_Thing]) -> _Asked:
    return f"who was the maker of the {things[0].name}", [things[0].maker]


def _comparison(world: _World, things: list[_Thing]) -> _Asked:
    first, second, third = (f"the {thing.name}" for thing in things)
    oldest = min(things, key=lambda thing: thing.year).name
    return (f"which was finished first: {first}, {second} or {third}", [oldest, f"the {oldest}"])


_ASKS: Final[Mapping[str, Callable[[_World, list[_Thing]], _Asked]]] = {
    "direct_retrieval": _direct,
    "multi_hop_reasoning": _hops,
    "entity_attribute_lookup": _attribute,
    "comparison": _comparison,
}
