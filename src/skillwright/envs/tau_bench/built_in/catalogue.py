"""What the store sells: twelve products, each in several variants."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.envs.tau_bench.built_in.numbers import Numbers

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A product before it has variants."""

    name: str  # what it is called; no other product is
    price: float  # about what it costs, in dollars
    options: Mapping[str, tuple[str, ...]]  # option -> its values


LINES: Final = (
    Line("Rain Jacket", 89, {"color": ("navy", "moss", "rust"), "size": ("S", "M", "L")}),
    Line(
        "Trail Tent",
        240,
        {"capacity": ("one", "two", "three"), "season": ("summer", "all year")},
    ),
    Line("Chef Knife", 64, {"blade": ("16 cm", "20 cm", "24 cm"), "handle": ("oak", "resin")}),
    Line("Wool Blanket", 72, {"color": ("cream", "slate", "plum"), "size": ("single", "double")}),
    Line("Bicycle Helmet", 58, {"color": ("white", "black", "teal"), "size": ("S", "M", "L")}),
    Line("Reading Light", 36, {"mount": ("clip", "stand"), "power": ("battery", "mains", "usb")}),
    Line("Travel Mug", 24, {"volume": ("300 ml", "400 ml", "500 ml"), "color": ("sand", "teal")}),
    Line("Alarm Clock", 31, {"display": ("hands", "digits"), "color": ("white", "black", "red")}),
    Line("Watering Can", 27, {"volume": ("2 l", "5 l", "9 l"), "material": ("zinc", "plastic")}),
    Line("Desk Fan", 45, {"diameter": ("15 cm", "25 cm"), "color": ("white", "black", "mint")}),
    Line("Hiking Pack", 118, {"volume": ("22 l", "35 l", "50 l"), "color": ("navy", "moss")}),
    Line("Frying Pan", 52, {"diameter": ("20 cm", "24 cm"), "surface": ("iron", "ceramic")}),
)  # fmt: skip


def make_products(rng: random.Random, numbers: Numbers) -> Record:
    """Return product id -> product; about every fifth variant is sold out."""
    products: Record = {}
    for line in LINES:
        product_id = numbers.fresh(10)
        products[product_id] = {
            "name": line.name,
            "product_id": product_id,
            "variants": _variants(line, rng, numbers),
        }
    return products


def _variants(line: Line, rng: random.Random, numbers: Numbers) -> Record:
    variants: Record = {}
    prices: set[int] = set()
    for values in itertools.product(*line.options.values()):
        item_id = numbers.fresh(10)
        variants[item_id] = {
            "item_id": item_id,
            "options": dict(zip(line.options, values, strict=True)),
            "available": rng.randrange(5) > 0,
            "price": _price(line, rng, prices),
        }
    return variants


def _price(line: Line, rng: random.Random, taken: set[int]) -> float:
    # No two variants of a product cost the same, so that the cheapest is one, and no price ends in
    # a zero, which people say or leave out.
    while True:
        cents = round(line.price * rng.randrange(85, 116)) + rng.randrange(1, 10)
        if cents % 10 and cents not in taken:
            taken.add(cents)
            return cents / 100
