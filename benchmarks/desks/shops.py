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
        tickets: Wordings that weights are trained on; ``{}`` is a thing that was bought.
        unseen: Wordings that only val (the first half) and test (the second) have.
    """

    names: tuple[str, ...]
    words: tuple[str, ...]
    tickets: tuple[str, ...]
    unseen: tuple[str, ...]


THINGS: Final = (
    *("lamp", "kettle", "jacket", "tent", "blender", "backpack", "chair", "radio"),
    *("carpet", "camera", "drill", "bicycle", "mirror", "toaster", "scarf", "guitar"),
)

TOPICS: Final[Mapping[str, Topic]] = {
    "refund": Topic(
        ("refunds", "money to be paid back", "repayments"),
        ("money", "refund", "pay"),
        (
            "I sent the {} back and still wait for my money.",
            "When do I get the refund for the {}?",
            "When will you pay me back for the {}?",
            "The {} is back with you, but I have no money yet.",
            "You owe me the price of the {} that I gave back.",
            "Please refund the {}.",
            "No refund for the {} is on my card.",
            "You still have to pay me for the {} I returned.",
        ),
        (
            "I returned the {} and want my money.",
            "The refund for my {} is missing.",
            "Is my money for the {} on its way?",
            "I brought the {} back, please pay me.",
        ),
    ),
    "late": Topic(
        ("late parcels", "delayed deliveries", "orders that have not arrived"),
        ("waiting", "arrive", "delivery"),
        (
            "Where is my {}? I am still waiting.",
            "The delivery of the {} was due last week.",
            "When will the {} arrive?",
            "My {} did not arrive.",
            "I have been waiting for the {} since Monday.",
            "The parcel with the {} has not moved in days.",
            "The courier never came with my {}.",
            "There was no delivery of my {} today.",
        ),
        (
            "How long must I go on waiting for my {}?",
            "Will my {} ever arrive?",
            "The {} is late, where is the parcel?",
            "Nobody knows about the delivery of the {}.",
        ),
    ),
    "broken": Topic(
        ("damaged goods", "broken items", "things that are defective"),
        ("broken", "crack", "damaged"),
        (
            "The {} came with a crack in it.",
            "My {} is broken after one day.",
            "There is a dent in the damaged {}.",
            "The {} does not switch on, it is broken.",
            "I found the {} in pieces.",
            "The {} was damaged in its box.",
            "A part of the {} is defective.",
            "The {} has a crack on the back.",
        ),
        (
            "I unpacked a broken {}.",
            "Why is there a crack in my new {}?",
            "My {} is damaged and does not work.",
            "The {} fell to pieces at once.",
        ),
    ),
    "login": Topic(
        ("trouble with logging in", "account access", "sign-in problems"),
        ("password", "account", "login"),
        (
            "I forgot my password.",
            "My login is not accepted.",
            "I cannot get into my account.",
            "The password reset does not work.",
            "My account is locked after three tries.",
            "The login page only gives me an error.",
            "It says that my user name is unknown.",
            "I need a new password.",
        ),
        (
            "My account does not open any more.",
            "The login fails each time.",
            "How do I change my password?",
            "I cannot sign in.",
        ),
    ),
    "invoice": Topic(
        ("invoices", "bills and receipts", "paperwork for the tax office"),
        ("invoice", "receipt", "bill"),
        (
            "Please send me a receipt for the {}.",
            "My company needs an invoice for the {}.",
            "The bill for the {} has the wrong address.",
            "I lost the receipt of my {}.",
            "Our tax number is not on the bill for the {}.",
            "The invoice for the {} never came.",
            "I need paperwork that shows what the {} cost.",
            "There is a wrong name on the receipt for the {}.",
        ),
        (
            "Could you mail the bill of the {} once more?",
            "I need a copy of the invoice for my {}.",
            "The receipt for the {} was not in the box.",
            "For my taxes I need paperwork about the {}.",
        ),
    ),
    "job": Topic(
        ("job applications", "people who look for work", "hiring"),
        ("job", "work", "apply"),
        (
            "Do you have a job in the warehouse?",
            "I would like to work for you.",
            "Here is my resume for the sales job.",
            "Are you hiring students this summer?",
            "How do I apply as a driver?",
            "I am looking for work in your store.",
            "Where can I apply for the open position?",
            "Is the job at the counter still free?",
        ),
        (
            "May I apply as a trainee?",
            "I want a job in your office.",
            "Can I work for you at weekends?",
            "Is there an open position for a cook?",
        ),
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
BY_WORDS: Final = 'When it says {words}, answer "{desk}".'
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


def shops(count: int, seed: int, first: int = 0, by_words: str = BY_WORDS) -> list[Shop]:
    """Return shops, no two of which agree on all topics.

    Args:
        count: How many, at most 720 with ``first``.
        seed: Of names, lines and desks.
        first: So many shops of the seed are passed over: those of another split.
        by_words: The sentence of sheet lines that name words.
    """
    orders = list(itertools.permutations(DESKS))
    random.Random(derive_seed("desks", seed)).shuffle(orders)
    return [
        _shop(number, dict(zip(TOPICS, orders[number], strict=True)), seed, by_words)
        for number in range(first, first + count)
    ]


def _shop(number: int, desks: Mapping[str, str], seed: int, by_words: str) -> Shop:
    rng = random.Random(derive_seed("sheet", seed, number))
    written = {topic: _line(rng, TOPICS[topic], desk, by_words) for topic, desk in desks.items()}
    lines = [line for line, _ in written.values()] + rng.sample(_BESIDE, rng.randint(0, 2))
    rng.shuffle(lines)
    called = {topic: name for topic, (_, name) in written.items()}
    return Shop(f"shop {number}", desks, " ".join(lines), called)


def _line(rng: random.Random, topic: Topic, desk: str, by_words: str) -> tuple[str, str]:
    """Return a line of a sheet, and what it calls the topic."""
    if rng.random() < 1 / 3:
        words = rng.sample(topic.words, rng.randint(2, 3))
        listed = ", ".join(f'"{word}"' for word in words)
        return by_words.format(words=listed, desk=desk), words[0]
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


def wordings_of(split: str) -> dict[str, Sequence[str]]:
    """Return the wordings of ``train``, ``val`` or ``test``; no wording is in two splits."""
    if split == "train":
        return {name: topic.tickets for name, topic in TOPICS.items()}
    part = slice(0, 2) if split == "val" else slice(2, None)
    return {name: topic.unseen[part] for name, topic in TOPICS.items()}
