"""Shops, their policy sheets, and tickets: everything that the study's task is made of.

Six topics, six desks. A shop's sheet says which desk takes which topic, in lines of varied wording
and order among lines that say nothing about it; no two shops of a data set agree on all six. So a
ticket can be routed only by who reads the sheet *and* sees what the ticket is about, because few
tickets use a word of the sheet.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from desks.env import DESKS
from skillwright.core.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Topic:
    """What a ticket may be about.

    Attributes:
        names: How sheets call it.
        words: Words of its tickets, for sheets that name words instead.
    """

    names: tuple[str, ...]
    words: tuple[str, ...]


THINGS: Final = (
    *("lamp", "kettle", "jacket", "tent", "blender", "backpack", "chair", "radio"),
    *("carpet", "camera", "drill", "bicycle", "mirror", "toaster", "scarf", "guitar"),
)

TOPICS: Final[Mapping[str, Topic]] = {
    "refund": Topic(
        ("refunds", "money to be paid back", "repayments"),
        ("money", "refund", "pay"),
    ),
    "late": Topic(
        ("late parcels", "delayed deliveries", "orders that have not arrived"),
        ("waiting", "arrive", "delivery"),
    ),
    "broken": Topic(
        ("damaged goods", "broken items", "things that are defective"),
        ("broken", "crack", "damaged"),
    ),
    "login": Topic(
        ("trouble with logging in", "account access", "sign-in problems"),
        ("password", "account", "login"),
    ),
    "invoice": Topic(
        ("invoices", "bills and receipts", "paperwork for the tax office"),
        ("invoice", "receipt", "bill"),
    ),
    "job": Topic(
        ("job applications", "people who look for work", "hiring"),
        ("job", "work", "apply"),
    ),
}

_OPENINGS: Final = ("", "", "", "Hi. ", "Hello. ", "Please help. ")

_NAMED: Final = ("A question about {}.", "This is about {}.")

_LINES: Final = (
    "{cap} go to {desk}.",
    "{cap}: {desk}.",
    "Send {name} to {desk}.",
    "For {name}, answer {desk}.",
)
_BY_WORDS: Final = "Words such as {words} mean {desk}."
"""No line of a sheet is a sentence of an optimizer (`desks.forms`)."""
_BESIDE: Final = (
    "We open at nine.",
    "Be polite.",
    "The shop was founded in 1987.",
    "Answer within a day.",
    "Lunch is at noon.",
    "Parking is free.",
)


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop.

    Attributes:
        name: ``shop 12``: the scope of its skill, and of its tickets.
        desks: Topic -> desk.
        sheet: Which desk takes which topic, in words.
        called: Topic -> what the sheet calls it: one of its names, or one of its words.
    """

    name: str
    desks: Mapping[str, str]
    sheet: str
    called: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket, what it is about, the desk that takes it, and its wording."""

    text: str
    topic: str
    desk: str
    wording: str = ""


def shops(count: int, seed: int, first: int = 0) -> list[Shop]:
    """Return shops, no two of which agree on all topics.

    Args:
        count: How many, at most 720 with ``first``.
        seed: Of names, lines and desks.
        first: So many shops of the seed are passed over: those of another split.
    """
    orders = list(itertools.permutations(DESKS))
    random.Random(derive_seed("desks", seed)).shuffle(orders)
    return [
        _shop(number, dict(zip(TOPICS, orders[number], strict=True)), seed)
        for number in range(first, first + count)
    ]


def _shop(number: int, desks: Mapping[str, str], seed: int) -> Shop:
    rng = random.Random(derive_seed("sheet", seed, number))
    written = {topic: _line(rng, TOPICS[topic], desk) for topic, desk in desks.items()}
    lines = [line for line, _ in written.values()] + rng.sample(_BESIDE, rng.randint(0, 2))
    rng.shuffle(lines)
    called = {topic: name for topic, (_, name) in written.items()}
    return Shop(f"shop {number}", desks, " ".join(lines), called)


def _line(rng: random.Random, topic: Topic, desk: str) -> tuple[str, str]:
    """Return a line of a sheet, and what it calls the topic."""
    if rng.random() < 1 / 3:
        words = rng.sample(topic.words, rng.randint(2, 3))
        listed = ", ".join(f'"{word}"' for word in words)
        return _BY_WORDS.format(words=listed, desk=desk), words[0]
    name = rng.choice(topic.names)
    line = rng.choice(_LINES).format(cap=name[0].upper() + name[1:], name=name, desk=desk)
    return line, name


def tickets(
    shop: Shop, wordings: Mapping[str, Sequence[str]], seed: int, named: float = 0.0
) -> Iterator[Ticket]:
    """Yield tickets of a shop without end; none comes again soon.

    Args:
        shop: Whose.
        wordings: Topic -> its wordings.
        seed: Of their order.
        named: Share of tickets that name their topic as the sheet does, in [0, 1].
    """
    rng = random.Random(derive_seed("tickets", seed, shop.name))
    recent: list[str] = []
    while True:
        topic = rng.choice(list(TOPICS))
        opening, wording = rng.choice(_OPENINGS), rng.choice(wordings[topic])
        text = opening + wording.format(rng.choice(THINGS))
        if rng.random() < named:
            text = rng.choice(_NAMED).format(shop.called[topic])
        if text not in recent:
            recent = [*recent[-3:], text]
            yield Ticket(text, topic, shop.desks[topic], wording)
