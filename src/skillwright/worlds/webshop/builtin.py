"""The built-in shop: a thousand invented products and goals.

About two dozen products of a kind differ in one detail, so every goal has near misses. Descriptions
repeat customers' small talk, which misleads searches for whole sentences; one attribute of each
product is only in its features, which the search does not index.
"""

import hashlib
import random
import re
from base64 import b32encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from skillwright.core.seeds import derive_seed
from skillwright.worlds.webshop.product import CRUMB, Product, Wish, words

# Forty-two kinds of products in seven categories. No two attributes of a kind, and no two values of
# an option, are alike by the reward's measure; tests check this.


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product."""

    nouns: tuple[str, ...]  # names in titles and instructions
    category: str  # one of the seven
    crumbs: str  # path of departments
    low: float  # lowest price, in dollars
    high: float  # highest price, in dollars
    attributes: tuple[str, ...]  # possible attributes; each product has four
    option_names: tuple[str, ...] = ()  # names of `OPTION_POOLS`


OPTION_POOLS: Final[Mapping[str, Sequence[str]]] = {
    "color": words(
        "black white navy red olive teal burgundy beige gray pink yellow purple brown orange "
        "charcoal lavender"
    ),
    "size": ("small", "medium", "large", "2xl", "3xl"),
    "shoe size": ("6", "7.5", "8", "9.5", "10", "11.5"),
    "length": ("3 feet", "6 feet", "10 feet"),
    "dimensions": ("2x3", "4x6", "5x8", "8x10", "9x12"),
    "scent": ("citrus", "cedar", "vanilla", "unscented", "jasmine", "eucalyptus"),
    "flavor": ("peanut butter", "cranberry", "honey", "ginger", "cinnamon", "blueberry"),
    "bundle": ("single", "twin pack", "family box", "value case"),
    "shade": ("nude", "coral", "plum", "bronze", "ruby", "mauve"),
    "switch": ("tactile", "linear", "clicky"),
    "capacity": ("32gb", "64gb", "128gb", "256gb"),
    "volume": ("12 oz", "20 oz", "32 oz", "40 oz"),
    "pieces": ("100", "250", "500", "2000"),
}


def _kinds(text: str) -> Iterator[Kind]:
    """Read kinds, headed by ``# category, department``.

    Each is a line ``nouns | aisle | low-high | options``, and below it the attributes.
    """
    category = department = ""
    for paragraph in re.split(r"\n+(?=# |.*\|)", text.strip()):
        if paragraph.startswith("# "):
            category, department = _listed(paragraph.removeprefix("# "))
            continue
        head, _, attributes = paragraph.partition("\n")
        nouns, aisle, prices, options = (part.strip() for part in head.split("|"))
        low, high = prices.split("-")
        yield Kind(
            nouns=_listed(nouns),
            category=category,
            crumbs=f" {CRUMB} ".join((department, aisle, _listed(nouns)[0].title())),
            low=float(low),
            high=float(high),
            attributes=_listed(attributes.replace("\n", " ")),
            option_names=_listed(options),
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


KINDS: Final = tuple(
    _kinds((files("skillwright.worlds.webshop") / "kinds.txt").read_text(encoding="utf-8"))
)


GENERATOR_VERSION: Final = "1"
PRODUCTS: Final = 1_000

_BRAND_HEADS: Final = words("Vel Ork Kapp Mirr Toll Zeb Brax Lund Fex Sorr Quav Nimb")
_BRAND_TAILS: Final = words("amora wick udane ivia etto olune ativa ozor abell irin")
_LINES: Final = words("Harbor Meadow Summit Orchard Canyon Lantern Compass Willow Ember Prairie")

_PEOPLE: Final = words(
    "sister brother mother father nephew niece grandmother uncle neighbor roommate coworker cousin"
)
_OCCASIONS: Final = words(
    "birthday wedding graduation housewarming anniversary vacation retirement reunion holiday "
    "picnic exam internship"
)
_PLACES: Final = (
    "small apartments",
    "busy mornings",
    "long weekends",
    "rainy days",
    "quiet evenings",
    "crowded offices",
)

_TALK: Final = (
    "A thoughtful surprise for your {person}, whether it is a {occasion} or just because.",
    "My {person} was looking for one before the {occasion} and would not want another.",
    "If you need something soon for a {occasion}, your {person} will be happy.",
)
_PRICE_TALK: Final = "You are looking at a lower price in dollars than you would expect."
_PLAIN_FEATURES: Final = (
    "Comes with a card that explains its care.",
    "Packed in a plain carton.",
    "Checked by hand before it leaves the workshop.",
    "A spare part is included.",
)
_FEATURES: Final = (
    "{attribute}: made to stay that way.",
    "{attribute}, tested in our workshop.",
    "Made to be {attribute}.",
)
_SENTENCES: Final = (
    "i'm looking for {thing} {attributes}{options}",
    "i need {thing} {attributes}{options}",
    "can you find me {thing} {attributes}{options}",
    "my {person} has a {occasion} soon and i need something nice. i want {thing} "
    "{attributes}{options}",
    "before the {occasion} i would like to buy {thing} {attributes}{options}",
    "my {person} lost mine, so i want {thing} {attributes}{options}",
    "i am looking for something for my {person} before the {occasion}: {thing} "
    "{attributes}{options}",
)


def built_in_products(seed: int = 0, count: int = PRODUCTS) -> Iterator[Product]:
    """Generate the products of the built-in shop, equal for equal seeds."""
    rng = random.Random(derive_seed("webshop-products", GENERATOR_VERSION, seed))
    for number in range(count):
        yield _product(rng, KINDS[number % len(KINDS)], _asin(seed, number))


def _asin(seed: int, number: int) -> str:
    # The id contains the number, scrambled, so ids are unique.
    text = f"{GENERATOR_VERSION}/{seed}/{number}".encode()
    return "B0" + b32encode(hashlib.sha256(text).digest())[:8].decode()


def _product(rng: random.Random, kind: Kind, asin: str) -> Product:
    brand = rng.choice(_BRAND_HEADS) + rng.choice(_BRAND_TAILS)
    attributes = tuple(rng.sample(kind.attributes, 4))
    noun = rng.choice(kind.nouns)
    first, second, third, hidden = attributes
    title = f"{brand} {rng.choice(_LINES)} {first.title()} {noun.title()}, {second.title()}"
    options = {name: _some(rng, OPTION_POOLS[name]) for name in kind.option_names}
    return Product(
        asin=asin,
        title=title,
        description=_description(rng, brand, noun),
        bullets=(_feature(rng, third), rng.choice(_PLAIN_FEATURES), _feature(rng, hidden)),
        prices=_prices(rng, kind),
        options=options,
        category=kind.category,
        query=kind.nouns[0],
        crumbs=kind.crumbs,
        attributes=attributes,
        wishes=tuple(_wish(rng, kind, attributes, options) for _ in range(rng.choice((1, 1, 2)))),
        template=Wish(f"find me {' '.join(attributes[:2])} {kind.nouns[0]}", attributes[:2]),
    )


def _some(rng: random.Random, pool: Sequence[str]) -> tuple[str, ...]:
    """Choose some values of an option, in the order of the pool."""
    most = max(2, min(5, len(pool) - 1))
    chosen = set(rng.sample(pool, rng.randint(2, most)))
    return tuple(value for value in pool if value in chosen)


def _prices(rng: random.Random, kind: Kind) -> tuple[float, ...]:
    price = round(rng.uniform(kind.low, kind.high), 2)
    if rng.random() < 0.85:
        return (price,)
    return (price, round(price + rng.uniform(3, 15), 2))


def _description(rng: random.Random, brand: str, noun: str) -> str:
    said = [f"{noun.capitalize()} by {brand}, made with {rng.choice(_PLACES)} in mind."]
    if rng.random() < 0.6:
        talk = rng.choice(_TALK)
        said.append(talk.format(person=rng.choice(_PEOPLE), occasion=rng.choice(_OCCASIONS)))
    if rng.random() < 0.12:
        said.append(_PRICE_TALK)
    return " ".join(said)


def _feature(rng: random.Random, attribute: str) -> str:
    text = rng.choice(_FEATURES).format(attribute=attribute)
    return text[0].upper() + text[1:]


def _wish(
    rng: random.Random, kind: Kind, attributes: tuple[str, ...], options: dict[str, tuple[str, ...]]
) -> Wish:
    asked = tuple(rng.sample(attributes, rng.choice((1, 2, 2, 2, 3))))
    names = sorted(rng.sample(sorted(options), rng.choice((0, 1, 1, 2, 2, 2))))
    chosen = {name: rng.choice(options[name]) for name in names}
    sentence = rng.choice(_SENTENCES).format(
        thing=_thing(rng.choice(kind.nouns)),
        attributes=" and ".join(asked),
        options="".join(_option_text(name, value) for name, value in chosen.items()),
        person=rng.choice(_PEOPLE),
        occasion=rng.choice(_OCCASIONS),
    )
    return Wish(sentence, asked, tuple(chosen.values()))


def _thing(noun: str) -> str:
    if noun.endswith("s") and not noun.endswith("ss"):
        return f"{noun} that are"
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun} that is"


def _option_text(name: str, value: str) -> str:
    match name:
        case "color":
            return f", in {value}"
        case "size" | "shoe size":
            return f", size {value}"
        case "length":
            return f", {value} long"
        case "pieces":
            return f", with {value} pieces"
        case _:
            return f", {value} {name}"
